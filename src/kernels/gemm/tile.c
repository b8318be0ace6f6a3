/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the tile of the result that a block computes. */
#include "kernels/gemm/generate.h"

tw_scheduler tw_gemm_scheduler(const tw_gemm_gen *g) {
    return (tw_scheduler){.rows = g->arg.tiles_m, .columns = g->arg.tiles_n, .band = g->c->group};
}

void tw_gemm_find_tile(tw_gemm_gen *g, tw_val number) {
    tw_builder *b = g->b;
    const bool cluster = g->c->kg > 1 && g->c->split == TW_GEMM_SPLIT_CLUSTER;
    const tw_scheduler order = tw_gemm_scheduler(g);
    tw_val t = cluster ? tw_div(b, number, g->c->kg) : number;
    const tw_scheduler_tile at = tw_scheduler_find(b, &order, t);
    g->x.origin = tw_mul_imm(b, at.row, g->c->ml);
    g->y.origin = tw_mul_imm(b, at.column, g->c->nl);
    g->tile = t;
    g->split = g->c->kg == 1 ? tw_i32(b, 0) : tw_sreg(b, cluster ? TW_SREG_cluster_rank : TW_SREG_ctaid_z);
    if (g->v->batched) {
        g->batch = tw_sreg(b, TW_SREG_ctaid_y);
        g->tile = tw_fma(b, g->batch, tw_mul(b, g->arg.tiles_m, g->arg.tiles_n), t);
    }
}
