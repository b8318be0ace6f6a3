/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of A by number. Tensor copies fetch rows that follow one another, so that all threads of the producer's
   warpgroup copy A's tile instead, 16 bytes at a time, to where a tensor copy would have put them. Several stages are
   on their way at a time: a stage is full a few stages after its copies were issued. */
#include "kernels/gemm/generate.h"

enum {
    PIECE = 16,      /* Bytes of a copy. */
    PIECES = 8,      /* Copies of a line. */
    LINES = 128 / 8, /* Lines that the warpgroup copies at once. */
    MOST_AHEAD = 6   /* Stages that are on their way at most. */
};

/* Returns the stages whose copies are on their way. A stage is given back when the next one is multiplied, so that the
   ring's last two stages must not wait for one another. */
static int ahead_of(const tw_gemm_config *c) {
    const int most = c->stages - 2;
    return most < MOST_AHEAD ? most : MOST_AHEAD;
}

tw_gemm_gather tw_gemm_gather_begin(tw_gemm_gen *g, const tw_ring *ring, const tw_ring_cursor *c, int first) {
    tw_builder *b = g->b;
    return (tw_gemm_gather){.ring = ring,
                            .filled = c,
                            .landed = tw_ring_begin(b, ring, 0),
                            .ahead = tw_var_of(b, tw_i32(b, 0)),
                            .thread = tw_add_imm(b, g->tid, -first)};
}

/* Waits until at most `pending` stages are on their way, and arrives at the `full` of the oldest one for the warp.
   Tensor cores read it by another proxy. */
static void land(tw_gemm_gen *g, const tw_gemm_gather *x, int pending) {
    tw_builder *b = g->b;
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = pending}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_val full = tw_ring_full(b, x->ring, &x->landed);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, full, TW_NONE);
    tw_ring_advance(b, x->ring, &x->landed);
}

/* Loads the numbers of A's rows whose lines the thread copies. A line behind the group's end gets a number below 0. */
static void load_rows(tw_gemm_gen *g, const tw_gemm_operand *o, tw_val line, int n, tw_val *rows) {
    tw_builder *b = g->b;
    for (int i = 0; i < n; i++) {
        tw_val row = tw_add(b, o->origin, tw_add_imm(b, line, (int64_t)i * LINES)), inside = tw_lt(b, row, o->limit);
        tw_val at = tw_add(b, g->arg.rows, tw_mul_imm(b, tw_widen(b, row), 4));
        tw_when(b, inside);
        tw_val number = tw_ld(b, (tw_attrs){.type = TW_T_i32}, at);
        inside = tw_and(b, inside, tw_binary(b, TW_OP_lt_u32, number, g->arg.rows_a));
        rows[i] = tw_select(b, inside, number, tw_i32(b, -1));
    }
}

/* Lands a stage of a tile that has only one, if more than TW_GEMM_TOLD are on their way. The next tile is told when an
   earlier one has been multiplied, and TW_GEMM_TOLD tiles lie between the two. Nothing else lands the earlier one's
   stage before. */
static void land_tile(tw_gemm_gen *g, const tw_gemm_gather *x) {
    tw_builder *b = g->b;
    _Static_assert((int)MOST_AHEAD <= 2 * (int)TW_GEMM_TOLD, "tiles of two stages have landed");
    if (ahead_of(g->c) <= TW_GEMM_TOLD) return;
    tw_val many = tw_lt(b, tw_i32(b, TW_GEMM_TOLD), x->ahead);
    TW_IF (b, tw_and(b, tw_eq(b, g->stages, tw_i32(b, 1)), many)) {
        land(g, x, TW_GEMM_TOLD);
        tw_add_to(b, x->ahead, tw_i32(b, -1));
    }
}

void tw_gemm_gather_tile(tw_gemm_gen *g, const tw_gemm_gather *x, tw_val copies) {
    tw_builder *b = g->b;
    const bool is_x = !g->c->swap;
    const tw_gemm_operand *o = is_x ? &g->x : &g->y;
    const tw_tile *t = is_x ? &g->plan.tile_x : &g->plan.tile_y;
    const int n = (t->extent + LINES - 1) / LINES, box = t->lines * PIECE * PIECES, ahead = ahead_of(g->c);
    const int others = is_x ? g->plan.y.bytes : g->plan.x.bytes, from_stage = is_x ? 0 : g->plan.x.bytes;
    tw_val line = tw_div(b, x->thread, PIECES), piece = tw_rem(b, x->thread, PIECES), zero = tw_i32(b, 0), rows[LINES];
    load_rows(g, o, line, n, rows);
    tw_val swizzled = tw_xor(b, piece, tw_rem(b, line, PIECES));
    tw_val place = tw_add(b, tw_mul_imm(b, line, PIECE * PIECES), tw_mul_imm(b, swizzled, PIECE));
    tw_val base = is_x ? g->arg.x : g->arg.y, ld = tw_unary(b, TW_OP_trunc_i32_i64, o->ld);
    tw_val k = tw_var_of(b, zero);
    TW_FOR (b, i, zero, g->stages, tw_i32(b, 1), false) {
        tw_val full = tw_ring_fill(b, x->ring, x->filled, TW_NONE), to = tw_ring_data(b, x->ring, x->filled, TW_NONE);
        TW_IF (b, copies) {
            tw_do(b, TW_OP_mbarrier_expect, (tw_attrs){0}, full, tw_i32(b, others));
            g->frame->fetch(g, !is_x, is_x ? tw_add_imm(b, to, g->plan.x.bytes) : to, TW_NONE, k, full);
        }
        to = tw_add(b, to, tw_add_imm(b, place, from_stage));
        for (int j = 0; j < t->boxes; j++) {
            tw_val element = tw_add(b, k, tw_add_imm(b, tw_mul_imm(b, piece, PIECE / t->es), (int64_t)j * t->width));
            tw_val column = tw_add(b, base, tw_mul_imm(b, tw_widen(b, element), t->es));
            for (int r = 0; r < n; r++) {
                tw_val some = tw_le(b, zero, rows[r]);
                if (!g->v->whole_k) some = tw_and(b, some, tw_lt(b, element, g->arg.k));
                tw_val from = tw_op_emit(b, TW_OP_mad_wide_s32, tw_max(b, rows[r], zero), ld, column);
                const tw_attrs at = {
                    .bytes = PIECE, .offset = j * box + r * LINES * PIECE * PIECES, .cache = TW_CACHE_cg};
                tw_val bytes = tw_select(b, some, tw_i32(b, PIECE), zero);
                const bool partial = (r + 1) * LINES > t->extent;
                tw_val exists = partial ? tw_lt(b, line, tw_i32(b, t->extent - r * LINES)) : TW_NONE;
                if (partial) tw_when(b, exists);
                tw_cp_async(b, at, to, from, bytes);
            }
        }
        tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
        TW_IF (b, tw_lt(b, x->ahead, tw_i32(b, ahead))) {
            tw_add_to(b, x->ahead, tw_i32(b, 1));
        } else {
            land(g, x, ahead);
        }
        tw_add_to(b, k, tw_i32(b, g->c->u));
        tw_ring_advance(b, x->ring, x->filled);
    }
    land_tile(g, x);
}

void tw_gemm_gather_end(tw_gemm_gen *g, const tw_gemm_gather *x) {
    tw_builder *b = g->b;
    TW_FOR (b, i, tw_i32(b, 0), x->ahead, tw_i32(b, 1), false) land(g, x, 0);
}
