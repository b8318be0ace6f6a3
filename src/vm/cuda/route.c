/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture's router: scores of the experts, and each block's choice of the best ones. */
#include "kernels/parts/softmax.h"
#include "vm/cuda/generate.h"

#include "base/divide.h"

/* ---- score: a warp takes a row of the router at a time */

enum {
    RUN = 4 * 32, /* Columns that a warp loads at once. */
    AHEAD = 16    /* Runs of a row that are loaded together. */
};

typedef struct scoring {
    tw_mega_gen *g;
    tw_val router;      /* Address of the router. */
    int runs;           /* Runs that are loaded together. */
    tw_val r[AHEAD][4]; /* Variables: elements of a row of the router, from the lane's first column on. */
} scoring;

/* Loads runs of a row of the router, from column `first` on. */
static void load_runs(const scoring *o, tw_val row, tw_val first) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_dtype t = g->p->router;
    const int es = (int)tw_dtype_bits(t) / 8;
    tw_val at = tw_mega_at(b, o->router, row, g->p->m->dim * es), raw[AHEAD][4] = {{{0}}};
    for (int i = 0; i < o->runs; i++) {
        tw_val column = tw_add_imm(b, tw_add(b, first, tw_shl(b, g->lane, 2)), (int64_t)i * RUN);
        tw_val here = tw_mega_at(b, at, column, es), there = tw_lt(b, column, tw_i32(b, (int32_t)g->p->m->dim));
        tw_when(b, there);
        tw_ld_vec(b, tw_mega_fixed(t == TW_F32 ? TW_T_f32 : TW_T_i32, es, 0), here, raw[i]);
    }
    for (int i = 0; i < o->runs; i++)
        for (int e = 0; e < 4; e++) {
            tw_val x = raw[i][e];
            if (t != TW_F32) x = tw_part_half(b, t == TW_F16 ? TW_T_f16x2 : TW_T_bf16x2, raw[i][e / 2], e % 2);
            tw_assign(b, o->r[i][e], x);
        }
}

/* Copies the input, times the norm's weights, to shared memory as floats. Returns the mean of its squares. */
static tw_val stage_input(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int64_t dim = g->p->m->dim;
    const int warps = g->p->tuning.warps;
    tw_val in = tw_mega_address(g, TW_W_IN), norm = tw_mega_address(g, TW_W_NORM), squares = tw_var_of(b, tw_f32(b, 0));
    tw_val to = tw_add_imm(b, g->shared, g->p->x), cells = tw_add_imm(b, g->shared, g->p->sums);
    const int turn = 4 * tw_mega_threads(g->p);
    TW_FOR (b, c, tw_shl(b, g->thread, 2), tw_i32(b, (int32_t)dim), tw_i32(b, turn), false) {
        tw_val x[4] = {{0}}, w[4] = {{0}}, from = tw_mega_at(b, in, c, 4), weights = tw_mega_at(b, norm, c, 4);
        tw_ld_vec(b, tw_mega_l2(TW_T_f32, 4, 0), from, x);
        tw_ld_vec(b, tw_mega_fixed(TW_T_f32, 4, 0), weights, w);
        for (int e = 0; e < 4; e++) {
            tw_op_to(b, squares, TW_OP_fma_f32, x[e], x[e], squares);
            x[e] = tw_mul(b, x[e], w[e]);
        }
        tw_st(b, tw_mega_shared(TW_T_f32, 4, 0), tw_mega_at(b, to, c, 4), x);
    }
    tw_val of_warp = tw_part_warp_sum(b, tw_add(b, squares, tw_f32(b, 0)), 1, 32), sum = TW_NONE;
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_st(b, tw_mega_shared(TW_T_f32, 1, 0), tw_mega_at(b, cells, g->warp, 4), &of_warp);
    tw_mega_barrier(g);
    for (int w = 0; w < warps; w++) {
        tw_val one = tw_ld(b, tw_mega_shared(TW_T_f32, 1, 4 * w), cells);
        sum = w ? tw_add(b, sum, one) : one;
    }
    return tw_mul(b, sum, tw_f32(b, 1.0f / (float)dim));
}

