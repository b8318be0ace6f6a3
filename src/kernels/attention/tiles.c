/* SPDX-License-Identifier: Apache-2.0 */
/* Which tile is next, and which keys its queries see. One warp of the producer finds tiles, and tells the block's other
   warps by a ring in shared memory. */
#include "kernels/attention/generate.h"

enum { END = -1 /* The sequence that ends the tiles. */ };

static tw_val at_least(tw_builder *b, tw_val x, int least) {
    return tw_max(b, x, tw_i32(b, least));
}

static tw_val blocks_up_to(tw_builder *b, tw_val keys, int columns) {
    return tw_div(b, tw_add_imm(b, at_least(b, keys, 0), columns - 1), columns);
}

/* Leaves the blocks of the tile's part. Parts are equally long, except for that with the first keys. */
static void split_blocks(tw_attention_gen *g, const tw_attention_tile *t, tw_attention_blocks *x) {
    tw_builder *b = g->b;
    const int splits = g->c->splits;
    tw_val count = tw_sub(b, x->below, x->first), each = tw_div(b, tw_add_imm(b, count, splits - 1), splits);
    x->parts = tw_binary(b, TW_OP_div_u32, tw_add_imm(b, tw_add(b, count, each), -1), each);
    x->below = tw_sub(b, x->below, tw_mul(b, t->split, each));
    x->first = tw_max(b, x->first, tw_sub(b, x->below, each));
}

tw_attention_blocks tw_attention_blocks_of(tw_attention_gen *g, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    const int rows = g->plan.height, columns = g->c->columns, window = (int)g->p->window;
    tw_val position = tw_add(b, tw_sub(b, t->keys, t->end), t->row), zero = tw_i32(b, 0);
    tw_attention_blocks x = {.position = position, .first = zero, .whole_from = zero};
    tw_val seen = t->keys, by_all = t->keys; /* Ends of the keys that some query sees, and that all queries do. */
    /* Keys that a query sees behind its own. */
    const int behind = g->p->causal ? 0 : window ? window - 1 : -1;
    if (behind >= 0) {
        seen = tw_min(b, seen, tw_add_imm(b, position, (int64_t)rows + behind));
        by_all = tw_min(b, by_all, tw_add_imm(b, position, (int64_t)1 + behind));
    }
    x.below = at_least(b, blocks_up_to(b, seen, columns), 1);
    x.whole_below = tw_div(b, at_least(b, by_all, 0), columns);
    if (window) {
        tw_val from = at_least(b, tw_add_imm(b, position, (int64_t)1 - window), 0);
        x.first = tw_min(b, tw_div(b, from, columns), tw_add_imm(b, x.below, -1));
        x.whole_from = blocks_up_to(b, tw_add_imm(b, position, (int64_t)rows - window), columns);
    }
    x.parts = tw_i32(b, 1);
    if (g->c->splits > 1) split_blocks(g, t, &x);
    return x;
}

bool tw_attention_sees_all(const tw_attention_gen *g) {
    return !g->p->causal && !g->p->window && !g->p->ragged && g->p->keys % g->c->columns == 0;
}

/* -- finding tiles */

static tw_val load(tw_builder *b, tw_val array, tw_val i) {
    return tw_ld(b, (tw_attrs){.type = TW_T_i32}, tw_add(b, array, tw_mul_imm(b, tw_widen(b, i), 4)));
}

/* A band's tiles come head by head, the last queries first, since causal ones see the most keys. */
static tw_attention_tile even_tile(tw_attention_gen *g, tw_val number) {
    tw_builder *b = g->b;
    const tw_attention_plan *plan = &g->plan;
    const int heads = plan->heads, in_band = (int)(plan->row_tiles * plan->band), splits = g->c->splits;
    tw_val index = tw_div(b, number, splits);
    tw_val band = tw_div(b, index, in_band), within = tw_rem(b, index, in_band);
    tw_val head = tw_add(b, tw_mul_imm(b, band, plan->band), tw_rem(b, within, plan->band));
    tw_val row = tw_sub(b, tw_i32(b, (int)plan->row_tiles - 1), tw_div(b, within, plan->band));
    tw_val some = tw_lt(b, index, tw_i32(b, (int)plan->tiles));
    return (tw_attention_tile){.sequence = tw_select(b, some, tw_div(b, head, heads), tw_i32(b, END)),
                               .head = tw_rem(b, head, heads),
                               .row = tw_mul_imm(b, row, plan->height),
                               .end = tw_i32(b, (int)g->p->queries),
                               .keys = tw_i32(b, (int)g->p->keys),
                               .base = tw_i32(b, 0),
                               .split = tw_rem(b, number, splits),
                               .index = index};
}

