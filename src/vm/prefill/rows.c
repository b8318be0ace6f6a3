/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose blocks have a row each. Threads take four columns at a time. */
#include "kernels/parts/activation.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/reduce.h"
#include "vm/prefill/generate.h"

enum { WIDE = 4, ROUND = WIDE * TW_PREFILL_THREADS };

static int64_t row_each(const tw_prefill_shape *s) {
    return s->tokens;
}

/* Opens a loop over a thread's columns. */
static tw_scope columns_of(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    return tw_push_for(b, tw_mul_imm(b, g->thread, WIDE), tw_i32(b, (int)g->s->columns), tw_i32(b, ROUND), false);
}

/* ---- embed: step, table, x */

static void build_embed(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_type t = tw_prefill_element(g->s->m->embed.dtype);
    const int64_t columns = g->s->columns;
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        tw_val token = tw_prefill_step(g, tw_prefill_at(g, g->buffer[0], g->block, sizeof(int32_t)), TW_STEP_TOKENS);
        tw_val from = tw_prefill_at(g, g->buffer[1], token, columns * tw_prefill_bytes(t));
        tw_val to = tw_prefill_at(g, g->buffer[2], g->block, columns * 4);
        TW_LOOP (b, c, columns_of(g)) {
            tw_val x[WIDE];
            tw_prefill_load(g, t, tw_prefill_at(g, from, c, tw_prefill_bytes(t)), WIDE, TW_NONE, x);
            tw_prefill_store(g, TW_T_f32, tw_prefill_at(g, to, c, 4), WIDE, x);
        }
    }
}

const tw_prefill_kind tw_prefill_embed = {
    "prefill_embed", build_embed, row_each, {{"step", false}, {"table", false}, {"x", true}}};

/* ---- norm: step, x, weight, y */

/* Adds up a number of all threads. */
static tw_val sum_of_block(tw_prefill_gen *g, tw_val x) {
    tw_builder *b = g->b;
    tw_shared_add(b, "sums", TW_PREFILL_WARPS * 4, 16, false);
    tw_val shared = tw_shared_base(b, "sums"), of_warp = tw_part_warp_sum(b, x, 1, 32);
    tw_val sums[TW_PREFILL_WARPS] = {{0}};
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        tw_val to = tw_add(b, shared, tw_mul_imm(b, g->warp, 4));
        tw_st(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared}, to, &of_warp);
    }
    tw_part_meet(b, &(tw_meeting){0});
    tw_ld_vec(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .vec = TW_PREFILL_WARPS}, shared, sums);
    tw_val sum = sums[0];
    for (int i = 1; i < TW_PREFILL_WARPS; i++) sum = tw_add(b, sum, sums[i]);
    return sum;
}

static void build_norm(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t columns = g->s->columns;
    const int es = tw_prefill_bytes(g->s->type);
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        tw_val from = tw_prefill_at(g, g->buffer[1], g->block, columns * 4), squares = tw_var_of(b, tw_f32(b, 0));
        TW_LOOP (b, c, columns_of(g)) {
            tw_val x[WIDE];
            tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, c, 4), WIDE, TW_NONE, x);
            for (int i = 0; i < WIDE; i++) tw_op_to(b, squares, TW_OP_fma_f32, x[i], x[i], squares);
        }
        tw_val mean = tw_mul(b, sum_of_block(g, squares), tw_f32(b, 1.0f / (float)columns));
        tw_val factor = tw_unary(b, TW_OP_rsqrt_f32, tw_add(b, mean, tw_f32(b, g->s->m->norm_eps)));
        tw_val to = tw_prefill_at(g, g->buffer[3], g->block, columns * es);
        TW_LOOP (b, c, columns_of(g)) {
            tw_val x[WIDE], w[WIDE];
            tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, from, c, 4), WIDE, TW_NONE, x);
            tw_prefill_load(g, TW_T_f32, tw_prefill_at(g, g->buffer[2], c, 4), WIDE, TW_NONE, w);
            for (int i = 0; i < WIDE; i++) x[i] = tw_mul(b, tw_mul(b, x[i], factor), w[i]);
            tw_prefill_store(g, g->s->type, tw_prefill_at(g, to, c, es), WIDE, x);
        }
    }
}

const tw_prefill_kind tw_prefill_norm = {
    "prefill_norm", build_norm, row_each, {{"step", false}, {"x", false}, {"weight", false}, {"y", true}}};

/* ---- gate: step, y, h. Columns are those of h. */

static void build_gate(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const int64_t columns = g->s->columns;
    const int es = tw_prefill_bytes(g->s->type);
    TW_IF (b, tw_lt(b, g->block, tw_prefill_step(g, g->buffer[0], TW_STEP_COUNT))) {
        tw_val from = tw_prefill_at(g, g->buffer[1], g->block, columns * 8);
        tw_val to = tw_prefill_at(g, g->buffer[2], g->block, columns * es);
        TW_LOOP (b, c, columns_of(g)) {
            tw_val gate[WIDE], up[WIDE];
            tw_val unit = tw_mul_imm(b, tw_div(b, c, TW_MEGA_ROWS), 2 * TW_MEGA_ROWS);
            tw_val at = tw_prefill_at(g, from, tw_add(b, unit, tw_rem(b, c, TW_MEGA_ROWS)), 4);
            tw_prefill_load(g, TW_T_f32, at, WIDE, TW_NONE, gate);
            tw_prefill_load(g, TW_T_f32, tw_add_imm(b, at, 4 * TW_MEGA_ROWS), WIDE, TW_NONE, up);
            for (int i = 0; i < WIDE; i++) up[i] = tw_mul(b, tw_part_silu(b, gate[i]), up[i]);
            tw_prefill_store(g, g->s->type, tw_prefill_at(g, to, c, es), WIDE, up);
        }
    }
}

const tw_prefill_kind tw_prefill_gate = {
    "prefill_gate", build_gate, row_each, {{"step", false}, {"y", false}, {"h", true}}};
