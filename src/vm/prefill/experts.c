/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture's kernels beside its products: scores, the choice, pairs of a position and an expert sorted by expert, and
   the sum of what a position's experts have made of it. A step of n positions has n * used pairs. */
#include "base/divide.h"
#include "kernels/parts/convert.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/reduce.h"
#include "vm/cuda/generate.h"
#include "vm/prefill/generate.h"

static tw_val count_of(tw_prefill_gen *g) {
    return tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT);
}

static int used_of(const tw_prefill_gen *g) {
    return (int)g->s->m->n_experts_used;
}

/* ---- score: step, x, weight, router, scores. A block has a few rows. */

enum {
    ROWS = 4,        /* The most rows of a block. */
    ROOM = 40 << 10, /* Bytes of shared memory for rows. */
    RUN = 4 * 32,    /* Columns that a warp takes at once. */
    ROUND = 4 * TW_PREFILL_THREADS
};

static int rows_of(const tw_prefill_shape *s) {
    const int64_t fit = ROOM / (4 * s->m->dim);
    return fit < 1 ? 1 : fit < ROWS ? (int)fit : ROWS;
}

static int64_t score_grid(const tw_prefill_shape *s) {
    return tw_ceil_div(s->tokens, rows_of(s));
}

/* Copies a row times the norm's weights to shared memory, and returns 1 / rms. A barrier is among what it does. */
static tw_val stage_row(tw_prefill_gen *g, tw_val row, tw_val there, tw_val to, const char *name) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    tw_val from = tw_prefill_at(g, g->buffer[1], row, m->dim * 4), squares = tw_var_of(b, tw_f32(b, 0));
    TW_FOR (b, c, tw_mul_imm(b, g->thread, 4), tw_i32(b, (int)m->dim), tw_i32(b, ROUND), false) {
        tw_val x[4], w[4];
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, c, 4), 4, there, x);
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[2], c, 4), 4, TW_NONE, w);
        for (int i = 0; i < 4; i++) {
            tw_op_to(b, squares, TW_OP_fma_f32, x[i], x[i], squares);
            x[i] = tw_mul(b, x[i], w[i]);
        }
        tw_st(b, tw_mega_shared(TW_T_f32, 4, 0), tw_add(b, to, tw_shl(b, c, 2)), x);
    }
    tw_val mean = tw_mul(b, tw_prefill_sum(g, squares, name), tw_f32(b, 1.0f / (float)m->dim));
    return tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, m->norm_eps)));
}

static void build_score(tw_prefill_gen *g) {
    static const char *const names[ROWS] = {"sums0", "sums1", "sums2", "sums3"};
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    const tw_type t = tw_prefill_element(g->s->router);
    const int n = rows_of(g->s), dim = (int)m->dim, experts = (int)m->n_experts;
    tw_val first = tw_mul_imm(b, g->block, n), count = count_of(g);
    tw_shared_add(b, "rows", n * dim * 4, 16, false);
    tw_val rows = tw_shared_base(b, "rows");
    TW_IF (b, tw_lt(b, first, count)) {
        tw_val factor[ROWS], row[ROWS], there[ROWS];
        for (int r = 0; r < n; r++) {
            row[r] = tw_add_imm(b, first, r);
            there[r] = tw_lt(b, row[r], count);
            factor[r] = stage_row(g, row[r], there[r], tw_add_imm(b, rows, (int64_t)r * dim * 4), names[r]);
        }
        tw_part_meet(b, &(tw_meeting){0});
        TW_FOR (b, e, g->warp, tw_i32(b, experts), tw_i32(b, TW_PREFILL_WARPS), false) {
            tw_val sum[ROWS], router = tw_prefill_at(g, g->buffer[3], e, (int64_t)dim * tw_prefill_bytes(t));
            for (int r = 0; r < n; r++) sum[r] = tw_var_of(b, tw_f32(b, 0));
            TW_FOR (b, c, tw_shl(b, g->lane, 2), tw_i32(b, dim), tw_i32(b, RUN), false) {
                tw_val w[4];
                tw_prefill_load(g, t, tw_prefill_at(g, router, c, tw_prefill_bytes(t)), 4, TW_NONE, w);
                for (int r = 0; r < n; r++) {
                    tw_val x[4] = {{0}}, at = tw_add(b, rows, tw_shl(b, c, 2));
                    tw_ld_vec(b, tw_mega_shared(TW_T_f32, 4, r * dim * 4), at, x);
                    for (int i = 0; i < 4; i++) tw_op_to(b, sum[r], TW_OP_fma_f32, x[i], w[i], sum[r]);
                }
            }
            for (int r = 0; r < n; r++) {
                tw_val score = tw_mul(b, tw_part_warp_sum(b, tw_add(b, sum[r], tw_f32(b, 0)), 1, 32), factor[r]);
                tw_val to = tw_prefill_at(g, tw_prefill_at(g, g->buffer[4], row[r], (int64_t)experts * 4), e, 4);
                tw_when(b, tw_and(b, there[r], tw_eq(b, g->lane, tw_i32(b, 0))));
                tw_st(b, (tw_attrs){.type = TW_T_f32}, to, &score);
            }
        }
    }
}

