/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/activation.h"

#include "kernels/parts/softmax.h"

#include <math.h>

/* Sums c[0] + c[1] x + ... by Horner's rule. */
static tw_val polynomial(tw_builder *b, tw_val x, const float *c, int n) {
    tw_val sum = tw_f32(b, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) sum = tw_fma(b, sum, x, tw_f32(b, c[i]));
    return sum;
}

/* x log2(e) is rounded, which a large x makes felt: what was lost is put back as a factor. */
tw_val tw_part_exp(tw_builder *b, tw_val x) {
    tw_val inside = tw_min(b, tw_max(b, x, tw_f32(b, -200)), tw_f32(b, 200));
    tw_val u = tw_mul(b, inside, tw_f32(b, 1.44269504f)); /* log2(e) */
    tw_val lost = tw_fma(b, inside, tw_f32(b, 1.44269504f), tw_unary(b, TW_OP_neg_f32, u));
    lost = tw_fma(b, inside, tw_f32(b, 1.92596299e-8f), lost); /* log2(e) less its f32 */
    tw_val e = tw_unary(b, TW_OP_exp2_f32, u);
    tw_val y = tw_mul(b, e, tw_fma(b, lost, tw_f32(b, 0.693147181f), tw_f32(b, 1)));
    return tw_select(b, tw_eq(b, x, x), y, x);
}

/* x = 2^e m with m from 2/3 to 4/3, so that log(m) is a series of m - 1, and its relative error stays small near x = 1.
   lg2.approx has an absolute error there, and takes subnormal numbers for 0. It serves 0, infinity and what has no
   logarithm. */
tw_val tw_part_log(tw_builder *b, tw_val x) {
    static const float c[] = {-0.5f,        0.333332092f,  -0.249997169f, 0.200107470f, -0.166823059f,
                              0.140011609f, -0.121671610f, 0.140047595f,  -0.129489332f};
    tw_val small = tw_lt(b, x, tw_f32(b, 0x1p-126f)), none = tw_f32(b, 0);
    tw_val normal = tw_select(b, small, tw_mul(b, x, tw_f32(b, 0x1p23f)), x);
    tw_val bits = tw_bitcast(b, TW_T_i32, normal);
    tw_val e = tw_binary(b, TW_OP_shr_s32, tw_sub(b, bits, tw_i32(b, 0x3f2aaaab)), tw_i32(b, 23)); /* 2/3 */
    tw_val m = tw_bitcast(b, TW_T_f32, tw_sub(b, bits, tw_shl(b, e, 23)));
    tw_val exponent = tw_add(b, tw_unary(b, TW_OP_cvt_f32_s32, e), tw_select(b, small, tw_f32(b, -23), none));
    tw_val r = tw_sub(b, m, tw_f32(b, 1));
    tw_val y = tw_fma(b, tw_mul(b, r, r), polynomial(b, r, c, 9), r);
    y = tw_fma(b, exponent, tw_f32(b, 0.693147181f), y);
    tw_val has = tw_and(b, tw_lt(b, none, x), tw_lt(b, x, tw_f32(b, INFINITY)));
    return tw_select(b, has, y, tw_unary(b, TW_OP_log2_f32, normal));
}

/* u = 1 + x is rounded; log(u) is corrected by x / (u - 1). */
tw_val tw_part_log1p(tw_builder *b, tw_val x) {
    tw_val one = tw_f32(b, 1), u = tw_add(b, x, one), y = tw_part_log(b, u);
    tw_val corrected = tw_mul(b, y, tw_binary(b, TW_OP_div_f32, x, tw_sub(b, u, one)));
    y = tw_select(b, tw_lt(b, u, tw_f32(b, INFINITY)), corrected, y);
    return tw_select(b, tw_eq(b, u, one), x, y);
}

/* x / (1 + 2^u). The result is 0 where 2^u overflows. */
static tw_val over_one_plus_exp2(tw_builder *b, tw_val x, tw_val u) {
    tw_val e = tw_unary(b, TW_OP_exp2_f32, u);
    tw_val r = tw_unary(b, TW_OP_rcp_f32, tw_add(b, e, tw_f32(b, 1)));
    return tw_mul(b, x, r);
}

tw_val tw_part_sigmoid(tw_builder *b, tw_val x) {
    return over_one_plus_exp2(b, tw_f32(b, 1), tw_mul(b, x, tw_f32(b, -1.44269504f))); /* -log2(e) */
}

tw_val tw_part_silu(tw_builder *b, tw_val x) {
    return over_one_plus_exp2(b, x, tw_mul(b, x, tw_f32(b, -1.44269504f))); /* -log2(e) */
}

/* 0.5 x (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2 / pi) x (1 + 0.044715 x^2). */
tw_val tw_part_gelu(tw_builder *b, tw_val x) {
    tw_val cubic = tw_mul(b, x, tw_fma(b, tw_mul(b, x, x), tw_f32(b, 0.044715f), tw_f32(b, 1)));
    return over_one_plus_exp2(b, x, tw_mul(b, cubic, tw_f32(b, -2.30220819f))); /* -2 sqrt(2 / pi) log2(e) */
}

