/* SPDX-License-Identifier: Apache-2.0 */
/* How often the bytes of a box were written: the least and the most, over a set of boxes with counts. */
#ifndef TW_SCHEDULE_COVERAGE_H
#define TW_SCHEDULE_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tw_cover {
    int64_t lo[3], hi[3];
    int64_t count;
} tw_cover;

typedef struct tw_coverage {
    int64_t least, most;
} tw_coverage;

/* The part of the n boxes within [lo, hi), which is not empty; `c` is cut to it. Memory is linear in n, time n log n
   when the boxes differ in one dimension. False: no memory. */
bool tw_coverage_of(tw_cover *c, int n, const int64_t lo[3], const int64_t hi[3], tw_coverage *out);

#endif
