/* SPDX-License-Identifier: Apache-2.0 */
/* A tile whose keys are split. Each warp leaves its rows' sums, sums of weights and maxima in the workspace, and counts
   itself. The last of the warps that have these rows, in as many blocks, merges the sums in the order of the parts. A
   thread's values lie as it holds them, so that loads and stores are whole lines. */
#include "kernels/attention/generate.h"
#include "kernels/parts/meet.h"

#include <math.h>

enum {
    VECTOR = 4,        /* Values of a load. */
    BYTES = 16,        /* Of a load. */
    LINE = 32 * BYTES, /* Of a warp's load. */
    ROWS = TW_ATTENTION_STRIP,
    AT_ONCE = 4 /* The most parts that are loaded at once. */
};

/* Returns sum i of those that are left: all, or if a warp's lower eight rows have no queries those of the upper ones.
 */
static int sum_at(const tw_attention_gen *g, int i) {
    return g->plan.upper ? i / 2 * 4 + i % 2 : i;
}

static int sums_of(const tw_attention_gen *g) {
    return g->plan.sums / (g->plan.upper ? 2 : 1);
}

/* Loads of a thread: its sums, and one of maxima and sums of weights. */
static int vectors_of(const tw_attention_gen *g) {
    return sums_of(g) / VECTOR + 1;
}

/* Parts whose loads' registers a thread has beside its own sums, so that their latencies overlap. */
static int parts_at_once(const tw_attention_gen *g) {
    enum { OTHERS = 48 /* Registers for all else. */ };
    const int has = g->plan.consumer_registers ? g->plan.consumer_registers : g->plan.registers;
    const int n = (has - g->plan.sums - OTHERS) / (vectors_of(g) * VECTOR);
    return n < 1 ? 1 : n > AT_ONCE ? AT_ONCE : n;
}

static tw_val strip_of_tile(tw_attention_gen *g, const tw_attention_tile *t) {
    return tw_add(g->b, tw_mul_imm(g->b, t->index, g->plan.strips), g->strip);
}

/* Computes the address of the thread's values of part 0. Those of the next part follow behind all of the warp. */
static tw_val first_part(tw_attention_gen *g, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    const int64_t all = (int64_t)g->c->splits * vectors_of(g) * LINE;
    tw_val strip = tw_mul_imm(b, tw_widen(b, strip_of_tile(g, t)), all);
    return tw_add(b, g->arg.workspace, tw_add(b, strip, tw_widen(b, tw_mul_imm(b, g->lane, BYTES))));
}

static void leave(tw_attention_gen *g, tw_val at, int space) {
    tw_builder *b = g->b;
    tw_attrs to = {.type = TW_T_f32, .vec = VECTOR, .space = space};
    const tw_val state[VECTOR] = {g->max[0], g->max[1], g->sum[0], g->sum[1]};
    tw_st(b, to, at, state);
    for (int i = 0; i < sums_of(g); i += VECTOR) {
        tw_val x[VECTOR];
        for (int e = 0; e < VECTOR; e++) x[e] = g->sums[sum_at(g, i + e)];
        to.offset += LINE;
        tw_st(b, to, at, x);
    }
}

/* Counts the warp, after all its writes. Returns the predicate that all others were counted before. */
static tw_val is_last(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts) {
    tw_builder *b = g->b;
    tw_val counter = tw_add(b, tw_add_imm(b, g->arg.counters, 4), tw_mul_imm(b, tw_widen(b, strip_of_tile(g, t)), 4));
    tw_val others = tw_add_imm(b, parts, -1), before = tw_var_of(b, tw_i32(b, 0)), all = tw_i32(b, -1);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, all, TW_NONE);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        const tw_attrs at = {.rmw = TW_RMW_inc, .type = TW_T_i32, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
        tw_assign(b, before, tw_atom(b, at, counter, others, TW_NONE));
    }
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, all, TW_NONE);
    return tw_eq(b, tw_shfl(b, TW_MODE_idx, before, tw_i32(b, 0), all), others);
}

/* A part's maxima and sums of weights, then its sums. */
typedef struct part {
    tw_val state[VECTOR], sums[TW_ATTENTION_SUMS];
} part;

static void load_part(tw_attention_gen *g, tw_val at, int space, part *p) {
    tw_attrs from = {.type = TW_T_f32, .vec = VECTOR, .space = space};
    if (space == TW_SPACE_global) from.cache = TW_CACHE_cg;
    tw_ld_vec(g->b, from, at, p->state);
    for (int i = 0; i < sums_of(g); i += VECTOR) {
        from.offset += LINE;
        tw_ld_vec(g->b, from, at, p->sums + i);
    }
}