const tw_prefill_kind tw_prefill_score = {
    "prefill_score",
    build_score,
    score_grid,
    {{"step", false}, {"x", false}, {"weight", false}, {"router", false}, {"scores", true}}};

/* ---- choose: step, scores, route. A warp has a row. */

static int64_t choose_grid(const tw_prefill_shape *s) {
    return tw_ceil_div(s->tokens, TW_PREFILL_WARPS);
}

static void build_choose(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_model *m = g->s->m;
    tw_val row = tw_add(b, tw_mul_imm(b, g->block, TW_PREFILL_WARPS), g->warp);
    TW_IF (b, tw_lt(b, row, count_of(g))) {
        tw_val scores = tw_prefill_at(g, g->buffer[1], row, m->n_experts * 4);
        tw_val to = tw_prefill_at(g, tw_prefill_at(g, g->buffer[2], row, m->n_experts_used * 8), g->lane, 4), expert;
        tw_val share;
        tw_mega_choose(b, m, g->lane, scores, &expert, &share);
        tw_val number = tw_unary(b, TW_OP_cvt_f32_s32, expert);
        TW_IF (b, tw_lt(b, g->lane, tw_i32(b, used_of(g)))) {
            tw_st(b, (tw_attrs){.type = TW_T_f32}, to, &number);
            tw_st(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * used_of(g)}, to, &share);
        }
    }
}

const tw_prefill_kind tw_prefill_route = {
    "prefill_choose", build_choose, choose_grid, {{"step", false}, {"scores", false}, {"route", true}}};

/* ---- sort: step, route, ends, rows, places, factors. A warp has an expert, and walks through all pairs twice: to
   count those of the experts before its own, then to enter its own in order. */

enum { TOGETHER = 8 /* Runs of 32 pairs that are loaded together. */ };

static int64_t sort_grid(const tw_prefill_shape *s) {
    return tw_ceil_div(s->m->n_experts, TW_PREFILL_WARPS);
}

/* Loads the experts of TOGETHER runs of pairs. Behind the last pair it is -1. */
static void load_pairs(tw_prefill_gen *g, tw_val first, tw_val pairs, tw_val *expert) {
    tw_builder *b = g->b;
    const int used = used_of(g);
    tw_val id[TOGETHER];
    for (int i = 0; i < TOGETHER; i++) {
        tw_val pair = tw_add_imm(b, tw_add(b, first, g->lane), 32 * i);
        tw_val row = tw_div(b, pair, used), slot = tw_rem(b, pair, used);
        tw_val at = tw_prefill_at(g, tw_prefill_at(g, g->buffer[1], row, used * 8), slot, 4);
        tw_val there = tw_lt(b, pair, pairs);
        tw_when(b, there);
        id[i] = tw_ld(b, (tw_attrs){.type = TW_T_f32}, at);
    }
    for (int i = 0; i < TOGETHER; i++) {
        tw_val there = tw_lt(b, tw_add_imm(b, tw_add(b, first, g->lane), 32 * i), pairs);
        expert[i] = tw_select(b, there, tw_unary(b, TW_OP_cvt_s32_f32, id[i]), tw_i32(b, -1));
    }
}

/* Enters a pair at `to`. */
static void enter(tw_prefill_gen *g, tw_val pair, tw_val to) {
    tw_builder *b = g->b;
    const int used = used_of(g);
    const tw_attrs word = {.type = TW_T_i32};
    tw_val row = tw_div(b, pair, used), slot = tw_rem(b, pair, used), weight;
    tw_val at = tw_prefill_at(g, tw_prefill_at(g, g->buffer[1], row, used * 8), tw_add_imm(b, slot, used), 4);
    weight = tw_ld(b, (tw_attrs){.type = TW_T_f32}, at);
    tw_st(b, word, tw_prefill_at(g, g->buffer[3], to, 4), &row);
    tw_st(b, word, tw_prefill_at(g, g->buffer[4], to, 4), &pair);
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_prefill_at(g, g->buffer[5], to, 4), &weight);
}

