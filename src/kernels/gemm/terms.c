/* SPDX-License-Identifier: Apache-2.0 */
/* tf32x3 on warpgroups. An element is the sum of two terms, high + low, which tensor cores read as tf32. Those of X go
   through registers: a thread loads its elements of a stage and splits them. Y's high term is the element itself, whose
   lower bits tensor cores ignore. Its low term is written by the warps that split, behind the stage's elements, in the
   same order. A third mbarrier of the stage says that it is there. */
#include "kernels/gemm/terms.h"

#include "kernels/parts/tile.h"

enum {
    STEP = 8, /* Elements along k of a wgmma. */
    STEPS = TW_GEMM_TERMS_U / STEP,
    REGISTERS = 4,              /* Registers of its A. */
    LINE = 4 * TW_GEMM_TERMS_U, /* Bytes of a line of a tile. */
    PIECE = 16,                 /* Bytes that a line's swizzle moves together. */
    WORDS = PIECE / 4,
    TOGETHER = 4,    /* Pieces that a thread loads before it stores them. */
    UNUSED = 0x1fff, /* Bits of an f32 that a tf32 lacks. */
    HALF = 0x1000,   /* Half of the last bit that a tf32 has. */
    LANES = 32,
    MBARRIER = 8
};

int tw_gemm_terms_mbarriers(const tw_gemm_config *c) {
    return MBARRIER * c->stages;
}

static tw_val term_mbarrier(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    return tw_add_imm(g->b, tw_ring_full(g->b, ring, c), ring->empty + MBARRIER * ring->stages - ring->full);
}

void tw_gemm_terms_init(tw_gemm_gen *g, const tw_ring *ring) {
    tw_builder *b = g->b;
    for (int s = 0; s < ring->stages; s++) {
        tw_val at = tw_add_imm(b, ring->barriers, ring->empty + MBARRIER * (ring->stages + s));
        tw_do(b, TW_OP_mbarrier_init, (tw_attrs){0}, at, tw_i32(b, TW_GEMM_TERMS_WARPS));
    }
}

void tw_gemm_terms_declare(tw_gemm_gen *g) {
    for (int i = 0; i < STEPS * REGISTERS; i++)
        for (int term = 0; term < 2; term++) g->terms[term][i] = tw_var_of(g->b, tw_i32(g->b, 0));
}

/* -- the warps that split */

/* Returns the low term, rounded so that the bits which tensor cores ignore do not matter. */
static tw_val low_term(tw_builder *b, tw_val x) {
    tw_val high = tw_and(b, x, tw_i32(b, ~UNUSED));
    tw_val low = tw_sub(b, tw_bitcast(b, TW_T_f32, x), tw_bitcast(b, TW_T_f32, high));
    return tw_add_imm(b, tw_bitcast(b, TW_T_i32, low), HALF);
}

void tw_gemm_terms_split(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    enum { THREADS = TW_GEMM_TERMS_WARPS * LANES };
    const int bytes = g->plan.y.bytes, pieces = bytes / PIECE, first = g->plan.threads - THREADS;
    const tw_attrs at = {.type = TW_T_i32, .vec = WORDS, .space = TW_SPACE_shared};
    tw_val thread = tw_add_imm(b, g->tid, -first);
    tw_val from = tw_add_imm(b, tw_ring_data(b, ring, c, TW_NONE), g->plan.x.bytes);
    from = tw_add(b, from, tw_mul_imm(b, thread, PIECE));
    for (int i = 0; i * THREADS < pieces; i += TOGETHER) {
        tw_val x[TOGETHER][WORDS] = {{TW_NONE}}, there[TOGETHER];
        int n = 0;
        for (; n < TOGETHER && (i + n) * THREADS < pieces; n++) {
            tw_attrs here = at;
            here.offset = (i + n) * THREADS * PIECE;
            there[n] =
                (i + n + 1) * THREADS > pieces ? tw_lt(b, thread, tw_i32(b, pieces - (i + n) * THREADS)) : TW_NONE;
            for (int w = 0; w < WORDS && there[n].id; w++) x[n][w] = tw_var_of(b, tw_i32(b, 0));
            if (there[n].id) tw_when(b, there[n]);
            tw_ld_vec(b, here, from, x[n]);
        }
        for (int j = 0; j < n; j++) {
            tw_attrs here = at;
            here.offset = (i + j) * THREADS * PIECE + bytes;
            for (int w = 0; w < WORDS; w++) x[j][w] = low_term(b, x[j][w]);
            if (there[j].id) tw_when(b, there[j]);
            tw_st(b, here, from, x[j]);
        }
    }
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_val there = term_mbarrier(g, ring, c);
    tw_when(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, there, TW_NONE);
}

/* -- the warpgroups that multiply */

/* Loads the thread's elements of X as wgmma_rs has them (ir/ops.def), and splits them. The high term is rounded, so
   that low ones are positive and negative alike, and what is left out, low times low, has no bias. */
static void load(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    tw_val row = tw_mul_imm(b, g->x.first, LINE), swizzle = tw_mul_imm(b, tw_shr(b, g->lane, 2), PIECE);
    tw_val at = tw_add(b, tw_add(b, row, swizzle), tw_mul_imm(b, tw_rem(b, g->lane, 4), 4));
    at = tw_add(b, tw_add(b, g->shared, at), stage);
    for (int piece = 0; piece < LINE / PIECE; piece++) {
        tw_val address = tw_xor(b, at, tw_i32(b, piece * PIECE));
        for (int eighth = 0; eighth < 2; eighth++) {
            const tw_attrs here = {.type = TW_T_i32, .space = TW_SPACE_shared, .offset = eighth * 8 * LINE};
            tw_val x = tw_ld(b, here, address);
            tw_val high = tw_and(b, tw_add_imm(b, x, HALF), tw_i32(b, ~UNUSED));
            tw_val low = tw_sub(b, tw_bitcast(b, TW_T_f32, x), tw_bitcast(b, TW_T_f32, high));
            tw_assign(b, g->terms[0][piece * 2 + eighth], high);
            tw_assign(b, g->terms[1][piece * 2 + eighth], tw_bitcast(b, TW_T_i32, low));
        }
    }
}

void tw_gemm_terms_multiply(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, tw_val y_at) {
    tw_builder *b = g->b;
    const tw_tile *y = &g->plan.tile_y;
    const tw_attrs at = {.wgmma = TW_WGMMA_tf32, .columns = y->extent};
    tw_val yes = tw_const(b, TW_T_pred, 1), low_at = tw_add_imm(b, y_at, g->plan.y.bytes / 16);
    load(g, c->stage);
    tw_ring_wait(b, ring, term_mbarrier(g, ring, c), c);
    tw_tile_begin(b);
    for (int k = 0; k < STEPS; k++) {
        const tw_val *high = g->terms[0] + (ptrdiff_t)k * REGISTERS, *low = g->terms[1] + (ptrdiff_t)k * REGISTERS;
        tw_val y_high = tw_tile_at(b, y, y_at, 0, k * STEP), y_low = tw_tile_at(b, y, low_at, 0, k * STEP);
        tw_wgmma_rs(b, at, g->acc[1], low, y_high, k ? yes : tw_not(b, yes));
        tw_wgmma_rs(b, at, g->acc[1], high, y_low, yes);
        tw_wgmma_rs(b, at, g->acc[1], high, y_high, yes);
    }
    tw_do(b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_tile_wait(b, 0);
    /* One lane returns the stage for its warp, whose other lanes have loaded from it. */
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
}
