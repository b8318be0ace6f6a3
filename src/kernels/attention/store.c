/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a tile: sums of values become means. Each warp leaves its 16 rows in boxes as wide as those of
   queries, and the copy engine stores the boxes. */
#include "kernels/attention/generate.h"
#include "kernels/parts/convert.h"
#include "kernels/parts/fragment.h"
#include "kernels/parts/meet.h"
#include "kernels/parts/reduce.h"
#include "kernels/parts/softmax.h"

#include <math.h>

enum {
    ROWS = TW_ATTENTION_STRIP,
    MATRIX = 8 /* Rows of a stmatrix. */,
    PIECE = 16 /* Bytes that lie together. */
};

/* The rows of sequences follow one another if only the device knows them. */
tw_tensor_map tw_attention_out_map(const tw_attention_problem *p, const tw_attention_plan *plan, uint64_t address) {
    const int width = plan->q.width, pack = plan->pack, across = pack < ROWS ? pack : ROWS;
    if (pack > 1)
        return (tw_tensor_map){.address = address,
                               .element = TW_TENSOR_U16,
                               .dims = 5,
                               .extent = {p->head, pack, p->queries, p->kv_heads, p->ragged ? 1 : p->batch},
                               .stride = {0, p->head * 2, p->ldo * 2, pack * p->head * 2, p->queries * p->ldo * 2},
                               .box = {width, across, ROWS / across, 1, 1},
                               .swizzle = width * 2};
    return (tw_tensor_map){.address = address,
                           .element = TW_TENSOR_U16,
                           .dims = 4,
                           .extent = {p->head, p->queries, p->heads, p->ragged ? 1 : p->batch},
                           .stride = {0, p->ldo * 2, p->head * 2, p->queries * p->ldo * 2},
                           .box = {width, ROWS, 1, 1},
                           .swizzle = width * 2};
}

tw_attention_row tw_attention_row_of(const tw_attention_gen *g, const tw_attention_tile *t, tw_val row) {
    tw_builder *b = g->b;
    const int pack = g->plan.pack;
    if (pack == 1) return (tw_attention_row){tw_add(b, t->row, row), t->head};
    return (tw_attention_row){tw_add(b, t->row, tw_div(b, row, pack)),
                              tw_add(b, tw_mul_imm(b, t->head, pack), tw_rem(b, row, pack))};
}

/* Computes the factor of each row's sums, and stores the logarithms of the sums of exponents. */
static void finish_sums(tw_attention_gen *g, const tw_attention_tile *t, tw_val factor[2]) {
    tw_builder *b = g->b;
    tw_val zero = tw_f32(b, 0), none = tw_f32(b, -INFINITY), sink = TW_NONE;
    tw_val first = tw_add(b, tw_mul_imm(b, g->strip, ROWS), tw_shr(b, g->lane, 2));
    for (int r = 0; r < 2; r++) {
        const tw_attention_row row = tw_attention_row_of(g, t, tw_add_imm(b, first, (int64_t)MATRIX * r));
        if (g->p->sinks) {
            tw_val at = tw_add(b, g->arg.sinks, tw_mul_imm(b, tw_widen(b, row.head), 4));
            sink = tw_mul(b, tw_ld(b, (tw_attrs){.type = TW_T_f32}, at), tw_f32(b, TW_SOFTMAX_LOG2E));
        }
        tw_val sum = tw_part_warp_sum(b, g->sum[r], 1, 4), sees = tw_lt(b, none, g->max[r]);
        tw_val max = tw_select(b, sees, tw_mul(b, g->max[r], tw_attention_factor(g, 1)), zero);
        if (sink.id) sum = tw_add(b, sum, tw_unary(b, TW_OP_exp2_f32, tw_sub(b, sink, max)));
        factor[r] = tw_select(b, sees, tw_unary(b, TW_OP_rcp_f32, sum), zero);
        if (g->p->kv) factor[r] = tw_mul(b, factor[r], g->value_scale);
        if (!g->p->lse) continue;
        tw_val lse = tw_mul(b, tw_add(b, max, tw_unary(b, TW_OP_log2_f32, sum)), tw_f32(b, 1 / TW_SOFTMAX_LOG2E));
        /* [heads][rows], for each sequence unless their rows follow one another. */
        tw_val matrix = row.head;
        if (!g->p->ragged) matrix = tw_add(b, tw_mul_imm(b, t->sequence, g->p->heads), matrix);
        tw_val place = tw_add(b, tw_mul_imm(b, tw_widen(b, matrix), g->p->queries), tw_widen(b, row.query));
        tw_val leader = tw_eq(b, tw_rem(b, g->lane, 4), tw_i32(b, 0));
        tw_val to = tw_add(b, g->arg.lse, tw_mul_imm(b, place, 4));
        tw_when(b, tw_and(b, leader, tw_lt(b, row.query, t->end)));
        tw_st(b, (tw_attrs){.type = TW_T_f32}, to, &lse);
    }
}

