/* SPDX-License-Identifier: Apache-2.0 */
#include "base/counter.h"

enum { SPINS = 2000 /* About 50 us of pauses: longer than a stage's imbalance, shorter than a scheduler's tick. */ };

static bool reached(uint32_t value, uint32_t target) {
    return (int32_t)(value - target) >= 0;
}

/* No wake-up is lost: a sleeper announces itself before it reads the counter a last time, and an arriving thread looks
   for sleepers after it adds, so one of the two sees the other. */
void tw_counter_wait(tw_counter_cell *c, uint32_t target, const char *next, const char *end) {
    for (int i = 0; i < SPINS; i++) {
        if (reached(atomic_load_explicit(&c->value, memory_order_acquire), target)) return;
        if (next < end) {
            for (int line = 0; line < 8; line++, next += 64) __builtin_prefetch(next, 0, 2);
        } else
            tw_cpu_relax();
    }
    atomic_fetch_add(&c->sleepers, 1);
    for (;;) {
        uint32_t value = atomic_load(&c->value);
        if (reached(value, target)) break;
        tw_sleep_on(&c->value, value);
    }
    atomic_fetch_sub(&c->sleepers, 1);
}

void tw_counter_arrive(tw_counter_cell *c) {
    atomic_fetch_add(&c->value, 1);
    if (atomic_load(&c->sleepers)) tw_wake_all(&c->value);
}
