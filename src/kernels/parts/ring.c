/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/ring.h"

#include <stdio.h>

enum { MBARRIER = TW_RING_MBARRIER };

/* The stages are unrolled, so that all addresses differ by constants. ptxas repeats an initialisation for every lane if
   the address depends on the lane. */
void tw_ring_init(tw_builder *b, const tw_ring *r, int target, int fills, int returns) {
    for (int s = 0; s < r->stages; s++) {
        tw_val full = tw_add_imm(b, r->barriers, r->full + MBARRIER * s),
               empty = tw_add_imm(b, r->barriers, r->empty + MBARRIER * s);
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, full, tw_i32(b, fills));
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, empty, tw_i32(b, returns));
    }
    if (target >= 90) tw_do(b, TW_OP_fence_mbarrier_init, (tw_attrs){0}, TW_NONE, TW_NONE);
}

tw_ring_cursor tw_ring_begin(tw_builder *b, const tw_ring *r, int parity) {
    tw_val zero = tw_i32(b, 0);
    tw_ring_cursor c = {.stage = tw_var_of(b, zero)};
    if (r->offsets) c.barrier = tw_var_of(b, zero);
    c.parity = tw_var_of(b, tw_i32(b, parity));
    return c;
}

void tw_ring_advance(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c) {
    if (r->stages == 1) { /* The stage stays, so that it takes no register. */
        tw_op_to(b, c->parity, TW_OP_xor_i32, c->parity, tw_i32(b, 1), TW_NONE);
        return;
    }
    if (r->offsets) {
        tw_val next = tw_add_imm(b, c->stage, r->bytes), zero = tw_i32(b, 0);
        tw_val wraps = tw_eq(b, next, tw_i32(b, r->bytes * r->stages));
        tw_val place = tw_add_imm(b, c->barrier, MBARRIER), flipped = tw_xor(b, c->parity, tw_i32(b, 1));
        tw_assign(b, c->parity, tw_select(b, wraps, flipped, c->parity));
        tw_assign(b, c->barrier, tw_select(b, wraps, zero, place));
        tw_assign(b, c->stage, tw_select(b, wraps, zero, next));
        return;
    }
    tw_add_to(b, c->stage, tw_i32(b, 1));
    TW_IF (b, tw_eq(b, c->stage, tw_i32(b, r->stages))) {
        tw_assign(b, c->stage, tw_i32(b, 0));
        tw_op_to(b, c->parity, TW_OP_xor_i32, c->parity, tw_i32(b, 1), TW_NONE);
    }
}

void tw_ring_skip(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val n) {
    tw_val to = tw_add(b, tw_div(b, c->barrier, MBARRIER), n), rounds = tw_div(b, to, r->stages);
    to = tw_sub(b, to, tw_mul_imm(b, rounds, r->stages));
    tw_assign(b, c->parity, tw_xor(b, c->parity, tw_and(b, rounds, tw_i32(b, 1))));
    tw_assign(b, c->barrier, tw_mul_imm(b, to, MBARRIER));
    tw_assign(b, c->stage, tw_mul_imm(b, to, r->bytes));
}

static tw_val place(tw_builder *b, const tw_ring *r, tw_val base, tw_val stage, int bytes) {
    return tw_add(b, base, r->offsets ? stage : tw_mul_imm(b, stage, bytes));
}

tw_val tw_ring_data(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val from) {
    return place(b, r, from.id ? from : tw_add_imm(b, r->data, r->first), c->stage, r->bytes);
}

tw_val tw_ring_full(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c) {
    return place(b, r, tw_add_imm(b, r->barriers, r->full), r->offsets ? c->barrier : c->stage, MBARRIER);
}

tw_val tw_ring_empty(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c) {
    if (r->offsets) return tw_add_imm(b, tw_ring_full(b, r, c), r->empty - r->full);
    return place(b, r, tw_add_imm(b, r->barriers, r->empty), c->stage, MBARRIER);
}

/* The name of a ring's channel: its own name, and the mbarrier's. "": the ring has no records. */
typedef struct channel {
    char text[TW_RING_NAME + 8];
} channel;

static channel channel_of(const tw_ring *r, const char *mbarrier) {
    channel c = {{0}};
    if (r->name) snprintf(c.text, sizeof c.text, "%.*s.%s", TW_RING_NAME, r->name, mbarrier);
    return c;
}

static void wait(tw_builder *b, tw_val mbarrier, const tw_ring_cursor *c, const char *of, int engine, int lag) {
    if (*of) tw_record_wait(b, of, engine, lag);
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, mbarrier, c->parity);
    if (*of) tw_record_end(b, of);
}

void tw_ring_wait(tw_builder *b, const tw_ring *r, tw_val full, const tw_ring_cursor *c) {
    wait(b, full, c, channel_of(r, "full").text, TW_ENGINE_OF_copy, 0);
}

tw_val tw_ring_fill(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, tw_val bytes) {
    tw_val full = tw_ring_full(b, r, c);
    wait(b, tw_ring_empty(b, r, c), c, channel_of(r, "empty").text, TW_ENGINE_OF_sync, r->stages);
    if (r->name) tw_record_arrive(b, channel_of(r, "full").text, TW_ARRIVAL_later, TW_ENGINE_OF_copy);
    if (bytes.id) tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, bytes);
    return full;
}

void tw_ring_give_back(tw_builder *b, const tw_ring_return *x) {
    tw_val empty = x->empty, all = tw_i32(b, 0), when = x->when;
    tw_attrs at = {0};
    for (int i = 0; i < x->n; i++) all = tw_or(b, all, x->loaded[i]);
    if (x->n) empty = tw_add(b, empty, tw_and(b, all, x->nothing));
    if (x->blocks) {
        tw_val arrives = tw_lt(b, x->lane, tw_i32(b, x->blocks));
        when = when.id ? tw_and(b, when, arrives) : arrives;
    }
    if (x->blocks > 1) {
        empty = tw_get(b, TW_OP_cluster_address, at, TW_T_i32, empty, tw_rem(b, x->lane, x->blocks));
        at.space = TW_SPACE_cluster;
    }
    if (x->ring->name) {
        if (when.id) tw_when(b, when);
        tw_record_arrive(b, channel_of(x->ring, "empty").text, TW_ARRIVAL_now, TW_ENGINE_OF_sync);
    }
    if (when.id) tw_when(b, when);
    tw_do(b, TW_OP_mbarrier_arrive, at, empty, TW_NONE);
}
