/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/scheduler.h"

tw_scheduler_tile tw_scheduler_find(tw_builder *b, const tw_scheduler *s, tw_val number) {
    tw_scheduler_tile t;
    if (s->band == 1) {
        t.row = tw_binary(b, TW_OP_div_u32, number, s->columns);
        t.column = tw_sub(b, number, tw_mul(b, t.row, s->columns));
        return t;
    }
    tw_val all = tw_mul_imm(b, s->columns, s->band);
    tw_val band = tw_binary(b, TW_OP_div_u32, number, all), within = tw_sub(b, number, tw_mul(b, band, all));
    tw_val first = tw_mul_imm(b, band, s->band);
    tw_val rows = tw_min(b, tw_sub(b, s->rows, first), tw_i32(b, s->band));
    t.column = tw_binary(b, TW_OP_div_u32, within, rows);
    t.row = tw_add(b, first, tw_sub(b, within, tw_mul(b, t.column, rows)));
    return t;
}

tw_scope tw_scheduler_push(tw_builder *b, const tw_scheduler *s) {
    tw_val tiles = tw_mul(b, s->rows, s->columns);
    tw_val from = tw_sreg(b, TW_SREG_ctaid_x), step = tw_sreg(b, TW_SREG_nctaid_x);
    return tw_push_for(b, from, tiles, step, false);
}
