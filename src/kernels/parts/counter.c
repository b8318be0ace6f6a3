/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/counter.h"

tw_val tw_patience_left(tw_builder *b, const tw_patience *p, tw_val early) {
    return p->gave_up.id ? tw_and(b, early, tw_eq(b, p->gave_up, tw_i32(b, 0))) : early;
}

void tw_counter_poll(tw_builder *b, const tw_counter_wait *w) {
    static const tw_attrs acquire = {.type = TW_T_i32, .order = TW_ORDER_acquire, .scope = TW_SCOPE_gpu};
    tw_val seen = w->seen;
    const tw_scope poll = tw_push_while(b);
    if (seen.id)
        tw_ld_vec(b, acquire, w->counter, &seen);
    else
        seen = tw_ld(b, acquire, w->counter);
    tw_val early = w->exact ? tw_ne(b, seen, w->target) : tw_lt(b, tw_sub(b, seen, w->target), tw_i32(b, 0));
    tw_push_while_body(b, poll, tw_patience_left(b, w->patience, early));
    w->patience->between(w->patience->context, seen);
    tw_pop(b, poll);
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
