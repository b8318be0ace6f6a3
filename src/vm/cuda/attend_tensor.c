/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on tensor cores. A warp computes the scores of 16 positions, then the weighted sum of their values. Queries
   and weights are sums of two 16-bit floats: head g's upper halves are in row g of the 16 x k operand, and the rest in
   row g + 8. Keys and values are the k x 8 operand, as they are stored. The order of a product's k is free, so lanes
   take neighbouring elements: 16 bytes of a key at 64 i + 16 t, and of a value at 128 i + 16 g. If 64 does not divide
   the head's size, a lane takes 8 bytes of a value's last 32 elements. */
#include "vm/cuda/attend.h"

enum { BLOCK = 16 /* Positions that a warp takes at once. */ };

static int steps(const tw_mega_by_tensor *a) { /* Steps along the scores' k. */
    return (int)a->g->p->m->head_dim / 16;
}

static int tiles(const tw_mega_by_tensor *a) { /* Tiles along the sums' columns. */
    return (int)a->g->p->m->head_dim / 8;
}

static void declare(void *state, tw_mega_gen *g) {
    tw_mega_by_tensor *a = state;
    tw_builder *b = g->b;
    const bool f16 = g->p->kv == TW_F16;
    *a = (tw_mega_by_tensor){
        .g = g, .pair = f16 ? TW_T_f16x2 : TW_T_bf16x2, .mma = f16 ? TW_MMA_m16n8k16_f16 : TW_MMA_m16n8k16_bf16};
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < 4 * steps(a) / 2; i++) a->k[n][i / 4][i % 4] = tw_var_of(b, tw_zero(b, a->pair));
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < steps(a); i++) a->v[r][i] = tw_var_of(b, tw_i32(b, 0));
    a->q = tw_mega_at(b, tw_add_imm(b, g->shared, g->p->queries), g->lane, 16);
    for (int i = 0; i < 4 * tiles(a); i++) a->acc[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    a->seen = tw_softmax_of(b);
}

/* ---- keys and values */

static tw_val start_of(tw_mega_gen *g, const tw_mega_past *p) {
    return tw_add(g->b, p->first, tw_mul_imm(g->b, g->warp, BLOCK));
}

/* Opens a block for a row whose position is within [from, below). */
static tw_scope push_row(tw_mega_gen *g, tw_val position, tw_val from, tw_val below) {
    tw_val there = tw_lt(g->b, position, below);
    if (from.id) there = tw_and(g->b, there, tw_le(g->b, from, position));
    return tw_push_if(g->b, there);
}

/* Fetches keys. A lane has column g of both tiles: positions g and g + 8. */
static void fetch_keys(tw_mega_by_tensor *a, const tw_mega_past *p, tw_val at, tw_val from, tw_val below) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int64_t row = g->p->m->head_dim * 2;
    for (int n = 0; n < 2; n++) {
        tw_val position = tw_add(b, tw_add_imm(b, at, 8 * n), g->row);
        TW_BLOCK (b, push_row(g, position, from, below)) {
            tw_val address = tw_mega_at(b, tw_mega_at(b, p->k, position, row), g->column, 16);
            for (int i = 0; i < steps(a) / 2; i++) tw_ld_vec(b, tw_mega_l2(a->pair, 4, 64 * i), address, a->k[n][i]);
        }
    }
}

/* Fetches values. A lane has four positions: 2 t, 2 t + 1, 2 t + 8 and 2 t + 9. */
static void fetch_values(tw_mega_by_tensor *a, const tw_mega_past *p, tw_val at, tw_val from, tw_val below) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int64_t row = g->p->m->head_dim * 2;
    const int whole = (int)g->p->m->head_dim / 64;
    for (int r = 0; r < 4; r++) {
        tw_val position = tw_add(b, tw_add_imm(b, at, r % 2 + 8 * (r / 2)), tw_shl(b, g->column, 1));
        TW_BLOCK (b, push_row(g, position, from, below)) {
            tw_val first = tw_mega_at(b, p->v, position, row), address = tw_mega_at(b, first, g->row, 16);
            for (int i = 0; i < whole; i++) tw_ld_vec(b, tw_mega_l2(TW_T_i32, 4, 128 * i), address, a->v[r] + 4 * i);
            if (g->p->m->head_dim % 64)
                tw_ld_vec(b, tw_mega_l2(TW_T_i32, 2, 128 * whole), tw_mega_at(b, first, g->row, 8),
                          a->v[r] + 4 * whole);
        }
    }
}

