/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/fragment.h"

enum { PIECE = 16 /* Bytes that the swizzle moves together. */, MATRIX = 8 /* Lines of a matrix. */ };

static int pitch_of(const tw_tile *t) {
    return t->width * t->es;
}

tw_val tw_tile_piece(tw_builder *b, const tw_tile *t, tw_val line, tw_val piece) {
    const int pitch = pitch_of(t);
    tw_val at = tw_mul_imm(b, line, pitch), swizzle = tw_rem(b, tw_div(b, at, TW_TILE_LINE), pitch / PIECE);
    return tw_add(b, at, tw_mul_imm(b, tw_xor(b, piece, swizzle), PIECE));
}

tw_val tw_fragment_lane(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val lane) {
    tw_val matrix = tw_shr(b, lane, 3), low = tw_rem(b, matrix, 2), high = tw_shr(b, matrix, 1);
    const bool lines_first = order != TW_FRAGMENT_B;
    tw_val line = tw_add(b, tw_rem(b, lane, MATRIX), tw_mul_imm(b, lines_first ? low : high, MATRIX));
    return tw_tile_piece(b, t, line, lines_first ? high : low);
}

void tw_fragment_load(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val at, int line, int element,
                      tw_type type, tw_val out[TW_FRAGMENT_REGISTERS]) {
    const int pitch = pitch_of(t), along = element % t->width * t->es;
    /* The swizzle begins anew after eight lines. Along a line it only exchanges pieces, so that a piece that is further
       by a multiple of two has the bits of that exchanged in its place. */
    tw_val of_line = along ? tw_xor(b, at, tw_i32(b, along)) : at;
    tw_val r[TW_FRAGMENT_REGISTERS] = {{0}};
    tw_ldmatrix(b, TW_FRAGMENT_REGISTERS, order == TW_FRAGMENT_B_ACROSS, of_line,
                element / t->width * t->lines * pitch + line * pitch, r);
    for (int i = 0; i < TW_FRAGMENT_REGISTERS; i++) out[i] = tw_bitcast(b, type, r[i]);
}
