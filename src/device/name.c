/* SPDX-License-Identifier: Apache-2.0 */
#include "device/name.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 1024 };

bool tw_device_gpu_number(const char *text, int *number) {
    char *end;
    *number = 0;
    if (!strcmp(text, "cuda")) return true;
    if (strncmp(text, "cuda:", 5) != 0 || text[5] < '0' || text[5] > '9') return false;
    const long n = strtol(text + 5, &end, 10);
    if (*end || n >= MOST_GPUS) return false;
    *number = (int)n;
    return true;
}