static bool wide(const tw_mega_by_tensor *a) {
    return a->g->p->m->head_dim > 64;
}

static void fetch_first(void *state, const tw_mega_past *p, tw_val from, tw_val below) {
    tw_mega_by_tensor *a = state;
    tw_val start = start_of(a->g, p), end = tw_min(a->g->b, p->last, below);
    fetch_keys(a, p, start, from, end);
    if (!wide(a)) fetch_values(a, p, start, from, end);
}

/* ---- queries */

/* Queries are in shared memory, since all warps use the same. Each warp prepares some steps of them. */
static void load_queries(void *state, tw_val q, tw_val position, tw_val head, tw_val heads) {
    tw_mega_by_tensor *a = state;
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_val row = tw_mega_at(b, q, position, p->m->n_heads * p->m->head_dim * 4), x[4] = {{0}}, pair[4];
    row = tw_mega_at(b, tw_mega_at(b, row, tw_add(b, head, g->row), p->m->head_dim * 4), g->column, 32);
    TW_FOR (b, j, g->warp, tw_i32(b, steps(a)), tw_i32(b, p->tuning.warps), false) {
        tw_val address = tw_mega_at(b, tw_mega_at(b, row, tw_shr(b, j, 1), 128), tw_rem(b, j, 2), 16);
        tw_when(b, tw_lt(b, g->row, heads));
        tw_ld_vec(b, p->turns ? tw_mega_shared(TW_T_f32, 4, 0) : tw_mega_l2(TW_T_f32, 4, 0), address, x);
        for (int e = 0; e < 4; e++) x[e] = tw_mul(b, x[e], tw_f32(b, p->m->attn_scale * TW_SOFTMAX_LOG2E));
        for (int e = 0; e < 4; e += 2) tw_part_split(g->b, a->pair, x[e], x[e + 1], &pair[e], &pair[e + 1]);
        tw_st(b, tw_mega_shared(a->pair, 4, 0), tw_mega_at(b, a->q, j, 512), pair);
    }
    tw_mega_barrier(g);
    for (int i = 0; i < 4 * tiles(a); i++) tw_assign(b, a->acc[i / 4][i % 4], tw_f32(b, 0));
    tw_softmax_reset(b, &a->seen);
}

/* ---- a block */

