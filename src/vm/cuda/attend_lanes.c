/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by lanes. A few lanes share a cached position, so that each loads TW_MEGA_WIDE elements of it. A warp takes
   several positions at once, each with its own running maximum and sum. */
#include "vm/cuda/attend.h"

/* Tells whether some lane has only half of its elements, since 8 does not divide the head. */
static bool ends_in_half(const tw_mega_gen *g) {
    return g->p->m->head_dim % TW_MEGA_WIDE != 0;
}

/* Loads a row of such a head by halves. Rows of 16-bit elements are aligned to 8 bytes. */
static void load_halves(tw_mega_by_lanes *a, tw_val address, tw_val *out) {
    const bool floats = a->g->p->kv == TW_F32;
    const int words = floats ? TW_MEGA_WIDE / 2 : TW_MEGA_WIDE / 4;
    for (int i = 0; i < 2; i++) {
        if (i) tw_when(a->g->b, a->whole);
        tw_ld_vec(a->g->b, tw_mega_l2(floats ? TW_T_f32 : TW_T_i32, words, 4 * words * i), address, out + words * i);
    }
}

/* Loads TW_MEGA_WIDE elements of a row of the cache, as they are stored. */
static void load_row(tw_mega_by_lanes *a, tw_val address, tw_val *out) {
    const bool floats = a->g->p->kv == TW_F32;
    if (ends_in_half(a->g)) {
        load_halves(a, address, out);
        return;
    }
    for (int i = 0; i < (floats ? TW_MEGA_WIDE : TW_MEGA_WIDE / 2); i += 4)
        tw_ld_vec(a->g->b, tw_mega_l2(floats ? TW_T_f32 : TW_T_i32, 4, 4 * i), address, out + i);
}

/* Converts element i of a row from load_row to f32. */
static tw_val element(tw_mega_by_lanes *a, const tw_val *row, int i) {
    if (a->g->p->kv == TW_F32) return row[i];
    return tw_part_half(a->g->b, a->g->p->kv == TW_F16 ? TW_T_f16x2 : TW_T_bf16x2, row[i / 2], i & 1);
}

static void load_queries(void *state, tw_val q, tw_val position, tw_val head, tw_val heads) {
    tw_mega_by_lanes *a = state;
    tw_builder *b = a->g->b;
    const tw_mega_plan *p = a->g->p;
    tw_val row =
        tw_mega_at(b, tw_mega_at(b, q, position, p->m->n_heads * p->m->head_dim * 4), head, p->m->head_dim * 4);
    row = tw_mega_at(b, row, a->mine, 4);
    tw_val x[TW_MEGA_HEADS][TW_MEGA_WIDE] = {{{0}}};
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        tw_val there = tw_and(b, a->inside, tw_lt(b, tw_i32(b, h), heads));
        for (int i = 0; i < TW_MEGA_WIDE; i += 4) {
            if (i && ends_in_half(a->g)) there = tw_and(b, there, a->whole);
            tw_when(b, there);
            const int offset = (int)(h * p->m->head_dim + i) * 4;
            tw_ld_vec(b, p->turns ? tw_mega_shared(TW_T_f32, 4, offset) : tw_mega_l2(TW_T_f32, 4, offset), row,
                      x[h] + i);
        }
    }
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        for (int i = 0; i < TW_MEGA_WIDE; i++) {
            a->q[h][i] = tw_mul(b, x[h][i], tw_f32(b, p->m->attn_scale * TW_SOFTMAX_LOG2E));
            a->acc[h][i] = tw_var_of(b, tw_f32(b, 0));
        }
        a->seen[h] = tw_softmax_of(b);
    }
}

