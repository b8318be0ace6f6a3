/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gemm/element.h"

tw_val tw_gemm_element_widen(tw_builder *b, tw_type t, tw_val x) {
    switch (t) {
    case TW_T_f16:
        return tw_op_emit(b, TW_OP_cvt_f32_f16, x, TW_NONE, TW_NONE);
    case TW_T_bf16:
        return tw_op_emit(b, TW_OP_cvt_f32_bf16, x, TW_NONE, TW_NONE);
    case TW_T_i8:
        return tw_op_emit(b, TW_OP_sext_i32_i8, x, TW_NONE, TW_NONE);
    default:
        return x;
    }
}