static tw_val swizzle_of(tw_builder *b, tw_val line, int pieces) {
    return tw_rem(b, tw_div(b, line, TW_TILE_LINE), pieces);
}

/* Leaves the warp's rows in shared memory. A stmatrix stores four matrices of 8 by 8: the upper and the lower rows of
   eight columns, then those of the next eight. */
static void put(tw_attention_gen *g, tw_val rows, const tw_val factor[2]) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q;
    const tw_type pair = g->p->type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    const int pitch = q->width * 2, pieces = pitch / PIECE;
    tw_val line = tw_mul_imm(b, tw_rem(b, g->lane, 2 * MATRIX), pitch), swizzle = swizzle_of(b, line, pieces);
    tw_val upper = tw_shr(b, g->lane, 4);
    for (int column = 0; column < g->plan.depth; column += 2 * MATRIX) {
        const tw_val *sums = g->sums + column / 2;
        tw_val values[5];
        for (int i = 0; i < 4; i++) {
            tw_val x = tw_mul(b, sums[2 * i], factor[i % 2]), y = tw_mul(b, sums[2 * i + 1], factor[i % 2]);
            values[1 + i] = tw_bitcast(b, TW_T_i32, tw_part_pair(b, pair, x, y));
        }
        tw_val piece = tw_xor(b, tw_add_imm(b, upper, column % q->width / MATRIX), swizzle);
        tw_val box = tw_add_imm(b, rows, tw_tile_offset(q, 0, column / q->width * q->width));
        values[0] = tw_add(b, box, tw_add(b, line, tw_mul_imm(b, piece, PIECE)));
        tw_emit(b, TW_OP_stmatrix, (tw_attrs){.vec = 4}, NULL, NULL, 0, values, 5);
    }
}

/* Leaves them without stmatrix. */
static void put_pairs(tw_attention_gen *g, tw_val rows, const tw_val factor[2]) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q;
    const tw_type pair = g->p->type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    tw_val line = tw_shr(b, g->lane, 2), own = tw_add(b, rows, tw_mul_imm(b, tw_rem(b, g->lane, 4), 4));
    for (int column = 0; column < g->plan.depth; column += MATRIX) {
        const tw_val *sums = g->sums + column / 2;
        tw_val piece = tw_tile_piece(b, q, line, tw_i32(b, column % q->width / MATRIX)), at = tw_add(b, own, piece);
        for (int r = 0; r < 2; r++) {
            tw_val x = tw_mul(b, sums[2 * r], factor[r]), y = tw_mul(b, sums[2 * r + 1], factor[r]);
            tw_val both = tw_bitcast(b, TW_T_i32, tw_part_pair(b, pair, x, y));
            const int offset = tw_tile_offset(q, r * MATRIX, column / q->width * q->width);
            tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared, .offset = offset}, at, &both);
        }
    }
}

/* The same of sums of e4m3 (parts/fragment.h): of every 16 columns a thread has four neighbours. */
static void put_fours(tw_attention_gen *g, tw_val rows, const tw_val factor[2]) {
    tw_builder *b = g->b;
    enum { COLUMNS = 2 * MATRIX, FOUR = 4 * 2 /* Bytes. */ };
    const tw_tile *q = &g->plan.q;
    const tw_type pair = g->p->type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
    tw_val line = tw_shr(b, g->lane, 2), of_row = tw_rem(b, g->lane, 4), high = tw_shr(b, of_row, 1);
    tw_val own = tw_add(b, rows, tw_mul_imm(b, tw_rem(b, of_row, 2), FOUR));
    for (int column = 0; column < g->plan.depth; column += COLUMNS) {
        tw_val piece = tw_add_imm(b, high, column % q->width / MATRIX);
        tw_val at = tw_add(b, own, tw_tile_piece(b, q, line, piece));
        for (int r = 0; r < 2; r++) {
            tw_val out[2];
            for (int i = 0; i < 2; i++) {
                const tw_val *sums =
                    g->sums + column / 2 + 2 * r + i; /* Of an even column. Odd ones have other sums. */
                tw_val x = tw_mul(b, sums[0], factor[r]), y = tw_mul(b, sums[MATRIX / 2], factor[r]);
                out[i] = tw_bitcast(b, TW_T_i32, tw_part_pair(b, pair, x, y));
            }
            const int offset = tw_tile_offset(q, r * MATRIX, column / q->width * q->width);
            tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 2, .space = TW_SPACE_shared, .offset = offset}, at, out);
        }
    }
}

