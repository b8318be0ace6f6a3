/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/reduce.h"

#include "kernels/rows/generate.h"

tw_val tw_rows_combine(tw_builder *b, tw_rows_reduction by, tw_val x, tw_val y) {
    return by == TW_ROWS_by_sum   ? tw_add(b, x, y)
           : by == TW_ROWS_by_max ? tw_max(b, x, y)
           : by == TW_ROWS_by_min ? tw_min(b, x, y)
                                  : tw_mul(b, x, y);
}

static tw_val across_warp(tw_builder *b, tw_rows_reduction by, tw_val x) {
    return by == TW_ROWS_by_sum   ? tw_part_warp_sum(b, x, 1, 32)
           : by == TW_ROWS_by_max ? tw_part_warp_max(b, x, 1, 32)
           : by == TW_ROWS_by_min ? tw_part_warp_min(b, x, 1, 32)
                                  : tw_part_warp_product(b, x, 1, 32);
}

tw_val tw_rows_reduce(tw_rows_gen *g, tw_val x, tw_rows_reduction by) {
    tw_builder *b = g->b;
    const int warps = g->s->c.warps;
    const tw_type type = tw_value_type(b->kernel, x);
    const int es = type == TW_T_f64 ? 8 : 4, each = tw_rows_each(g->s);
    x = across_warp(b, by, x);
    if (warps == 1) return x;
    /* Each reduction has room of its own, so that no warp writes what another has yet to read. */
    const int room = g->reductions++ * g->s->c.rows * warps * each;
    tw_val row = tw_add(b, g->shared, tw_mul_imm(b, g->slot, warps * each)), warp = tw_shr(b, g->lane, 5);
    const tw_attrs to = {.type = type, .space = TW_SPACE_shared, .offset = room};
    tw_val cell = tw_add(b, row, tw_mul_imm(b, warp, es));
    tw_val first = tw_eq(b, tw_and(b, g->lane, tw_i32(b, 31)), tw_i32(b, 0));
    tw_when(b, first);
    tw_st(b, to, cell, &x);
    tw_do(b, TW_OP_barrier, (tw_attrs){0}, TW_NONE, TW_NONE);
    const int most = 16 / es, vec = warps < most ? warps : most;
    tw_val all = TW_NONE;
    for (int w = 0; w < warps; w += vec) {
        tw_val parts[4] = {0};
        tw_attrs from = {.type = type, .vec = vec, .space = TW_SPACE_shared, .offset = room + es * w};
        tw_ld_vec(b, from, row, parts);
        for (int i = 0; i < vec; i++) all = w + i ? tw_rows_combine(b, by, all, parts[i]) : parts[i];
    }
    return all;
}
