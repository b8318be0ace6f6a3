/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's frame: an instruction's positions, rows and heads, and how the warps' results meet in shared memory. */
#include "vm/cuda/attend.h"
#include "kernels/parts/activation.h"
#include "vm/cuda/norms.h"

tw_val tw_mega_cap_score(const tw_mega_gen *g, tw_val score) {
    const float cap = g->p->m->attn_cap;
    return cap > 0 ? tw_part_cap(g->b, score, cap * TW_SOFTMAX_LOG2E) : score;
}

typedef struct attention {
    tw_mega_gen *g;
    tw_mega_attender by;
    tw_val from, end; /* The first query head, and one past the last. */
    tw_val split, splits, window, q, out, k, v;
    tw_val fresh; /* Variable: the first position of the first batch that is not fetched yet. */
} attention;

/* Joins the warps' results, and stores finished heads, or parts of them if there are several splits. */
static void finish(const attention *a, tw_val row, tw_val head, tw_val heads) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int d = (int)p->m->head_dim, warps = p->tuning.warps, one = p->attend_heads * (d + 2) * 4;
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_mul_imm(b, heads, d))) {
        tw_val h = tw_div(b, i, d), e = tw_rem(b, i, d);
        tw_val at = tw_mega_at(b, tw_add_imm(b, g->shared, p->x), h, (d + 2) * 4);
        tw_val cell = tw_mega_at(b, at, e, 4), m[TW_MEGA_WARPS], most = TW_NONE, sum = TW_NONE, x = TW_NONE;
        for (int w = 0; w < warps; w++) {
            m[w] = tw_ld(b, tw_mega_shared(TW_T_f32, 1, w * one + d * 4), at);
            most = w ? tw_max(b, most, m[w]) : m[w];
        }
        for (int w = 0; w < warps; w++) {
            tw_val scale = tw_softmax_weight(b, m[w], most);
            tw_val s = tw_ld(b, tw_mega_shared(TW_T_f32, 1, w * one + d * 4 + 4), at);
            tw_val v = tw_ld(b, tw_mega_shared(TW_T_f32, 1, w * one), cell);
            sum = w ? tw_fma(b, s, scale, sum) : tw_mul(b, s, scale);
            x = w ? tw_fma(b, v, scale, x) : tw_mul(b, v, scale);
        }
        tw_val all = tw_add(b, head, h);
        TW_IF (b, tw_eq(b, a->splits, tw_i32(b, 1))) {
            tw_val y = tw_binary(b, TW_OP_div_f32, x, sum);
            tw_val to = tw_mega_at(b, tw_mega_at(b, a->out, row, p->m->n_heads * d * 4), all, d * 4);
            tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, to, e, 4), &y);
        } else {
            tw_val slots = tw_mul_imm(b, a->splits, p->m->n_heads), slot = tw_fma(b, all, a->splits, a->split);
            slot = tw_fma(b, row, slots, slot);
            tw_val to = tw_mega_at(b, a->out, slot, (d + 2) * 4);
            tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_mega_at(b, to, e, 4), &x);
            TW_IF (b, tw_eq(b, e, tw_i32(b, 0)))
                tw_st(b, (tw_attrs){.type = TW_T_f32, .vec = 2, .offset = 4 * d}, to, (tw_val[]){most, sum});
        }
    }
}

/* Finds the split's range of the positions that a row's query attends to. */
static void find_range(const attention *a, tw_val row, tw_mega_past *seen) {
    tw_builder *b = a->g->b;
    tw_val end = tw_add_imm(b, tw_mega_position(a->g, row), 1);
    tw_val far = tw_max(b, tw_sub(b, end, a->window), tw_i32(b, 0));
    tw_val start = tw_select(b, tw_lt(b, tw_i32(b, 0), a->window), far, tw_i32(b, 0)), n = tw_sub(b, end, start);
    tw_val low = tw_binary(b, TW_OP_div_u32, tw_mul(b, n, a->split), a->splits);
    tw_val high = tw_binary(b, TW_OP_div_u32, tw_mul(b, n, tw_add_imm(b, a->split, 1)), a->splits);
    seen->first = tw_add(b, start, low);
    seen->last = tw_add(b, start, high);
}

/* Finds the addresses of a head's keys and values. With several sequences row i reads the cache's heads of sequence
   i. */
static void find_past(const attention *a, tw_val kv_head, tw_val row, tw_mega_past *p) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const int64_t of_head = g->p->max_seq * g->p->m->head_dim * (int64_t)(tw_dtype_bits(g->p->kv) / 8);
    if (g->p->sequences > 1) kv_head = tw_add(b, kv_head, tw_mul_imm(b, row, g->p->m->n_kv_heads));
    p->k = tw_mega_at(b, a->k, kv_head, of_head);
    p->v = tw_mega_at(b, a->v, kv_head, of_head);
}