/* Takes one more position for all heads. Both rows are from load_row. */
static void take(tw_mega_by_lanes *a, const tw_val *k, const tw_val *v, tw_val there) {
    tw_builder *b = a->g->b;
    tw_val ks[TW_MEGA_WIDE], vs[TW_MEGA_WIDE];
    for (int i = 0; i < TW_MEGA_WIDE; i++) {
        ks[i] = element(a, k, i);
        vs[i] = element(a, v, i);
    }
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        const tw_val *q = a->q[h];
        tw_val dot = TW_NONE, *acc = a->acc[h];
        for (int i = 0; i < TW_MEGA_WIDE; i++) dot = i ? tw_fma(b, q[i], ks[i], dot) : tw_mul(b, q[i], ks[i]);
        dot = tw_part_warp_sum(b, dot, 1, a->lanes);
        dot = tw_mega_cap_score(a->g, dot);
        tw_val keep, weight = tw_softmax_take(b, &a->seen[h], dot, there, &keep);
        for (int i = 0; i < TW_MEGA_WIDE; i++) {
            tw_val before = tw_mul(b, acc[i], keep);
            tw_op_to(b, acc[i], TW_OP_fma_f32, weight, vs[i], before);
        }
    }
}

static int of_warp(const tw_mega_by_lanes *a) {
    return 32 / a->lanes;
}

static int round_of(const tw_mega_by_lanes *a) {
    return of_warp(a) * a->g->p->tuning.warps; /* Positions that one load of all warps covers. */
}

static int words(const tw_mega_by_lanes *a) {
    return a->g->p->kv == TW_F32 ? TW_MEGA_WIDE : TW_MEGA_WIDE / 2;
}

static void declare(void *state, tw_mega_gen *g) {
    tw_mega_by_lanes *a = state;
    tw_builder *b = g->b;
    const tw_type t = g->p->kv == TW_F32 ? TW_T_f32 : TW_T_i32;
    *a = (tw_mega_by_lanes){.g = g, .lanes = 1};
    while (a->lanes * TW_MEGA_WIDE < g->p->m->head_dim) a->lanes *= 2;
    tw_val part = tw_rem(b, g->lane, a->lanes);
    a->mine = tw_mul_imm(b, part, TW_MEGA_WIDE);
    a->inside = tw_lt(b, a->mine, tw_i32(b, (int)g->p->m->head_dim));
    if (ends_in_half(g)) a->whole = tw_le(b, tw_add_imm(b, a->mine, TW_MEGA_WIDE), tw_i32(b, (int)g->p->m->head_dim));
    a->sub = tw_div(b, g->lane, a->lanes);
    for (int n = 0; n < 2; n++)
        for (int u = 0; u < TW_MEGA_TOGETHER; u++)
            for (int i = 0; i < words(a); i++) {
                a->batch[n].k[u][i] = tw_var_of(b, tw_zero(b, t));
                a->batch[n].v[u][i] = tw_var_of(b, tw_zero(b, t));
            }
}

static tw_val start_of(tw_mega_by_lanes *a, const tw_mega_past *p) {
    return tw_add(a->g->b, p->first, tw_mul_imm(a->g->b, a->g->warp, of_warp(a)));
}

/* Fetches keys and values of a batch that begins at `at`, at positions in [from, below). TW_NONE for `from` is 0. */
static void fetch(tw_mega_by_lanes *a, const tw_mega_past *p, tw_val at, tw_val from, tw_val below, tw_mega_batch *x) {
    tw_builder *b = a->g->b;
    const int es = (int)tw_dtype_bits(a->g->p->kv) / 8;
    const int64_t row = a->g->p->m->head_dim * es;
    for (int u = 0; u < TW_MEGA_TOGETHER; u++) {
        tw_val position = tw_add(b, tw_add_imm(b, at, (int64_t)u * round_of(a)), a->sub);
        tw_val there = tw_and(b, tw_lt(b, position, tw_min(b, p->last, below)), a->inside);
        if (from.id) there = tw_and(b, there, tw_le(b, from, position));
        tw_val k = tw_mega_at(b, tw_mega_at(b, p->k, position, row), a->mine, es);
        tw_val v = tw_mega_at(b, tw_mega_at(b, p->v, position, row), a->mine, es);
        TW_IF (b, there) {
            load_row(a, k, x->k[u]);
            load_row(a, v, x->v[u]);
        }
    }
}

static void fetch_first(void *state, const tw_mega_past *p, tw_val from, tw_val below) {
    tw_mega_by_lanes *a = state;
    fetch(a, p, start_of(a, p), from, below, &a->batch[0]);
}

