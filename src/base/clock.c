/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "base/clock.h"

#include <time.h>

static int64_t read(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t tw_now_ns(void) {
    return read(CLOCK_MONOTONIC);
}

int64_t tw_clock_ns(void) {
    return read(CLOCK_REALTIME);
}
