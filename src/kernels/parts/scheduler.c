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

tw_deal tw_deal_begin(tw_builder *b, tw_val counter) {
    return (tw_deal){.counter = counter,
                     .taken = tw_var_of(b, tw_i32(b, -1)),
                     .base = tw_var_of(b, tw_add_imm(b, tw_sreg(b, TW_SREG_ctaid_x), 1))};
}

tw_val tw_deal_number(tw_builder *b, const tw_deal *d) {
    return tw_add(b, d->base, tw_shfl(b, TW_MODE_idx, d->taken, tw_i32(b, 0), tw_i32(b, -1)));
}

static const tw_attrs relaxed = {.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};

void tw_deal_next(tw_builder *b, const tw_deal *d, tw_val lowest) {
    tw_attrs at = relaxed;
    at.rmw = TW_RMW_add;
    /* The number is used when the next tile is looked for, so that its latency is hidden. */
    TW_IF (b, lowest) tw_assign(b, d->taken, tw_atom(b, at, d->counter, tw_i32(b, 1), TW_NONE));
    tw_assign(b, d->base, tw_sreg(b, TW_SREG_nctaid_x));
}

/* As many numbers are taken as there are tiles. Whoever took the last one knows that no other is taken any more. */
void tw_deal_end(tw_builder *b, const tw_deal *d, tw_val lowest, tw_val tiles) {
    tw_attrs at = relaxed;
    at.rmw = TW_RMW_exch;
    tw_val last = tw_and(b, tw_le(b, tw_i32(b, 0), d->taken), tw_eq(b, d->taken, tw_add_imm(b, tiles, -1)));
    TW_IF (b, tw_and(b, lowest, last)) tw_atom(b, at, d->counter, tw_i32(b, 0), TW_NONE);
}

enum { EACH = 4 /* Matrices of a lane. */, LANES = 32 };

void tw_groups_begin(tw_builder *b, tw_groups *s) {
    tw_val zero = tw_i32(b, 0);
    s->next = tw_var_of(b, zero);
    s->row = tw_var_of(b, zero);
    s->tiles = tw_var_of(b, zero);
    s->before = tw_var_of(b, zero);
    for (int i = 0; i < EACH; i++) {
        s->start[i] = tw_var_of(b, zero);
        s->end[i] = tw_var_of(b, zero);
    }
}

/* Returns a matrix's end or count, or 0 behind the last one. The launch before may have written it, so that the load
   must not count on read-only memory. */
static tw_val read(tw_builder *b, const tw_groups *s, tw_val matrix) {
    tw_val address = tw_add(b, s->ends, tw_mul_imm(b, tw_widen(b, matrix), 4));
    tw_when(b, tw_lt(b, matrix, s->count));
    return tw_ld(b, (tw_attrs){.type = TW_T_i32}, address);
}

static tw_val tiles_of(tw_builder *b, const tw_groups *s, int i) {
    tw_val rows = tw_div(b, tw_add_imm(b, tw_sub(b, s->end[i], s->start[i]), s->height - 1), s->height);
    return tw_mul(b, rows, s->matrix.columns);
}

/* Returns what the lane `distance` below this one has. Lanes that have none below get their own. */
static tw_val from_below(tw_builder *b, tw_val x, int distance) {
    return tw_shfl(b, TW_MODE_up, x, tw_i32(b, distance), tw_i32(b, -1));
}

static tw_val from(tw_builder *b, tw_val x, tw_val lane) {
    return tw_shfl(b, TW_MODE_idx, x, lane, tw_i32(b, -1));
}

/* Sets the lane's rows from the ends. An end counts only if no earlier one is larger, so that they go through a prefix
   maximum. */
static void set_by_ends(tw_builder *b, const tw_groups *s, const tw_val *loaded) {
    tw_val end[EACH];
    for (int i = 0; i < EACH; i++) end[i] = tw_min(b, loaded[i], s->rows);
    for (int i = 1; i < EACH; i++) end[i] = tw_max(b, end[i], end[i - 1]);
    tw_val most = tw_max(b, end[EACH - 1], s->row);
    for (int d = 1; d < LANES; d *= 2) most = tw_max(b, most, from_below(b, most, d));
    tw_val lowest = tw_eq(b, s->lane, tw_i32(b, 0)), start = tw_select(b, lowest, s->row, from_below(b, most, 1));
    for (int i = 0; i < EACH; i++) {
        tw_assign(b, s->start[i], i ? s->end[i - 1] : start);
        tw_assign(b, s->end[i], tw_max(b, end[i], start));
    }
    tw_assign(b, s->row, from(b, most, tw_i32(b, LANES - 1)));
}

