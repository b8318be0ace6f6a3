/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture's router: scores of the experts, and each block's choice of the best ones. */
#include "kernels/parts/softmax.h"
#include "vm/cuda/generate.h"

#include "base/divide.h"

/* ---- score: all threads have some columns of a row of the router */

enum { AHEAD = 8 /* Runs of four columns that a thread loads together. */ };

typedef struct scoring {
    tw_mega_gen *g;
    tw_val router, norm; /* Addresses of the router and of the norm's weights. */
    int runs;            /* Runs that are loaded together. */
    int turn;            /* Columns from a thread's run to its next one. */
    tw_val w[AHEAD][4];  /* Variables: elements of a row of the router, times the norm's weights. */
    tw_val sum, squares; /* Variables: of the thread's columns. */
} scoring;

/* Finds run i of a thread's columns from `first` on, and tells whether the model has it. */
static tw_val column_of(const scoring *o, tw_val first, int i, tw_val *there) {
    tw_builder *b = o->g->b;
    tw_val column = tw_add_imm(b, tw_add(b, first, tw_shl(b, o->g->thread, 2)), (int64_t)i * o->turn);
    *there = tw_lt(b, column, tw_i32(b, (int32_t)o->g->p->m->dim));
    return column;
}

/* Loads runs of a row of the router, from column `first` on, and the norm's weights. No instruction writes them. */
static void load_runs(const scoring *o, tw_val row, tw_val first) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    const tw_dtype t = g->p->router;
    const int es = (int)tw_dtype_bits(t) / 8;
    tw_val at = tw_mega_at(b, o->router, row, g->p->m->dim * es), raw[AHEAD][4] = {{{0}}}, norm[AHEAD][4] = {{{0}}};
    for (int i = 0; i < o->runs; i++) {
        tw_val there, column = column_of(o, first, i, &there);
        tw_val here = tw_mega_at(b, at, column, es), weights = tw_mega_at(b, o->norm, column, 4);
        tw_when(b, there);
        tw_ld_vec(b, tw_mega_fixed(t == TW_F32 ? TW_T_f32 : TW_T_i32, es, 0), here, raw[i]);
        tw_when(b, there);
        tw_ld_vec(b, tw_mega_fixed(TW_T_f32, 4, 0), weights, norm[i]);
    }
    for (int i = 0; i < o->runs; i++)
        for (int e = 0; e < 4; e++) {
            tw_val x = raw[i][e];
            if (t != TW_F32) x = tw_part_half(b, t == TW_F16 ? TW_T_f16x2 : TW_T_bf16x2, raw[i][e / 2], e % 2);
            tw_assign(b, o->w[i][e], tw_mul(b, x, norm[i][e]));
        }
}

/* Adds the products of the loaded runs with the input, and the input's squares. */
static void add_runs(const scoring *o, tw_val in, tw_val first) {
    tw_builder *b = o->g->b;
    tw_val x[AHEAD][4] = {{{0}}}, there[AHEAD];
    for (int i = 0; i < o->runs; i++) {
        tw_val column = column_of(o, first, i, &there[i]), at = tw_mega_at(b, in, column, 4);
        tw_when(b, there[i]);
        tw_ld_vec(b, tw_mega_l2(TW_T_f32, 4, 0), at, x[i]);
    }
    for (int i = 0; i < o->runs; i++)
        for (int e = 0; e < 4; e++) {
            tw_val y = tw_select(b, there[i], x[i][e], tw_f32(b, 0));
            tw_op_to(b, o->squares, TW_OP_fma_f32, y, y, o->squares);
            tw_op_to(b, o->sum, TW_OP_fma_f32, y, tw_select(b, there[i], o->w[i][e], tw_f32(b, 0)), o->sum);
        }
}

/* Adds up the threads' sums, and stores the score. */
static void store_score(const scoring *o, tw_val to) {
    tw_mega_gen *g = o->g;
    tw_builder *b = g->b;
    tw_val cells = tw_add_imm(b, g->shared, g->p->sums), all[2] = {{0}};
    tw_val mine[2] = {tw_part_warp_sum(b, tw_add(b, o->sum, tw_f32(b, 0)), 1, 32),
                      tw_part_warp_sum(b, tw_add(b, o->squares, tw_f32(b, 0)), 1, 32)};
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_st(b, tw_mega_shared(TW_T_f32, 2, 0), tw_mega_at(b, cells, g->warp, 8), mine);
    tw_mega_barrier(g);
    TW_IF (b, tw_eq(b, g->thread, tw_i32(b, 0))) {
        for (int w = 0; w < g->p->tuning.warps; w++) {
            tw_val one[2] = {{0}};
            tw_ld_vec(b, tw_mega_shared(TW_T_f32, 2, 8 * w), cells, one);
            for (int i = 0; i < 2; i++) all[i] = w ? tw_add(b, all[i], one[i]) : one[i];
        }
        tw_val mean = tw_mul(b, all[1], tw_f32(b, 1.0f / (float)g->p->m->dim));
        tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->p->m->norm_eps)));
        tw_st(b, (tw_attrs){.type = TW_T_f32}, to, (tw_val[]){tw_mul(b, all[0], factor)});
    }
}

