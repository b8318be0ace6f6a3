/* SPDX-License-Identifier: Apache-2.0 */
/* The warp that feeds the ring. It copies a stage when the ring has an empty one and fewer than `window` are in flight,
   or than `ahead` if the stage's activations are not in shared memory yet. It waits for nothing else, since weights do
   not depend on what is computed. One lane issues bulk copies. On a GPU without them every lane copies its 16 bytes of
   each piece. */
#include "vm/cuda/generate.h"

static bool bulk(const tw_mega_plan *p) {
    return p->target->sm >= 90;
}

int tw_mega_feeders(const tw_mega_plan *p) {
    return bulk(p) ? 1 : 32;
}

typedef struct producer {
    tw_mega_gen *g;
    tw_val tape, stages, before_head, policy; /* A step's stages, and how many precede the head's. */
    tw_ring_cursor next;                      /* The stage that is filled next. */
    tw_ring_cursor landed;                    /* The oldest stage whose data may not have arrived. */
    tw_val stage;                             /* Variable: number of the next stage in its step. */
    tw_val from;                              /* Variable: the next stage's place in the tape. */
    tw_val in_flight;                         /* Variable: number of stages in flight. */
    tw_val issued;                            /* Variable: stages issued since the launch. Used with plan.paces. */
} producer;

/* Computes the bytes of the next stage. The head's stages may be shorter. */
static tw_val bytes_of(const producer *x) {
    tw_builder *b = x->g->b;
    const tw_mega_plan *p = x->g->p;
    if (p->head_bytes == p->stage_bytes) return tw_i32(b, p->stage_bytes);
    return tw_select(b, tw_lt(b, x->stage, x->before_head), tw_i32(b, p->stage_bytes), tw_i32(b, p->head_bytes));
}

/* Each lane arrives at the full mbarrier when its copies have landed. */
static void copy_by_lanes(producer *x, tw_val to, tw_val size, tw_val full) {
    tw_builder *b = x->g->b;
    const tw_mega_plan *p = x->g->p;
    const int most = p->stage_bytes, least = p->head_bytes < most ? p->head_bytes : most;
    tw_val first = tw_shl(b, x->g->lane, 4), here = tw_add(b, to, first), there = tw_mega_at(b, x->from, first, 1);
    for (int at = 0; at < most; at += TW_MEGA_PIECE) {
        const tw_attrs how = {.bytes = 16, .offset = at, .cache = TW_CACHE_cg};
        tw_val source = tw_add_imm(b, there, at);
        if (at + TW_MEGA_PIECE > least) tw_when(b, tw_lt(b, tw_add_imm(b, first, at), size));
        tw_cp_async(b, how, here, source, TW_NONE);
    }
    tw_do(b, TW_OP_cp_async_arrive, (tw_attrs){0}, full, TW_NONE);
}

/* Computes how many stages may be in flight once the next one is issued. */
static tw_val flight_limit(const producer *x) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    tw_val window = tw_i32(b, g->p->tuning.window);
    if (!g->p->paces) return window;
    tw_val ready = tw_ld(b, tw_mega_ready(g->p), g->shared);
    return tw_select(b, tw_lt(b, x->issued, ready), window, tw_i32(b, g->p->tuning.ahead));
}

/* Copies the next stage into the ring. A step's last stage is followed by the next step's first. */
static void produce(producer *x) {
    tw_mega_gen *g = x->g;
    tw_builder *b = g->b;
    tw_val most = flight_limit(x);
    TW_WHILE (b, tw_le(b, most, x->in_flight)) {
        tw_ring_wait(b, &g->ring, tw_ring_full(b, &g->ring, &x->landed), &x->landed);
        tw_ring_advance(b, &g->ring, &x->landed);
        tw_op_to(b, x->in_flight, TW_OP_add_i32, x->in_flight, tw_i32(b, -1), TW_NONE);
    }
    tw_val size = bytes_of(x), full = tw_ring_fill(b, &g->ring, &x->next, bulk(g->p) ? size : TW_NONE);
    tw_val to = tw_ring_data(b, &g->ring, &x->next, TW_NONE);
    if (bulk(g->p))
        tw_emit(b, TW_OP_bulk_load, (tw_attrs){0}, NULL, NULL, 0, (tw_val[]){to, x->from, size, full, x->policy}, 5);
    else
        copy_by_lanes(x, to, size, full);
    tw_op_to(b, x->from, TW_OP_add_i64, x->from, tw_widen(b, size), TW_NONE);
    tw_op_to(b, x->stage, TW_OP_add_i32, x->stage, tw_i32(b, 1), TW_NONE);
    TW_IF (b, tw_eq(b, x->stage, x->stages)) {
        tw_assign(b, x->stage, tw_i32(b, 0));
        tw_assign(b, x->from, x->tape);
    }
    tw_op_to(b, x->in_flight, TW_OP_add_i32, x->in_flight, tw_i32(b, 1), TW_NONE);
    if (g->p->paces) tw_op_to(b, x->issued, TW_OP_add_i32, x->issued, tw_i32(b, 1), TW_NONE);
    tw_ring_advance(b, &g->ring, &x->next);
}

void tw_mega_build_producer(tw_mega_gen *g, tw_val tape, tw_val stages, tw_val before_head) {
    tw_builder *b = g->b;
    producer x = {.g = g, .tape = tape, .stages = stages, .before_head = before_head};
    const tw_attrs once = {.cache = TW_CACHE_evict_first}; /* Bulk copies alone take a policy. */
    TW_BLOCK (b, bulk(g->p) ? tw_push_if(b, tw_eq(b, g->lane, tw_i32(b, 0))) : TW_NO_BLOCK) {
        if (bulk(g->p)) x.policy = tw_get(b, TW_OP_policy, once, TW_T_i64, TW_NONE, TW_NONE);
        x.next = tw_ring_begin(b, &g->ring, 1);
        x.landed = tw_ring_begin(b, &g->ring, 0);
        x.in_flight = tw_var_of(b, tw_i32(b, 0));
        x.issued = tw_var_of(b, tw_i32(b, 0));
        x.from = tw_var_of(b, tape);
        x.stage = tw_var_of(b, tw_i32(b, 0));
        tw_val all = tw_mul(b, stages, g->arg[TW_MEGA_ARG_STEPS]);
        TW_FOR (b, i, tw_i32(b, 0), all, tw_i32(b, 1), false) produce(&x);
    }
}
