/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels by mma.sync, for GPUs without wgmma. A block has one tile, and all of its warps copy (copy.c) and multiply.
   Copies are those of keys and of values by turns. Before each product its copy has landed for all threads, which are
   done with the product before, so that the copy that is next goes where that one's was. */
#include "kernels/attention/generate.h"
#include "kernels/parts/fragment.h"
#include "kernels/parts/meet.h"

enum { STEP = TW_FRAGMENT /* Elements along k of a product. */, SUMS = 4 /* Of its eight columns. */ };

/* A thread's part of a strip's queries, of each step along k. */
typedef tw_val held_queries[TW_ATTENTION_MOST_HEAD / STEP][TW_FRAGMENT_REGISTERS];

typedef struct state {
    tw_attention_source source;
    tw_attention_sight sight[TW_ATTENTION_STRIPS];
    tw_val slice;            /* The number of the warp's slice of keys. */
    tw_val first;            /* The tile's first block. */
    tw_val block;            /* Variable: the number of the block that is computed. */
    tw_val stage;            /* Variable: the offset of its stage in bytes. */
    tw_val q_at, k_at, v_at; /* Where the lane's first lines of the warp's queries and of the first stages are. */
    held_queries *queries;   /* Those of each strip, if they are held. */
} state;

static tw_mma_kind kind_of(const tw_attention_gen *g) {
    return g->p->type == TW_T_f16 ? TW_MMA_m16n8k16_f16 : TW_MMA_m16n8k16_bf16;
}

static tw_type pair_of(const tw_attention_gen *g) {
    return g->p->type == TW_T_f16 ? TW_T_f16x2 : TW_T_bf16x2;
}

/* Queries have k in the order in which keys of e4m3 have it. */
static tw_fragment_order order_of_queries(const tw_attention_gen *g) {
    return g->p->kv ? TW_FRAGMENT_A_FOURS : TW_FRAGMENT_A;
}

static int keys_of_slice(const tw_attention_gen *g) {
    return g->c->columns / g->c->slices;
}

static int elements_of_load(const tw_attention_gen *g) {
    return TW_FRAGMENT_BYTES / g->plan.k.es;
}

/* -- the ring */

static const char *const copies = "copies";

static int pending(const tw_attention_gen *g) {
    return 2 * g->c->stages - 2; /* Copies that are on their way while a product is computed. */
}

static void commit(tw_attention_gen *g) {
    tw_record_arrive(g->b, copies, TW_ARRIVAL_own, TW_ENGINE_OF_copy);
    tw_do(g->b, TW_OP_cp_async_commit, (tw_attrs){0}, TW_NONE, TW_NONE);
}

/* Waits for the copy of the next product, and for all threads. */
static void wait_for_copy(tw_attention_gen *g) {
    tw_builder *b = g->b;
    tw_record_wait(b, copies, TW_ENGINE_OF_copy, pending(g));
    tw_do(b, TW_OP_cp_async_wait, (tw_attrs){.count = pending(g)}, TW_NONE, TW_NONE);
    tw_record_end(b, copies);
    tw_part_meet(b, &(tw_meeting){0});
}

/* Copies a block if the tile has it. The tile's last block may end behind the last key. */
static void copy_if_there(tw_attention_gen *g, const state *s, bool values, tw_val block, tw_val stage, bool last) {
    tw_builder *b = g->b;
    TW_BLOCK (b, last ? TW_NO_BLOCK : tw_push_if(b, tw_le(b, s->first, block)))
        tw_attention_copy_block(g, &s->source, values, block, stage, last);
    commit(g);
}

/* Copies the queries, and what fills the ring but for the last block of values. */
static void begin_copies(tw_attention_gen *g, const state *s, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    tw_attention_copy_queries(g, t);
    for (int i = 0; i < g->c->stages; i++) {
        tw_val block = tw_add_imm(b, s->block, -i), stage = tw_i32(b, i * g->keys.bytes);
        tw_attention_look_up(g, &s->source, block);
        copy_if_there(g, s, false, block, stage, i == 0);
        if (i + 1 < g->c->stages) copy_if_there(g, s, true, block, stage, i == 0);
    }
}

