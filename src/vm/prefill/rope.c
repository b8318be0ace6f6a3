/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the product with q, k and v. A warp has a head of a row, and a lane some of its pairs of elements. */
#include "base/divide.h"
#include "kernels/parts/reduce.h"
#include "vm/prefill/generate.h"

enum { STEP, Y, BIAS, ANGLES, Q_NORM, K_NORM, Q, K, V };
enum { MOST_PAIRS = TW_PREFILL_HEAD / 2 / 32 /* Pairs of a lane. */ };

static int64_t heads_of(const tw_prefill_shape *s) {
    return s->m->n_heads + 2 * s->m->n_kv_heads;
}

static int64_t grid(const tw_prefill_shape *s) {
    return tw_ceil_div(s->tokens * heads_of(s), TW_PREFILL_WARPS);
}

/* A head of a row. */
typedef struct head {
    tw_val row, number; /* Numbers of the row and of the head among those of q, k and v. */
    tw_val is_q, is_v;  /* Predicates. */
} head;

/* A pair of elements of a head. */
typedef struct pair {
    tw_val number, inside; /* Its number. Predicate: the head has it. */
    tw_val turned;         /* Predicate: rope rotates it. */
    tw_val index[2];       /* Places of the elements in the head. */
    tw_val x[2];
} pair;

static pair load_pair(tw_prefill_gen *g, const head *h, tw_val from, int i) {
    tw_builder *b = g->b;
    const int d = (int)g->s->m->head_dim, dims = (int)g->s->m->rope.dims;
    pair p = {.number = tw_add_imm(b, g->lane, 32 * i)};
    tw_val first = tw_shl(b, p.number, 1);
    p.inside = tw_lt(b, p.number, tw_i32(b, d / 2));
    p.turned = tw_and(b, p.inside, tw_and(b, tw_not(b, h->is_v), tw_lt(b, first, tw_i32(b, dims))));
    p.index[0] = tw_select(b, p.turned, p.number, first);
    p.index[1] = tw_select(b, p.turned, tw_add_imm(b, p.number, dims / 2), tw_add_imm(b, first, 1));
    tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, first, 4), 2, p.inside, p.x);
    if (g->s->bias) {
        tw_val bias[2], at = tw_add(b, tw_mul_imm(b, h->number, d), first);
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[BIAS], at, 4), 2, p.inside, bias);
        for (int e = 0; e < 2; e++) p.x[e] = tw_add(b, p.x[e], bias[e]);
    }
    return p;
}

/* Applies the RMS norm of queries and keys. */
static void norm(tw_prefill_gen *g, const head *h, pair *pairs, int n) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    tw_val squares = tw_f32(b, 0);
    for (int i = 0; i < 2 * n; i++) squares = tw_fma(b, pairs[i / 2].x[i % 2], pairs[i / 2].x[i % 2], squares);
    tw_val mean = tw_mul(b, tw_part_warp_sum(b, squares, 1, 32), tw_f32(b, 1.0f / (float)m->head_dim));
    tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, m->norm_eps)));
    tw_val weights = tw_select(b, h->is_q, g->buffer[Q_NORM], g->buffer[K_NORM]);
    for (int i = 0; i < 2 * n; i++) {
        pair *p = &pairs[i / 2];
        tw_val at = tw_prefill_at(g, weights, p->index[i % 2], 4);
        tw_when(b, p->inside);
        tw_val w = tw_ld(b, (tw_attrs){.type = TW_T_f32}, at);
        tw_val normed = tw_mul(b, p->x[i % 2], tw_mul(b, factor, w));
        p->x[i % 2] = tw_select(b, h->is_v, p->x[i % 2], normed);
    }
}

