/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/gemm_refer_activate.h"

tw_val tw_gemm_refer_abs(tw_builder *b, tw_val x) {
    return tw_max(b, x, tw_unary(b, TW_OP_neg_f64, x));
}

static tw_val clamp(tw_builder *b, tw_val x, double most) {
    return tw_min(b, tw_max(b, x, tw_f64(b, -most)), tw_f64(b, most));
}

/* e^x = 2^n e^r, where r is within log(2) / 2 of 0, so that its series is short. */
static tw_val exponential(tw_builder *b, tw_val x) {
    enum { TERMS = 14, BIAS = 1023, FRACTION = 52 /* Of the exponent, and bits of the fraction, of an f64. */ };
    const double log2e = 1.4426950408889634, log2 = 0.69314718055994531;
    tw_val u = tw_mul(b, clamp(b, x, 700), tw_f64(b, log2e));
    tw_val n = tw_unary(b, TW_OP_cvt_s32_f32, tw_unary(b, TW_OP_cvt_f32_f64, u)) /* The nearest. */;
    tw_val r = tw_mul(b, tw_sub(b, u, tw_unary(b, TW_OP_cvt_f64_s32, n)), tw_f64(b, log2)), sum = tw_f64(b, 1);
    for (int i = TERMS; i > 0; i--) sum = tw_fma(b, tw_mul(b, sum, r), tw_f64(b, 1.0 / i), tw_f64(b, 1));
    tw_val bits = tw_shl(b, tw_widen(b, tw_add_imm(b, n, BIAS)), FRACTION);
    return tw_mul(b, sum, tw_bitcast(b, TW_T_f64, bits));
}

/* x / (1 + e^-u). */
static tw_val weighed(tw_builder *b, tw_val x, tw_val u) {
    tw_val e = exponential(b, tw_unary(b, TW_OP_neg_f64, u));
    return tw_binary(b, TW_OP_div_f64, x, tw_add(b, e, tw_f64(b, 1)));
}

static tw_val gelu(tw_builder *b, tw_val x) {
    const double twice = 1.5957691216057308; /* 2 sqrt(2 / pi) */
    tw_val cubic = tw_fma(b, tw_mul(b, tw_mul(b, x, x), x), tw_f64(b, 0.044715), x);
    return weighed(b, x, tw_mul(b, cubic, tw_f64(b, twice)));
}

/* The normal distribution up to z is 1/2 + density(z) (z + z^3 / 3 + z^5 / (3 * 5) + ...), whose terms have one sign.
   Beyond 6 it is within 1e-9 of its limit. */
static tw_val gelu_erf(tw_builder *b, tw_val x) {
    enum { TERMS = 64 };
    const double root = 0.39894228040143268; /* 1 / sqrt(2 pi) */
    tw_val z = clamp(b, x, 6), square = tw_mul(b, z, z), sum = tw_var_of(b, tw_f64(b, 1));
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, TERMS), tw_i32(b, 1), false) {
        tw_val odd = tw_unary(b, TW_OP_cvt_f64_s32, tw_sub(b, tw_i32(b, 2 * TERMS + 1), tw_mul_imm(b, i, 2)));
        tw_assign(b, sum, tw_fma(b, sum, tw_binary(b, TW_OP_div_f64, square, odd), tw_f64(b, 1)));
    }
    tw_val density = tw_mul(b, exponential(b, tw_mul(b, square, tw_f64(b, -0.5))), tw_f64(b, root));
    return tw_mul(b, x, tw_fma(b, tw_mul(b, density, z), sum, tw_f64(b, 0.5)));
}

tw_val tw_gemm_refer_activate(tw_builder *b, tw_gemm_activation a, tw_val x) {
    return a == TW_GEMM_SILU       ? weighed(b, x, x)
           : a == TW_GEMM_GELU     ? gelu(b, x)
           : a == TW_GEMM_GELU_ERF ? gelu_erf(b, x)
                                   : x;
}
