/* SPDX-License-Identifier: Apache-2.0 */
/* Norms that no product has: of what is added to the residual stream, and of queries and keys where one is over more
   rows than a product's workers hold together. */
#include "vm/cuda/norms.h"

/* Computes 1 / rms of `n` floats at `from`. Every warp does that by itself. */
static tw_val find_factor(tw_mega_gen *g, tw_val from, int64_t n) {
    enum { RUN = 4 * 32, MANY = 4 };
    tw_builder *b = g->b;
    tw_val sum = tw_var_of(b, tw_f32(b, 0));
    TW_FOR (b, k, tw_shl(b, g->lane, 2), tw_i32(b, (int32_t)n), tw_i32(b, MANY * RUN), false) {
        tw_val x[MANY][4] = {{{0}}};
        for (int i = 0; i < MANY; i++) {
            tw_val column = tw_add_imm(b, k, i * RUN), there = tw_lt(b, column, tw_i32(b, (int32_t)n));
            tw_val at = tw_mega_at(b, from, column, 4);
            tw_when(b, there);
            tw_ld_vec(b, tw_mega_l2(TW_T_f32, 4, 0), at, x[i]);
            for (int e = 0; e < 4; e++) x[i][e] = tw_select(b, there, x[i][e], tw_f32(b, 0));
        }
        for (int i = 0; i < 4 * MANY; i++) {
            tw_val y = x[i / 4][i % 4];
            tw_op_to(b, sum, TW_OP_fma_f32, y, y, sum);
        }
    }
    tw_val all = tw_part_warp_sum(b, tw_add(b, sum, tw_f32(b, 0)), 1, 32);
    tw_val mean = tw_mul(b, all, tw_f32(b, 1.0f / (float)n));
    return tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->p->m->norm_eps)));
}

void tw_mega_build_residual(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int64_t dim = g->p->m->dim;
    tw_val from = tw_mega_word(g, TW_W_FROM), count = tw_mega_word(g, TW_W_COUNT);
    tw_val y = tw_mega_address(g, TW_W_IN), w = tw_mega_address(g, TW_W_NORM), x = tw_mega_address(g, TW_W_OUT);
    tw_mega_wait_alone(g);
    TW_FOR (b, position, tw_i32(b, 0), g->arg[TW_MEGA_ARG_N], tw_i32(b, 1), false) {
        tw_val row = tw_mega_at(b, y, position, dim * 4), to = tw_mega_at(b, x, position, dim * 4);
        tw_val factor = find_factor(g, row, dim);
        TW_LOOP (b, i, tw_mega_thread_loop(g, count)) {
            tw_val column = tw_add(b, from, i), at = tw_mega_at(b, to, column, 4);
            tw_val normed = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), tw_mega_at(b, row, column, 4));
            tw_val weight = tw_ld(b, tw_mega_fixed(TW_T_f32, 1, 0), tw_mega_at(b, w, column, 4));
            tw_val before = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), at);
            tw_val sum = tw_fma(b, tw_mul(b, normed, factor), weight, before);
            tw_st(b, (tw_attrs){.type = TW_T_f32}, at, &sum);
        }
    }
}

/* ---- heads of queries and keys */

/* A head that is normed and rotated. */
typedef struct head {
    tw_val there;               /* Predicate: there is such a head. TW_NONE: there is. */
    tw_val is_q, number;        /* Its number in its part, q or k. */
    tw_val from, weight;        /* Addresses of its rows, and of their weights in a norm over all heads. */
    tw_val factor;              /* Of a norm over all heads. */
    tw_val x[TW_MEGA_PAIRS][2]; /* The lane's rows, then what becomes of them. */
} head;

/* Loads floats at the indices of a lane's pairs, where `when` holds. */
static void load_pairs(tw_mega_gen *g, const tw_mega_pairs *p, tw_attrs how, tw_val from, tw_val when, tw_val (*x)[2]) {
    tw_builder *b = g->b;
    for (int i = 0; i < 2 * p->n; i++) {
        tw_val at = tw_mega_at(b, from, p->index[i / 2][i % 2], 4), there = p->there[i / 2];
        tw_when(b, when.id ? tw_and(b, there, when) : there);
        x[i / 2][i % 2] = tw_ld(b, how, at);
    }
}

void tw_mega_find_pairs(tw_mega_gen *g, tw_mega_pairs *p) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    const tw_attrs fixed = tw_mega_fixed(TW_T_f32, 1, 0);
    const int all = (int)m->head_dim / 2, half = (int)m->rope.dims / 2;
    p->n = (all + 31) / 32;
    for (int i = 0; i < p->n; i++) {
        tw_val pair = p->number[i] = tw_add_imm(b, g->lane, 32 * i), plain = tw_shl(b, pair, 1);
        p->there[i] = tw_lt(b, pair, tw_i32(b, all));
        p->turned[i] = tw_lt(b, pair, tw_i32(b, half));
        p->index[i][0] = tw_select(b, p->turned[i], pair, plain);
        p->index[i][1] = tw_select(b, p->turned[i], tw_add_imm(b, pair, half), tw_add_imm(b, plain, 1));
    }
    if (m->qk_norm_whole) return;
    load_pairs(g, p, fixed, tw_mega_address(g, TW_W_Q_NORM), TW_NONE, p->of_q);
    load_pairs(g, p, fixed, tw_mega_address(g, TW_W_K_NORM), TW_NONE, p->of_k);
}

