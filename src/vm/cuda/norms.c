/* SPDX-License-Identifier: Apache-2.0 */
/* Norms that no product has: of what is added to the residual stream, and of queries and keys where one is over more
   rows than a product's workers hold together. */
#include "vm/cuda/generate.h"

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

/* ---- turn: a warp has a head of a position at a time */

/* A head that is normed and rotated. */
typedef struct head {
    tw_val is_q, number;        /* Its number in its part, q or k. */
    tw_val from, weight, angle; /* Addresses of its rows, their weights, and the position's angles. */
    tw_val factor;
} head;

/* Norms a pair of rows, and rotates it if `turned` holds. */
static void turn_pair(tw_mega_gen *g, const head *h, tw_val pair, tw_val turned, const tw_val *index, tw_val *y) {
    tw_builder *b = g->b;
    const int64_t half = g->p->m->rope.dims / 2;
    tw_val angle[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        tw_val x = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), tw_mega_at(b, h->from, index[i], 4));
        tw_val w = tw_ld(b, tw_mega_fixed(TW_T_f32, 1, 0), tw_mega_at(b, h->weight, index[i], 4));
        y[i] = tw_mul(b, tw_mul(b, x, h->factor), w);
    }
    if (!half) return;
    tw_val at = tw_mega_at(b, h->angle, pair, 4);
    for (int i = 0; i < 2; i++) {
        tw_when(b, turned);
        angle[i] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, (int)(4 * half * i)), at);
        angle[i] = tw_select(b, turned, angle[i], tw_f32(b, i ? 0.0f : 1.0f));
    }
    tw_val first = tw_fma(b, y[1], tw_unary(b, TW_OP_neg_f32, angle[1]), tw_mul(b, y[0], angle[0]));
    y[1] = tw_fma(b, y[1], angle[0], tw_mul(b, y[0], angle[1]));
    y[0] = first;
}

static void turn_head(tw_mega_gen *g, const head *h, tw_val position, tw_val q, tw_val k) {
    tw_builder *b = g->b;
    const tw_model *m = g->p->m;
    const int64_t bytes = m->head_dim * 4, half = m->rope.dims / 2;
    TW_FOR (b, pair, g->lane, tw_i32(b, (int)m->head_dim / 2), tw_i32(b, 32), false) {
        tw_val turned = tw_lt(b, pair, tw_i32(b, (int)half)), plain = tw_shl(b, pair, 1), y[2], index[2];
        index[0] = tw_select(b, turned, pair, plain);
        index[1] = tw_select(b, turned, tw_add_imm(b, pair, half), tw_add_imm(b, plain, 1));
        turn_pair(g, h, pair, turned, index, y);
        TW_IF (b, h->is_q) {
            tw_val row = tw_mega_at(b, tw_mega_at(b, q, position, m->n_heads * bytes), h->number, bytes);
            for (int i = 0; i < 2; i++) tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, row, index[i], 4), &y[i]);
        } else {
            tw_mega_put_cached(g, k, h->number, position, index, y);
        }
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
    tw_mega_wait_alone(g);
    TW_FOR (b, position, tw_i32(b, 0), g->arg[TW_MEGA_ARG_N], tw_i32(b, 1), false) {
        tw_val row_q = tw_mega_at(b, raw_q, position, all_q * 4), row_k = tw_mega_at(b, raw_k, position, all_k * 4);
        tw_val of_q = m->qk_norm_whole ? find_factor(g, row_q, all_q) : TW_NONE;
        tw_val of_k = m->qk_norm_whole ? find_factor(g, row_k, all_k) : TW_NONE;
        TW_FOR (b, n, tw_add(b, from, g->warp), end, tw_i32(b, g->p->tuning.warps), false) {
            head h = {.is_q = tw_lt(b, n, tw_i32(b, (int)m->n_heads))};
            h.number = tw_sub(b, n, tw_select(b, h.is_q, tw_i32(b, 0), tw_i32(b, (int)m->n_heads)));
            h.from = tw_mega_at(b, tw_select(b, h.is_q, row_q, row_k), h.number, bytes);
            h.weight = tw_select(b, h.is_q, norm_q, norm_k);
            if (m->qk_norm_whole) h.weight = tw_mega_at(b, h.weight, h.number, bytes);
            h.angle = tw_mega_at(b, rope, position, m->rope.dims * 4);
            h.factor = m->qk_norm_whole ? tw_select(b, h.is_q, of_q, of_k) : find_factor(g, h.from, m->head_dim);
            turn_head(g, &h, position, q, k);
        }
    }
}
