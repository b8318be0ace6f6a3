/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/reduce.h"

static tw_val across(tw_builder *b, tw_val x, int distance) {
    return tw_shfl(b, TW_MODE_bfly, x, tw_i32(b, distance), tw_i32(b, -1));
}

tw_val tw_part_warp_sum(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_add(b, x, across(b, x, d));
    return x;
}

tw_val tw_part_warp_max(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_max(b, x, across(b, x, d));
    return x;
}

tw_val tw_part_warp_min(tw_builder *b, tw_val x, int from, int below) {
    for (int d = from; d < below; d *= 2) x = tw_min(b, x, across(b, x, d));
    return x;
}
