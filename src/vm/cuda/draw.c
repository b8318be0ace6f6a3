/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cuda/draw.h"

static tw_val xor_shift(tw_builder *b, tw_val x, int by) {
    return tw_xor(b, x, tw_shr(b, x, by));
}

static tw_val mix(tw_builder *b, tw_val x) {
    x = tw_mul(b, xor_shift(b, x, 16), tw_i32(b, 0x7feb352d));
    x = tw_mul(b, xor_shift(b, x, 15), tw_i32(b, (int32_t)0x846ca68bu));
    return xor_shift(b, x, 16);
}

tw_draw_key tw_draw_key_of(tw_builder *b, const tw_val seed[2], tw_val position) {
    tw_draw_key k;
    k.first = mix(b, tw_fma(b, position, tw_i32(b, (int32_t)0x9e3779b9u), seed[0]));
    tw_val high = mix(b, tw_xor(b, seed[1], tw_i32(b, 0x6a09e667)));
    k.second = mix(b, tw_fma(b, position, tw_i32(b, (int32_t)0x85ebca77u), high));
    return k;
}

static tw_val series(tw_builder *b, const float *c, int n, tw_val x) {
    tw_val y = tw_f32(b, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = tw_fma(b, y, x, tw_f32(b, c[i]));
    return y;
}

static tw_val log2_near_one(tw_builder *b, tw_val f) {
    static const float c[] = TW_SAMPLE_LOG2;
    return series(b, c, TW_SAMPLE_LOG2_TERMS, f);
}

static tw_val log2_of(tw_builder *b, tw_val x) {
    tw_val bits = tw_bitcast(b, TW_T_i32, x), above = tw_add_imm(b, bits, -TW_SAMPLE_SQRT_HALF);
    tw_val exponent = tw_binary(b, TW_OP_shr_s32, above, tw_i32(b, 23));
    tw_val f = tw_sub(b, tw_bitcast(b, TW_T_f32, tw_sub(b, bits, tw_shl(b, exponent, 23))), tw_f32(b, 1));
    return tw_fma(b, f, log2_near_one(b, f), tw_unary(b, TW_OP_cvt_f32_s32, exponent));
}

static tw_val noise(tw_builder *b, tw_val bits) {
    tw_val v = tw_fma(b, tw_unary(b, TW_OP_cvt_f32_u32, bits), tw_f32(b, 0x1p-32f), tw_f32(b, 0x1p-33f));
    v = tw_min(b, v, tw_f32(b, 0x1.fffffep-1f));
    tw_val low = tw_mul(b, v, log2_near_one(b, tw_unary(b, TW_OP_neg_f32, v)));
    tw_val high = tw_unary(b, TW_OP_neg_f32, log2_of(b, tw_sub(b, tw_f32(b, 1), v)));
    tw_val w = tw_select(b, tw_lt(b, v, tw_f32(b, 0.25f)), low, high);
    return tw_unary(b, TW_OP_neg_f32, log2_of(b, w));
}

tw_val tw_draw_score(tw_builder *b, tw_draw_key key, tw_val scale, tw_val z, tw_val id) {
    tw_val bits = mix(b, tw_fma(b, id, tw_i32(b, (int32_t)0x9e3779b9u), key.first));
    return tw_fma(b, z, scale, noise(b, mix(b, tw_xor(b, bits, key.second))));
}

tw_val tw_draw_distance(tw_builder *b, tw_val scale, tw_val largest, tw_val z) {
    tw_val d = tw_select(b, tw_eq(b, z, largest), tw_f32(b, 0), tw_sub(b, largest, z));
    tw_val x = tw_mul(b, tw_mul(b, d, scale), tw_f32(b, 1 << TW_SAMPLE_STEPS));
    /* The smaller of NaN and a number is the number. */
    return tw_unary(b, TW_OP_cvt_s32_f32, tw_min(b, x, tw_f32(b, (float)TW_SAMPLE_FAR)));
}

tw_val tw_draw_mass(tw_builder *b, tw_val distance) {
    static const float c[] = TW_SAMPLE_EXP2;
    tw_val part = tw_and(b, distance, tw_i32(b, (1 << TW_SAMPLE_STEPS) - 1));
    tw_val f = tw_mul(b, tw_unary(b, TW_OP_cvt_f32_s32, part), tw_f32(b, 1.0f / (1 << TW_SAMPLE_STEPS)));
    tw_val y = tw_mul(b, series(b, c, TW_SAMPLE_EXP2_TERMS, f), tw_f32(b, 1 << TW_SAMPLE_MASS));
    /* A shift by more than 31 leaves nothing. */
    return tw_binary(b, TW_OP_shr_u32, tw_unary(b, TW_OP_cvt_s32_f32, y), tw_shr(b, distance, TW_SAMPLE_STEPS));
}

tw_val tw_draw_ordered(tw_builder *b, tw_val z) {
    tw_val bits = tw_bitcast(b, TW_T_i32, tw_add(b, z, tw_f32(b, 0)));
    tw_val sign = tw_binary(b, TW_OP_shr_s32, bits, tw_i32(b, 31));
    return tw_xor(b, bits, tw_or(b, sign, tw_i32(b, INT32_MIN)));
}

tw_val tw_draw_unordered(tw_builder *b, tw_val ordered) {
    tw_val sign = tw_binary(b, TW_OP_shr_s32, ordered, tw_i32(b, 31));
    return tw_bitcast(b, TW_T_f32, tw_xor(b, ordered, tw_or(b, tw_not(b, sign), tw_i32(b, INT32_MIN))));
}

tw_val tw_draw_rank(tw_builder *b, tw_val largest, tw_val z, tw_val id) {
    return tw_binary(b, TW_OP_pack_i64_i32, id, tw_sub(b, largest, tw_draw_ordered(b, z)));
}

tw_val tw_draw_share(tw_builder *b, tw_val sum, tw_val p) {
    tw_val wide = tw_unary(b, TW_OP_zext_i64_i32, p),
           low = tw_unary(b, TW_OP_zext_i64_i32, tw_unary(b, TW_OP_low_i32_i64, sum));
    tw_val high = tw_binary(b, TW_OP_shr_u64, sum, tw_i32(b, 32)), by = tw_i32(b, 32);
    low = tw_binary(b, TW_OP_shr_u64, tw_mul(b, low, wide), by);
    tw_val share = tw_add(b, tw_mul(b, high, wide), low);
    return tw_select(b, tw_eq(b, share, tw_i64(b, 0)), tw_i64(b, 1), share);
}

tw_val tw_draw_penalise(tw_builder *b, tw_val repetition, tw_val presence, tw_val frequency, tw_val z, tw_val count) {
    tw_val n = tw_unary(b, TW_OP_cvt_f32_s32, tw_and(b, count, tw_i32(b, INT32_MAX)));
    tw_val divided = tw_binary(b, TW_OP_div_f32, z, repetition);
    tw_val y = tw_select(b, tw_lt(b, tw_f32(b, 0), z), divided, tw_mul(b, z, repetition));
    y = tw_fma(b, tw_unary(b, TW_OP_neg_f32, frequency), n, y);
    y = tw_select(b, tw_lt(b, tw_f32(b, 0), n), tw_sub(b, y, presence), y);
    return tw_select(b, tw_eq(b, count, tw_i32(b, 0)), z, y);
}