/* Computes 1 / rms of a head, whose rows the lanes have. */
static tw_val head_factor(tw_mega_gen *g, const tw_mega_pairs *p, tw_val (*x)[2]) {
    tw_builder *b = g->b;
    tw_val sum = tw_f32(b, 0);
    for (int i = 0; i < 2 * p->n; i++) {
        tw_val y = tw_select(b, p->there[i / 2], x[i / 2][i % 2], tw_f32(b, 0));
        sum = tw_fma(b, y, y, sum);
    }
    tw_val mean = tw_mul(b, tw_part_warp_sum(b, sum, 1, 32), tw_f32(b, 1.0f / (float)g->p->m->head_dim));
    return tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->p->m->norm_eps)));
}

/* Loads the cosines and sines of a lane's pairs: 1 and 0 of those that rope does not rotate. */
static void load_turns(tw_mega_gen *g, const tw_mega_pairs *p, tw_val from, tw_val (*angle)[2]) {
    tw_builder *b = g->b;
    const int half = (int)g->p->m->rope.dims / 2;
    for (int i = 0; i < 2 * p->n && half; i++) {
        const int e = i % 2;
        tw_val turned = p->turned[i / 2], at = tw_mega_at(b, from, p->number[i / 2], 4);
        tw_when(b, turned);
        tw_val x = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 4 * half * e), at);
        angle[i / 2][e] = tw_select(b, turned, x, tw_f32(b, e ? 0.0f : 1.0f));
    }
}

/* Norms and rotates a head, whose rows are loaded. */
static void turn_head(tw_mega_gen *g, const tw_mega_pairs *p, head *h, tw_val (*angle)[2]) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    tw_val w[TW_MEGA_PAIRS][2] = {{{0}}};
    if (m->qk_norm_whole) load_pairs(g, p, tw_mega_fixed(TW_T_f32, 1, 0), h->weight, h->there, w);
    tw_val factor = m->qk_norm_whole ? h->factor : head_factor(g, p, h->x);
    for (int i = 0; i < p->n; i++) {
        tw_val *y = h->x[i];
        for (int e = 0; e < 2; e++) {
            tw_val of = m->qk_norm_whole ? w[i][e] : tw_select(b, h->is_q, p->of_q[i][e], p->of_k[i][e]);
            y[e] = tw_mul(b, tw_mul(b, y[e], factor), of);
        }
        if (!m->rope.dims) continue;
        tw_val first = tw_fma(b, y[1], tw_unary(b, TW_OP_neg_f32, angle[i][1]), tw_mul(b, y[0], angle[i][0]));
        y[1] = tw_fma(b, y[1], angle[i][0], tw_mul(b, y[0], angle[i][1]));
        y[0] = first;
    }
}

/* ---- turn */

/* Stores a head: of queries in their buffer, of keys in the cache. */
static void store_head(tw_mega_gen *g, const tw_mega_pairs *p, const head *h, tw_val position, tw_val q, tw_val k) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    const int64_t bytes = m->head_dim * 4;
    for (int i = 0; i < p->n; i++) {
        TW_IF (b, tw_and(b, p->there[i], h->is_q)) {
            tw_val row = tw_mega_at(b, tw_mega_at(b, q, position, m->n_heads * bytes), h->number, bytes);
            for (int e = 0; e < 2; e++)
                tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, row, p->index[i][e], 4), &h->x[i][e]);
        }
        TW_IF (b, tw_and(b, p->there[i], tw_not(b, h->is_q)))
            tw_mega_put_cached(g, k, h->number, position, p->index[i], h->x[i]);
    }
}

