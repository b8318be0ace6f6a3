/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for every head and cache. A warp has a query. A few lanes share a position, so that each has eight elements
   of it, and a warp takes several positions at once, each with its own maximum and sum. */
#include "base/divide.h"
#include "kernels/parts/activation.h"
#include "kernels/parts/reduce.h"
#include "kernels/parts/softmax.h"
#include "vm/prefill/generate.h"

enum { STEP, Q, K, V, OUT };
enum { WIDE = 8 };

static int64_t grid(const tw_prefill_shape *s) {
    return tw_ceil_div(s->tokens * s->m->n_heads, TW_PREFILL_WARPS);
}

/* A query of a warp. */
typedef struct query {
    int lanes;          /* Lanes that share a position. */
    tw_val mine;        /* The lane's first element. */
    tw_val inside;      /* Predicate: the head has it. */
    tw_val sub;         /* Number of the lane's position among the warp's. */
    tw_val k, v;        /* Addresses of the head's keys and values. */
    tw_val first, last; /* The positions that are seen: first to last - 1. */
    tw_val x[WIDE];     /* Elements, scaled to exponents of 2. */
    tw_val acc[WIDE];   /* Variables: weighted sums of values. */
    tw_softmax seen;
} query;

static void walk(tw_prefill_gen *g, const query *q) {
    tw_builder *b = g->b;
    const tw_type t = tw_prefill_element(g->s->kv);
    const int64_t d = g->s->m->head_dim;
    const int es = tw_prefill_bytes(t);
    TW_FOR (b, at, q->first, q->last, tw_i32(b, 32 / q->lanes), false) {
        tw_val position = tw_add(b, at, q->sub), there = tw_lt(b, position, q->last);
        tw_val loads = tw_and(b, there, q->inside), k[WIDE], v[WIDE];
        tw_val offset = tw_prefill_at(g, tw_mul_imm(b, tw_widen(b, q->mine), es), position, d * es);
        tw_prefill_load(g, t, tw_add(b, q->k, offset), WIDE, loads, k);
        tw_prefill_load(g, t, tw_add(b, q->v, offset), WIDE, loads, v);
        tw_val dot = tw_mul(b, q->x[0], k[0]), keep;
        for (int i = 1; i < WIDE; i++) dot = tw_fma(b, q->x[i], k[i], dot);
        dot = tw_part_warp_sum(b, dot, 1, q->lanes);
        if (g->s->m->attn_cap > 0) dot = tw_part_cap(b, dot, g->s->m->attn_cap * TW_SOFTMAX_LOG2E);
        tw_val weight = tw_softmax_take(b, &q->seen, dot, there, &keep);
        for (int i = 0; i < WIDE; i++) {
            tw_val before = tw_mul(b, q->acc[i], keep);
            tw_op_to(b, q->acc[i], TW_OP_fma_f32, weight, v[i], before);
        }
    }
}

/* Joins the results of the warp's positions, and stores them. */
static void leave(tw_prefill_gen *g, const query *q, tw_val to) {
    tw_builder *b = g->b;
    tw_val max = tw_part_warp_max(b, tw_add(b, q->seen.max, tw_f32(b, 0)), q->lanes, 32), x[WIDE];
    tw_val scale = tw_softmax_weight(b, q->seen.max, max);
    tw_val sum = tw_part_warp_sum(b, tw_mul(b, q->seen.sum, scale), q->lanes, 32);
    scale = tw_binary(b, TW_OP_div_f32, scale, sum);
    for (int i = 0; i < WIDE; i++) x[i] = tw_part_warp_sum(b, tw_mul(b, q->acc[i], scale), q->lanes, 32);
    TW_IF (b, tw_and(b, q->inside, tw_eq(b, q->sub, tw_i32(b, 0))))
        tw_prefill_store(g, g->s->type, tw_prefill_at(g, to, q->mine, tw_prefill_bytes(g->s->type)), WIDE, x);
}

static void build(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    const tw_type t = g->s->type;
    const int64_t d = m->head_dim, head_bytes = g->s->max_seq * d * tw_prefill_bytes(tw_prefill_element(g->s->kv));
    query q = {.lanes = 1};
    while (q.lanes * WIDE < d) q.lanes *= 2;
    tw_val number = tw_add(b, tw_mul_imm(b, g->block, TW_PREFILL_WARPS), g->warp);
    tw_val row = tw_div(b, number, (int)m->n_heads), head = tw_rem(b, number, (int)m->n_heads);
    TW_IF (b, tw_lt(b, row, tw_prefill_step(g, g->buffer[STEP], TW_STEP_COUNT))) {
        tw_val kv = tw_add(b, tw_prefill_first_head(g, g->buffer[STEP], row),
                           tw_div(b, head, (int)(m->n_heads / m->n_kv_heads)));
        q.mine = tw_mul_imm(b, tw_rem(b, g->lane, q.lanes), WIDE);
        q.inside = tw_lt(b, q.mine, tw_i32(b, (int)d));
        q.sub = tw_div(b, g->lane, q.lanes);
        q.k = tw_prefill_at(g, g->buffer[K], kv, head_bytes);
        q.v = tw_prefill_at(g, g->buffer[V], kv, head_bytes);
        q.last = tw_add_imm(b, tw_prefill_position(g, g->buffer[STEP], row), 1);
        q.first = tw_i32(b, 0);
        if (g->s->window) q.first = tw_max(b, q.first, tw_add_imm(b, q.last, -g->s->window));
        tw_val from = tw_prefill_at(g, g->buffer[Q], number, d * tw_prefill_bytes(t));
        tw_prefill_load(g, t, tw_prefill_at(g, from, q.mine, tw_prefill_bytes(t)), WIDE, q.inside, q.x);
        for (int i = 0; i < WIDE; i++) {
            q.x[i] = tw_mul(b, q.x[i], tw_f32(b, m->attn_scale * TW_SOFTMAX_LOG2E));
            q.acc[i] = tw_var_of(b, tw_f32(b, 0));
        }
        q.seen = tw_softmax_of(b);
        walk(g, &q);
        leave(g, &q, tw_prefill_at(g, g->buffer[OUT], number, d * tw_prefill_bytes(t)));
    }
}

const tw_prefill_kind tw_prefill_attend = {
    "prefill_attend", build, grid, {{"step", false}, {"q", false}, {"k", false}, {"v", false}, {"out", true}}};