/* Finds tile `number` of ragged sequences. The tiles of a sequence come in descending order of their queries, so that
   those with the most keys come first. */
static tw_attention_tile ragged_tile(tw_attention_gen *g, tw_groups *groups, tw_val number) {
    tw_builder *b = g->b;
    const tw_groups_tile found = tw_groups_find(b, groups, number);
    tw_val sequence = found.group, zero = tw_i32(b, 0);
    tw_attention_tile t = {.sequence = tw_var_of(b, sequence),
                           .head = tw_var_of(b, tw_div(b, found.column, g->c->splits)),
                           .row = tw_var_of(b, zero),
                           .end = tw_var_of(b, found.end),
                           .keys = tw_var_of(b, zero),
                           .base = tw_var_of(b, zero),
                           .split = tw_rem(b, found.column, g->c->splits),
                           .index = tw_div(b, number, g->c->splits)};
    TW_IF (b, tw_le(b, zero, sequence)) {
        tw_val start = load(b, g->arg.starts, sequence);
        tw_val rows = tw_sub(b, found.end, start), tiles = blocks_up_to(b, rows, g->plan.height);
        tw_val tile = tw_div(b, tw_sub(b, found.row, start), g->plan.height);
        tw_val turned = tw_add_imm(b, tw_sub(b, tiles, tile), -1);
        tw_assign(b, t.row, tw_add(b, start, tw_mul_imm(b, turned, g->plan.height)));
        tw_assign(b, t.keys, tw_min(b, load(b, g->arg.lengths, sequence), tw_i32(b, (int)g->p->keys)));
        if (!g->p->capacity && !g->p->page) tw_assign(b, t.base, start);
    }
    return t;
}

static tw_groups groups_of(tw_attention_gen *g) {
    tw_builder *b = g->b;
    tw_groups groups = {.ends = tw_add_imm(b, g->arg.starts, 4),
                        .rows = tw_i32(b, (int)g->p->queries),
                        .count = tw_i32(b, (int)g->p->batch),
                        .matrix = {.columns = tw_i32(b, g->plan.heads * g->c->splits), .band = 1},
                        .height = g->plan.height,
                        .lane = g->lane};
    tw_groups_begin(b, &groups);
    return groups;
}

tw_attention_tile tw_attention_first_tile(tw_attention_gen *g) {
    tw_val number = tw_sreg(g->b, TW_SREG_ctaid_x);
    if (!g->p->ragged) return even_tile(g, number);
    tw_groups groups = groups_of(g);
    return ragged_tile(g, &groups, number);
}

void tw_attention_write_tile(tw_builder *b, tw_val at, const tw_attention_tile *t) {
    const tw_val words[2][4] = {{t->sequence, t->head, t->row, t->end}, {t->keys, t->base, t->split, t->index}};
    for (int i = 0; i < 2; i++)
        tw_st(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared, .offset = 16 * i}, at, words[i]);
}

tw_attention_tile tw_attention_read_tile(tw_builder *b, tw_val at) {
    tw_val words[2][4] = {{{0}}};
    for (int i = 0; i < 2; i++)
        tw_ld_vec(b, (tw_attrs){.type = TW_T_i32, .vec = 4, .space = TW_SPACE_shared, .offset = 16 * i}, at, words[i]);
    return (tw_attention_tile){words[0][0], words[0][1], words[0][2], words[0][3],
                               words[1][0], words[1][1], words[1][2], words[1][3]};
}

static void tell(tw_attention_gen *g, const tw_ring_cursor *c, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    tw_val full = tw_ring_fill(b, &g->told, c, TW_NONE), at = tw_ring_data(b, &g->told, c, TW_NONE);
    tw_attention_write_tile(b, at, t);
    tw_do(b, TW_OP_mbarrier_arrive, (tw_attrs){0}, full, TW_NONE);
    tw_ring_advance(b, &g->told, c);
}

