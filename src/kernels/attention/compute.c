/* SPDX-License-Identifier: Apache-2.0 */
/* The warpgroups that multiply. With overlap, a block's scores are multiplied out while the values of the block before
   are, and its softmax is computed while the latter product still runs. The first blocks of a tile, of which some
   queries do not see all keys, have a loop of their own, so that the loop of the others has no mask. */
#include "kernels/attention/generate.h"

/* A tile's state in the loops over its blocks. */
typedef struct state {
    const tw_attention_sight *sight;
    const tw_ring_cursor *k, *v;
    tw_val q_at, k_at, v_at; /* Descriptors of the warpgroup's queries, and of the rings' first stages. */
    tw_val block;            /* Variable: number of the next block. */
} state;

/* Returns the keys of a block that a warpgroup has. */
static int keys_of_slice(const tw_attention_gen *g) {
    return g->c->columns / g->c->slices;
}

static tw_wgmma_kind kind_of(const tw_attention_gen *g) {
    return g->p->type == TW_T_f16 ? TW_WGMMA_f16 : TW_WGMMA_bf16;
}

static void give_back(tw_attention_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_ring_give_back(
        g->b, &(tw_ring_return){.ring = ring, .empty = tw_ring_empty(g->b, ring, c), .blocks = 1, .lane = g->lane});
    tw_ring_advance(g->b, ring, c);
}

/* Issues the product of the queries and a block of keys. */
static void score(tw_attention_gen *g, const state *s) {
    tw_builder *b = g->b;
    tw_tile keys = g->plan.k;
    keys.extent = keys_of_slice(g);
    const tw_tile_product product = {.kind = kind_of(g),
                                     .x = &g->plan.q,
                                     .y = &keys,
                                     .rows = TW_WGMMA_ROWS,
                                     .x_at = s->q_at,
                                     .y_at = tw_add(b, s->k_at, tw_shr(b, s->k->stage, 4)),
                                     .add = tw_const(b, TW_T_pred, 0),
                                     .sums = g->scores,
                                     .name = TW_ATTENTION_SCORE};
    tw_tile_multiply(b, &product);
}

