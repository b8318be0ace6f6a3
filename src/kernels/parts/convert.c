/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/convert.h"

tw_val tw_part_widen(tw_builder *b, tw_type t, tw_val x) {
    switch (t) {
    case TW_T_f16:
        return tw_unary(b, TW_OP_cvt_f32_f16, x);
    case TW_T_bf16:
        return tw_unary(b, TW_OP_cvt_f32_bf16, x);
    case TW_T_i8:
        return tw_unary(b, TW_OP_sext_i32_i8, x);
    default:
        return x;
    }
}

tw_val tw_part_pair(tw_builder *b, tw_type pair, tw_val x, tw_val y) {
    return tw_binary(b, pair == TW_T_f16x2 ? TW_OP_cvt_f16x2_f32 : TW_OP_cvt_bf16x2_f32, x, y);
}

tw_val tw_part_half(tw_builder *b, tw_type pair, tw_val x, int second) {
    tw_val bits = tw_bitcast(b, TW_T_i32, x);
    if (pair == TW_T_f16x2) {
        tw_val h = tw_unary(b, second ? TW_OP_high_i16_i32 : TW_OP_low_i16_i32, bits);
        return tw_unary(b, TW_OP_cvt_f32_f16, tw_bitcast(b, TW_T_f16, h));
    }
    /* A bf16 is the upper 16 bits of an f32. */
    bits = second ? tw_and(b, bits, tw_i32(b, (int32_t)0xffff0000)) : tw_shl(b, bits, 16);
    return tw_bitcast(b, TW_T_f32, bits);
}

tw_val tw_part_e4m3(tw_builder *b, tw_val x, int i) {
    /* With its sign moved to the front, an e4m3 is an f16 whose exponent's bias is 15 instead of 7. */
    tw_val byte = tw_shr(b, x, 8 * i), sign = tw_shl(b, tw_and(b, byte, tw_i32(b, 0x80)), 8);
    tw_val bits = tw_or(b, sign, tw_shl(b, tw_and(b, byte, tw_i32(b, 0x7f)), 7));
    tw_val half = tw_bitcast(b, TW_T_f16, tw_unary(b, TW_OP_trunc_i16_i32, bits));
    return tw_mul(b, tw_unary(b, TW_OP_cvt_f32_f16, half), tw_f32(b, 256));
}

void tw_part_e4m3_pairs(tw_builder *b, tw_type pair, tw_val x, tw_val out[2]) {
    /* The exponent and the fraction of an e4m3, moved to where an f16 or a bf16 has those, are its value divided by the
       power of two by which the biases differ: 15 - 7, or 127 - 7. */
    const bool half = pair == TW_T_f16x2;
    const uint32_t sign = 0x80008000, rest = half ? 0x3f803f80 : 0x07f007f0;
    const int right = half ? 1 : 4;
    for (int odd = 0; odd < 2; odd++) {
        tw_val up = odd ? x : tw_shl(b, x, 8), moved = odd ? tw_shr(b, x, right) : tw_shl(b, x, 8 - right);
        tw_val bits = tw_or(b, tw_and(b, up, tw_i32(b, (int32_t)sign)), tw_and(b, moved, tw_i32(b, (int32_t)rest)));
        out[odd] = tw_bitcast(b, pair, bits);
        if (half) continue;
        tw_val power = tw_const(b, pair, 0x7b807b80), none = tw_const(b, pair, 0x80008000); /* 2^120, and -0. */
        out[odd] = tw_op_emit(b, TW_OP_fma_bf16x2, out[odd], power, none);
    }
}

void tw_part_split_tf32(tw_builder *b, tw_val x, tw_val *high, tw_val *low) {
    enum { HALF = 0x1000 /* Half of the last bit that a tf32 has. */, UNUSED = 0x1fff /* Bits that it lacks. */ };
    *high = tw_and(b, tw_add_imm(b, x, HALF), tw_i32(b, ~UNUSED));
    *low = tw_sub(b, tw_bitcast(b, TW_T_f32, x), tw_bitcast(b, TW_T_f32, *high));
}

void tw_part_split(tw_builder *b, tw_type pair, tw_val x, tw_val y, tw_val *high, tw_val *low) {
    *high = tw_part_pair(b, pair, x, y);
    tw_val first = tw_sub(b, x, tw_part_half(b, pair, *high, 0)),
           second = tw_sub(b, y, tw_part_half(b, pair, *high, 1));
    *low = tw_part_pair(b, pair, first, second);
}