static tw_attention_tile hear(tw_attention_gen *g, const tw_ring_cursor *c) {
    tw_builder *b = g->b;
    tw_ring_wait(b, &g->told, tw_ring_full(b, &g->told, c), c);
    const tw_attention_tile t = tw_attention_read_tile(b, tw_ring_data(b, &g->told, c, TW_NONE));
    tw_ring_give_back(b, &(tw_ring_return){.ring = &g->told, .empty = tw_ring_empty(b, &g->told, c)});
    tw_ring_advance(b, &g->told, c);
    return t;
}

static tw_attention_tile variables(tw_builder *b) {
    tw_val zero = tw_i32(b, 0);
    return (tw_attention_tile){tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero),
                               tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero), tw_var_of(b, zero)};
}

static void assign(tw_builder *b, const tw_attention_tile *to, const tw_attention_tile *from) {
    tw_assign(b, to->sequence, from->sequence);
    tw_assign(b, to->head, from->head);
    tw_assign(b, to->row, from->row);
    tw_assign(b, to->end, from->end);
    tw_assign(b, to->keys, from->keys);
    tw_assign(b, to->base, from->base);
    tw_assign(b, to->split, from->split);
    tw_assign(b, to->index, from->index);
}

/* Finds the tile of a number, and tells the other warps. */
static tw_attention_tile find(tw_attention_gen *g, tw_attention_finder *f, tw_val number) {
    tw_builder *b = g->b;
    const tw_attention_tile t = g->p->ragged ? ragged_tile(g, &f->groups, number) : even_tile(g, number);
    TW_IF (b, f->lowest) tell(g, &f->told, &t);
    return t;
}

void tw_attention_push_found(tw_attention_gen *g, tw_attention_finder *f, tw_val lowest) {
    tw_builder *b = g->b;
    tw_val zero = tw_i32(b, 0);
    *f = (tw_attention_finder){.lowest = lowest, .told = tw_ring_begin(b, &g->told, 1)};
    if (g->p->ragged) f->groups = groups_of(g);
    if (!g->c->persistent) {
        f->tile = find(g, f, tw_sreg(b, TW_SREG_ctaid_x));
        f->loop = tw_push_if(b, tw_le(b, zero, f->tile.sequence));
        return;
    }
    f->deal = tw_deal_begin(b, g->arg.counters);
    f->tile = variables(b);
    f->loop = tw_push_while(b);
    const tw_attention_tile t = find(g, f, tw_deal_number(b, &f->deal));
    assign(b, &f->tile, &t);
    tw_push_while_body(b, f->loop, tw_le(b, zero, f->tile.sequence));
    tw_deal_next(b, &f->deal, lowest);
}

void tw_attention_pop_found(tw_attention_gen *g, tw_attention_finder *f) {
    tw_builder *b = g->b;
    tw_pop(b, f->loop);
    if (!g->c->persistent) return;
    tw_deal_end(b, &f->deal, f->lowest, g->p->ragged ? f->groups.tiles : tw_i32(b, (int)g->plan.tiles * g->c->splits));
}

tw_scope tw_attention_push_told(tw_attention_gen *g, tw_attention_tile *t) {
    tw_builder *b = g->b;
    const tw_ring_cursor c = tw_ring_begin(b, &g->told, 0);
    tw_val zero = tw_i32(b, 0);
    if (!g->c->persistent) {
        *t = hear(g, &c);
        return tw_push_if(b, tw_le(b, zero, t->sequence));
    }
    *t = variables(b);
    const tw_scope loop = tw_push_while(b);
    const tw_attention_tile heard = hear(g, &c);
    assign(b, t, &heard);
    tw_push_while_body(b, loop, tw_le(b, zero, t->sequence));
    return loop;
}

tw_scope tw_attention_push_part(tw_attention_gen *g, const tw_attention_tile *t, const tw_attention_blocks *blocks) {
    return g->c->splits > 1 ? tw_push_if(g->b, tw_lt(g->b, t->split, blocks->parts)) : TW_NO_BLOCK;
}