/* Issues the product of the weights and a block of values. */
static void sum_values(tw_attention_gen *g, const state *s) {
    tw_builder *b = g->b;
    enum { STEP = 16 /* Keys of a wgmma. */, REGISTERS = 4 /* Its registers of A. */ };
    const tw_attrs at = {.wgmma = kind_of(g), .columns = g->plan.depth, .trans_b = true};
    tw_val v_at = tw_add(b, s->v_at, tw_shr(b, s->v->stage, 4)), yes = tw_const(b, TW_T_pred, 1);
    tw_tile_begin_named(b, TW_ATTENTION_SUM);
    for (int k = 0; k < keys_of_slice(g); k += STEP)
        tw_wgmma_rs(b, at, g->sums, g->weights + k / STEP * REGISTERS, tw_tile_at(b, &g->plan.v, v_at, 0, k), yes);
    tw_do(b, TW_OP_wgmma_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

static void wait_for(tw_attention_gen *g, const tw_ring *ring, const tw_ring_cursor *c) {
    tw_ring_wait(g->b, ring, tw_ring_full(g->b, ring, c), c);
}

/* -- turns: a warpgroup issues its products while the others compute */

static const tw_attrs turn = {.count = 2 * TW_ATTENTION_WARPS * 32};

static bool takes_turns(const tw_attention_gen *g) {
    return g->c->pingpong;
}

static void take_turn(tw_attention_gen *g) {
    tw_builder *b = g->b;
    if (!takes_turns(g)) return;
    tw_record_wait(b, TW_ATTENTION_TURNS, TW_ENGINE_OF_sync, 0);
    tw_do(b, TW_OP_barrier_sync, turn, tw_add_imm(b, g->group, TW_ATTENTION_TURN), TW_NONE);
    tw_record_end(b, TW_ATTENTION_TURNS);
}

static void pass_turn(tw_attention_gen *g) {
    tw_builder *b = g->b;
    if (!takes_turns(g)) return;
    tw_val last = tw_eq(b, g->group, tw_i32(b, g->plan.groups - 1));
    tw_val next = tw_select(b, last, tw_i32(b, 0), tw_add_imm(b, g->group, 1));
    tw_do(b, TW_OP_barrier_arrive, turn, tw_add_imm(b, next, TW_ATTENTION_TURN), TW_NONE);
}

/* Passes the first turn to the first warpgroup, on behalf of the last one. */
static void begin_turns(tw_attention_gen *g) {
    if (!takes_turns(g)) return;
    TW_IF (g->b, tw_eq(g->b, g->group, tw_i32(g->b, g->plan.groups - 1))) pass_turn(g);
}

static void end_turns(tw_attention_gen *g) {
    if (!takes_turns(g)) return;
    TW_IF (g->b, tw_eq(g->b, g->group, tw_i32(g->b, 0))) take_turn(g);
}

/* -- blocks */

/* Makes weights of the next block's scores, and counts the block. keep[] is as in tw_attention_weigh. */
static void weigh(tw_attention_gen *g, const state *s, bool masked, tw_val keep[2]) {
    tw_builder *b = g->b;
    tw_val key = masked || g->p->mask ? tw_mul_imm(b, s->block, g->c->columns) : TW_NONE;
    if (key.id && g->c->slices > 1) key = tw_add(b, key, tw_mul_imm(b, g->group, keys_of_slice(g)));
    tw_add_to(b, s->block, tw_i32(b, -1));
    tw_record_begin(b, TW_ATTENTION_WEIGH, TW_ENGINE_OF_alu);
    tw_attention_weigh(g, s->sight, key, masked, keep);
    tw_record_end(b, TW_ATTENTION_WEIGH);
}

/* Scores and weighs the first block. The loops' iterations begin with weights. */
static void begin_tile(tw_attention_gen *g, const state *s) {
    tw_builder *b = g->b;
    tw_val keep[2];
    wait_for(g, &g->keys, s->k);
    score(g, s);
    tw_tile_wait_named(b, TW_ATTENTION_SCORE, 0);
    give_back(g, &g->keys, s->k);
    weigh(g, s, !tw_attention_sees_all(g), keep);
    tw_attention_convert(g);
}

static void sum_block(tw_attention_gen *g, const state *s) {
    wait_for(g, &g->values, s->v);
    sum_values(g, s);
    tw_tile_wait_named(g->b, TW_ATTENTION_SUM, 0);
    give_back(g, &g->values, s->v);
}

/* Keeps ptxas from moving the computation of the weights behind the wait for the product with V. A store depends on the
   weights, and ptxas does not move stores behind that wait. Nothing is ever stored: the condition is a negative sum of
   weights. */
static void pin_weights(tw_attention_gen *g) {
    tw_builder *b = g->b;
    tw_val zero = tw_f32(b, 0);
    tw_when(b, tw_or(b, tw_lt(b, g->sum[0], zero), tw_lt(b, g->sum[1], zero)));
    tw_st(b, (tw_attrs){.type = TW_T_f32, .space = TW_SPACE_shared}, g->shared, &zero);
}

static void overlapped(tw_attention_gen *g, const state *s, bool masked) {
    tw_builder *b = g->b;
    tw_val keep[2];
    wait_for(g, &g->keys, s->k);
    take_turn(g);
    score(g, s);
    wait_for(g, &g->values, s->v);
    sum_values(g, s);
    pass_turn(g);
    tw_tile_wait_named(b, TW_ATTENTION_SCORE, 1);
    give_back(g, &g->keys, s->k);
    weigh(g, s, masked, keep);
    pin_weights(g);
    tw_tile_wait_named(b, TW_ATTENTION_SUM, 0);
    give_back(g, &g->values, s->v);
    tw_attention_rescale(g, keep);
}

/* One product after the other. */
static void in_order(tw_attention_gen *g, const state *s, bool masked) {
    tw_builder *b = g->b;
    tw_val keep[2];
    sum_block(g, s);
    wait_for(g, &g->keys, s->k);
    take_turn(g);
    score(g, s);
    pass_turn(g);
    tw_tile_wait_named(b, TW_ATTENTION_SCORE, 0);
    give_back(g, &g->keys, s->k);
    weigh(g, s, masked, keep);
    tw_attention_rescale(g, keep);
}

/* Goes on down to block `from`. */
static void blocks_down_to(tw_attention_gen *g, const state *s, tw_val from, bool masked) {
    tw_builder *b = g->b;
    tw_val count = tw_add_imm(b, tw_sub(b, s->block, from), 1);
    TW_FOR (b, i, tw_i32(b, 0), count, tw_i32(b, 1), false) (g->c->overlap ? overlapped : in_order)(g, s, masked);
}

static void compute_tile(tw_attention_gen *g, state *s, const tw_attention_tile *t, const tw_attention_blocks *blocks,
                         const tw_ring_cursor *q) {
    tw_builder *b = g->b;
    const tw_attention_sight sight = tw_attention_sight_of(g, t, blocks);
    s->sight = &sight;
    tw_assign(b, s->block, tw_add_imm(b, blocks->below, -1));
    tw_attention_reset(g);
    wait_for(g, &g->q, q);
    begin_tile(g, s);
    /* Without a mask's edge only the last key's block is no whole one, and that is the first. */
    if (g->p->causal || g->p->window) blocks_down_to(g, s, tw_max(b, blocks->whole_below, blocks->first), true);
    blocks_down_to(g, s, tw_max(b, blocks->whole_from, blocks->first), false);
    if (g->p->window) blocks_down_to(g, s, blocks->first, true);
    if (g->plan.results) give_back(g, &g->q, q);
    sum_block(g, s);
    if (g->c->slices > 1) tw_attention_join_slices(g, g->group);
    TW_BLOCK (b, g->c->slices > 1 ? tw_push_if(b, tw_eq(b, g->group, tw_i32(b, 0))) : TW_NO_BLOCK)
        tw_attention_store(g, t, blocks->parts);
    if (!g->plan.results) give_back(g, &g->q, q);
}

void tw_attention_compute(tw_attention_gen *g) {
    tw_builder *b = g->b;
    if (g->plan.consumer_registers)
        tw_do(b, TW_OP_setmaxnreg_inc, (tw_attrs){.count = g->plan.consumer_registers}, TW_NONE, TW_NONE);
    tw_attention_declare(g);
    const tw_ring_cursor q = tw_ring_begin(b, &g->q, 0), k = tw_ring_begin(b, &g->keys, 0),
                         v = tw_ring_begin(b, &g->values, 0);
    tw_val queries = g->shared, keys = tw_add_imm(b, g->shared, g->keys.first),
           values = tw_add_imm(b, g->shared, g->values.first);
    if (g->c->slices > 1) {
        keys = tw_add(b, keys, tw_mul_imm(b, g->group, tw_tile_offset(&g->plan.k, keys_of_slice(g), 0)));
        values = tw_add(b, values, tw_mul_imm(b, g->group, tw_tile_offset(&g->plan.v, 0, keys_of_slice(g))));
    } else {
        queries = tw_add(b, queries, tw_mul_imm(b, g->group, tw_tile_offset(&g->plan.q, TW_WGMMA_ROWS, 0)));
    }
    state s = {.k = &k,
               .v = &v,
               .q_at = tw_tile_descriptor(b, &g->plan.q, queries),
               .k_at = tw_tile_descriptor(b, &g->plan.k, keys),
               .v_at = tw_tile_descriptor(b, &g->plan.v, values),
               .block = tw_var_of(b, tw_i32(b, 0))};
    const tw_attrs begin = {.count = g->plan.threads};
    tw_do(b, TW_OP_barrier_sync, begin, tw_i32(b, TW_ATTENTION_BEGIN), TW_NONE);
    if (g->c->early) tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE); /* Before results are stored. */
    begin_turns(g);
    tw_attention_tile t;
    TW_BLOCK (b, tw_attention_push_told(g, &t)) {
        const tw_attention_blocks blocks = tw_attention_blocks_of(g, &t);
        TW_BLOCK (b, tw_attention_push_part(g, &t, &blocks)) compute_tile(g, &s, &t, &blocks, &q);
    }
    end_turns(g);
    /* Boxes are stored by lane 0 of each warp, which must not exit before they are. */
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) tw_do(b, TW_OP_bulk_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
}