/* Rotates a pair. `angles` is the address of the position's cosines, which its sines follow. */
static void turn(tw_prefill_gen *g, tw_val angles, pair *p) {
    tw_builder *b = g->b;
    const int half = (int)g->s->m->rope.dims / 2;
    if (!half) return;
    tw_val at = tw_prefill_at(g, angles, p->number, 4), angle[2];
    for (int i = 0; i < 2; i++) {
        tw_when(b, p->turned);
        angle[i] = tw_ld(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * half * i}, at);
    }
    tw_val first = tw_fma(b, p->x[1], tw_unary(b, TW_OP_neg_f32, angle[1]), tw_mul(b, p->x[0], angle[0]));
    tw_val second = tw_fma(b, p->x[1], angle[0], tw_mul(b, p->x[0], angle[1]));
    p->x[0] = tw_select(b, p->turned, first, p->x[0]);
    p->x[1] = tw_select(b, p->turned, second, p->x[1]);
}

static void store(tw_prefill_gen *g, tw_type t, tw_val to, const pair *pairs, int n) {
    for (int i = 0; i < n; i++)
        TW_IF (g->b, pairs[i].inside)
            for (int e = 0; e < 2; e++)
                tw_prefill_store_one(g, t, tw_prefill_at(g, to, pairs[i].index[e], tw_prefill_bytes(t)), pairs[i].x[e]);
}

static void build(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    const int heads = (int)heads_of(g->s), queries = (int)m->n_heads, keys = (int)m->n_kv_heads;
    const int64_t d = m->head_dim;
    const tw_type t = g->s->type, kv = tw_prefill_element(g->s->kv);
    tw_val number = tw_add(b, tw_mul_imm(b, g->block, TW_PREFILL_WARPS), g->warp);
    head h = {.row = tw_div(b, number, heads), .number = tw_rem(b, number, heads)};
    TW_IF (b, tw_lt(b, h.row, tw_prefill_step(g, g->buffer[STEP], TW_STEP_COUNT))) {
        pair pairs[MOST_PAIRS];
        const int n = (int)tw_ceil_div(d / 2, 32);
        h.is_q = tw_lt(b, h.number, tw_i32(b, queries));
        h.is_v = tw_le(b, tw_i32(b, queries + keys), h.number);
        tw_val position = tw_add(b, tw_prefill_step(g, g->buffer[STEP], TW_STEP_POS), h.row);
        tw_val from = tw_prefill_at(g, g->buffer[Y], number, d * 4);
        for (int i = 0; i < n; i++) pairs[i] = load_pair(g, &h, from, i);
        if (m->layers[0].q_norm.rows) norm(g, &h, pairs, n);
        tw_val angles = tw_prefill_at(g, g->buffer[ANGLES], position, 4 * m->rope.dims);
        for (int i = 0; i < n; i++) turn(g, angles, &pairs[i]);
        TW_IF (b, h.is_q) {
            tw_val to = tw_add(b, tw_mul_imm(b, h.row, queries), h.number);
            store(g, t, tw_prefill_at(g, g->buffer[Q], to, d * tw_prefill_bytes(t)), pairs, n);
        } else {
            tw_val cache = tw_select(b, h.is_v, g->buffer[V], g->buffer[K]);
            tw_val before = tw_select(b, h.is_v, tw_i32(b, queries + keys), tw_i32(b, queries));
            tw_val of_cache = tw_add(b, tw_sub(b, h.number, before), tw_prefill_step(g, g->buffer[STEP], TW_STEP_HEAD));
            tw_val of = tw_prefill_at(g, cache, of_cache, g->s->max_seq * d * tw_prefill_bytes(kv));
            store(g, kv, tw_prefill_at(g, of, position, d * tw_prefill_bytes(kv)), pairs, n);
        }
    }
}

const tw_prefill_kind tw_prefill_rope = {"prefill_rope",
                                         build,
                                         grid,
                                         {{"step", false},
                                          {"y", false},
                                          {"bias", false},
                                          {"angles", false},
                                          {"q_norm", false},
                                          {"k_norm", false},
                                          {"q", true},
                                          {"k", true},
                                          {"v", true}}};
