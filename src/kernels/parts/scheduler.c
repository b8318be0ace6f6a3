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
    tw_val some = tw_lt(b, stage, end);
    tw_push_while_body(b, loop, tw_or(b, some, tw_lt(b, whole, s->tiles)));
    tw_val cut = tw_lt(b, stage, end);
    s->is_first = tw_eq(b, tw_add(b, whole, stage), begin);
    tw_val tile = divide(b, stage, s->stages), within = tw_sub(b, stage, tw_mul(b, tile, s->stages));
    tw_val count = tw_min(b, tw_sub(b, s->stages, within), tw_sub(b, end, stage));
    s->tile = tw_select(b, cut, tile, whole);
    s->first = tw_select(b, cut, within, tw_i32(b, 0));
    s->count = tw_select(b, cut, count, s->stages);
    tw_assign(b, whole, tw_select(b, cut, whole, tw_add(b, whole, s->blocks)));
    tw_assign(b, stage, tw_select(b, cut, tw_add(b, stage, count), stage));
    return loop;
}

/* Returns the end of a matrix. The launch before may have written it, so that the load must not count on read-only
   memory. */
static tw_val end_of(tw_builder *b, const tw_groups *s, tw_val group) {
    tw_val address = tw_add(b, s->ends, tw_mul_imm(b, tw_widen(b, group), 4));
    return tw_min(b, tw_ld(b, (tw_attrs){.type = TW_T_i32}, address), s->rows);
}

static tw_val tiles_of(tw_builder *b, const tw_groups *s, tw_val start, tw_val end) {
    return tw_div(b, tw_add_imm(b, tw_sub(b, end, start), s->height - 1), s->height);
}

tw_scope tw_groups_push(tw_builder *b, tw_groups *s, tw_val from, tw_val step) {
    tw_val zero = tw_i32(b, 0), tile = tw_var_of(b, from), group = tw_var_of(b, zero), start = tw_var_of(b, zero);
    tw_val end = tw_var_of(b, tw_max(b, end_of(b, s, zero), zero)), before = tw_var_of(b, zero);
    tw_val rows = tw_var_of(b, tiles_of(b, s, start, end)), more = tw_var_of(b, tw_const(b, TW_T_pred, 1));
    const tw_scope loop = tw_push_while(b);
    /* Goes on to the matrix that has the tile. */
    tw_assign(b, more, tw_le(b, tw_add(b, before, tw_mul(b, rows, s->columns)), tile));
    TW_WHILE (b, more) {
        tw_add_to(b, before, tw_mul(b, rows, s->columns));
        tw_add_to(b, group, tw_i32(b, 1));
        tw_assign(b, start, end);
        tw_val left = tw_lt(b, group, s->count);
        TW_IF (b, left) {
            tw_assign(b, end, tw_max(b, end_of(b, s, group), start));
            tw_assign(b, rows, tiles_of(b, s, start, end));
        }
        tw_assign(b, more, tw_and(b, left, tw_le(b, tw_add(b, before, tw_mul(b, rows, s->columns)), tile)));
    }
    tw_push_while_body(b, loop, tw_lt(b, group, s->count));
    tw_val within = tw_sub(b, tile, before), column = tw_binary(b, TW_OP_div_u32, within, rows);
    tw_val row = tw_sub(b, within, tw_mul(b, column, rows));
    s->group = tw_add_imm(b, group, 0);
    s->row = tw_add(b, start, tw_mul_imm(b, row, s->height));
    s->end = tw_max(b, end, zero);
    s->column = column;
    s->number = tw_max(b, tile, zero);
    tw_add_to(b, tile, step);
    return loop;
}

/* Each lane walks along all ends, since an end counts only if no earlier one is larger. */
tw_val tw_groups_tiles(tw_builder *b, const tw_groups *s) {
    tw_val zero = tw_i32(b, 0), sum = tw_var_of(b, zero), start = tw_var_of(b, zero);
    TW_FOR (b, group, zero, s->count, tw_i32(b, 1), false) {
        tw_val end = tw_max(b, end_of(b, s, group), start);
        tw_add_to(b, sum, tiles_of(b, s, start, end));
        tw_assign(b, start, end);
    }
    return tw_mul(b, sum, s->columns);
}