static void set_by_counts(tw_builder *b, const tw_groups *s, const tw_val *loaded, tw_val first) {
    for (int i = 0; i < EACH; i++) {
        tw_assign(b, s->start[i], tw_mul(b, tw_add_imm(b, first, i), s->reserved));
        tw_assign(b, s->end[i], tw_add(b, s->start[i], tw_max(b, tw_min(b, loaded[i], s->reserved), tw_i32(b, 0))));
    }
}

/* Loads the next matrices' rows, and sums their tiles up. */
static void load(tw_builder *b, const tw_groups *s) {
    tw_val first = tw_add(b, s->next, tw_mul_imm(b, s->lane, EACH)), tiles = tw_i32(b, 0), loaded[EACH];
    for (int i = 0; i < EACH; i++) loaded[i] = read(b, s, tw_add_imm(b, first, i));
    if (s->reserved.id)
        set_by_counts(b, s, loaded, first);
    else
        set_by_ends(b, s, loaded);
    for (int i = 0; i < EACH; i++) tiles = tw_add(b, tiles, tiles_of(b, s, i));
    tw_val sum = tiles;
    for (int d = 1; d < LANES; d *= 2) {
        tw_val other = from_below(b, sum, d);
        sum = tw_add(b, sum, tw_select(b, tw_lt(b, s->lane, tw_i32(b, d)), tw_i32(b, 0), other));
    }
    tw_assign(b, s->before, tw_add(b, s->tiles, tw_sub(b, sum, tiles)));
    tw_add_to(b, s->tiles, from(b, sum, tw_i32(b, LANES - 1)));
    tw_add_to(b, s->next, tw_i32(b, EACH * LANES));
}

tw_groups_tile tw_groups_find(tw_builder *b, tw_groups *s, tw_val number) {
    TW_WHILE (b, tw_and(b, tw_le(b, s->tiles, number), tw_lt(b, s->next, s->count))) load(b, s);
    tw_val some = tw_lt(b, number, s->tiles), all = tw_i32(b, -1);
    /* The lane that has the tile is the last one before whose matrices are no more tiles. */
    tw_val not_beyond = tw_le(b, s->before, number);
    tw_val lanes = tw_get(b, TW_OP_vote, (tw_attrs){.mode = TW_MODE_ballot}, TW_T_i32, not_beyond, all);
    tw_val owner = tw_add_imm(b, tw_unary(b, TW_OP_popc_i32, lanes), -1);
    tw_val group = tw_add(b, tw_add_imm(b, s->next, -EACH * LANES), tw_mul_imm(b, s->lane, EACH));
    tw_val start = s->start[0], end = s->end[0], before = s->before, next = s->before;
    for (int i = 1; i < EACH; i++) {
        next = tw_add(b, next, tiles_of(b, s, i - 1));
        tw_val later = tw_le(b, next, number);
        group = tw_add(b, group, tw_select(b, later, tw_i32(b, 1), tw_i32(b, 0)));
        start = tw_select(b, later, s->start[i], start);
        end = tw_select(b, later, s->end[i], end);
        before = tw_select(b, later, next, before);
    }
    start = from(b, start, owner);
    end = from(b, end, owner);
    tw_scheduler matrix = s->matrix;
    matrix.rows = tw_div(b, tw_add_imm(b, tw_sub(b, end, start), s->height - 1), s->height);
    const tw_scheduler_tile at = tw_scheduler_find(b, &matrix, tw_sub(b, number, from(b, before, owner)));
    return (tw_groups_tile){.group = tw_select(b, some, from(b, group, owner), all),
                            .row = tw_add(b, start, tw_mul_imm(b, at.row, s->height)),
                            .end = end,
                            .column = at.column};
}

static const tw_attrs entry = {.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared};

void tw_groups_tell(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, const tw_groups_tile *t) {
    const tw_val words[4] = {t->group, t->row, t->end, t->column};
    tw_val full = tw_ring_fill(b, r, c, TW_NONE);
    tw_st(b, entry, tw_ring_data(b, r, c, TW_NONE), words);
    tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, full, TW_NONE);
    tw_ring_advance(b, r, c);
}

tw_groups_tile tw_groups_hear(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c) {
    tw_val words[4] = {{0}};
    tw_ring_wait(b, r, tw_ring_full(b, r, c), c);
    tw_ld_vec(b, entry, tw_ring_data(b, r, c, TW_NONE), words);
    tw_ring_give_back(b, &(tw_ring_return){.ring = r, .empty = tw_ring_empty(b, r, c)});
    tw_ring_advance(b, r, c);
    return (tw_groups_tile){words[0], words[1], words[2], words[3]};
}
