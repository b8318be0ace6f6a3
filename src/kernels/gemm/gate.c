/* SPDX-License-Identifier: Apache-2.0 */
/* Gated products on warpgroups. B's columns are eight gates, their eight values, and so on, so that a thread has a gate
   and its value: with operands as they are in the same place of two neighbouring groups of columns, with swapped
   operands in rows that are eight apart. */
#include "kernels/gemm/epilogue.h"

enum { GROUP = 4 /* A thread's sums of eight columns: two of one row, and two of the row eight below. */ };

static tw_val product(tw_gemm_gen *g, int gate, int value) {
    tw_builder *b = g->b;
    tw_val alpha = tw_gemm_alpha(g, gate);
    tw_val x = tw_mul(b, g->acc[0][gate], alpha), y = tw_mul(b, g->acc[0][value], alpha);
    return tw_mul(b, tw_gemm_activate(b, g->v->epilogue.activation, x), y);
}

/* Sums are walked in order, so that a product takes the place of a sum that is used no more. */
static void gate_columns(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    for (int i = 0, n = 0; i < g->plan.accumulators; i += 2 * GROUP)
        for (int r = 0; r < GROUP; r++, n++) {
            tw_val x = product(g, i + r, i + GROUP + r);
            tw_assign(b, g->acc[0][n], x);
            g->x.of[n] = g->x.of[i + r];
            g->y.of[n] = g->y.of[i + r] / 2 / 8 * 8 + g->y.of[i + r] % 8;
        }
    g->y.origin = tw_shr(b, g->y.origin, 1);
    g->y.limit = tw_shr(b, g->y.limit, 1);
}

static void gate_rows(tw_gemm_gen *g) {
    tw_builder *b = g->b;
    for (int i = 0, n = 0; i < g->plan.accumulators; i += GROUP)
        for (int r = 0; r < GROUP / 2; r++, n++) {
            tw_val x = product(g, i + r, i + GROUP / 2 + r);
            tw_assign(b, g->acc[0][n], x);
            g->x.of[n] = g->x.of[i + r] / 2;
            g->y.of[n] = g->y.of[i + r];
        }
    /* Of 16 rows a warp keeps eight, of which each has four lanes. */
    tw_val row = tw_shr(b, g->lane, 2), others = tw_sub(b, g->x.first, row);
    g->x.first = tw_add(b, tw_shr(b, others, 1), row);
    g->x.origin = tw_shr(b, g->x.origin, 1);
    g->x.limit = tw_shr(b, g->x.limit, 1);
}

void tw_gemm_gate(tw_gemm_gen *g) {
    if (g->c->swap)
        gate_rows(g);
    else
        gate_columns(g);
}
