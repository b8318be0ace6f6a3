/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/argmax.h"

#include "kernels/parts/reduce.h"

tw_argmax tw_argmax_of(tw_builder *b, float least) {
    tw_argmax a = {.value = tw_var_of(b, tw_f32(b, least))};
    a.number = tw_var_of(b, tw_i32(b, INT32_MAX));
    return a;
}

void tw_argmax_take(tw_builder *b, const tw_argmax *a, tw_val value, tw_val number) {
    tw_val earlier = tw_and(b, tw_eq(b, value, a->value), tw_lt(b, number, a->number));
    TW_IF (b, tw_or(b, tw_lt(b, a->value, value), earlier)) {
        tw_assign(b, a->value, value);
        tw_assign(b, a->number, number);
    }
}

tw_argmax tw_argmax_warp(tw_builder *b, const tw_argmax *a) {
    tw_argmax all = {.value = tw_part_warp_max(b, a->value, 1, 32)};
    tw_val mine = tw_select(b, tw_eq(b, all.value, a->value), a->number, tw_i32(b, INT32_MAX));
    all.number = tw_part_warp_min(b, mine, 1, 32);
    return all;
}

void tw_argmax_store(tw_builder *b, const tw_argmax *a, tw_attrs to, tw_val cell) {
    to.type = TW_T_f32;
    tw_st(b, to, cell, &a->value);
    to.type = TW_T_i32;
    to.offset += 4;
    tw_st(b, to, cell, &a->number);
}

void tw_argmax_take_cells(tw_builder *b, const tw_argmax *a, tw_val cells, int offset, int n) {
    tw_attrs from = {.space = TW_SPACE_shared, .offset = offset};
    for (int i = 0; i < n; i++, from.offset += TW_ARGMAX_BYTES / 2) {
        from.type = TW_T_f32;
        tw_val value = tw_ld(b, from, cells);
        from.type = TW_T_i32;
        from.offset += TW_ARGMAX_BYTES / 2;
        tw_argmax_take(b, a, value, tw_ld(b, from, cells));
    }
}
