/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/counter.h"

tw_val tw_patience_left(tw_builder *b, const tw_patience *p, tw_val early) {
    return p->gave_up.id ? tw_and(b, early, tw_eq(b, p->gave_up, tw_i32(b, 0))) : early;
}

/* Loads the counter into *seen, a new value where that is TW_NONE, and tells whether the wait goes on. */
static tw_val is_early(tw_builder *b, const tw_counter_wait *w, tw_val *seen) {
    static const tw_attrs acquire = {.type = TW_T_i32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    tw_ld_vec(b, acquire, w->counter, seen);
    return w->exact ? tw_ne(b, *seen, w->target) : tw_lt(b, tw_sub(b, *seen, w->target), tw_i32(b, 0));
}

void tw_counter_poll(tw_builder *b, const tw_counter_wait *w) {
    tw_val seen = w->seen;
    TW_WHILE (b, tw_patience_left(b, w->patience, is_early(b, w, &seen)))
        w->patience->between(w->patience->context, seen);
}

void tw_counter_add(tw_builder *b, tw_val counter, bool publish) {
    const tw_attrs at = {.rmw = TW_RMW_add,
                         .type = TW_T_i32,
                         .order = publish ? TW_ORDER_release : TW_ORDER_relaxed,
                         .scope = TW_SCOPE_gpu};
    tw_red(b, at, counter, (tw_val[]){tw_i32(b, 1)});
}

void tw_counter_set(tw_builder *b, tw_val counter, tw_val value) {
    tw_st(b, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_release, .scope = TW_SCOPE_gpu}, counter, &value);
}