static void build_sort(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_attrs ballot = {.mode = TW_MODE_ballot};
    tw_val mine = tw_add(b, tw_mul_imm(b, g->block, TW_PREFILL_WARPS), g->warp), zero = tw_i32(b, 0);
    tw_val pairs = tw_mul_imm(b, count_of(g), used_of(g)), less = tw_var_of(b, zero), equal = tw_var_of(b, zero);
    tw_val below = tw_add_imm(b, tw_binary(b, TW_OP_shl_i32, tw_i32(b, 1), g->lane), -1),
           step = tw_i32(b, 32 * TOGETHER);
    TW_IF (b, tw_lt(b, mine, tw_i32(b, (int)g->s->m->n_experts))) {
        TW_FOR (b, i, zero, pairs, step, false) {
            tw_val expert[TOGETHER];
            load_pairs(g, i, pairs, expert);
            for (int u = 0; u < TOGETHER; u++) {
                tw_val before = tw_and(b, tw_le(b, zero, expert[u]), tw_lt(b, expert[u], mine));
                tw_op_to(b, less, TW_OP_add_i32, less, tw_select(b, before, tw_i32(b, 1), zero), TW_NONE);
                tw_val same = tw_eq(b, expert[u], mine);
                tw_op_to(b, equal, TW_OP_add_i32, equal, tw_select(b, same, tw_i32(b, 1), zero), TW_NONE);
            }
        }
        tw_val start = tw_part_warp_sum(b, tw_add_imm(b, less, 0), 1, 32), at = tw_var_of(b, start);
        tw_val end = tw_add(b, start, tw_part_warp_sum(b, tw_add_imm(b, equal, 0), 1, 32));
        tw_val ends = tw_prefill_at(g, g->buffer[2], mine, 4);
        tw_when(b, tw_eq(b, g->lane, zero));
        tw_st(b, (tw_attrs){.type = TW_T_i32}, ends, &end);
        TW_FOR (b, i, zero, pairs, step, false) {
            tw_val expert[TOGETHER];
            load_pairs(g, i, pairs, expert);
            for (int u = 0; u < TOGETHER; u++) {
                tw_val same = tw_eq(b, expert[u], mine);
                tw_val lanes = tw_get(b, TW_OP_vote, ballot, TW_T_i32, same, tw_i32(b, -1));
                tw_val rank = tw_unary(b, TW_OP_popc_i32, tw_and(b, lanes, below));
                TW_IF (b, same) enter(g, tw_add_imm(b, tw_add(b, i, g->lane), 32 * u), tw_add(b, at, rank));
                tw_op_to(b, at, TW_OP_add_i32, at, tw_unary(b, TW_OP_popc_i32, lanes), TW_NONE);
            }
        }
    }
}

const tw_prefill_kind tw_prefill_sort = {
    "prefill_sort",
    build_sort,
    sort_grid,
    {{"step", false}, {"route", false}, {"ends", true}, {"rows", true}, {"places", true}, {"factors", true}}};

/* ---- gather: step, rows, x, y. A block has a pair, whose position's row of x becomes its row of y. */

static int64_t pairs_of(const tw_prefill_shape *s) {
    return s->tokens * s->m->n_experts_used;
}

static void build_gather(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t bytes = g->s->columns * tw_prefill_bytes(g->s->type);
    const tw_attrs words = {.type = TW_T_i32, .vec = 4};
    TW_IF (b, tw_lt(b, g->block, tw_mul_imm(b, count_of(g), used_of(g)))) {
        tw_val row = tw_ld(b, (tw_attrs){.type = TW_T_i32}, tw_prefill_at(g, g->buffer[1], g->block, 4));
        tw_val from = tw_prefill_at(g, g->buffer[2], row, bytes), to = tw_prefill_at(g, g->buffer[3], g->block, bytes);
        TW_FOR (b, i, tw_shl(b, g->thread, 4), tw_i32(b, (int)bytes), tw_i32(b, 16 * TW_PREFILL_THREADS), false) {
            tw_val x[4] = {{0}};
            tw_ld_vec(b, words, tw_prefill_at(g, from, i, 1), x);
            tw_st(b, words, tw_prefill_at(g, to, i, 1), x);
        }
    }
}

const tw_prefill_kind tw_prefill_gather = {
    "prefill_gather", build_gather, pairs_of, {{"step", false}, {"rows", false}, {"x", false}, {"y", true}}};

/* ---- sum: step, y, x. A block has a position, to whose row of x the rows of y of its pairs are added. */

static int64_t row_each(const tw_prefill_shape *s) {
    return s->tokens;
}

static void build_sum(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t row = g->s->columns * 4;
    TW_IF (b, tw_lt(b, g->block, count_of(g))) {
        tw_val from = tw_prefill_at(g, g->buffer[1], g->block, used_of(g) * row);
        tw_val to = tw_prefill_at(g, g->buffer[2], g->block, row);
        TW_FOR (b, c, tw_shl(b, g->thread, 2), tw_i32(b, (int)g->s->columns), tw_i32(b, ROUND), false) {
            tw_val x[4], at = tw_prefill_at(g, to, c, 4);
            tw_prefill_load(g, TW_T_f32, at, 4, TW_NONE, x);
            for (int u = 0; u < used_of(g); u++) {
                tw_val y[4];
                tw_prefill_load(g, TW_T_f32, tw_add_imm(b, tw_prefill_at(g, from, c, 4), u * row), 4, TW_NONE, y);
                for (int i = 0; i < 4; i++) x[i] = tw_add(b, x[i], y[i]);
            }
            tw_prefill_store(g, TW_T_f32, at, 4, x);
        }
    }
}

const tw_prefill_kind tw_prefill_sum_experts = {
    "prefill_sum", build_sum, row_each, {{"step", false}, {"y", false}, {"x", true}}};
