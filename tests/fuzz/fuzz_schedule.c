/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a schedule: read, checked, and if read, written. */
#include "schedule/json.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_schedule *s;
    tw_checked *c = NULL;
    tw_report r = {0};
    tw_diag d;
    if (tw_schedule_parse(&s, (const char *)data, size, "fuzz", &d) != TW_OK) return 0;
    tw_schedule_check(&c, &s, &r, &d);
    tw_report_free(&r);
    tw_checked_free(c);
    tw_schedule_free(s);
    return 0;
}
