/* SPDX-License-Identifier: Apache-2.0 */
/* A tile whose keys are split. Each warp leaves its rows' sums, sums of weights and maxima in the workspace, and counts
   itself. The last of the warps that have these rows, in as many blocks, merges the sums in the order of the parts. A
   thread's values lie as it holds them, so that loads and stores are whole lines. */
#include "kernels/attention/generate.h"

#include <math.h>

enum { VECTOR = 4 /* Values of a load. */, BYTES = 16 /* Of a load. */, LINE = 32 * BYTES /* Of a warp's load. */ };

/* Loads of a thread: its sums, and one of maxima and sums of weights. */
static int vectors_of(const tw_attention_gen *g) {
    return g->plan.sums / VECTOR + 1;
}

static tw_val warp_of_tile(tw_attention_gen *g, const tw_attention_tile *t) {
    return tw_add(g->b, tw_mul_imm(g->b, t->index, (int64_t)g->plan.groups * TW_ATTENTION_WARPS), g->warp);
}

/* Computes the address of the thread's values of part 0. Those of the next part follow behind all of the warp. */
static tw_val first_part(tw_attention_gen *g, const tw_attention_tile *t) {
    tw_builder *b = g->b;
    const int64_t all = (int64_t)g->c->splits * vectors_of(g) * LINE;
    tw_val warp = tw_mul_imm(b, tw_widen(b, warp_of_tile(g, t)), all);
    return tw_add(b, g->arg.workspace, tw_add(b, warp, tw_widen(b, tw_mul_imm(b, g->lane, BYTES))));
}

static void leave(tw_attention_gen *g, tw_val at) {
    tw_builder *b = g->b;
    tw_attrs to = {.type = TW_T_f32, .vec = VECTOR};
    const tw_val state[VECTOR] = {g->max[0], g->max[1], g->sum[0], g->sum[1]};
    for (int i = 0; i < vectors_of(g); i++) {
        to.offset = i * LINE;
        tw_st(b, to, at, i ? g->sums + (ptrdiff_t)(i - 1) * VECTOR : state);
    }
}

/* Counts the warp, after all its writes. Returns the predicate that all others were counted before. */
static tw_val is_last(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts) {
    tw_builder *b = g->b;
    tw_val counter = tw_add(b, tw_add_imm(b, g->arg.counters, 4), tw_mul_imm(b, tw_widen(b, warp_of_tile(g, t)), 4));
    tw_val others = tw_add_imm(b, parts, -1), before = tw_var_of(b, tw_i32(b, 0)), all = tw_i32(b, -1);
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, all, TW_NONE);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) {
        const tw_attrs at = {.rmw = TW_RMW_inc, .type = TW_T_i32, .order = TW_ORDER_acq_rel, .scope = TW_SCOPE_gpu};
        tw_assign(b, before, tw_atom(b, at, counter, others, TW_NONE));
    }
    tw_do(b, TW_OP_warp_sync, (tw_attrs){0}, all, TW_NONE);
    return tw_eq(b, tw_shfl(b, TW_MODE_idx, before, tw_i32(b, 0), all), others);
}

/* Adds a part's sums to those of the parts before it. */
static void add_part(tw_attention_gen *g, tw_val at) {
    tw_builder *b = g->b;
    tw_attrs from = {.type = TW_T_f32, .vec = VECTOR, .cache = TW_CACHE_cg};
    tw_val state[VECTOR] = {{0}}, keep[2], take[2], none = tw_f32(b, -INFINITY), zero = tw_f32(b, 0);
    tw_ld_vec(b, from, at, state);
    for (int r = 0; r < 2; r++) {
        tw_val max = tw_max(b, g->max[r], state[r]), finite = tw_select(b, tw_eq(b, max, none), zero, max);
        tw_val scale = tw_f32(b, tw_attention_factor(g));
        keep[r] = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_sub(b, g->max[r], finite), scale));
        take[r] = tw_unary(b, TW_OP_exp2_f32, tw_mul(b, tw_sub(b, state[r], finite), scale));
        tw_assign(b, g->max[r], max);
        tw_op_to(b, g->sum[r], TW_OP_fma_f32, g->sum[r], keep[r], tw_mul(b, state[2 + r], take[r]));
    }
    for (int i = 0; i < g->plan.sums; i += VECTOR) {
        tw_val x[VECTOR] = {{0}};
        from.offset = (i / VECTOR + 1) * LINE;
        tw_ld_vec(b, from, at, x);
        for (int e = 0; e < VECTOR; e++) {
            const int r = (i + e) / 2 % 2;
            tw_op_to(b, g->sums[i + e], TW_OP_fma_f32, g->sums[i + e], keep[r], tw_mul(b, x[e], take[r]));
        }
    }
}

tw_val tw_attention_merge(tw_attention_gen *g, const tw_attention_tile *t, tw_val parts) {
    tw_builder *b = g->b;
    const int part = vectors_of(g) * LINE;
    tw_val first = first_part(g, t);
    leave(g, tw_add(b, first, tw_widen(b, tw_mul_imm(b, t->split, part))));
    tw_val last = is_last(g, t, parts);
    TW_IF (b, last) {
        tw_val at = tw_var_of(b, first);
        tw_attention_reset(g);
        TW_FOR (b, i, tw_i32(b, 0), parts, tw_i32(b, 1), false) {
            add_part(g, at);
            tw_add_to(b, at, tw_i64(b, part));
        }
    }
    return last;
}