/* Adds the products of the loaded runs with the input. */
static void add_runs(const scoring *o, tw_val first, tw_val sum) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val x = tw_add_imm(b, g->shared, g->p->x);
    for (int i = 0; i < o->runs; i++) {
        tw_val column = tw_add_imm(b, tw_add(b, first, tw_shl(b, g->lane, 2)), (int64_t)i * RUN), in[4] = {{0}};
        tw_val at = tw_mega_at(b, x, column, 4), there = tw_lt(b, column, tw_i32(b, (int32_t)g->p->m->dim));
        tw_when(b, there);
        tw_ld_vec(b, tw_mega_shared(TW_T_f32, 4, 0), at, in);
        for (int e = 0; e < 4; e++) tw_op_to(b, sum, TW_OP_fma_f32, in[e], o->r[i][e], sum);
    }
}

/* Computes scores of experts. Each warp's first row of the router is loaded before the wait. */
void tw_mega_build_score(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int64_t dim = g->p->m->dim;
    scoring o = {.g = g, .router = tw_mega_address(g, TW_W_ROUTER), .runs = (int)tw_ceil_div(dim, RUN)};
    if (o.runs > AHEAD) o.runs = AHEAD;
    const int64_t at_once = (int64_t)o.runs * RUN;
    tw_val from = tw_mega_word(g, TW_W_FROM), end = tw_add(b, from, tw_mega_word(g, TW_W_COUNT));
    tw_val out = tw_mega_address(g, TW_W_OUT), first = tw_add(b, from, g->warp);
    for (int i = 0; i < 4 * o.runs; i++) o.r[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    TW_IF (b, tw_lt(b, first, end)) load_runs(&o, first, tw_i32(b, 0));
    tw_mega_wait_alone(g);
    tw_val mean = stage_input(g);
    tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->p->m->norm_eps)));
    TW_FOR (b, row, first, end, tw_i32(b, g->p->tuning.warps), false) {
        tw_val sum = tw_var_of(b, tw_f32(b, 0));
        TW_FOR (b, c, tw_i32(b, 0), tw_i32(b, (int32_t)dim), tw_i32(b, (int32_t)at_once), false) {
            TW_IF (b, tw_ne(b, tw_or(b, c, tw_sub(b, row, first)), tw_i32(b, 0))) load_runs(&o, row, c);
            add_runs(&o, c, sum);
        }
        tw_val score = tw_mul(b, tw_part_warp_sum(b, tw_add(b, sum, tw_f32(b, 0)), 1, 32), factor);
        TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
            tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, out, row, 4), &score);
    }
}

/* ---- choose: a warp has all scores */

enum { OF_LANE = TW_MEGA_EXPERTS / 32 /* The most scores of a lane. */ };

/* Ranks below every probability: no expert, an expert that is chosen already, and one whose score is no number. */
enum { NOBODY, TAKEN, UNRANKED, PROBABLE };

/* Computes the largest of the lanes' i32, all of which are at least 0, for each of them. */
static tw_val warp_most(tw_builder *b, tw_val x) {
    return tw_get(b, TW_OP_redux_max_u32, (tw_attrs){0}, TW_T_i32, x, tw_i32(b, -1));
}

/* Turns a lane's scores into ranks. The rank of a probability p is the bits of p times *sum, and PROBABLE: floats that
   are at least 0 are in the order of their bits. */
static void rank(tw_builder *b, tw_val lane, int experts, int n, tw_val *score, tw_val *sum) {
    tw_val most = tw_f32(b, TW_SOFTMAX_LOWEST);
    for (int i = 0; i < n; i++) most = tw_max(b, most, score[i]);
    most = tw_part_warp_max(b, most, 1, 32);
    *sum = tw_f32(b, 0);
    for (int i = 0; i < n; i++) {
        tw_val there = tw_lt(b, tw_add_imm(b, lane, 32 * i), tw_i32(b, experts));
        tw_val apart = tw_mul(b, tw_sub(b, score[i], most), tw_f32(b, TW_SOFTMAX_LOG2E));
        tw_val e = tw_unary(b, TW_OP_exp2_f32, apart), bits = tw_add_imm(b, tw_bitcast(b, TW_T_i32, e), PROBABLE);
        *sum = tw_add(b, *sum, tw_select(b, there, e, tw_f32(b, 0)));
        bits = tw_select(b, tw_eq(b, e, e), bits, tw_i32(b, UNRANKED));
        score[i] = tw_var_of(b, tw_select(b, there, bits, tw_i32(b, NOBODY)));
    }
    *sum = tw_part_warp_sum(b, *sum, 1, 32);
}

