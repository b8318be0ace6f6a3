/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares of C's rows, of the columns of one tile, as a norm of the next layer needs them. The four lanes that
   have the columns of a row add up what they store. A row's sum is stored by one thread, so that it is the same in
   every launch. Cells outside of C add nothing: they are zero, except with a tape, whose last unit stands for those
   that it does not have. */
#include "kernels/gemm/epilogue.h"

/* Returns the index of a row among a thread's rows, of which there are two in every 64. */
static int number_of(int row) {
    return row / TW_WGMMA_ROWS * 2 + row % TW_WGMMA_ROWS / 8;
}

static int rows_of(const tw_gemm_gen *g) {
    return g->c->ms / TW_WGMMA_ROWS * 2;
}

void tw_gemm_squares_begin(tw_gemm_gen *g) {
    for (int i = 0; i < rows_of(g) && g->v->epilogue.squares; i++) g->squares[i] = tw_var_of(g->b, tw_f32(g->b, 0));
}

void tw_gemm_squares_add(tw_gemm_gen *g, int cell, tw_val x) {
    tw_builder *b = g->b;
    const tw_gemm_operand *y = &g->y;
    tw_val sum = g->squares[number_of(g->x.of[cell])];
    if (g->v->tape.warps && !y->whole) {
        tw_val column = tw_add_imm(b, tw_add(b, y->origin, y->first), y->of[cell]);
        x = tw_select(b, tw_lt(b, column, y->limit), x, tw_f32(b, 0));
    }
    tw_assign(b, sum, tw_fma(b, x, x, sum));
}

void tw_gemm_squares_end(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    if (!g->v->epilogue.squares) return;
    tw_val first = tw_add(b, g->x.origin, g->x.first), tile = tw_div(b, g->y.origin, g->columns);
    tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, tile, g->arg.m), tw_widen(b, first));
    at = tw_add(b, g->arg.squares, tw_mul_imm(b, at, 4));
    tw_val stores = tw_eq(b, tw_rem(b, g->lane, 4), tw_i32(b, 0));
    /* A cluster may have tiles beyond the last column. */
    if (!g->y.whole) stores = tw_and(b, stores, tw_lt(b, g->y.origin, g->y.limit));
    for (int i = 0; i < rows_of(g); i++) {
        const int row = i / 2 * TW_WGMMA_ROWS + i % 2 * 8;
        tw_val sum = g->squares[i], inside = stores;
        for (int by = 1; by < 4; by *= 2)
            sum = tw_add(b, sum, tw_shfl(b, TW_MODE_bfly, sum, tw_i32(b, by), tw_i32(b, -1)));
        if (!g->x.whole) inside = tw_and(b, inside, tw_lt(b, tw_add_imm(b, first, row), g->x.limit));
        tw_when(b, inside);
        tw_st(b, (tw_attrs){.type = TW_T_f32, .offset = 4 * row}, at, &sum);
    }
}
