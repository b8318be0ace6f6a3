/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares of C's rows, and for layer norms of cells, as a norm of the next layer needs them. With operands as
   they are, the four lanes that have the columns of a row in a tile add up what they store. With swapped operands the
   eight lanes do that have those of a warp, and the sums of warps meet in shared memory. A sum is stored by one thread,
   so that it is the same in every launch. Cells outside of C add nothing: they are zero, except with a tape, whose last
   unit stands for those that it does not have.
 */
#include "kernels/gemm/epilogue.h"

/* Returns the index of a row among a thread's rows, of which there are two in every 64. */
static int number_of(int row) {
    return row / TW_WGMMA_ROWS * 2 + row % TW_WGMMA_ROWS / 8;
}

static int rows_of(const tw_gemm_gen *g) {
    return g->c->ms / TW_WGMMA_ROWS * 2;
}

void tw_gemm_squares_begin(tw_gemm_gen *g) {
    g->n_squares = 0;
    if (!g->v->epilogue.squares || g->c->swap) return;
    for (int i = 0; i < rows_of(g); i++) {
        g->squares[i] = tw_var_of(g->b, tw_f32(g->b, 0));
        if (g->v->epilogue.means) g->means[i] = tw_var_of(g->b, tw_f32(g->b, 0));
    }
}

/* Adds a square to the sum of the cell's row. */
static void add_swapped(tw_gemm_gen *g, int cell, tw_val x) {
    tw_builder *b = g->b;
    int i = 0;
    while (i < g->n_squares && g->line_of_square[i] != g->y.of[cell]) i++;
    g->squares[i] = i < g->n_squares ? tw_fma(b, x, x, g->squares[i]) : tw_mul(b, x, x);
    if (i < g->n_squares) return;
    g->line_of_square[i] = g->y.of[cell];
    g->n_squares++;
}

void tw_gemm_squares_add(tw_gemm_gen *g, int cell, tw_val x) {
    tw_builder *b = g->b;
    const tw_gemm_operand *along = g->c->swap ? &g->x : &g->y;
    if (g->v->tape.warps && !along->whole) {
        tw_val column = tw_add_imm(b, tw_add(b, along->origin, along->first), along->of[cell]);
        x = tw_select(b, tw_lt(b, column, along->limit), x, tw_f32(b, 0));
    }
    if (g->c->swap) {
        add_swapped(g, cell, x);
        return;
    }
    const int row = number_of(g->x.of[cell]);
    tw_assign(b, g->squares[row], tw_fma(b, x, x, g->squares[row]));
    if (g->v->epilogue.means) tw_add_to(b, g->means[row], x);
}

/* Adds up a number of the lanes whose numbers differ in bits from `from` to below `below`. */
static tw_val add_lanes(tw_builder *b, tw_val sum, int from, int below) {
    for (int by = from; by < below; by *= 2)
        sum = tw_add(b, sum, tw_shfl(b, TW_MODE_bfly, sum, tw_i32(b, by), tw_i32(b, -1)));
    return sum;
}

int tw_gemm_squares_bytes(const tw_gemm_config *c, const tw_gemm_plan *p) {
    return c->swap ? p->group / 32 * c->nl * 4 : 0;
}

/* Adds up the warps' sums of lines from `from` to below `below` of the tile, and stores them. `base` is the shared
   address of the first warp's sum of the tile's first line. */