/* Computes scores of experts. The first row's first weights are loaded before the wait. */
void tw_mega_build_score(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int dim = (int)g->p->m->dim;
    scoring o = {.g = g,
                 .router = tw_mega_address(g, TW_W_ROUTER),
                 .norm = tw_mega_address(g, TW_W_NORM),
                 .turn = 4 * tw_mega_threads(g->p)};
    o.runs = (int)tw_ceil_div(dim, o.turn);
    if (o.runs > AHEAD) o.runs = AHEAD;
    tw_val from = tw_mega_word(g, TW_W_FROM), end = tw_add(b, from, tw_mega_word(g, TW_W_COUNT));
    tw_val in = tw_mega_address(g, TW_W_IN), out = tw_mega_address(g, TW_W_OUT);
    for (int i = 0; i < 4 * o.runs; i++) o.w[i / 4][i % 4] = tw_var_of(b, tw_f32(b, 0));
    o.sum = tw_var_of(b, tw_f32(b, 0));
    o.squares = tw_var_of(b, tw_f32(b, 0));
    load_runs(&o, from, tw_i32(b, 0));
    tw_mega_wait_alone(g);
    TW_FOR (b, row, from, end, tw_i32(b, 1), false) {
        tw_val later = tw_lt(b, from, row);
        tw_assign(b, o.sum, tw_f32(b, 0));
        tw_assign(b, o.squares, tw_f32(b, 0));
        TW_FOR (b, c, tw_i32(b, 0), tw_i32(b, dim), tw_i32(b, o.runs * o.turn), false) {
            TW_IF (b, tw_or(b, later, tw_lt(b, tw_i32(b, 0), c))) load_runs(&o, row, c);
            add_runs(&o, in, c);
        }
        /* The last row's sums may still be added up. */
        TW_IF (b, later) tw_mega_barrier(g);
        store_score(&o, tw_mega_at(b, out, row, 4));
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

/* Computes the number of the lowest bit that is set, of which there is one. */
static tw_val lowest_bit(tw_builder *b, tw_val x) {
    tw_val below = tw_and(b, tw_add_imm(b, x, -1), tw_xor(b, x, tw_i32(b, -1)));
    return tw_unary(b, TW_OP_popc_i32, below);
}

/* Of equals the lower number comes first. Lane u has the u-th. */
void tw_mega_choose(tw_builder *b, const tw_model *m, tw_val lane, tw_val scores, tw_val *expert, tw_val *share) {
    const int n = (int)tw_ceil_div(m->n_experts, 32);
    const tw_attrs ballot = {.mode = TW_MODE_ballot};
    tw_val score[OF_LANE] = {{0}}, sum;
    for (int i = 0; i < n; i++) {
        tw_val number = tw_add_imm(b, lane, 32 * i), at = tw_mega_at(b, scores, number, 4);
        tw_when(b, tw_lt(b, number, tw_i32(b, (int32_t)m->n_experts)));
        score[i] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), at);
    }
    rank(b, lane, (int)m->n_experts, n, score, &sum);
    tw_val id = tw_var_of(b, tw_i32(b, 0)), weight = tw_var_of(b, tw_f32(b, 0));
    TW_FOR (b, u, tw_i32(b, 0), tw_i32(b, (int32_t)m->n_experts_used), tw_i32(b, 1), false) {
        tw_val rank = score[0], lanes = TW_NONE,
               first = TW_NONE; /* Lanes that have the rank, of experts from `first` on. */
        for (int i = 1; i < n; i++) rank = tw_max(b, rank, score[i]);
        rank = warp_most(b, rank);
        for (int i = n - 1; i >= 0; i--) {
            tw_val have = tw_get(b, TW_OP_vote, ballot, TW_T_i32, tw_eq(b, score[i], rank), tw_i32(b, -1));
            tw_val any = tw_ne(b, have, tw_i32(b, 0));
            lanes = lanes.id ? tw_select(b, any, have, lanes) : have;
            first = first.id ? tw_select(b, any, tw_i32(b, 32 * i), first) : tw_i32(b, 32 * i);
        }
        tw_val number = tw_add(b, first, lowest_bit(b, lanes));
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
   One block of all enters the choice in memory, where the host may look for it. */
void tw_mega_build_choose(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int used = (int)g->p->m->n_experts_used;
    tw_val from = tw_mega_address(g, TW_W_IN), routes = tw_mega_address(g, TW_W_ROUTES), expert, share;
    tw_mega_wait_alone(g);
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, 0))) {
        tw_mega_choose(b, g->p->m, g->lane, from, &expert, &share);
        /* After the machine gave up the number may be anything. */
        expert = tw_binary(b, TW_OP_min_u32, expert, tw_i32(b, (int32_t)g->p->m->n_experts - 1));
        TW_IF (b, tw_lt(b, g->lane, tw_i32(b, used))) {
            tw_val to = tw_mega_at(b, tw_add_imm(b, g->shared, g->p->chosen), g->lane, 4);
            tw_st(b, tw_mega_shared(TW_T_i32, 1, 0), to, &expert);
            tw_st(b, tw_mega_shared(TW_T_f32, 1, 4 * used), to, &share);
            TW_IF (b, tw_ne(b, routes, tw_i64(b, 0))) {
                tw_val number = tw_unary(b, TW_OP_cvt_f32_s32, expert), at = tw_mega_at(b, routes, g->lane, 4);
                tw_st(b, (tw_attrs){.type = TW_T_f32}, at, &number);
                tw_st(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * used}, at, &share);
            }
        }
        tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, tw_add_imm(b, g->shared, g->p->routed), TW_NONE);
    }
}
