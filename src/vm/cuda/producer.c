/* SPDX-License-Identifier: Apache-2.0 */
/* The warp that feeds the ring. It copies stage after stage, as soon as the slot was given back and at most `window`
   are on their way, and waits for nothing else: weights do not depend on what is computed. One lane asks for bulk
   copies; a GPU without them has every lane copy its 16 bytes of each piece. */
#include "vm/cuda/generate.h"

static bool bulk(const tw_mega_plan *p) {
    return p->target->sm >= 90;
}

int tw_mega_feeders(const tw_mega_plan *p) {
    return bulk(p) ? 1 : 32;
}

typedef struct cursor { /* variables */
    tw_val slot, phase;
} cursor;

static cursor start(tw_builder *b, int phase) {
    return (cursor){tw_var_of(b, tw_i32(b, 0)), tw_var_of(b, tw_i32(b, phase))};
}

static void advance(tw_mega_gen *g, const cursor *c) {
    tw_builder *b = g->b;
    tw_op_to(b, c->slot, TW_OP_add_i32, c->slot, tw_i32(b, 1), TW_NONE);
    tw_push_if(b, tw_eq(b, c->slot, tw_i32(b, g->p->tuning.stages)));
    tw_assign(b, c->slot, tw_i32(b, 0));
    tw_op_to(b, c->phase, TW_OP_xor_i32, c->phase, tw_i32(b, 1), TW_NONE);
    tw_pop(b);
}

static tw_val barrier_of(tw_mega_gen *g, int barriers, tw_val slot) {
    return tw_mega_at(g, tw_add_imm(g->b, g->shared, barriers), slot, 8);
}

static void copy_whole(tw_mega_gen *g, tw_val to, tw_val from, tw_val full, tw_val policy) {
    tw_builder *b = g->b;
    tw_val bytes = tw_i32(b, g->p->stage_bytes);
    tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, bytes);
    tw_emit(b, TW_OP_bulk_load, (tw_attrs){0}, NULL, NULL, 0, (tw_val[]){to, from, bytes, full, policy}, 5);
}

/* The barrier hears of each lane's copies when they have landed. */
static void copy_by_lanes(tw_mega_gen *g, tw_val to, tw_val from, tw_val full) {
    tw_builder *b = g->b;
    const int bytes = g->p->stage_bytes;
    tw_val here = tw_mega_at(g, to, g->lane, 16), there = tw_mega_at(g, from, g->lane, 16);
    for (int at = 0; at < bytes; at += TW_MEGA_PIECE) {
        const tw_attrs how = {.bytes = 16, .offset = at, .cache = TW_CACHE_cg};
        tw_val source = tw_add_imm(b, there, at);
        if (at + TW_MEGA_PIECE > bytes) tw_when(b, tw_lt(b, g->lane, tw_i32(b, (bytes - at) / 16)));
        tw_cp_async(b, how, here, source, TW_NONE);
    }
    tw_do(b, TW_OP_cp_async_arrive, (tw_attrs){0}, full, TW_NONE);
}

void tw_mega_build_producer(tw_mega_gen *g, tw_val tape, tw_val stages) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val policy = TW_NONE;
    if (bulk(p)) {
        tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0)));
        policy = tw_get(b, TW_OP_policy, (tw_attrs){.cache = TW_CACHE_evict_first}, TW_T_i64, TW_NONE, TW_NONE);
    }
    /* A slot that nobody has used is free: the phase before a barrier's first has ended. */
    const cursor next = start(b, 1), landed = start(b, 0);
    tw_val issued = tw_var_of(b, tw_i32(b, 0));
    tw_push_for(b, tw_i32(b, 0), g->arg[TW_MEGA_ARG_STEPS], tw_i32(b, 1), false);
    tw_val from = tw_var_of(b, tape);
    tw_push_for(b, tw_i32(b, 0), stages, tw_i32(b, 1), false);
    tw_push_if(b, tw_le(b, tw_i32(b, p->tuning.window), issued));
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, barrier_of(g, p->full, landed.slot), landed.phase);
    advance(g, &landed);
    tw_push_else(b);
    tw_op_to(b, issued, TW_OP_add_i32, issued, tw_i32(b, 1), TW_NONE);
    tw_pop(b);
    tw_do(b, TW_OP_mbarrier_wait, (tw_attrs){0}, barrier_of(g, p->empty, next.slot), next.phase);
    tw_val full = barrier_of(g, p->full, next.slot);
    tw_val to = tw_mega_at(g, tw_add_imm(b, g->shared, p->ring), next.slot, p->stage_bytes);
    if (bulk(p))
        copy_whole(g, to, from, full, policy);
    else
        copy_by_lanes(g, to, from, full);
    tw_op_to(b, from, TW_OP_add_i64, from, tw_i64(b, p->stage_bytes), TW_NONE);
    advance(g, &next);
    tw_pop(b);
    tw_pop(b);
    if (bulk(p)) tw_pop(b);
}