/* Copies the rows that are the sequence's. */
static void copy(tw_attention_gen *g, const tw_attention_tile *t, tw_val rows) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q;
    const int head = (int)g->p->head, pitch = q->width * 2, pieces = pitch / PIECE, per_row = head * 2 / PIECE;
    const tw_attrs from = {.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared}, to = {.type = TW_T_i32, .vec = 4};
    tw_val out = g->arg.out;
    if (!g->p->ragged) out = tw_add(b, out, tw_mul_imm(b, tw_widen(b, t->sequence), g->p->queries * g->p->ldo * 2));
    for (int i = 0; i < (ROWS * per_row + 31) / 32; i++) {
        tw_val number = tw_add_imm(b, g->lane, 32 * i), line = tw_div(b, number, per_row);
        tw_val along = tw_rem(b, number, per_row), box = tw_div(b, along, pieces), at = tw_mul_imm(b, line, pitch);
        tw_val piece = tw_xor(b, tw_rem(b, along, pieces), swizzle_of(b, at, pieces)), x[4] = {{0}};
        const tw_attention_row row = tw_attention_row_of(g, t, tw_add(b, tw_mul_imm(b, g->strip, ROWS), line));
        tw_val inside = tw_lt(b, row.query, t->end);
        if ((ROWS * per_row) % 32) inside = tw_and(b, inside, tw_lt(b, line, tw_i32(b, ROWS)));
        at = tw_add(b, at, tw_mul_imm(b, box, (int64_t)q->lines * pitch));
        TW_IF (b, inside) {
            tw_ld_vec(b, from, tw_add(b, rows, tw_add(b, at, tw_mul_imm(b, piece, PIECE))), x);
            tw_val offset =
                tw_add(b, tw_mul_imm(b, tw_widen(b, row.query), g->p->ldo * 2),
                       tw_widen(b, tw_add(b, tw_mul_imm(b, row.head, head * 2), tw_mul_imm(b, along, PIECE))));
            tw_st(b, to, tw_add(b, out, offset), x);
        }
    }
}

/* Has the copy engine store the warp's rows. It skips those behind the last one of Q, but knows no sequences. */
static void send(tw_attention_gen *g, const tw_attention_tile *t, tw_val rows) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q;
    tw_val zero = tw_i32(b, 0), set = g->p->ragged ? zero : t->sequence, lowest = tw_eq(b, g->lane, zero);
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_scope partial = TW_NO_BLOCK;
    if (g->p->ragged) {
        const tw_attention_row last = tw_attention_row_of(g, t, tw_add_imm(b, tw_mul_imm(b, g->strip, ROWS), ROWS - 1));
        partial = tw_push_if(b, tw_le(b, t->end, last.query));
        copy(g, t, rows);
        tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
        tw_push_else(b, partial);
    }
    const int pack = g->plan.pack;
    tw_val row = tw_mul_imm(b, g->strip, ROWS), query = tw_attention_row_of(g, t, row).query,
           head = tw_rem(b, row, pack);
    TW_IF (b, lowest) {
        for (int column = 0; column < g->p->head; column += q->width) {
            const tw_box one = {.map = g->arg.map_o, .at = {tw_i32(b, column), query, t->head, set}};
            const tw_box packed = {.map = g->arg.map_o, .at = {tw_i32(b, column), head, query, t->head, set}};
            tw_tensor_store(b, (tw_attrs){.dims = pack > 1 ? 5 : 4}, pack > 1 ? &packed : &one,
                            tw_add_imm(b, rows, tw_tile_offset(q, 0, column)), TW_NONE);
        }
        tw_do(b, TW_OP_bulk_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    if (g->p->ragged) tw_pop(b, partial);
}

/* Waits until the copy engine has read the rows that this warp stored before. */
static void wait_for_stores(tw_attention_gen *g) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_do(b, TW_OP_bulk_wait, (tw_attrs){.read = true}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
}

/* Stores the warp's rows. */
static void store(tw_attention_gen *g, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    tw_val place = tw_add_imm(b, g->shared, g->plan.results), factor[2];
    tw_val rows = tw_add(b, place, tw_mul_imm(b, g->strip, tw_tile_offset(&g->plan.q, ROWS, 0)));
    finish_sums(g, t, factor);
    if (g->c->mma == TW_ATTENTION_BY_WARPS) {
        (g->p->kv ? put_fours : put_pairs)(g, rows, factor);
        tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
        copy(g, t, rows);
        return;
    }
    if (g->plan.results) wait_for_stores(g);
    put(g, rows, factor);
    send(g, t, rows);
    if (!g->plan.results) wait_for_stores(g);
    /* Where lanes may be apart, ptxas computes addresses of the next tile in every lane, not once for the warp. */
    tw_do(g->b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(g->b, -1), TW_NONE);
}

void tw_attention_store(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts) {
    tw_builder *b = g->b;
    const tw_meeting warpgroup = {.threads = 32 * TW_ATTENTION_WARPS, .number = TW_ATTENTION_STORE, .team = g->group};
    tw_record_begin(b, "store", TW_ENGINE_OF_memory);
    /* The warpgroup's other warps may still multiply this warp's queries. */
    if (g->c->mma == TW_ATTENTION_BY_WARPGROUPS && !g->plan.results) tw_part_meet(b, &warpgroup);
    TW_BLOCK (b, g->c->splits > 1 ? tw_push_if(b, tw_attention_merge(g, t, parts)) : TW_NO_BLOCK) store(g, t);
    tw_record_end(b, "store");
}
