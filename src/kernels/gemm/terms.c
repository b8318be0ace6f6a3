/* SPDX-License-Identifier: Apache-2.0 */
/* tf32x3 on warpgroups. An element is the sum of two terms, high + low, which tensor cores read as tf32. Those of X go
   through registers: a thread loads its elements of a stage and splits them. Y's terms are tiles of shared memory,
   whose lines lie along k. The high term is the element itself, whose lower bits tensor cores ignore; it has a tile of
   its own where Y's lines lie along columns. A third mbarrier of the stage says that the terms are there. */
#include "kernels/gemm/terms.h"

#include "kernels/parts/convert.h"
#include "kernels/parts/tile.h"

enum {
    STEP = 8, /* Elements along k of a wgmma. */
    STEPS = TW_GEMM_TERMS_U / STEP,
    REGISTERS = 4,              /* Registers of its A. */
    LINE = 4 * TW_GEMM_TERMS_U, /* Bytes of a line of a tile. */
    PIECE = 16,                 /* Bytes that a line's swizzle moves together. */
    WORDS = PIECE / 4,
    PIECES = LINE / PIECE,
    TOGETHER = 4,    /* Pieces that a thread loads before it stores them. */
    UNUSED = 0x1fff, /* Bits of an f32 that a tf32 lacks. */
    HALF = 0x1000,   /* Half of the last bit that a tf32 has. */
    LANES = 32,
    WARPS = TW_GEMM_TERMS_WARPS,
    MBARRIER = TW_RING_MBARRIER
};

const char *tw_gemm_terms_plan(const tw_gemm_variant *v, const tw_gemm_config *c, tw_gemm_plan *p) {
    REFUSE(c->ms != TW_WGMMA_ROWS || c->u != TW_GEMM_TERMS_U, "tf32x3 on warpgroups has ms=64 and u=32");
    REFUSE(!v->b_k_major && c->nl <= LINE / 8, "a tile that is transposed has more than 16 columns");
    p->splitters = WARPS;
    p->partial = p->accumulators;
    p->terms = tw_tile_of(true, 4, c->nl, c->u);
    const int bytes = tw_tile_bytes(&p->terms);
    p->high = v->b_k_major ? p->x.bytes : p->x.bytes + p->y.bytes;
    p->low = p->high + bytes;
    p->stage_bytes = p->low + bytes;
    p->mbarrier_bytes += MBARRIER * c->stages;
    REFUSE(bytes % TW_TILE_ALIGN, "tiles do not end where the swizzle begins anew");
    return NULL;
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

/* Writes the low terms of a tile whose lines lie along k, in the order of its elements. */
static void split_lines(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    enum { THREADS = WARPS * LANES };
    const int bytes = g->plan.y.bytes, pieces = bytes / PIECE;
    const tw_attrs at = {.type = TW_T_i32, .vec = WORDS, .space = TW_SPACE_shared};
    tw_val thread = tw_add_imm(b, g->tid, THREADS - g->plan.threads);
    tw_val from = tw_add_imm(b, tw_add(b, stage, tw_mul_imm(b, thread, PIECE)), g->plan.high);
    for (int i = 0; i * THREADS < pieces; i += TOGETHER) {
        tw_val x[TOGETHER][WORDS] = {{TW_NONE}}, there[TOGETHER];
        int n = 0;
        for (; n < TOGETHER && (i + n) * THREADS < pieces; n++) {
            const int rest = pieces - (i + n) * THREADS;
            tw_attrs here = at;
            here.offset = (i + n) * THREADS * PIECE;
            there[n] = rest < THREADS ? tw_lt(b, thread, tw_i32(b, rest)) : TW_NONE;
            for (int w = 0; w < WORDS && there[n].id; w++) x[n][w] = tw_var_of(b, tw_i32(b, 0));
            if (there[n].id) tw_when(b, there[n]);
            tw_ld_vec(b, here, from, x[n]);
        }
        for (int j = 0; j < n; j++) {
            tw_attrs here = at;
            here.offset = (i + j) * THREADS * PIECE + g->plan.low - g->plan.high;
            for (int w = 0; w < WORDS; w++) x[j][w] = low_term(b, x[j][w]);
            if (there[j].id) tw_when(b, there[j]);
            tw_st(b, here, from, x[j]);
        }
    }
}

/* Writes both terms of a tile whose lines lie along columns. A lane has an element along k, and a warp takes pieces of
   four columns. Its lanes write a whole line for each, so that their stores have no bank conflicts. */
static void transpose(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    const int pieces = g->c->nl / WORDS;
    const tw_attrs at = {.type = TW_T_i32, .vec = WORDS, .space = TW_SPACE_shared};
    tw_val warp = tw_add_imm(b, tw_sreg(b, TW_SREG_warpid), WARPS - g->plan.threads / LANES), k = g->lane;
    tw_val from = tw_add_imm(b, tw_add(b, stage, tw_mul_imm(b, k, LINE)), g->plan.x.bytes);
    tw_val to = tw_add(b, tw_mul_imm(b, tw_shr(b, k, 2), PIECE), tw_mul_imm(b, tw_rem(b, k, WORDS), 4));
    to = tw_add_imm(b, tw_add(b, stage, to), g->plan.high);
    TW_FOR (b, piece, warp, tw_i32(b, pieces), tw_i32(b, WARPS), false) {
        tw_val box = tw_mul_imm(b, tw_shr(b, piece, 3), TW_GEMM_TERMS_U * LINE), x[WORDS] = {TW_NONE};
        tw_val in_line = tw_xor(b, tw_rem(b, piece, PIECES), tw_rem(b, k, PIECES));
        tw_ld_vec(b, at, tw_add(b, tw_add(b, from, box), tw_mul_imm(b, in_line, PIECE)), x);
        tw_val first = tw_add(b, to, tw_mul_imm(b, piece, WORDS * LINE));
        first = tw_xor(b, first, tw_mul_imm(b, tw_rem(b, piece, 2), WORDS * PIECE));
        for (int i = 0; i < WORDS; i++) {
            tw_attrs here = {.type = TW_T_i32, .space = TW_SPACE_shared, .offset = i * LINE};
            tw_val line = tw_xor(b, first, tw_i32(b, i * PIECE)), low = low_term(b, x[i]);
            tw_st(b, here, line, &x[i]);
            here.offset += g->plan.low - g->plan.high;
            tw_st(b, here, line, &low);
        }
    }
}

void tw_gemm_terms_split(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    tw_val stage = tw_ring_data(b, ring, c, TW_NONE);
    (g->v->b_k_major ? split_lines : transpose)(g, stage);
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_val there = term_mbarrier(g, ring, c);
    tw_when(b, tw_eq(b, g->lane, tw_i32(b, 0)));
    tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, there, TW_NONE);
}