/* Of equals the lower number comes first. Lane u has the u-th. */
void tw_mega_choose(tw_builder *b, const tw_model *m, tw_val lane, tw_val scores, tw_val *expert, tw_val *share) {
    const int n = (int)tw_ceil_div(m->n_experts, 32);
    tw_val score[OF_LANE] = {{0}}, sum;
    for (int i = 0; i < n; i++) {
        tw_val number = tw_add_imm(b, lane, 32 * i), at = tw_mega_at(b, scores, number, 4);
        tw_when(b, tw_lt(b, number, tw_i32(b, (int32_t)m->n_experts)));
        score[i] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), at);
    }
    rank(b, lane, (int)m->n_experts, n, score, &sum);
    tw_val id = tw_var_of(b, tw_i32(b, 0)), weight = tw_var_of(b, tw_f32(b, 0));
    TW_FOR (b, u, tw_i32(b, 0), tw_i32(b, (int32_t)m->n_experts_used), tw_i32(b, 1), false) {
        tw_val rank = score[0], left = tw_i32(b, TW_MEGA_EXPERTS);
        for (int i = 1; i < n; i++) rank = tw_max(b, rank, score[i]);
        rank = warp_most(b, rank);
        left = tw_sub(b, left, lane);
        tw_val lowest = tw_i32(b, 0); /* Experts that follow the lowest number of that rank, and itself. */
        for (int i = n - 1; i >= 0; i--)
            lowest = tw_select(b, tw_eq(b, score[i], rank), tw_add_imm(b, left, -32 * i), lowest);
        tw_val number = tw_sub(b, tw_i32(b, TW_MEGA_EXPERTS), warp_most(b, lowest));
        for (int i = 0; i < n; i++) {
            tw_val taken = tw_eq(b, number, tw_add_imm(b, lane, 32 * i));
            tw_assign(b, score[i], tw_select(b, taken, tw_i32(b, TAKEN), score[i]));
        }
        tw_val here = tw_eq(b, lane, u), value = tw_bitcast(b, TW_T_f32, tw_add_imm(b, rank, -PROBABLE));
        tw_assign(b, id, tw_select(b, here, number, id));
        tw_assign(b, weight, tw_select(b, here, value, weight));
    }
    tw_val whole = sum;
    if (m->renormalise_experts) whole = tw_part_warp_sum(b, tw_add(b, weight, tw_f32(b, 0)), 1, 32);
    *expert = id;
    *share = tw_binary(b, TW_OP_div_f32, weight, whole);
}

/* A warp chooses, and leaves the choice in shared memory for experts_up and for the producer, whom the mbarrier at
   plan.routed tells of it. Nobody reads the previous choice any more: this block has taken all stages of its experts.
 */
void tw_mega_build_choose(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int used = (int)g->p->m->n_experts_used;
    tw_val from = tw_mega_address(g, TW_W_IN), expert, share;
    tw_mega_wait_alone(g);
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, 0))) {
        tw_mega_choose(b, g->p->m, g->lane, from, &expert, &share);
        /* After the machine gave up the number may be anything. */
        expert = tw_binary(b, TW_OP_min_u32, expert, tw_i32(b, (int32_t)g->p->m->n_experts - 1));
        TW_IF (b, tw_lt(b, g->lane, tw_i32(b, used))) {
            tw_val to = tw_mega_at(b, tw_add_imm(b, g->shared, g->p->chosen), g->lane, 4);
            tw_st(b, tw_mega_shared(TW_T_i32, 1, 0), to, &expert);
            tw_st(b, tw_mega_shared(TW_T_f32, 1, 4 * used), to, &share);
        }
        tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, tw_add_imm(b, g->shared, g->p->routed), TW_NONE);
    }
}
