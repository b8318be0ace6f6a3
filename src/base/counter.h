/* SPDX-License-Identifier: Apache-2.0 */
/* Monotonic counters that threads arrive at and wait for. A waiting thread spins for a while, and then sleeps. */
#ifndef TW_BASE_COUNTER_H
#define TW_BASE_COUNTER_H

#include "base/thread.h"

/* A counter in a cache line of its own. It wraps, so values are compared by their difference. */
typedef struct tw_counter_cell {
    _Alignas(64) _Atomic uint32_t value;
    _Atomic uint32_t sleepers; /* Threads that sleep until the value changes. */
} tw_counter_cell;

/* Adds 1 to the counter, and wakes the threads that sleep on it. Writes before the call are visible to threads whose
   wait the addition ends. */
void tw_counter_arrive(tw_counter_cell *c);

/* Waits until the counter reaches `target`. While the thread spins, it prefetches the bytes from `next` to `end`. Both
   may be NULL. */
void tw_counter_wait(tw_counter_cell *c, uint32_t target, const char *next, const char *end);

#endif
