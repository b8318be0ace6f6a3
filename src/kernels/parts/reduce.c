/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/reduce.h"

static tw_val across(tw_builder *b, tw_val x, int distance) {
    tw_val by = tw_i32(b, distance), all = tw_i32(b, -1);
    if (tw_value_type(b->kernel, x) == TW_T_f64)
        return tw_bitcast(b, TW_T_f64, across(b, tw_bitcast(b, TW_T_i64, x), distance));
    if (tw_value_type(b->kernel, x) != TW_T_i64) return tw_shfl(b, TW_MODE_bfly, x, by, all);
    tw_val low = tw_shfl(b, TW_MODE_bfly, tw_unary(b, TW_OP_low_i32_i64, x), by, all);
    tw_val high = tw_shfl(b, TW_MODE_bfly, tw_unary(b, TW_OP_high_i32_i64, x), by, all);
    return tw_binary(b, TW_OP_pack_i64_i32, low, high);
}

tw_val tw_part_warp_sum(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_add(b, x, across(b, x, d));
    return x;
}

tw_val tw_part_warp_max(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_max(b, x, across(b, x, d));
    return x;
}

tw_val tw_part_warp_product(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_mul(b, x, across(b, x, d));
    return x;
}

tw_val tw_part_warp_min(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_min(b, x, across(b, x, d));
    return x;
}