static void store_lines(tw_gemm_gen *g, tw_val base, int from, int below) {
    tw_builder *b = g->b;
    const int lines = g->c->nl, warps = g->plan.group / 32, threads = g->plan.group;
    tw_val tile = tw_div(b, g->x.origin, g->v->epilogue.gated ? g->c->ml / 2 : g->c->ml);
    tw_val vector = tw_add(b, g->arg.squares, tw_shl(b, tw_binary(b, TW_OP_mul_wide_u32, tile, g->arg.n), 2));
    for (int first = from; first < below; first += threads) {
        tw_val line = tw_add_imm(b, g->group_tid, first), row = tw_add(b, g->y.origin, line), sum = TW_NONE;
        tw_val at = tw_add(b, base, tw_mul_imm(b, line, 4)), inside = tw_lt(b, line, tw_i32(b, below));
        if (!g->y.whole) inside = tw_and(b, inside, tw_lt(b, row, g->y.limit));
        /* A cluster may have tiles beyond the last column. */
        if (!g->x.whole) inside = tw_and(b, inside, tw_lt(b, g->x.origin, g->x.limit));
        for (int w = 0; w < warps; w++) {
            tw_when(b, inside);
            tw_val x = tw_ld(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = w * lines * 4}, at);
            sum = w ? tw_add(b, sum, x) : x;
        }
        tw_val to = tw_add(b, vector, tw_mul_imm(b, tw_widen(b, row), 4));
        tw_when(b, inside);
        tw_st(b, (tw_attrs){.type = TW_T_f32}, to, &sum);
    }
}

static void store_swapped(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    const tw_meeting meeting = tw_gemm_meeting(g);
    int from = g->c->nl, below = 0;
    tw_val base = tw_add_imm(b, tw_shared_base(b, "barriers"), g->plan.squares);
    if (g->team.id) base = tw_add(b, base, tw_mul_imm(b, g->team, tw_gemm_squares_bytes(g->c, &g->plan)));
    tw_val of_warp = tw_add(b, tw_mul_imm(b, g->warp, g->c->nl), g->y.first);
    tw_val at = tw_add(b, base, tw_mul_imm(b, of_warp, 4)), writes = tw_lt(b, g->lane, tw_i32(b, 4));
    /* The sums of the tile before have been read. */
    if (g->c->persistent) tw_part_meet(b, &meeting);
    for (int i = 0; i < g->n_squares; i++) {
        const int line = g->line_of_square[i], eight = line / 8 * 8;
        tw_val sum = add_lanes(b, g->squares[i], 4, 32);
        tw_when(b, writes);
        tw_st(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared, .offset = 4 * line}, at, &sum);
        from = eight < from ? eight : from;
        below = eight + 8 > below ? eight + 8 : below;
    }
    tw_part_meet(b, &meeting);
    store_lines(g, base, from, below);
}

void tw_gemm_squares_end(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    if (!g->v->epilogue.squares) return;
    if (g->c->swap) {
        store_swapped(g);
        return;
    }
    tw_val first = tw_add(b, g->x.origin, g->x.first), tile = tw_div(b, g->y.origin, g->columns);
    /* Of a cluster each block has the squares of its share of the tile. */
    if (tw_gemm_splits_in_cluster(g->c)) tile = tw_add(b, tw_mul_imm(b, tile, g->c->kg), g->split);
    const bool means = g->v->epilogue.means;
    const int bytes = means ? 8 : 4;
    tw_val at = tw_add(b, tw_binary(b, TW_OP_mul_wide_u32, tile, g->arg.m), tw_widen(b, first));
    at = tw_add(b, g->arg.squares, tw_mul_imm(b, at, bytes));
    tw_val stores = tw_eq(b, tw_rem(b, g->lane, 4), tw_i32(b, 0));
    /* A cluster may have tiles beyond the last column. */
    if (!g->y.whole) stores = tw_and(b, stores, tw_lt(b, g->y.origin, g->y.limit));
    for (int i = 0; i < rows_of(g); i++) {
        const int row = i / 2 * TW_WGMMA_ROWS + i % 2 * 8;
        tw_val sums[2] = {add_lanes(b, g->squares[i], 1, 4)}, inside = stores;
        if (means) sums[1] = add_lanes(b, g->means[i], 1, 4);
        if (!g->x.whole) inside = tw_and(b, inside, tw_lt(b, tw_add_imm(b, first, row), g->x.limit));
        tw_when(b, inside);
        tw_st(b, (tw_attrs){.type = TW_T_f32, .vec = bytes / 4, .offset = bytes * row}, at, sums);
    }
}
