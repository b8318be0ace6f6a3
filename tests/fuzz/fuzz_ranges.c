/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a schedule of ranges. */
#include "schedule/formats.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tw_schedule_file *f;
    tw_report r = {0};
    tw_diag d;
    if (tw_schedule_file_parse(&f, (const char *)data, size, "fuzz", TW_SCHEDULE_RANGES, &d) != TW_OK) return 0;
    tw_schedule_file_check(f, &r, &d);
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return 0;
}
