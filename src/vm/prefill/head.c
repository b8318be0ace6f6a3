/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a prompt: logits of the tail's row, and the token.

   A block has four units of the head's matrix. It norms the row for itself, in shared memory, which takes less time
   than another launch. A warp takes every fourth piece of each unit. */
#include "base/divide.h"
#include "kernels/parts/activation.h"
#include "kernels/parts/argmax.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/reduce.h"
#include "vm/prefill/generate.h"
#include "vm/sample.h"

enum { UNITS = 4 /* Units of a block. */, ROWS = UNITS * TW_MEGA_ROWS /* Its rows: one for each lane of a warp. */ };
enum { WIDE = 4, ROUND = WIDE * TW_PREFILL_THREADS };
_Static_assert(ROWS == 32, "a lane of the first warp finishes a row");

int64_t tw_prefill_head_blocks(const tw_model *m) {
    return tw_ceil_div(m->vocab, ROWS);
}

static int64_t grid(const tw_prefill_shape *s) {
    return tw_prefill_head_blocks(s->m);
}

/* ---- head: x, weight, bias, units, logits, cells */

enum { X, WEIGHT, BIAS, TABLE, LOGITS, CELLS };

static const tw_attrs shared_four = {.type = TW_T_f32, .space = TW_SPACE_shared, .vec = 4};

/* Adds up squares of all threads' elements, or the elements themselves. Elements beyond the row are 0. */
static tw_val sum_of(tw_prefill_gen *g, const tw_val *x, int n, bool squares, const char *name) {
    tw_builder *b = g->b;
    tw_val sum = tw_f32(b, 0);
    for (int i = 0; i < n; i++) sum = squares ? tw_fma(b, x[i], x[i], sum) : tw_add(b, sum, x[i]);
    return tw_mul(b, tw_prefill_sum(g, sum, name), tw_f32(b, 1.0f / (float)g->s->columns));
}

/* Norms the tail's only row. Shared memory has zeros behind its columns. */
static tw_val norm(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t columns = g->s->columns;
    const int rounds = (int)tw_ceil_div(columns, ROUND), n = rounds * WIDE;
    const bool layer = g->s->m->norm == TW_NORM_LAYER;
    tw_val x[TW_PREFILL_ROW / TW_PREFILL_THREADS] = {{0}}, inside[TW_PREFILL_ROW / ROUND], at[TW_PREFILL_ROW / ROUND];
    tw_val from = g->buffer[X];
    for (int i = 0; i < rounds; i++) {
        at[i] = tw_add_imm(b, tw_mul_imm(b, g->thread, WIDE), i * ROUND);
        inside[i] = tw_lt(b, at[i], tw_i32(b, (int)columns));
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, at[i], 4), WIDE, inside[i], x + i * WIDE);
    }
    if (layer) {
        tw_val mean = sum_of(g, x, n, false, "means");
        for (int i = 0; i < n; i++) x[i] = tw_select(b, inside[i / WIDE], tw_sub(b, x[i], mean), tw_f32(b, 0));
    }
    tw_val mean = sum_of(g, x, n, true, "squares");
    tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->s->m->norm_eps)));
    tw_shared_add(b, "row", (int64_t)n * TW_PREFILL_THREADS * 4, 16, false);
    tw_val row = tw_shared_base(b, "row");
    for (int i = 0; i < rounds; i++) {
        tw_val w[WIDE], bias[WIDE], *y = x + i * WIDE;
        tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[WEIGHT], at[i], 4), WIDE, inside[i], w);
        if (g->s->bias)
            tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[BIAS], at[i], 4), WIDE, inside[i], bias);
        for (int k = 0; k < WIDE; k++) {
            y[k] = tw_mul(b, tw_mul(b, y[k], factor), w[k]);
            if (g->s->bias) y[k] = tw_add(b, y[k], bias[k]);
        }
        tw_st(b, shared_four, tw_add(b, row, tw_mul_imm(b, at[i], 4)), y);
    }
    tw_part_meet(b, &(tw_meeting){0});
    return row;
}

/* Multiplies the block's units by the row. sum[] gets the lane's sums of its row of each unit. */
static void multiply(tw_prefill_gen *g, tw_val row, tw_val sum[UNITS]) {
    tw_builder *b = g->b;
    const int64_t units = g->s->rows / TW_MEGA_ROWS;
    tw_val unit[UNITS][3];
    for (int u = 0; u < UNITS; u++) {
        tw_val number = tw_add_imm(b, tw_mul_imm(b, g->block, UNITS), u);
        tw_prefill_unit_load(g, g->buffer[TABLE], tw_min(b, number, tw_i32(b, (int)units - 1)), unit[u]);
        sum[u] = tw_var_of(b, tw_f32(b, 0));
    }
    TW_FOR (b, i, g->warp, tw_i32(b, tw_prefill_pieces(g->s)), tw_i32(b, TW_PREFILL_WARPS), false) {
        tw_prefill_piece p[UNITS];
        tw_val column[TW_PREFILL_FOURS], w[UNITS][4 * TW_PREFILL_FOURS];
        int fours = 0;
        for (int u = 0; u < UNITS; u++) p[u] = tw_prefill_piece_load(g, unit[u], i);
        for (int u = 0; u < UNITS; u++) fours = tw_prefill_piece_values(g, &p[u], column, w[u]);
        for (int f = 0; f < fours; f++) {
            tw_val x[4] = {{0}};
            tw_ld_vec(b, shared_four, tw_add(b, row, tw_mul_imm(b, column[f], 4)), x);
            for (int e = 0; e < 4 * UNITS; e++)
                tw_op_to(b, sum[e % UNITS], TW_OP_fma_f32, w[e % UNITS][4 * f + e / UNITS], x[e / UNITS],
                         sum[e % UNITS]);
        }
    }
}

