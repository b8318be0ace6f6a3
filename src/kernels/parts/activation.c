/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/activation.h"

#include "kernels/parts/softmax.h"

/* x / (1 + 2^u). The result is 0 where 2^u overflows. */
static tw_val over_one_plus_exp2(tw_builder *b, tw_val x, tw_val u) {
    tw_val e = tw_unary(b, TW_OP_exp2_f32, u);
    tw_val r = tw_unary(b, TW_OP_rcp_f32, tw_add(b, e, tw_f32(b, 1)));
    return tw_mul(b, x, r);
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

tw_val tw_part_relu(tw_builder *b, tw_val x) {
    return tw_select(b, tw_lt(b, tw_f32(b, 0), x), x, tw_f32(b, 0));
}

/* 1 - erf(z) = (a1 t + ... + a5 t^5) e^(-z^2), t = 1 / (1 + p z), for z = |x| / sqrt(2). The result is x less half of
   that times x, or for a negative x half of it times x. */
tw_val tw_part_gelu_erf(tw_builder *b, tw_val x) {
    static const float a[] = {1.061405429f, -1.453152027f, 1.421413741f, -0.284496736f, 0.254829592f};
    tw_val z = tw_mul(b, tw_unary(b, TW_OP_abs_f32, x), tw_f32(b, 0.707106781f)), sum = tw_f32(b, a[0]);
    tw_val t = tw_unary(b, TW_OP_rcp_f32, tw_fma(b, z, tw_f32(b, 0.3275911f), tw_f32(b, 1)));
    for (int i = 1; i < 5; i++) sum = tw_fma(b, sum, t, tw_f32(b, a[i]));
    tw_val e = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_mul(b, z, z), tw_f32(b, -1.44269504f))); /* -log2(e) */
    tw_val part = tw_mul(b, x, tw_mul(b, tw_mul(b, sum, t), tw_mul(b, e, tw_f32(b, 0.5f))));
    return tw_select(b, tw_lt(b, x, tw_f32(b, 0)), part, tw_sub(b, x, part));
}