/* Attends with a row's query heads: up to plan.attend_heads of one key/value head at once, at `seen`'s positions. */
static void attend_row(attention *a, tw_val row, tw_mega_past *seen) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    const int per = (int)(p->m->n_heads / p->m->n_kv_heads);
    tw_val head = tw_var_of(b, a->from);
    TW_WHILE (b, tw_lt(b, head, a->end)) {
        tw_val kv_head = tw_div(b, head, per), shared = tw_sub(b, tw_mul_imm(b, tw_add_imm(b, kv_head, 1), per), head);
        tw_val heads = tw_min(b, tw_min(b, shared, tw_sub(b, a->end, head)), tw_i32(b, p->attend_heads));
        find_past(a, kv_head, row, seen);
        /* The fetch does not need the queries, so it goes first. */
        a->by.fetch_first(a->by.state, seen, a->fresh, seen->last);
        a->by.load_queries(a->by.state, a->q, row, p->turns ? tw_sub(b, head, a->from) : head, heads);
        tw_assign(b, a->fresh, tw_i32(b, 0));
        a->by.walk(a->by.state, seen);
        a->by.leave(a->by.state, heads);
        tw_mega_barrier(g);
        finish(a, row, head, heads);
        tw_op_to(b, head, TW_OP_add_i32, head, heads, TW_NONE);
        /* The next heads overwrite results that `finish` reads. A single row's last heads are followed by an arrival,
           which is a barrier. */
        TW_BLOCK (b, p->tokens == 1 ? tw_push_if(b, tw_lt(b, head, a->end)) : TW_NO_BLOCK) tw_mega_barrier(g);
    }
}

/* Waits for raw queries and keys, norms them and rotates them. The last split has the step's own position. */
static void wait_and_turn(attention *a) {
    tw_mega_gen *g = a->g;
    tw_builder *b = g->b;
    const tw_mega_raw raw = {.q = a->q,
                             .k = tw_mega_address(g, TW_W_FRESH_K),
                             .cache = a->k,
                             .rope = tw_mega_address(g, TW_W_ROPE),
                             .from = a->from,
                             .count = tw_sub(b, a->end, a->from),
                             .last = tw_eq(b, tw_add_imm(b, a->split, 1), a->splits)};
    tw_mega_pairs pairs = {0};
    tw_mega_find_pairs(g, &pairs);
    tw_mega_wait_alone(g);
    tw_mega_turn_raw(g, &pairs, &raw);
    a->q = tw_add_imm(b, g->shared, g->p->turned);
    tw_mega_barrier(g);
}

void tw_mega_build_attend(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const tw_mega_plan *p = g->p;
    tw_mega_by_lanes lanes;
    tw_mega_by_tensor tensor;
    attention a = {.g = g,
                   .by = p->attend_tensor ? tw_mega_attend_by_tensor(&tensor) : tw_mega_attend_by_lanes(&lanes),
                   .from = tw_mega_word(g, TW_W_FROM),
                   .split = tw_mega_word(g, TW_W_SPLIT),
                   .splits = tw_mega_word(g, TW_W_SPLITS),
                   .window = tw_mega_word(g, TW_W_WINDOW),
                   .q = tw_mega_address(g, TW_W_IN),
                   .out = tw_mega_address(g, TW_W_OUT),
                   .k = tw_mega_address(g, TW_W_K_CACHE),
                   .v = tw_mega_address(g, TW_W_V_CACHE)};
    a.end = tw_add(b, a.from, tw_mega_word(g, TW_W_COUNT));
    tw_val first_row = tw_i32(b, 0), rows = g->arg[TW_MEGA_ARG_N];
    if (p->tokens > 1) {
        first_row = tw_mega_word(g, TW_W_ROW_FROM);
        rows = tw_min(b, rows, tw_mega_word(g, TW_W_ROW_TO));
    }
    a.by.declare(a.by.state, g);
    /* The cache of earlier steps is complete, so the first batch's positions from them are fetched before the wait. */
    tw_mega_past seen;
    tw_val before = p->sequences > 1 ? tw_mega_position(g, first_row) : g->pos;
    find_past(&a, tw_div(b, a.from, (int)(p->m->n_heads / p->m->n_kv_heads)), first_row, &seen);
    find_range(&a, first_row, &seen);
    a.by.fetch_first(a.by.state, &seen, TW_NONE, before);
    a.fresh = tw_var_of(b, before);
    if (p->turns)
        wait_and_turn(&a);
    else
        tw_mega_wait_alone(g);
    const bool several = p->tokens > 1;
    TW_LOOP (b, row, several ? tw_push_for(b, first_row, rows, tw_i32(b, 1), false) : TW_NO_LOOP(first_row)) {
        if (several) find_range(&a, row, &seen);
        attend_row(&a, row, &seen);
    }
}
