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

static tw_val divide(tw_builder *b, tw_val x, tw_val by) {
    return tw_binary(b, TW_OP_div_u32, x, by);
}

/* Block i takes the stages from i * all / blocks to (i + 1) * all / blocks - 1. */
static tw_val first_of(tw_builder *b, const tw_stream *s, tw_val block) {
    return divide(b, tw_mul(b, block, tw_mul(b, s->streamed, s->stages)), s->blocks);
}

tw_val tw_stream_block(tw_builder *b, const tw_stream *s, tw_val stage) {
    tw_val all = tw_mul(b, s->streamed, s->stages);
    return divide(b, tw_add_imm(b, tw_mul(b, tw_add_imm(b, stage, 1), s->blocks), -1), all);
}

tw_scope tw_stream_push(tw_builder *b, tw_stream *s) {
    tw_val block = tw_sreg(b, TW_SREG_ctaid_x);
    s->blocks = tw_sreg(b, TW_SREG_nctaid_x);
    tw_val stage = tw_var_of(b, first_of(b, s, block)), end = first_of(b, s, tw_add_imm(b, block, 1));
    tw_val whole = tw_var_of(b, tw_add(b, s->streamed, block));
    tw_val begin = tw_add(b, whole, stage); /* Both only grow. */
    const tw_scope loop = tw_push_while(b);
    tw_val cut = tw_lt(b, stage, end);
    tw_push_while_body(b, loop, tw_or(b, cut, tw_lt(b, whole, s->tiles)));
    s->cut = tw_lt(b, stage, end);
    s->is_first = tw_eq(b, tw_add(b, whole, stage), begin);
    tw_val tile = divide(b, stage, s->stages), within = tw_sub(b, stage, tw_mul(b, tile, s->stages));
    tw_val count = tw_min(b, tw_sub(b, s->stages, within), tw_sub(b, end, stage));
    s->tile = tw_select(b, s->cut, tile, whole);
    s->first = tw_select(b, s->cut, within, tw_i32(b, 0));
    s->count = tw_select(b, s->cut, count, s->stages);
    tw_assign(b, whole, tw_select(b, s->cut, whole, tw_add(b, whole, s->blocks)));
    tw_assign(b, stage, tw_select(b, s->cut, tw_add(b, stage, count), stage));
    return loop;
}