/* Waits for the block's keys, and copies values where those before were. */
static void wait_for_keys(tw_attention_gen *g, const state *s, bool last) {
    tw_builder *b = g->b;
    const int stages = g->c->stages, bytes = g->keys.bytes;
    wait_for_copy(g);
    tw_val zero = tw_i32(b, 0), before = zero;
    if (stages > 1)
        before =
            tw_select(b, tw_eq(b, s->stage, zero), tw_i32(b, (stages - 1) * bytes), tw_add_imm(b, s->stage, -bytes));
    copy_if_there(g, s, true, tw_add_imm(b, s->block, 1 - stages), before, last && stages == 1);
    tw_attention_look_up(g, &s->source, tw_add_imm(b, s->block, -stages));
}

/* Waits until the block's values have arrived. Then the block's keys are in use no more, and copies of a later block's
   keys to their place begin. */
static void wait_for_values(tw_attention_gen *g, const state *s) {
    wait_for_copy(g);
    copy_if_there(g, s, false, tw_add_imm(g->b, s->block, -g->c->stages), s->stage, false);
}

static void next_block(tw_attention_gen *g, const state *s) {
    tw_builder *b = g->b;
    const int bytes = g->keys.bytes;
    tw_add_to(b, s->block, tw_i32(b, -1));
    if (g->c->stages == 1) return;
    tw_val next = tw_add_imm(b, s->stage, bytes), around = tw_eq(b, next, tw_i32(b, bytes * g->c->stages));
    tw_assign(b, s->stage, tw_select(b, around, tw_i32(b, 0), next));
}

/* -- products */

static void load_queries(tw_attention_gen *g, const state *s, int strip, int k, tw_val out[TW_FRAGMENT_REGISTERS]) {
    tw_val x[TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS];
    tw_fragment_load(g->b, &g->plan.q, order_of_queries(g), s->q_at, strip * TW_ATTENTION_STRIP, k, pair_of(g), x);
    for (int r = 0; r < TW_FRAGMENT_REGISTERS; r++) out[r] = x[0][r];
}

/* Adds the product of A, 16 by 16, and B's 16 columns. From zeros: `sums` are only written. */
static void multiply(tw_attention_gen *g, tw_val *sums, const tw_val *a, const tw_val *x, bool from_zeros) {
    tw_val zero = tw_f32(g->b, 0), zeros[SUMS] = {zero, zero, zero, zero};
    for (int i = 0; i < 2; i++)
        tw_mma(g->b, kind_of(g), sums + i * SUMS, a, x + i * 2, from_zeros ? zeros : sums + i * SUMS);
}

static void score(tw_attention_gen *g, const state *s) {
    tw_builder *b = g->b;
    const int step = elements_of_load(g);
    tw_val at = tw_add(b, s->k_at, s->stage);
    tw_val own[TW_ATTENTION_STRIPS][TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS];
    tw_record_begin(b, TW_ATTENTION_SCORE, TW_ENGINE_OF_tensor);
    for (int k = 0; k < g->plan.depth; k += step) {
        for (int n = 0; n < step / STEP; n++)
            for (int i = 0; i < g->plan.own && !g->plan.holds; i++) load_queries(g, s, i, k + n * STEP, own[i][n]);
        for (int key = 0; key < keys_of_slice(g); key += TW_FRAGMENT) {
            tw_val x[TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS];
            tw_fragment_load(b, &g->plan.k, TW_FRAGMENT_B, at, key, k, pair_of(g), x);
            for (int n = 0; n < step / STEP; n++)
                for (int i = 0; i < g->plan.own; i++) {
                    const tw_val *a = g->plan.holds ? s->queries[i][k / STEP + n] : own[i][n];
                    multiply(g, g->of[i].scores + key / 2, a, x[n], !k && !n);
                }
        }
    }
    tw_record_end(b, TW_ATTENTION_SCORE);
}

