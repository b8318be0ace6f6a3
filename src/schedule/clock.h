/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks: of each worker, how many of its tasks have come before. Signed, as plain SSE2 compares and so
   vectorises. */
#ifndef TW_SCHEDULE_CLOCK_H
#define TW_SCHEDULE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

static inline void tw_clock_join(int32_t *into, const int32_t *from, int n) {
    for (int i = 0; i < n; i++) into[i] = into[i] > from[i] ? into[i] : from[i];
}

/* Whether some entry of `what` is not within `clock`. */
static inline bool tw_clock_exceeds(const int32_t *what, const int32_t *clock, int n) {
    int32_t any = 0;
    for (int i = 0; i < n; i++) any |= -(what[i] > clock[i]);
    return any != 0;
}

#endif
