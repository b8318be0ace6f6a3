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
