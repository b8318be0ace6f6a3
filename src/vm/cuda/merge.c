/* SPDX-License-Identifier: Apache-2.0 */
/* Merges what is in parts: of attention, where a score is an exponent of 2, and of a product. */
#include "vm/cuda/attend.h"

/* A thread takes an element of a head of a position, and adds up its parts of all splits. */
void tw_mega_build_merge(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    enum { AT_ONCE = 16 };
    const int d = (int)p->m->head_dim, row = (d + 2) * 4;
    tw_val from = tw_mega_word(g, TW_W_FROM), count = tw_mega_word(g, TW_W_COUNT),
           splits = tw_mega_word(g, TW_W_SPLITS);
    tw_val in = tw_mega_address(g, TW_W_IN), out = tw_mega_address(g, TW_W_OUT);
    tw_val elements = tw_mul_imm(b, count, d);
    tw_mega_wait_alone(g);
    TW_LOOP (b, i, tw_mega_thread_loop(g, p->tokens > 1 ? tw_mul(b, elements, g->arg[TW_MEGA_ARG_N]) : elements)) {
        tw_val position = tw_i32(b, 0), in_row = i;
        if (p->tokens > 1) {
            position = tw_binary(b, TW_OP_div_u32, i, elements);
            in_row = tw_sub(b, i, tw_mul(b, position, elements));
        }
        tw_val head = tw_add(b, from, tw_div(b, in_row, d)), e = tw_rem(b, in_row, d);
        tw_val slot = tw_mul(b, tw_fma(b, position, tw_i32(b, (int)p->m->n_heads), head), splits);
        tw_val at = tw_mega_at(b, in, slot, row);
        const tw_softmax seen = tw_softmax_of(b);
        tw_val x = tw_var_of(b, tw_f32(b, 0));
        TW_FOR (b, split, tw_i32(b, 0), splits, tw_i32(b, AT_ONCE), false) {
            tw_val there[AT_ONCE], v[AT_ONCE], ml[AT_ONCE][2] = {{{0}}}, m[AT_ONCE], l[AT_ONCE], max = seen.max;
            for (int u = 0; u < AT_ONCE; u++) {
                tw_val one = tw_add_imm(b, split, u), head_of = tw_mega_at(b, at, one, row),
                       mine = tw_mega_at(b, head_of, e, 4);
                there[u] = tw_lt(b, one, splits);
                tw_when(b, there[u]);
                v[u] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), mine);
                tw_when(b, there[u]);
                tw_ld_vec(b, tw_mega_l2(TW_T_f32, 2, 4 * d), head_of, ml[u]);
            }
            for (int u = 0; u < AT_ONCE; u++) {
                m[u] = tw_select(b, there[u], ml[u][0], tw_f32(b, TW_SOFTMAX_LOWEST));
                l[u] = ml[u][1];
                max = tw_max(b, max, m[u]);
            }
            tw_val keep = tw_softmax_raise(b, &seen, max);
            tw_op_to(b, x, TW_OP_mul_f32, x, keep, TW_NONE);
            for (int u = 0; u < AT_ONCE; u++) {
                tw_val weight = tw_softmax_weight(b, m[u], max);
                tw_op_to(b, seen.sum, TW_OP_fma_f32, weight, l[u], seen.sum);
                tw_op_to(b, x, TW_OP_fma_f32, weight, v[u], x);
            }
        }
        tw_val y = tw_binary(b, TW_OP_div_f32, x, seen.sum);
        tw_val to = tw_mega_at(b, tw_mega_at(b, out, position, p->m->n_heads * d * 4), head, d * 4);
        tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, to, e, 4), &y);
    }
}

/* A thread takes four rows of a position, or one where ranges are not of whole fours, and adds up their sums in the
   order of the parts. All loads are issued at once. */
void tw_mega_build_sum(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int64_t row_bytes = p->m->dim * 4;
    const int n = p->sum_fours ? 4 : 1;
    tw_val from = tw_mega_word(g, TW_W_FROM), count = tw_div(b, tw_mega_word(g, TW_W_COUNT), n);
    tw_val sums = tw_mega_address(g, TW_W_IN), bias = tw_mega_address(g, TW_W_BIAS), out = tw_mega_address(g, TW_W_OUT);
    tw_val biased = tw_binary(b, TW_OP_ne_i64, bias, tw_i64(b, 0));
    tw_mega_wait_alone(g);
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_mul(b, count, g->arg[TW_MEGA_ARG_N]))) {
        tw_val x[TW_MEGA_PARTS][4] = {{{0}}}, before[4] = {{0}}, added[4] = {{0}};
        tw_val position = tw_binary(b, TW_OP_div_u32, i, count);
        tw_val row = tw_add(b, from, tw_mul_imm(b, tw_sub(b, i, tw_mul(b, position, count)), n));
        tw_val at = tw_mega_at(b, tw_mega_at(b, sums, position, p->parts * row_bytes), row, 4);
        tw_val to = tw_mega_at(b, tw_mega_at(b, out, position, row_bytes), row, 4),
               of_rows = tw_mega_at(b, bias, row, 4);
        for (int part = 0; part < p->parts; part++)
            tw_ld_vec(b, tw_mega_l2(TW_T_f32, n, (int)(part * row_bytes)), at, x[part]);
        if (!p->post_norm) tw_ld_vec(b, tw_mega_l2(TW_T_f32, n, 0), to, before);
        tw_when(b, biased);
        tw_ld_vec(b, tw_mega_fixed(TW_T_f32, n, 0), of_rows, added);
        for (int e = 0; e < n; e++) {
            for (int part = 1; part < p->parts; part++) x[0][e] = tw_add(b, x[0][e], x[part][e]);
            x[0][e] = tw_add(b, x[0][e], added[e]);
            if (!p->post_norm) x[0][e] = tw_add(b, before[e], x[0][e]);
        }
        tw_st(b, (tw_attrs){.type = TW_T_f32, .vec = n}, to, x[0]);
    }
}