/* tanh(u) = 1 - 2 / (1 + e^2u). */
tw_val tw_part_cap(tw_builder *b, tw_val x, float cap) {
    tw_val u = tw_mul(b, x, tw_f32(b, 2.88539008f / cap)); /* 2 log2(e) */
    tw_val part = over_one_plus_exp2(b, tw_f32(b, -2 * cap), u);
    return tw_add(b, part, tw_f32(b, cap));
}

/* tanh(u) = 1 - 2 / (1 + e^2u), which cancels near 0: a series takes its place there. */
tw_val tw_part_tanh(tw_builder *b, tw_val x) {
    static const float c[] = {1, -0.333333333f, 0.133333333f, -0.0539682540f, 0.0218694885f, -0.00886323553f};
    tw_val near = tw_mul(b, x, polynomial(b, tw_mul(b, x, x), c, 6));
    return tw_select(b, tw_lt(b, tw_unary(b, TW_OP_abs_f32, x), tw_f32(b, 0.3f)), near, tw_part_cap(b, x, 1));
}

tw_val tw_part_relu(tw_builder *b, tw_val x) {
    return tw_select(b, tw_lt(b, tw_f32(b, 0), x), x, tw_f32(b, 0));
}

/* 1 - erf(z) = (a1 t + ... + a5 t^5) e^(-z^2), t = 1 / (1 + p z), for z >= 0. */
static tw_val erf_tail(tw_builder *b, tw_val z) {
    static const float a[] = {0, 0.254829592f, -0.284496736f, 1.421413741f, -1.453152027f, 1.061405429f};
    tw_val t = tw_unary(b, TW_OP_rcp_f32, tw_fma(b, z, tw_f32(b, 0.3275911f), tw_f32(b, 1)));
    tw_val e = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_mul(b, z, z), tw_f32(b, -1.44269504f))); /* -log2(e) */
    return tw_mul(b, polynomial(b, t, a, 6), e);
}

/* x, or 0 where x is not above 0, less z times the part of the normal distribution beyond z = |x|. The logarithm of
   that part is smooth: a polynomial of z takes the place of a division. Its coefficients minimize the error of the
   result; that far out where it is cut off, 2^ gives 0. */
tw_val tw_part_gelu_erf(tw_builder *b, tw_val x) {
    static const float c[] = {-0.99999994f,    -1.1511093f,   -0.45916924f, -0.05263435f, 0.0072953035f,
                              -0.00034026813f, -9.105007e-5f, 1.702042e-5f, -7.720716e-7f};
    tw_val z = tw_min(b, tw_unary(b, TW_OP_abs_f32, x), tw_f32(b, 13.5f));
    tw_val part = tw_unary(b, TW_OP_exp2_f32, polynomial(b, z, c, 9));
    tw_val above = tw_binary(b, TW_OP_max_nan_f32, x, tw_f32(b, 0));
    return tw_fma(b, tw_unary(b, TW_OP_neg_f32, z), part, above);
}

/* Near 0 its series, elsewhere one less the tail with the sign of x. */
tw_val tw_part_erf(tw_builder *b, tw_val x) {
    static const float c[] = {1.128379167f,   -0.376126389f,  0.112837917f,
                              -0.0268661706f, 0.00522397763f, -0.000854832702f};
    tw_val z = tw_unary(b, TW_OP_abs_f32, x), far = tw_sub(b, tw_f32(b, 1), erf_tail(b, z));
    far = tw_select(b, tw_lt(b, x, tw_f32(b, 0)), tw_unary(b, TW_OP_neg_f32, far), far);
    tw_val near = tw_mul(b, x, polynomial(b, tw_mul(b, x, x), c, 6));
    return tw_select(b, tw_lt(b, z, tw_f32(b, 0.5f)), near, far);
}

/* x is taken to within pi / 4 of a multiple of pi / 2. That has three parts, so that multiples of the first two are
   exact. */
tw_val tw_part_sine(tw_builder *b, tw_val x, int quarters) {
    static const float sine[] = {1, -0.166666667f, 0.00833333333f, -0.000198412698f, 2.75573192e-6f},
                       cosine[] = {1, -0.5f, 0.0416666667f, -0.00138888889f, 2.48015873e-5f};
    tw_val n = tw_unary(b, TW_OP_rint_f32, tw_mul(b, x, tw_f32(b, 0.636619772f))); /* 2 / pi */
    tw_val r = tw_fma(b, n, tw_f32(b, -1.5703125f), x), turn = tw_unary(b, TW_OP_cvt_s32_f32, n);
    r = tw_fma(b, n, tw_f32(b, -4.837512969970703125e-4f), r);
    r = tw_fma(b, n, tw_f32(b, -7.54978995489188e-8f), r);
    tw_val square = tw_mul(b, r, r);
    tw_val odd = polynomial(b, square, cosine, 5), even = tw_mul(b, r, polynomial(b, square, sine, 5));
    turn = tw_add(b, turn, tw_i32(b, quarters));
    tw_val y = tw_select(b, tw_ne(b, tw_and(b, turn, tw_i32(b, 1)), tw_i32(b, 0)), odd, even);
    return tw_select(b, tw_ne(b, tw_and(b, turn, tw_i32(b, 2)), tw_i32(b, 0)), tw_unary(b, TW_OP_neg_f32, y), y);
}