void tw_mega_build_turn(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    const int64_t bytes = m->head_dim * 4, all_q = m->n_heads * m->head_dim, all_k = m->n_kv_heads * m->head_dim;
    tw_val from = tw_mega_word(g, TW_W_FROM), end = tw_add(b, from, tw_mega_word(g, TW_W_COUNT));
    tw_val raw_q = tw_mega_address(g, TW_W_IN), raw_k = tw_mega_address(g, TW_W_RAW_K);
    tw_val q = tw_mega_address(g, TW_W_OUT), k = tw_mega_address(g, TW_W_K_CACHE);
    tw_val norm_q = tw_mega_address(g, TW_W_Q_NORM), norm_k = tw_mega_address(g, TW_W_K_NORM);
    tw_val rope = tw_mega_address(g, TW_W_ROPE);
    tw_mega_pairs p = {0};
    tw_mega_find_pairs(g, &p);
    tw_mega_wait_alone(g);
    TW_FOR (b, position, tw_i32(b, 0), g->arg[TW_MEGA_ARG_N], tw_i32(b, 1), false) {
        tw_val row_q = tw_mega_at(b, raw_q, position, all_q * 4), row_k = tw_mega_at(b, raw_k, position, all_k * 4);
        tw_val of_q = m->qk_norm_whole ? find_factor(g, row_q, all_q) : TW_NONE;
        tw_val of_k = m->qk_norm_whole ? find_factor(g, row_k, all_k) : TW_NONE;
        TW_FOR (b, n, tw_add(b, from, g->warp), end, tw_i32(b, g->p->tuning.warps), false) {
            tw_val angle[TW_MEGA_PAIRS][2] = {{{0}}};
            head h = {.is_q = tw_lt(b, n, tw_i32(b, (int)m->n_heads))};
            h.number = tw_sub(b, n, tw_select(b, h.is_q, tw_i32(b, 0), tw_i32(b, (int)m->n_heads)));
            h.from = tw_mega_at(b, tw_select(b, h.is_q, row_q, row_k), h.number, bytes);
            if (m->qk_norm_whole) {
                h.weight = tw_mega_at(b, tw_select(b, h.is_q, norm_q, norm_k), h.number, bytes);
                h.factor = tw_select(b, h.is_q, of_q, of_k);
            }
            load_pairs(g, &p, tw_mega_l2(TW_T_f32, 1, 0), h.from, TW_NONE, h.x);
            load_turns(g, &p, tw_mega_at(b, rope, position, m->rope.dims * 4), angle);
            turn_head(g, &p, &h, angle);
            store_head(g, &p, &h, position, q, k);
        }
    }
}

/* ---- attention's own */

/* Finds number `n` of the heads that attention norms, and loads its rows. */
static void load_raw(tw_mega_gen *g, const tw_mega_pairs *p, const tw_mega_raw *a, tw_val n, tw_val all, head *h) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    tw_val key = tw_add(b, tw_div(b, a->from, (int)(m->n_heads / m->n_kv_heads)), tw_sub(b, n, a->count));
    *h = (head){.there = tw_lt(b, n, all), .is_q = tw_lt(b, n, a->count)};
    h->number = tw_select(b, h->is_q, n, key);
    tw_val row = tw_select(b, h->is_q, tw_add(b, a->from, n), key);
    h->from = tw_mega_at(b, tw_select(b, h->is_q, a->q, a->k), row, m->head_dim * 4);
    load_pairs(g, p, tw_mega_l2(TW_T_f32, 1, 0), h->from, h->there, h->x);
}

static void store_raw(tw_mega_gen *g, const tw_mega_pairs *p, const head *h, tw_val cache) {
    tw_builder *b = g->b;
    tw_val queries = tw_add_imm(b, g->shared, g->p->turned);
    for (int i = 0; i < p->n; i++) {
        tw_val there = tw_and(b, p->there[i], h->there);
        TW_IF (b, tw_and(b, there, h->is_q)) {
            tw_val to = tw_mega_at(b, queries, h->number, g->p->m->head_dim * 4);
            for (int e = 0; e < 2; e++)
                tw_st(b, tw_mega_shared(TW_T_f32, 1, 0), tw_mega_at(b, to, p->index[i][e], 4), &h->x[i][e]);
        }
        TW_IF (b, tw_and(b, there, tw_not(b, h->is_q)))
            tw_mega_put_cached(g, cache, h->number, tw_i32(b, 0), p->index[i], h->x[i]);
    }
}

void tw_mega_turn_raw(tw_mega_gen *g, const tw_mega_pairs *p, const tw_mega_raw *a) {
    enum { TOGETHER = 2 /* Heads of a warp whose rows are loaded together. */ };
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    const int warps = g->p->tuning.warps, per = (int)(m->n_heads / m->n_kv_heads);
    tw_val keys = tw_select(b, a->last, tw_div(b, a->count, per), tw_i32(b, 0)), all = tw_add(b, a->count, keys);
    tw_val angle[TW_MEGA_PAIRS][2] = {{{0}}};
    load_turns(g, p, a->rope, angle);
    TW_FOR (b, n, g->warp, all, tw_i32(b, TOGETHER * warps), false) {
        head h[TOGETHER];
        for (int i = 0; i < TOGETHER; i++) load_raw(g, p, a, tw_add_imm(b, n, (int64_t)i * warps), all, &h[i]);
        for (int i = 0; i < TOGETHER; i++) {
            turn_head(g, p, &h[i], angle);
            store_raw(g, p, &h[i], a->cache);
        }
    }
}
