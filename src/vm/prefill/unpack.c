/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix from tapes to densely packed rows. A block has a unit of 8 rows, and a warp takes a piece at a time. */
#include "vm/prefill/generate.h"

enum { UNITS, OUT };

static int64_t grid(const tw_prefill_shape *s) {
    return s->rows / TW_MEGA_ROWS;
}

/* Stores elements that are already of the type, if the matrix has the column. */
static void put_16(tw_prefill_gen *g, const tw_prefill_piece *p, tw_val row) {
    tw_builder *b = g->b;
    tw_val column = tw_add(b, p->column, tw_mul_imm(b, tw_rem(b, g->lane, 4), 8));
    TW_IF (b, tw_lt(b, column, tw_i32(b, (int)g->s->columns)))
        tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 4}, tw_prefill_at(g, row, column, 2), p->words);
}

static void put_values(tw_prefill_gen *g, const tw_prefill_piece *p, tw_val row) {
    tw_builder *b = g->b;
    const tw_type t = g->s->type;
    tw_val column[TW_PREFILL_FOURS], x[4 * TW_PREFILL_FOURS];
    const int fours = tw_prefill_piece_values(g, p, column, x);
    for (int i = 0; i < fours; i++)
        TW_IF (b, tw_lt(b, column[i], tw_i32(b, (int)g->s->columns)))
            tw_prefill_store(g, t, tw_prefill_at(g, row, column[i], tw_prefill_bytes(t)), 4, x + 4 * i);
}

static void build(tw_prefill_gen *g) {
    tw_builder *b = g->b;
    const tw_prefill_shape *s = g->s;
    tw_val unit[3];
    tw_prefill_unit_load(g, g->buffer[UNITS], g->block, unit);
    tw_val number = tw_add(b, tw_mul_imm(b, g->block, TW_MEGA_ROWS), tw_shr(b, g->lane, 2));
    tw_val row = tw_prefill_at(g, g->buffer[OUT], number, s->columns * tw_prefill_bytes(s->type));
    TW_FOR (b, i, g->warp, tw_i32(b, tw_prefill_pieces(s)), tw_i32(b, TW_PREFILL_WARPS), false) {
        const tw_prefill_piece p = tw_prefill_piece_load(g, unit, i);
        if (s->format.dtype != TW_F32 && s->format.units == 1)
            put_16(g, &p, row);
        else
            put_values(g, &p, row);
    }
}

const tw_prefill_kind tw_prefill_unpack = {"prefill_unpack", build, grid, {{"units", false}, {"out", true}}};
