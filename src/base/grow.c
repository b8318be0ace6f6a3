/* SPDX-License-Identifier: Apache-2.0 */
#include "base/grow.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

void *tw_grow(void *list, int n, int *room, int first, size_t size) {
    if (n < *room) return list;
    const int more = *room ? *room <= INT_MAX / 2 ? 2 * *room : INT_MAX : first;
    if (n >= more || (size_t)more > SIZE_MAX / size) return NULL;
    void *moved = realloc(list, (size_t)more * size);
    if (moved) *room = more;
    return moved;
}
