/* SPDX-License-Identifier: Apache-2.0 */
/* Scales of blocks of e4m3. A has a scale for each row and 128 elements along k, B one for each 128 columns and as many
   elements along k. A stage has as much of k as a block, so that a thread loads a stage's scales while the stage
   arrives, and multiplies the stage's sums by them as it promotes them. */
#include "kernels/gemm/generate.h"

enum { BLOCK = TW_GEMM_BLOCK, CHUNK = 64 };

/* Returns the number of consecutive rows of X, or columns of Y, of a tile that share a scale of B. */
static int chunk_of(const tw_gemm_gen *g, bool is_x) {
    return (is_x ? g->c->ms : g->c->nl) % BLOCK ? CHUNK : BLOCK;
}

/* Loads A's scales of the rows (columns of Y) of a thread's sums. */
static void load_rows(tw_gemm_gen *g, bool is_x, tw_val block) {
    tw_builder *b = g->b;
    const tw_gemm_operand *o = is_x ? &g->x : &g->y;
    tw_gemm_side_scales *s = &g->scales[!is_x];
    tw_val first = tw_add(b, o->origin, o->first), rows = is_x ? g->arg.m : g->arg.n;
    tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, block, rows), tw_widen(b, first));
    at = tw_add(b, g->arg.scale_a, tw_mul_imm(b, at, 4));
    /* Y's columns are pairs of neighbours. */
    const int together = !is_x && o->whole ? 2 : 1;
    for (int i = 0; i < s->n; i += together) {
        if (!o->whole) tw_when(b, tw_lt(b, tw_add_imm(b, first, s->offset[i]), o->limit));
        tw_ld_vec(b, tw_gemm_scales_access(g, 4 * s->offset[i], together), at, &s->scale[i]);
    }
}

/* Loads B's scales of the chunks of a thread's sums. */
static void load_columns(tw_gemm_gen *g, bool is_x, tw_val block) {
    tw_builder *b = g->b;
    const tw_gemm_operand *o = is_x ? &g->x : &g->y;
    tw_gemm_side_scales *s = &g->scales[!is_x];
    tw_val first = o->origin, columns = is_x ? g->arg.m : g->arg.n;
    if (is_x) first = tw_add(b, first, tw_mul_imm(b, tw_shr(b, g->warp, 2), g->c->ms));
    tw_val per_row = tw_div(b, tw_add_imm(b, g->arg.k, BLOCK - 1), BLOCK);
    tw_val base = g->arg.scale_b;
    if (g->v->grouped) {
        tw_val of_group = tw_mul(b, tw_div(b, tw_add_imm(b, columns, BLOCK - 1), BLOCK), per_row);
        tw_val before = tw_binary(b, TW_OP_mul_wide_u32, g->matrix, of_group);
        base = tw_add(b, base, tw_mul_imm(b, before, 4));
    }
    for (int i = 0; i < s->n; i++) {
        tw_val column = tw_add_imm(b, first, s->offset[i]), row = tw_div(b, column, BLOCK);
        tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, row, per_row), tw_widen(b, block));
        at = tw_add(b, base, tw_mul_imm(b, at, 4));
        if (!o->whole) tw_when(b, tw_lt(b, column, o->limit));
        s->scale[i] = tw_ld(b, tw_gemm_scales_access(g, 0, 1), at);
    }
}

/* Numbers the scales of one side of the sums. */
static void number(tw_gemm_gen *g, bool is_x) {
    const tw_gemm_operand *o = is_x ? &g->x : &g->y;
    tw_gemm_side_scales *s = &g->scales[!is_x];
    const bool of_a = is_x != (bool)g->c->swap;
    s->n = 0;
    for (int i = 0; i < g->plan.accumulators; i++) {
        const int offset = of_a ? o->of[i] : o->of[i] / chunk_of(g, is_x) * chunk_of(g, is_x);
        int at = 0;
        while (at < s->n && s->offset[at] != offset) at++;
        s->scale[at] = TW_NONE;
        if (at == s->n) s->offset[s->n++] = offset;
        s->of[i] = at;
    }
}

void tw_gemm_blocks_load(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    tw_val block = tw_add(b, tw_div(b, g->k_begin, BLOCK), stage);
    for (int side = 0; side < 2; side++) {
        const bool is_x = !side, of_a = is_x != (bool)g->c->swap;
        number(g, is_x);
        (of_a ? load_rows : load_columns)(g, is_x, block);
    }
}

void tw_gemm_blocks_promote(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_gemm_side_scales *x = &g->scales[0], *y = &g->scales[1];
    tw_val both[TW_GEMM_MAX_ACC] = {{0}};
    for (int i = 0; i < g->plan.partial; i++) {
        tw_val *scale = &both[x->of[i] * y->n + y->of[i]];
        if (!scale->id) *scale = tw_mul(b, x->scale[x->of[i]], y->scale[y->of[i]]);
        tw_assign(b, g->acc[0][i], tw_fma(b, g->acc[1][i], *scale, g->acc[0][i]));
    }
}