/* Adds a part's sums to those of the parts before it. */
static void add_part(tw_attention_gen *g, const part *p) {
    tw_builder *b = g->b;
    tw_val keep[2], take[2], none = tw_f32(b, -INFINITY), zero = tw_f32(b, 0);
    for (int r = 0; r < 2; r++) {
        tw_val max = tw_max(b, g->max[r], p->state[r]), finite = tw_select(b, tw_eq(b, max, none), zero, max);
        tw_val scale = tw_attention_factor(g, 1);
        keep[r] = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_sub(b, g->max[r], finite), scale));
        take[r] = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_sub(b, p->state[r], finite), scale));
        tw_assign(b, g->max[r], max);
        tw_op_to(b, g->sum[r], TW_OP_fma_f32, g->sum[r], keep[r], tw_mul(b, p->state[2 + r], take[r]));
    }
    for (int i = 0; i < sums_of(g); i++) {
        const int at = sum_at(g, i), r = at / 2 % 2;
        tw_op_to(b, g->sums[at], TW_OP_fma_f32, g->sums[at], keep[r], tw_mul(b, p->sums[i], take[r]));
    }
}

/* Merges all parts. Behind the last one it is loaded again, with maxima of which nothing is taken. */
static void merge(tw_attention_gen *g, tw_val first, tw_val parts) {
    tw_builder *b = g->b;
    const int n = parts_at_once(g), bytes = vectors_of(g) * LINE;
    tw_val last = tw_add_imm(b, parts, -1), none = tw_f32(b, -INFINITY);
    TW_FOR (b, i, tw_i32(b, 0), parts, tw_i32(b, n), false) {
        part of[AT_ONCE] = {0};
        for (int k = 0; k < n; k++) {
            tw_val number = k ? tw_min(b, tw_add_imm(b, i, k), last) : i;
            load_part(g, tw_add(b, first, tw_widen(b, tw_mul_imm(b, number, bytes))), TW_SPACE_global, &of[k]);
        }
        for (int k = 0; k < n; k++) {
            tw_val is_part = tw_le(b, tw_add_imm(b, i, k), last);
            for (int r = 0; r < 2 && k; r++) of[k].state[r] = tw_select(b, is_part, of[k].state[r], none);
            add_part(g, &of[k]);
        }
    }
}

/* A warp whose rows have no queries neither leaves nor merges sums. */
static tw_val has_queries(tw_attention_gen *g, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    return tw_lt(b, tw_attention_row_of(g, t, tw_mul_imm(b, g->strip, ROWS)).query, t->end);
}

tw_val tw_attention_merge(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts) {
    tw_builder *b = g->b;
    const int bytes = vectors_of(g) * LINE;
    tw_val merges = tw_var_of(b, tw_const(b, TW_T_pred, 0));
    TW_IF (b, has_queries(g, t)) {
        tw_val first = first_part(g, t);
        leave(g, tw_add(b, first, tw_widen(b, tw_mul_imm(b, t->split, bytes))), TW_SPACE_global);
        tw_val last = is_last(g, t, parts);
        TW_IF (b, last) {
            tw_attention_reset(g);
            merge(g, first, parts);
        }
        tw_assign(b, merges, last);
    }
    return merges;
}

/* Computes the address of the thread's values of slice 1 of the strip. Those of the next slice follow. */
static tw_val first_slice(tw_attention_gen *g) {
    tw_builder *b = g->b;
    const int64_t all = (int64_t)(g->c->slices - 1) * vectors_of(g) * LINE;
    const int first = g->c->mma == TW_ATTENTION_BY_WARPS ? g->keys.first : g->plan.exchange;
    tw_val strip = tw_mul_imm(b, g->strip, all);
    return tw_add(b, tw_add_imm(b, g->shared, first), tw_add(b, strip, tw_mul_imm(b, g->lane, BYTES)));
}

void tw_attention_join_slices(tw_attention_gen *g, tw_val slice) {
    tw_builder *b = g->b;
    const int bytes = vectors_of(g) * LINE;
    const bool all = g->c->mma == TW_ATTENTION_BY_WARPS;
    const tw_meeting meeting = {.threads = all ? 0 : g->plan.groups * TW_ATTENTION_WARPS * 32,
                                .number = all ? 0 : TW_ATTENTION_JOIN};
    tw_val zero = tw_i32(b, 0);
    /* By wgmma: the sums of the tile before have been read. */
    tw_part_meet(b, &meeting);
    TW_IF (b, tw_lt(b, zero, slice))
        for (int i = 0; i < g->plan.own; i++) {
            tw_attention_turn_to(g, i);
            tw_val at = tw_add(b, first_slice(g), tw_mul_imm(b, tw_add_imm(b, slice, -1), bytes));
            leave(g, at, TW_SPACE_shared);
        }
    tw_part_meet(b, &meeting);
    TW_IF (b, tw_eq(b, slice, zero))
        for (int i = 0; i < g->plan.own; i++) {
            tw_attention_turn_to(g, i);
            for (int k = 1; k < g->c->slices; k++) {
                part other = {0};
                load_part(g, tw_add_imm(b, first_slice(g), (int64_t)(k - 1) * bytes), TW_SPACE_shared, &other);
                add_part(g, &other);
            }
        }
}
