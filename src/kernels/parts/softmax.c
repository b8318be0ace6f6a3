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
    return tw_op_emit(b, TW_OP_exp2_f32, tw_sub(b, score, max), TW_NONE, TW_NONE);
}