static void build_head(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    tw_val sum[UNITS], row = norm(g);
    multiply(g, row, sum);
    tw_shared_add(b, "rows", TW_PREFILL_WARPS * ROWS * 4, 16, false);
    const tw_attrs cell = {.type = TW_T_f32, .space = TW_SPACE_shared};
    tw_val sums = tw_shared_base(b, "rows");
    tw_val to = tw_add(b, sums, tw_mul_imm(b, tw_add(b, tw_mul_imm(b, g->warp, ROWS), tw_shr(b, g->lane, 2)), 4));
    for (int u = 0; u < UNITS; u++) {
        tw_val all = tw_part_warp_sum(b, tw_add(b, sum[u], tw_f32(b, 0)), 1, 4);
        TW_IF (b, tw_eq(b, tw_rem(b, g->lane, 4), tw_i32(b, 0)))
            tw_st(b, cell, tw_add_imm(b, to, 4 * TW_MEGA_ROWS * u), &all);
    }
    tw_part_meet(b, &(tw_meeting){0});
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, 0))) {
        tw_val id = tw_add(b, tw_mul_imm(b, g->block, ROWS), g->lane), logit = tw_f32(b, 0);
        for (int w = 0; w < TW_PREFILL_WARPS; w++) {
            tw_val at = tw_add(b, sums, tw_mul_imm(b, g->lane, 4));
            logit = tw_add(
                b, logit, tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = 4 * ROWS * w}, at));
        }
        if (g->s->m->logit_cap > 0) logit = tw_part_cap(b, logit, g->s->m->logit_cap);
        const tw_argmax best = tw_argmax_of(b, TW_SAMPLE_LEAST);
        TW_IF (b, tw_lt(b, id, tw_i32(b, (int)g->s->m->vocab))) {
            tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_prefill_at(g, g->buffer[LOGITS], id, 4), &logit);
            tw_argmax_take(b, &best, logit, id);
        }
        const tw_argmax of_block = tw_argmax_warp(b, &best);
        TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
            tw_argmax_store(b, &of_block, (tw_attrs){0}, tw_prefill_at(g, g->buffer[CELLS], g->block, TW_ARGMAX_BYTES));
    }
}

const tw_prefill_kind tw_prefill_head = {
    "prefill_head",
    build_head,
    grid,
    {{"x", false}, {"weight", false}, {"bias", false}, {"units", false}, {"logits", true}, {"cells", true}}};

/* ---- best: cells, token */

static int64_t one(const tw_prefill_shape *s) {
    (void)s;
    return 1;
}

static void build_best(tw_prefill_gen *g) {
    enum { AT_ONCE = 8 };
    tw_builder *b = g->b;
    const int n = (int)grid(g->s);
    const tw_argmax best = tw_argmax_of(b, TW_SAMPLE_LEAST);
    /* Loads of several cells are under way together. */
    for (int from = 0; from < n; from += AT_ONCE * TW_PREFILL_THREADS) {
        tw_val value[AT_ONCE], number[AT_ONCE], there[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            tw_val cell = tw_add_imm(b, g->thread, from + i * TW_PREFILL_THREADS);
            tw_val at = tw_prefill_at(g, g->buffer[0], cell, TW_ARGMAX_BYTES);
            there[i] = tw_lt(b, cell, tw_i32(b, n));
            tw_when(b, there[i]);
            value[i] = tw_ld(b, (tw_attrs){.type = TW_T_f32}, at);
            tw_when(b, there[i]);
            number[i] = tw_ld(b, (tw_attrs){.type = TW_T_i32, .offset = 4}, at);
        }
        for (int i = 0; i < AT_ONCE; i++)
            TW_IF (b, there[i]) tw_argmax_take(b, &best, value[i], number[i]);
    }
    tw_shared_add(b, "bests", TW_PREFILL_WARPS * TW_ARGMAX_BYTES, 16, false);
    tw_val bests = tw_shared_base(b, "bests");
    const tw_argmax of_warp = tw_argmax_warp(b, &best);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_argmax_store(b, &of_warp, (tw_attrs){.space = TW_SPACE_shared},
                        tw_add(b, bests, tw_mul_imm(b, g->warp, TW_ARGMAX_BYTES)));
    tw_part_meet(b, &(tw_meeting){0});
    TW_IF (b, tw_eq(b, g->thread, tw_i32(b, 0))) {
        const tw_argmax all = tw_argmax_of(b, TW_SAMPLE_LEAST);
        tw_argmax_take_cells(b, &all, bests, 0, TW_PREFILL_WARPS);
        /* Logits that are no numbers have no largest one. */
        tw_val found = tw_lt(b, all.number, tw_i32(b, (int)g->s->m->vocab));
        tw_val token = tw_select(b, found, all.number, tw_i32(b, 0));
        tw_st(b, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_sys}, g->buffer[1], &token);
    }
}

const tw_prefill_kind tw_prefill_best = {"prefill_best", build_best, one, {{"cells", false}, {"token", true}}};
