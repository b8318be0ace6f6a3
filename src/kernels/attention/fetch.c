/* SPDX-License-Identifier: Apache-2.0 */
/* The warp that copies: queries of each tile, and blocks of keys and values in the order in which they are multiplied.
 */
#include "kernels/attention/generate.h"

static void fetch(tw_attention_gen *g, const tw_tile *tile, const tw_ring *ring, const tw_ring_cursor *c, tw_val map,
                  tw_val row, tw_val head, tw_val set) {
    tw_builder *b = g->b;
    tw_val full = tw_ring_fill(b, ring, c, tw_i32(b, tw_tile_bytes(tile))), zero = tw_i32(b, 0);
    const tw_tile_copy copy = {.map = map,
                               .to = tw_ring_data(b, ring, c, TW_NONE),
                               .origin = tile->k_major ? row : zero,
                               .k = tile->k_major ? zero : row,
                               .matrix = head,
                               .set = set,
                               .full = full};
    tw_tile_fetch(b, tile, &copy);
    tw_ring_advance(b, ring, c);
}

typedef struct cursors {
    tw_ring_cursor q, k, v;
} cursors;

/* Fetches the queries of several heads. */
static void fetch_packed(tw_attention_gen *g, const tw_ring_cursor *c, const tw_attention_tile *t, tw_val set) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q;
    tw_val full = tw_ring_fill(b, &g->q, c, tw_i32(b, tw_tile_bytes(q))), zero = tw_i32(b, 0);
    for (int k = 0; k < q->depth; k += q->width) {
        const tw_box box = {.map = g->arg.map_q, .at = {tw_i32(b, k), zero, t->row, t->head, set}};
        tw_val to = tw_add_imm(b, tw_ring_data(b, &g->q, c, TW_NONE), tw_tile_offset(q, 0, k));
        tw_tensor_load_box(b, (tw_attrs){.dims = 5}, to, &box, full, TW_NONE);
    }
    tw_ring_advance(b, &g->q, c);
}

/* Fetches the blocks of a tile. One thread calls it. */
static void fetch_part(tw_attention_gen *g, const cursors *c, const tw_attention_tile *t,
                       const tw_attention_blocks *blocks) {
    tw_builder *b = g->b;
    const tw_attention_plan *plan = &g->plan;
    tw_val zero = tw_i32(b, 0), head = tw_div(b, t->head, plan->heads / (int)g->p->kv_heads);
    /* Ragged rows of Q are those of one set. So are those of K and V that lie as Q's do. */
    tw_val q_set = g->p->ragged ? zero : t->sequence;
    tw_val kv_set = g->p->ragged && !g->p->capacity ? zero : t->sequence;
    tw_val last = tw_add_imm(b, blocks->below, -1);
    tw_val row = tw_var_of(b, tw_add(b, t->base, tw_mul_imm(b, last, g->c->columns)));
    if (plan->pack > 1)
        fetch_packed(g, &c->q, t, q_set);
    else
        fetch(g, &plan->q, &g->q, &c->q, g->arg.map_q, t->row, t->head, q_set);
    fetch(g, &plan->k, &g->keys, &c->k, g->arg.map_k, row, head, kv_set);
    TW_FOR (b, i, blocks->first, last, tw_i32(b, 1), false) {
        tw_val before = tw_add_imm(b, row, -g->c->columns);
        if (g->c->overlap) fetch(g, &plan->k, &g->keys, &c->k, g->arg.map_k, before, head, kv_set);
        fetch(g, &plan->v, &g->values, &c->v, g->arg.map_v, row, head, kv_set);
        if (!g->c->overlap) fetch(g, &plan->k, &g->keys, &c->k, g->arg.map_k, before, head, kv_set);
        tw_assign(b, row, before);
    }
    fetch(g, &plan->v, &g->values, &c->v, g->arg.map_v, row, head, kv_set);
}

static void fetch_tile(tw_attention_gen *g, const cursors *c, const tw_attention_tile *t) {
    const tw_attention_blocks blocks = tw_attention_blocks_of(g, t);
    TW_BLOCK (g->b, tw_attention_push_part(g, t, &blocks)) fetch_part(g, c, t, &blocks);
}

static cursors begin(tw_attention_gen *g) {
    tw_builder *b = g->b;
    return (cursors){tw_ring_begin(b, &g->q, 1), tw_ring_begin(b, &g->keys, 1), tw_ring_begin(b, &g->values, 1)};
}

/* Ragged sequences' tiles take registers to find, so that a warp of its own finds them. */
static void find_in_one_warp_and_fetch_in_another(tw_attention_gen *g, int first, tw_val lowest) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, first))) {
        tw_attention_finder f;
        tw_attention_push_found(g, &f, lowest);
        tw_attention_pop_found(g, &f);
    }
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, first + 1))) {
        const cursors c = begin(g);
        tw_attention_tile t;
        TW_BLOCK (b, tw_attention_push_told(g, &t))
            TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) fetch_tile(g, &c, &t);
    }
}

static void find_and_fetch(tw_attention_gen *g, int first, tw_val lowest) {
    tw_builder *b = g->b;
    TW_IF (b, tw_eq(b, g->warp, tw_i32(b, first))) {
        const cursors c = begin(g);
        tw_attention_finder f;
        tw_attention_push_found(g, &f, lowest);
        TW_IF (b, lowest) fetch_tile(g, &c, &f.tile);
        tw_attention_pop_found(g, &f);
    }
}

void tw_attention_fetch(tw_attention_gen *g) {
    tw_builder *b = g->b;
    const tw_attention_plan *plan = &g->plan;
    const bool ragged = g->p->ragged;
    const int warps = plan->groups * TW_ATTENTION_WARPS;
    if (plan->producer_registers)
        tw_do(b, TW_OP_setmaxnreg_dec, (tw_attrs){.count = plan->producer_registers}, TW_NONE, TW_NONE);
    tw_val lowest = tw_eq(b, g->tid, tw_i32(b, 32 * warps));
    TW_IF (b, lowest) {
        const tw_val maps[] = {g->arg.map_q, g->arg.map_k, g->arg.map_v, g->arg.map_o};
        for (int i = 0; i < 4; i++) tw_do(b, TW_OP_tensor_prefetch, (tw_attrs){0}, maps[i], TW_NONE);
        const tw_ring *const rings[] = {&g->q, &g->keys, &g->values};
        for (int i = 0; i < 3; i++) tw_ring_init(b, rings[i], b->kernel->target, 1, warps);
        tw_ring_init(b, &g->told, b->kernel->target, 1, 32 * (ragged ? warps + 1 : warps));
    }
    /* A warp that did not initialise the mbarriers waits for that before it fetches. */
    tw_do(b, ragged ? TW_OP_barrier_sync : TW_OP_barrier_arrive, (tw_attrs){.count = plan->threads},
          tw_i32(b, TW_ATTENTION_BEGIN), TW_NONE);
    if (g->c->early) {
        tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    (ragged ? find_in_one_warp_and_fetch_in_another : find_and_fetch)(g, warps, lowest);
}