static void sum_values(tw_attention_gen *g, const state *s) {
    tw_builder *b = g->b;
    const int step = elements_of_load(g);
    tw_val at = tw_add(b, s->v_at, s->stage);
    tw_record_begin(b, TW_ATTENTION_SUM, TW_ENGINE_OF_tensor);
    for (int key = 0; key < keys_of_slice(g); key += STEP)
        for (int column = 0; column < g->plan.depth; column += step) {
            tw_val x[TW_FRAGMENT_PRODUCTS][TW_FRAGMENT_REGISTERS], a[TW_FRAGMENT_REGISTERS];
            tw_fragment_load(b, &g->plan.k, TW_FRAGMENT_B_ACROSS, at, key, column, pair_of(g), x);
            for (int n = 0; n < step / TW_FRAGMENT; n++)
                for (int i = 0; i < g->plan.own; i++) {
                    const tw_val *weights = g->of[i].weights + key / STEP * TW_FRAGMENT_REGISTERS;
                    for (int r = 0; r < TW_FRAGMENT_REGISTERS; r++) a[r] = tw_bitcast(b, pair_of(g), weights[r]);
                    multiply(g, g->of[i].sums + (column + n * TW_FRAGMENT) / 2, a, x[n], false);
                }
        }
    tw_record_end(b, TW_ATTENTION_SUM);
}

/* -- blocks */

/* Makes weights of the scores of all strips. Sums of no block before are zeros, and not rescaled. */
static void weigh(tw_attention_gen *g, const state *s, bool masked, bool rescales) {
    tw_builder *b = g->b;
    tw_val key = TW_NONE, keep[2];
    if (masked || g->p->mask)
        key = tw_add(b, tw_mul_imm(b, s->block, g->c->columns), tw_mul_imm(b, s->slice, keys_of_slice(g)));
    for (int i = 0; i < g->plan.own; i++) {
        tw_attention_turn_to(g, i);
        tw_record_begin(b, TW_ATTENTION_WEIGH, TW_ENGINE_OF_alu);
        tw_attention_weigh(g, &s->sight[i], key, masked, keep);
        tw_record_end(b, TW_ATTENTION_WEIGH);
        if (rescales)
            tw_attention_rescale(g, keep);
        else
            tw_attention_convert(g);
    }
}

/* Queries have landed with the first keys. */
static void hold_queries(tw_attention_gen *g, state *s) {
    for (int i = 0; i < g->plan.own && g->plan.holds; i++)
        for (int k = 0; k < g->plan.depth; k += STEP) load_queries(g, s, i, k, s->queries[i][k / STEP]);
}

/* `last`: it is the tile's last block, which comes first. */
static void compute_block(tw_attention_gen *g, state *s, bool masked, bool last) {
    wait_for_keys(g, s, last);
    if (last) hold_queries(g, s);
    score(g, s);
    weigh(g, s, masked, !last);
    wait_for_values(g, s);
    sum_values(g, s);
    next_block(g, s);
}

static void blocks_down_to(tw_attention_gen *g, state *s, tw_val from, bool masked) {
    tw_builder *b = g->b;
    tw_val count = tw_add_imm(b, tw_sub(b, s->block, from), 1);
    TW_FOR (b, i, tw_i32(b, 0), count, tw_i32(b, 1), false) compute_block(g, s, masked, false);
}

