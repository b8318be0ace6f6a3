/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and values of pages that tensor copies do not fetch (tw_attention_gathers). A copy of a page without whole
   eights of keys does not end where the swizzle begins anew, and one of an odd number of eights has no whole blocks:
   the lanes of a warp copy 16 bytes each instead, to where tensor copies would have put them. Each lane knows the rows
   of every 32nd key of a block, and asks other lanes for those that it copies. */
#include "base/divide.h"
#include "kernels/attention/generate.h"

enum { PIECE = 16 /* Bytes of a copy. */, LANES = 32, STEP = LANES * PIECE /* Bytes that a warp copies at once. */ };

int tw_attention_rows_of_lane(const tw_attention_gen *g) {
    return (g->c->columns + LANES - 1) / LANES;
}

tw_val tw_attention_last_key(tw_attention_gen *g, const tw_attention_tile *t) {
    return tw_max(g->b, tw_add_imm(g->b, t->keys, -1), tw_i32(g->b, 0));
}

tw_val tw_attention_row_in_pool(tw_attention_gen *g, const tw_attention_tile *t, tw_val key, tw_val last) {
    tw_builder *b = g->b;
    const int page = (int)g->p->page, each = (int)tw_ceil_div(g->p->keys, page);
    key = tw_max(b, tw_min(b, key, last), tw_i32(b, 0));
    tw_val place = tw_add(b, tw_mul_imm(b, t->sequence, each), tw_div(b, key, page));
    tw_val at = tw_add(b, g->arg.pages, tw_mul_imm(b, tw_widen(b, place), 4));
    tw_val number = tw_ld(b, (tw_attrs){.type = TW_T_i32}, at);
    number = tw_binary(b, TW_OP_min_u32, number, tw_i32(b, (int)g->p->pool - 1));
    return tw_add(b, tw_mul_imm(b, number, page), tw_rem(b, key, page));
}

void tw_attention_look_up_rows(tw_attention_gen *g, const tw_attention_tile *t, tw_val row, tw_val *rows) {
    tw_builder *b = g->b;
    tw_val last = tw_attention_last_key(g, t);
    for (int i = 0; i < tw_attention_rows_of_lane(g); i++)
        rows[i] = tw_attention_row_in_pool(g, t, tw_add(b, row, tw_add_imm(b, g->lane, (int64_t)i * LANES)), last);
}

/* Returns the swizzled place of an offset in a tile. */
static tw_val swizzle(tw_builder *b, tw_val offset, int pitch) {
    return tw_xor(b, offset, tw_and(b, tw_shr(b, offset, 3), tw_i32(b, pitch - PIECE)));
}

void tw_attention_gather(tw_attention_gen *g, const tw_tile *tile, const tw_ring *ring, const tw_ring_cursor *c,
                         tw_val from, tw_val head, const tw_val *rows) {
    tw_builder *b = g->b;
    const int pitch = tile->width * tile->es, pieces = pitch / PIECE, lines = LANES / pieces;
    const int bytes = (int)g->p->head * tile->es;
    tw_ring_fill(b, ring, c, TW_NONE);
    tw_val to = tw_ring_data(b, ring, c, TW_NONE), own = tw_mul_imm(b, g->lane, PIECE);
    /* The pattern begins anew after two steps. */
    const tw_val places[2] = {tw_add(b, to, swizzle(b, own, pitch)),
                              tw_add(b, to, swizzle(b, tw_add_imm(b, own, STEP), pitch))};
    tw_val along = tw_mul_imm(b, tw_rem(b, g->lane, pieces), PIECE), line = tw_div(b, g->lane, pieces);
    tw_val base = tw_add(b, from, tw_widen(b, tw_add(b, along, tw_mul_imm(b, head, bytes))));
    tw_val pitch_of_rows = tw_i32(b, (int)g->p->ldk * tile->es);
    for (int i = 0; i * lines < g->c->columns; i++) {
        const int first = i * lines;
        tw_val row = tw_shfl(b, TW_MODE_idx, rows[first / LANES], tw_add_imm(b, line, first % LANES), tw_i32(b, -1));
        tw_val at = tw_op_emit(b, TW_OP_mad_wide_s32, row, pitch_of_rows, base);
        for (int k = 0; k < tile->boxes; k++) {
            const tw_attrs how = {
                .bytes = PIECE, .offset = i / 2 * 2 * STEP + k * tile->lines * pitch, .cache = TW_CACHE_cg};
            tw_val size = tw_i32(b, PIECE);
            /* Behind the head's last element there are zeros. */
            if ((k + 1) * pitch > bytes)
                size = tw_select(b, tw_lt(b, along, tw_i32(b, bytes - k * pitch)), size, tw_i32(b, 0));
            tw_cp_async(b, how, places[i % 2], tw_add_imm(b, at, (int64_t)k * pitch), size);
        }
    }
    tw_do(b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

void tw_attention_land(tw_attention_gen *g, int pending, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = pending}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_fence_proxy, (tw_attrs){.proxy = TW_PROXY_async_shared}, TW_NONE, TW_NONE);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, tw_i32(b, -1), TW_NONE);
    tw_val full = tw_ring_full(b, ring, c);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, full, TW_NONE);
    tw_ring_advance(b, ring, c);
}
