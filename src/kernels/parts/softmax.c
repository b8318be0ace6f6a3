/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/softmax.h"

tw_softmax tw_softmax_of(tw_builder *b) {
    tw_val max = tw_var_of(b, tw_f32(b, TW_SOFTMAX_LOWEST));
    return (tw_softmax){max, tw_var_of(b, tw_f32(b, 0))};
}

void tw_softmax_reset(tw_builder *b, const tw_softmax *s) {
    tw_assign(b, s->max, tw_f32(b, TW_SOFTMAX_LOWEST));
    tw_assign(b, s->sum, tw_f32(b, 0));
}

tw_val tw_softmax_weight(tw_builder *b, tw_val score, tw_val max) {
    return tw_unary(b, TW_OP_exp2_f32, tw_sub(b, score, max));
}

tw_val tw_softmax_raise(tw_builder *b, const tw_softmax *s, tw_val max) {
    tw_val keep = tw_softmax_weight(b, s->max, max);
    tw_op_to(b, s->sum, TW_OP_mul_f32, s->sum, keep, TW_NONE);
    tw_assign(b, s->max, max);
    return keep;
}

tw_val tw_softmax_take(tw_builder *b, const tw_softmax *s, tw_val score, tw_val there, tw_val *keep) {
    tw_val max = tw_max(b, s->max, tw_select(b, there, score, tw_f32(b, TW_SOFTMAX_LOWEST)));
    *keep = tw_softmax_weight(b, s->max, max);
    tw_val weight = tw_select(b, there, tw_softmax_weight(b, score, max), tw_f32(b, 0));
    tw_op_to(b, s->sum, TW_OP_fma_f32, s->sum, *keep, weight);
    tw_assign(b, s->max, max);
    return weight;
}