static state begin(tw_attention_gen *g, const tw_attention_tile *t, const tw_attention_blocks *blocks) {
    tw_builder *b = g->b;
    const tw_tile *q = &g->plan.q, *k = &g->plan.k;
    const int apart = tw_tile_offset(q, TW_ATTENTION_STRIP * g->plan.own, 0);
    tw_val slice = tw_rem(b, g->warp, g->c->slices);
    tw_val keys = tw_mul_imm(b, slice, tw_tile_offset(k, keys_of_slice(g), 0));
    tw_val own = tw_add(b, g->shared, tw_fragment_lane(b, q, order_of_queries(g), g->lane));
    tw_val along = tw_add(b, g->shared, tw_fragment_lane(b, k, TW_FRAGMENT_B, g->lane));
    tw_val across = tw_add(b, g->shared, tw_fragment_lane(b, k, TW_FRAGMENT_B_ACROSS, g->lane));
    return (state){.source = tw_attention_source_of(g, t),
                   .slice = slice,
                   .first = blocks->first,
                   .block = tw_var_of(b, tw_add_imm(b, blocks->below, -1)),
                   .stage = tw_var_of(b, tw_i32(b, 0)),
                   .q_at = tw_add(b, own, tw_mul_imm(b, g->team, apart)),
                   .k_at = tw_add(b, tw_add_imm(b, along, g->keys.first), keys),
                   .v_at = tw_add(b, tw_add_imm(b, across, g->values.first), keys)};
}

/* Stores the tile's results. The tile is read again from where it was left, since nothing needs its registers before.
 */
static void end(tw_attention_gen *g, const state *s, tw_val tile, tw_val parts) {
    tw_builder *b = g->b;
    tw_scope stores = TW_NO_BLOCK;
    if (g->c->slices > 1) {
        tw_attention_join_slices(g, s->slice);
        stores = tw_push_if(b, tw_eq(b, s->slice, tw_i32(b, 0)));
    }
    TW_BLOCK (b, stores) {
        const tw_attention_tile same = tw_attention_read_tile(b, tile);
        for (int i = 0; i < g->plan.own; i++) {
            tw_attention_turn_to(g, i);
            tw_attention_store(g, &same, parts);
        }
    }
}

static void compute_tile(tw_attention_gen *g, const tw_attention_tile *t, const tw_attention_blocks *blocks) {
    tw_builder *b = g->b;
    held_queries queries[TW_ATTENTION_STRIPS];
    state s = begin(g, t, blocks);
    s.queries = queries;
    tw_val tile = tw_add_imm(b, g->shared, g->values.first + g->c->stages * g->values.bytes);
    TW_IF (b, tw_eq(b, g->tid, tw_i32(b, 0))) tw_attention_write_tile(b, tile, t);
    begin_copies(g, &s, t);
    if (g->p->kv) tw_attention_load_scales(g, t);
    for (int i = 0; i < g->plan.own; i++) {
        tw_attention_turn_to(g, i);
        s.sight[i] = tw_attention_sight_of(g, t, blocks);
        tw_attention_reset(g);
    }
    compute_block(g, &s, !tw_attention_sees_all(g), true);
    if (g->p->causal || g->p->window) blocks_down_to(g, &s, tw_max(b, blocks->whole_below, blocks->first), true);
    blocks_down_to(g, &s, tw_max(b, blocks->whole_from, blocks->first), false);
    if (g->p->window) blocks_down_to(g, &s, blocks->first, true);
    end(g, &s, tile, blocks->parts);
}

void tw_attention_by_warps(tw_attention_gen *g) {
    tw_builder *b = g->b;
    tw_attention_declare(g);
    if (g->c->early) {
        tw_do(b, TW_OP_griddep_launch, (tw_attrs){0}, TW_NONE, TW_NONE);
        tw_do(b, TW_OP_griddep_wait, (tw_attrs){0}, TW_NONE, TW_NONE);
    }
    const tw_attention_tile t = tw_attention_first_tile(g);
    TW_IF (b, tw_le(b, tw_i32(b, 0), t.sequence)) {
        const tw_attention_blocks blocks = tw_attention_blocks_of(g, &t);
        TW_BLOCK (b, tw_attention_push_part(g, &t, &blocks)) compute_tile(g, &t, &blocks);
    }
}
