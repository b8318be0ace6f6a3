/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/fragment.h"

#include "kernels/parts/convert.h"

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
    if (order == TW_FRAGMENT_A_FOURS) {
        tw_val of_row = tw_rem(b, lane, 4), piece = tw_tile_piece(b, t, tw_shr(b, lane, 2), tw_shr(b, of_row, 1));
        return tw_add(b, piece, tw_mul_imm(b, tw_rem(b, of_row, 2), PIECE / 2));
    }
    tw_val matrix = tw_shr(b, lane, 3), low = tw_rem(b, matrix, 2), high = tw_shr(b, matrix, 1);
    const bool lines_first = order != TW_FRAGMENT_B;
    tw_val line = tw_add(b, tw_rem(b, lane, MATRIX), tw_mul_imm(b, lines_first ? low : high, MATRIX));
    return tw_tile_piece(b, t, line, lines_first ? high : low);
}

/* A thread loads four neighbours of two rows, and has those in even places first. */
static void load_fours(tw_builder *b, tw_val at, int offset, int lines, tw_val out[TW_FRAGMENT_REGISTERS]) {
    for (int i = 0; i < 2; i++) {
        tw_val x[2] = {{0}};
        const tw_attrs from = {.type = TW_T_i32, .vec = 2, .space = TW_SPACE_shared, .offset = offset + i * lines};
        tw_ld_vec(b, from, at, x);
        out[i] = tw_op_emit(b, TW_OP_prmt_i32, x[0], x[1], tw_i32(b, 0x5410));
        out[2 + i] = tw_op_emit(b, TW_OP_prmt_i32, x[0], x[1], tw_i32(b, 0x7632));
    }
}

/* Of four matrices, those that differ by 16 elements along a line are of two products. */
static void convert(tw_builder *b, tw_fragment_order order, tw_type type, const tw_val *r,
                    tw_val out[TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS]) {
    for (int product = 0; product < TW_FRAGMENT_PRODUCTS; product++)
        for (int i = 0; i < 2; i++) {
            tw_val pairs[2];
            tw_part_e4m3_pairs(b, type, r[order == TW_FRAGMENT_B ? 2 * i + product : 2 * product + i], pairs);
            /* Along k the pairs of one matrix are the two registers of eight columns. Across it they are of two times
               eight columns, each of which takes its other register from the next matrix. */
            for (int j = 0; j < 2; j++) out[product][order == TW_FRAGMENT_B ? 2 * i + j : 2 * j + i] = pairs[j];
        }
}

void tw_fragment_load(tw_builder *b, const tw_tile *t, tw_fragment_order order, tw_val at, int line, int element,
                      tw_type type, tw_val out[TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS]) {
    const int pitch = pitch_of(t), along = element % t->width * t->es;
    const int offset = element / t->width * t->lines * pitch + line * pitch;
    /* The swizzle begins anew after eight lines. Along a line it only exchanges pieces, so that a piece that is further
       by a multiple of two has the bits of that exchanged in its place. */
    tw_val of_line = along ? tw_xor(b, at, tw_i32(b, along)) : at;
    tw_val r[TW_FRAGMENT_REGISTERS] = {{0}};
    if (order == TW_FRAGMENT_A_FOURS)
        load_fours(b, of_line, offset, MATRIX * pitch, r);
    else
        tw_ldmatrix(b, TW_FRAGMENT_REGISTERS, order == TW_FRAGMENT_B_ACROSS, of_line, offset, r);
    if (t->es == 1)
        convert(b, order, type, r, out);
    else
        for (int i = 0; i < TW_FRAGMENT_REGISTERS; i++) out[0][i] = tw_bitcast(b, type, r[i]);
}