static void use(tw_mega_by_lanes *a, const tw_mega_past *p, tw_val at, const tw_mega_batch *x) {
    tw_builder *b = a->g->b;
    for (int u = 0; u < TW_MEGA_TOGETHER; u++) {
        tw_val position = tw_add(b, tw_add_imm(b, at, (int64_t)u * round_of(a)), a->sub);
        take(a, x->k[u], x->v[u], tw_lt(b, position, p->last));
    }
}

static void walk(void *state, const tw_mega_past *p) {
    tw_mega_by_lanes *a = state;
    tw_mega_batch *x = a->batch;
    tw_builder *b = a->g->b;
    const int span = round_of(a) * TW_MEGA_TOGETHER;
    tw_val start = start_of(a, p);
    TW_FOR (b, i, start, p->last, tw_i32(b, 2 * span), false) {
        tw_val second = tw_add_imm(b, i, span), third = tw_add_imm(b, i, 2 * span), all = p->last;
        fetch(a, p, second, TW_NONE, all, &x[1]);
        use(a, p, i, &x[0]);
        fetch(a, p, third, TW_NONE, all, &x[0]);
        TW_IF (b, tw_lt(b, second, p->last)) use(a, p, second, &x[1]);
    }
}

/* Joins the results of a warp's positions, and stores them. */
static void leave(void *state, tw_val heads) {
    (void)heads;
    tw_mega_by_lanes *a = state;
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int d = (int)g->p->m->head_dim;
    tw_val at = tw_add_imm(b, g->shared, g->p->x);
    at = tw_mega_at(b, at, g->warp, TW_MEGA_HEADS * (d + 2) * 4);
    for (int h = 0; h < TW_MEGA_HEADS; h++) {
        tw_val max = tw_part_warp_max(g->b, tw_add(b, a->seen[h].max, tw_f32(b, 0)), a->lanes, 32);
        tw_val scale = tw_softmax_weight(b, a->seen[h].max, max);
        tw_val sum = tw_part_warp_sum(g->b, tw_mul(b, a->seen[h].sum, scale), a->lanes, 32), x[TW_MEGA_WIDE],
               first = a->mine;
        for (int i = 0; i < TW_MEGA_WIDE; i++) x[i] = tw_mul(b, a->acc[h][i], scale);
        /* Adds up the lanes' elements. Two lanes whose numbers differ in one bit each keep a half of the elements, and
           send the other. The next bit halves them again. */
        int n = TW_MEGA_WIDE;
        for (int d2 = a->lanes; d2 < 32; d2 *= 2) {
            tw_val upper = tw_ne(b, tw_and(b, g->lane, tw_i32(b, d2)), tw_i32(b, 0));
            if (n == 2) {
                for (int i = 0; i < n; i++) x[i] = tw_part_warp_sum(g->b, x[i], d2, 2 * d2);
                continue;
            }
            n /= 2;
            for (int i = 0; i < n; i++) {
                tw_val mine = tw_select(b, upper, x[i + n], x[i]), other = tw_select(b, upper, x[i], x[i + n]);
                tw_val got = tw_shfl(b, TW_MODE_bfly, other, tw_i32(b, d2), tw_i32(b, -1));
                x[i] = tw_add(b, mine, got);
            }
            first = tw_select(b, upper, tw_add_imm(b, first, n), first);
        }
        TW_IF (b, a->inside) {
            const int result = h * (d + 2) * 4;
            tw_val to = tw_mega_at(b, at, first, 4);
            for (int i = 0; i < n; i += 2) {
                if (ends_in_half(g)) tw_when(b, tw_lt(b, tw_add_imm(b, first, i), tw_i32(b, d)));
                tw_st(b, tw_mega_shared(TW_T_f32, 2, result + 4 * i), to, x + i);
            }
            TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
                tw_st(b, tw_mega_shared(TW_T_f32, 2, result + 4 * d), at, (tw_val[]){max, sum});
        }
    }
}

tw_mega_attender tw_mega_attend_by_lanes(tw_mega_by_lanes *state) {
    return (tw_mega_attender){state, declare, fetch_first, load_queries, walk, leave};
}