/* -- the warpgroups that multiply */

/* Splits an element of X into variables. The high term is rounded, so that low ones are positive and negative alike,
   and what is left out, low times low, has no bias. */
static void split_element(tw_gemm_gen *g, tw_val x, int number) {
    tw_val high, low;
    tw_part_split_tf32(g->b, x, &high, &low);
    tw_assign(g->b, g->terms[0][number], high);
    tw_assign(g->b, g->terms[1][number], tw_bitcast(g->b, TW_T_i32, low));
}

/* Loads the thread's elements of X as wgmma_rs has them (ir/ops.def), from lines along k. */
static void load_lines(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    tw_val row = tw_mul_imm(b, g->x.first, LINE), swizzle = tw_mul_imm(b, tw_shr(b, g->lane, 2), PIECE);
    tw_val at = tw_add(b, tw_add(b, row, swizzle), tw_mul_imm(b, tw_rem(b, g->lane, 4), 4));
    at = tw_add(b, at, stage);
    for (int piece = 0; piece < PIECES; piece++) {
        tw_val address = tw_xor(b, at, tw_i32(b, piece * PIECE));
        for (int below = 0; below < 2; below++) {
            const tw_attrs here = {.type = TW_T_i32, .space = TW_SPACE_shared, .offset = below * 8 * LINE};
            split_element(g, tw_ld(b, here, address), piece * 2 + below);
        }
    }
}

/* Loads the thread's elements of X from lines along rows, of 32 rows each. A row's eighth successor is two pieces
   further. An element's fourth successor along k is four lines further, with another swizzle. */
static void load_across(tw_gemm_gen *g, tw_val stage) {
    tw_builder *b = g->b;
    const int box = TW_GEMM_TERMS_U * LINE;
    tw_val row = tw_rem(b, g->x.first, 32), k = tw_rem(b, g->lane, 4);
    tw_val piece = tw_xor(b, tw_shr(b, row, 2), k);
    tw_val at = tw_add(b, tw_mul_imm(b, tw_shr(b, g->x.first, 5), box), tw_mul_imm(b, k, LINE));
    at = tw_add(b, at, tw_add(b, tw_mul_imm(b, piece, PIECE), tw_mul_imm(b, tw_rem(b, row, WORDS), 4)));
    at = tw_add(b, at, stage);
    for (int below = 0; below < 2; below++)
        for (int half = 0; half < 2; half++) {
            tw_val address = tw_xor(b, at, tw_i32(b, (below * 2 + half * 4) * PIECE));
            for (int step = 0; step < STEPS; step++) {
                const int lines = step * STEP + half * 4;
                const tw_attrs here = {.type = TW_T_i32, .space = TW_SPACE_shared, .offset = lines * LINE};
                split_element(g, tw_ld(b, here, address), step * REGISTERS + half * 2 + below);
            }
        }
}

void tw_gemm_terms_multiply(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    const tw_tile *y = &g->plan.terms;
    const tw_attrs at = {.wgmma = TW_WGMMA_tf32, .columns = y->extent};
    tw_val yes = tw_const(b, TW_T_pred, 1), stage = tw_ring_data(b, ring, c, TW_NONE);
    tw_val high_at = tw_tile_descriptor(b, y, tw_add_imm(b, stage, g->plan.high));
    tw_val low_at = tw_tile_descriptor(b, y, tw_add_imm(b, stage, g->plan.low));
    (g->v->a_k_major ? load_lines : load_across)(g, stage);
    tw_ring_wait(b, ring, term_mbarrier(g, ring, c), c);
    tw_tile_begin(b);
    for (int k = 0; k < STEPS; k++) {
        const tw_val *high = g->terms[0] + (ptrdiff_t)k * REGISTERS, *low = g->terms[1] + (ptrdiff_t)k * REGISTERS;
        tw_val y_high = tw_tile_at(b, y, high_at, 0, k * STEP), y_low = tw_tile_at(b, y, low_at, 0, k * STEP);
        tw_wgmma_rs(b, at, g->acc[1], low, y_high, k ? yes : tw_not(b, yes));
        tw_wgmma_rs(b, at, g->acc[1], high, y_low, yes);
        tw_wgmma_rs(b, at, g->acc[1], high, y_high, yes);
    }
    tw_do(b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_tile_wait(b, 0);
    /* One lane returns the stage for its warp, whose other lanes have loaded from it. */
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
}