/* Computes the scores of the lane's four positions. */
static void scores(tw_mega_by_tensor *a, const tw_mega_past *p, tw_val at, tw_val *s) {
    tw_builder *b = a->g->b;
    tw_val d[2][4];
    for (int i = 0; i < 8; i++) d[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    for (int j = 0; j < steps(a); j++) {
        tw_val q[4] = {{0}};
        tw_ld_vec(b, tw_mega_shared(a->pair, 4, 512 * j), a->q, q);
        for (int n = 0; n < 2; n++) tw_mma(b, a->mma, d[n], q, a->k[n][j / 2] + 2 * (j % 2), d[n]);
    }
    for (int i = 0; i < 4; i++) {
        const int n = i / 2, e = i % 2;
        tw_val position = tw_add(b, tw_add_imm(b, at, 8 * n + e), tw_shl(b, a->g->column, 1));
        tw_val score = tw_mega_cap_score(a->g, tw_add(b, d[n][e], d[n][e + 2]));
        s[i] = tw_select(b, tw_lt(b, position, p->last), score, tw_f32(b, TW_SOFTMAX_LOWEST));
    }
}

/* Turns scores into weights, and scales earlier sums to the new maximum, which a head's four lanes share. */
static void weigh(tw_mega_by_tensor *a, tw_val *s) {
    tw_builder *b = a->g->b;
    tw_val max = tw_max(b, tw_max(b, s[0], s[1]), tw_max(b, s[2], s[3]));
    max = tw_max(b, tw_part_warp_max(b, max, 1, 4), a->seen.max);
    tw_val keep = tw_softmax_raise(b, &a->seen, max);
    for (int e = 0; e < 4; e++) {
        s[e] = tw_softmax_weight(b, s[e], max);
        tw_op_to(b, a->seen.sum, TW_OP_add_f32, a->seen.sum, s[e], TW_NONE);
    }
    for (int i = 0; i < 4 * tiles(a); i++) {
        tw_val *x = &a->acc[i / 4][i % 4];
        tw_op_to(b, *x, TW_OP_mul_f32, *x, keep, TW_NONE);
    }
}

/* Adds weighted values. Column g of tile r is element 8 g + r of each 64, or element 4 g + r of the last 32. */
static void add_values(tw_mega_by_tensor *a, const tw_val *weight) {
    tw_builder *b = a->g->b;
    tw_val w[4], x[2];
    tw_part_split(a->g->b, a->pair, weight[0], weight[1], &w[0], &w[1]);
    tw_part_split(a->g->b, a->pair, weight[2], weight[3], &w[2], &w[3]);
    for (int m = 0; m < tiles(a); m++) {
        tw_val pick = tw_i32(b, m % 2 ? 0x7632 : 0x5410);
        for (int i = 0; i < 2; i++)
            x[i] =
                tw_bitcast(b, a->pair, tw_op_emit(b, TW_OP_prmt_i32, a->v[2 * i][m / 2], a->v[2 * i + 1][m / 2], pick));
        tw_mma(b, a->mma, a->acc[m], w, x, a->acc[m]);
    }
}

/* Walks the past in blocks. The next block's keys and values are fetched as soon as this block's are multiplied. A wide
   head leaves registers for only one of them: this block's values are fetched late, then the next block's keys. */
static void walk(void *state, const tw_mega_past *p) {
    tw_mega_by_tensor *a = state;
    tw_builder *b = a->g->b;
    const int span = BLOCK * a->g->p->tuning.warps;
    TW_FOR (b, at, start_of(a->g, p), p->last, tw_i32(b, span), false) {
        tw_val next = tw_add_imm(b, at, span), s[4];
        scores(a, p, at, s);
        if (wide(a))
            fetch_values(a, p, at, TW_NONE, p->last);
        else
            fetch_keys(a, p, next, TW_NONE, p->last);
        weigh(a, s);
        add_values(a, s);
        if (wide(a))
            fetch_keys(a, p, next, TW_NONE, p->last);
        else
            fetch_values(a, p, next, TW_NONE, p->last);
    }
}

/* ---- the warp's result */

static void leave(void *state, tw_val heads) {
    tw_mega_by_tensor *a = state;
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int d = (int)g->p->m->head_dim, bytes = (d + 2) * 4;
    tw_val at = tw_mega_at(b, tw_add_imm(b, g->shared, g->p->x), g->warp, (int64_t)g->p->attend_heads * bytes);
    at = tw_mega_at(b, at, g->row, bytes);
    tw_val sum = tw_part_warp_sum(g->b, tw_add(b, a->seen.sum, tw_f32(b, 0)), 1, 4);
    TW_IF (b, tw_lt(b, g->row, heads)) {
        for (int m = 0; m < tiles(a); m += 2) {
            const int of_chunk = m / 8 * 8 + 8 <= tiles(a) ? 8 : 4; /* Elements of a column that lie side by side. */
            tw_val to = tw_mega_at(b, at, g->column, 2 * of_chunk * 4);
            for (int e = 0; e < 2; e++) {
                tw_val x[2];
                for (int i = 0; i < 2; i++) x[i] = tw_add(b, a->acc[m + i][e], a->acc[m + i][e + 2]);
                tw_st(b, tw_mega_shared(TW_T_f32, 2, (m / 8 * 64 + e * of_chunk + m % 8) * 4), to, x);
            }
        }
        TW_IF (b, tw_eq(b, g->column, tw_i32(b, 0)))
            tw_st(b, tw_mega_shared(TW_T_f32, 2, d * 4), at, (tw_val[]){a->seen.max, sum});
    }
}

tw_mega_attender tw_mega_attend_by_tensor(tw_mega_by_tensor *state) {
    return (tw_mega_attender){state, declare, fetch_first, load_queries, walk, leave};
}
