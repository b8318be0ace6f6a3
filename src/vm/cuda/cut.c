/* SPDX-License-Identifier: Apache-2.0 */
/* A draw under cuts. What top-k, top-p and min-p leave is mostly few: a bound of it is found from the slots' bests, and
   the candidates above the bound are listed in shared memory, where the cuts are exact. If the list has no room for
   them, cut_all.c draws. */
#include "vm/cuda/cut.h"

enum {
    SLOTS = TW_CUT_HEADER,
    SLOT_BYTES = 16, /* f32 best, i32 first row, i32 rows: those of a head instruction. */
    QUARTER = TW_SAMPLE_STEPS - 2,
    QUARTERS = 128,   /* Quarters of octaves. Candidates beyond them have no mass. */
    ENTRY = 8 + 8 + 4 /* Bytes of a list's entry: i64 rank, i64 mass before it, i32 mass. */
};

int64_t tw_mega_cut_bytes(const tw_mega_plan *p) {
    const int64_t entries = p->cut_list > QUARTERS ? p->cut_list : QUARTERS, list = entries * ENTRY;
    const int64_t histogram = tw_cut_histogram_bytes();
    return SLOTS + (int64_t)SLOT_BYTES * p->slots + (list > histogram ? list : histogram);
}

/* ---- shared memory */

tw_val tw_cut_get(const tw_cut *c, tw_type t, int offset) {
    return tw_ld(c->g->b, tw_mega_shared(t, 1, offset), c->head);
}

void tw_cut_set(const tw_cut *c, int offset, tw_val x) {
    tw_st(c->g->b, tw_mega_shared(tw_value_type(c->g->b->kernel, x), 1, offset), c->head, &x);
}

tw_val tw_cut_load_at(const tw_cut *c, tw_type t, tw_val list, tw_val i) {
    return tw_ld(c->g->b, tw_mega_shared(t, 1, 0), tw_mega_at(c->g->b, list, i, tw_type_bits(t) / 8));
}

void tw_cut_store_at(const tw_cut *c, tw_val list, tw_val i, tw_val x) {
    const tw_type t = tw_value_type(c->g->b->kernel, x);
    tw_st(c->g->b, tw_mega_shared(t, 1, 0), tw_mega_at(c->g->b, list, i, tw_type_bits(t) / 8), &x);
}

tw_val tw_cut_rank_at(const tw_cut *c, tw_val i) {
    return tw_cut_load_at(c, TW_T_i64, c->list, i);
}

tw_attrs tw_cut_add_to(tw_type t, int offset) {
    return (tw_attrs){.rmw = TW_RMW_add,
                      .type = t,
                      .space = TW_SPACE_shared,
                      .offset = offset,
                      .order = TW_ORDER_relaxed,
                      .scope = TW_SCOPE_cta};
}

static tw_val best_of(const tw_cut *c, tw_val slot) {
    return tw_ld(c->g->b, tw_mega_shared(TW_T_f32, 1, 0), tw_mega_at(c->g->b, c->slots, slot, SLOT_BYTES));
}

tw_val tw_cut_is_first(tw_mega_gen *g) {
    return tw_eq(g->b, g->thread, tw_i32(g->b, 0));
}

tw_val tw_cut_below(tw_builder *b, tw_val x, tw_val y) {
    return tw_binary(b, TW_OP_lt_u64, x, y);
}

/* ---- candidates */

void tw_cut_consider(const tw_cut *c, tw_val z, tw_val id) {
    tw_argmax_take(c->g->b, &c->best, tw_draw_score(c->g->b, c->key, c->scale, z, id), id);
}

tw_val tw_cut_within_min_p(const tw_cut *c, tw_val z) {
    return tw_le(c->g->b, tw_draw_distance(c->g->b, c->scale, c->largest, z), c->min_p);
}

void tw_cut_leave(const tw_cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    const tw_argmax warp = tw_argmax_warp(b, &c->best);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_argmax_store(b, &warp, tw_mega_shared(TW_T_f32, 1, TW_CUT_CELLS),
                        tw_mega_at(b, c->head, g->warp, TW_ARGMAX_BYTES));
    tw_mega_barrier(g);
    TW_IF (b, tw_cut_is_first(g)) {
        const tw_argmax all = tw_argmax_of(b, TW_SAMPLE_LEAST);
        tw_argmax_take_cells(b, &all, c->head, TW_CUT_CELLS, g->p->tuning.warps);
        tw_mega_leave(g, c->o, c->sequence, tw_mega_number_or_first(b, all.number));
    }
}

void tw_cut_list(const tw_cut *c, tw_val z, tw_val id) {
    tw_builder *b = c->g->b;
    tw_val place = tw_atom(b, tw_cut_add_to(TW_T_i32, TW_CUT_COUNT), c->head, tw_i32(b, 1), TW_NONE);
    TW_IF (b, tw_lt(b, place, tw_i32(b, c->g->p->cut_list))) {
        tw_val rank = tw_draw_rank(b, c->order, z, id);
        tw_val mass = tw_draw_mass(b, tw_draw_distance(b, c->scale, c->largest, z));
        tw_cut_store_at(c, c->list, place, rank);
        tw_cut_store_at(c, c->mass, place, mass);
    }
}

void tw_cut_load(const tw_cut *c, tw_cut_logits *s, int loads, tw_val first, int apart, tw_val from, tw_val count) {
    tw_builder *b = c->g->b;
    for (int u = 0; u < loads; u++) {
        tw_val row = tw_add_imm(b, first, u * apart);
        s->row[u] = tw_add(b, from, row);
        s->there[u] = tw_lt(b, row, count);
        for (int e = 0; e < c->width; e++) s->z[u][e] = TW_NONE;
        tw_val from_row = tw_mega_at(b, c->logits, s->row[u], 4);
        tw_when(b, s->there[u]);
        tw_ld_vec(b, tw_mega_l2(TW_T_f32, c->width, 0), from_row, s->z[u]);
    }
}

tw_val tw_cut_add_mass(tw_builder *b, tw_val sum, tw_val mass) {
    return tw_add(b, sum, tw_unary(b, TW_OP_zext_i64_i32, mass));
}

/* ---- the list */

/* Builds a loop of each warp over its slots. `bound` leaves out slots whose best is below it; TW_NONE: none. `visit`
   builds the use of the logits that a lane loads together. */
static void for_slots(const tw_cut *c, tw_val bound,
                      void (*visit)(const tw_cut *, const tw_cut_logits *, tw_val bound, tw_val with), tw_val with) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    const int stride = 32 * c->width;
    TW_FOR (b, slot, g->warp, c->o->slots, tw_i32(b, g->p->tuning.warps), false) {
        tw_val cell = tw_mega_at(b, c->slots, slot, SLOT_BYTES);
        tw_val least = bound.id ? bound : tw_i32(b, 0);
        TW_IF (b, tw_le(b, least, bound.id ? tw_ld(b, tw_mega_shared(TW_T_f32, 1, 0), cell) : slot)) {
            tw_val from = tw_ld(b, tw_mega_shared(TW_T_i32, 1, 4), cell);
            tw_val count = tw_ld(b, tw_mega_shared(TW_T_i32, 1, 8), cell);
            TW_FOR (b, row, tw_mul_imm(b, g->lane, c->width), count, tw_i32(b, stride * TW_CUT_LOADS), false) {
                tw_cut_logits s;
                tw_cut_load(c, &s, TW_CUT_LOADS, row, stride, from, count);
                visit(c, &s, bound, with);
            }
        }
    }
}

/* Appends a lane's candidates at or above the bound to the list. `bits` has a bit for each load and element. Candidates
   are few, so their logits are loaded again rather than kept in registers. */
static void list_some(const tw_cut *c, const tw_cut_logits *s, tw_val bound, tw_val bits) {
    tw_builder *b = c->g->b;
    tw_assign(b, bits, tw_i32(b, 0));
    for (int u = 0; u < TW_CUT_LOADS; u++)
        for (int e = 0; e < c->width; e++) {
            tw_val hit = tw_and(b, s->there[u], tw_le(b, bound, s->z[u][e]));
            tw_val bit = tw_select(b, hit, tw_i32(b, (int32_t)(1u << (u * c->width + e))), tw_i32(b, 0));
            tw_op_to(b, bits, TW_OP_or_i32, bits, bit, TW_NONE);
        }
    TW_WHILE (b, tw_ne(b, bits, tw_i32(b, 0))) {
        tw_val bit = tw_sub(b, tw_i32(b, 31), tw_unary(b, TW_OP_clz_i32, bits));
        tw_val one = tw_binary(b, TW_OP_shl_i32, tw_i32(b, 1), bit);
        tw_val load = tw_div(b, bit, c->width), e = tw_rem(b, bit, c->width);
        tw_val row = tw_add(b, tw_add(b, s->row[0], tw_mul_imm(b, load, 32 * c->width)), e);
        tw_cut_list(c, tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), tw_mega_at(b, c->logits, row, 4)), row);
        tw_op_to(b, bits, TW_OP_xor_i32, bits, one, TW_NONE);
    }
}

/* Counts a lane's candidates in each quarter of an octave of probability, and adds their mass to `sum`. */
static void count_some(const tw_cut *c, const tw_cut_logits *s, tw_val bound, tw_val sum) {
    tw_builder *b = c->g->b;
    tw_val none = tw_i32(b, 0), one = tw_i32(b, 1);
    (void)bound;
    for (int u = 0; u < TW_CUT_LOADS; u++)
        for (int e = 0; e < c->width; e++) {
            tw_val far = tw_draw_distance(b, c->scale, c->largest, s->z[u][e]);
            tw_val mass = tw_select(b, s->there[u], tw_draw_mass(b, far), none), quarter = tw_shr(b, far, QUARTER);
            tw_val bin = tw_mega_at(b, c->mass, tw_min(b, quarter, tw_i32(b, QUARTERS - 1)), 4);
            tw_assign(b, sum, tw_cut_add_mass(b, sum, mass));
            tw_when(b, tw_ne(b, mass, none));
            tw_red(b, tw_cut_add_to(TW_T_i32, 0), bin, &one);
        }
}

/* Adds the mass of all candidates to TW_CUT_SUM, and counts them by quarters of octaves. */
static void count_octaves(const tw_cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val none = tw_i32(b, 0);
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_i32(b, QUARTERS))) tw_cut_store_at(c, c->mass, i, none);
    tw_mega_barrier(g);
    tw_val sum = tw_var_of(b, tw_i64(b, 0));
    for_slots(c, TW_NONE, count_some, sum);
    tw_val of_warp = tw_part_warp_sum(b, sum, 1, 32);
    tw_when(b, tw_eq(b, g->lane, none));
    tw_red(b, tw_cut_add_to(TW_T_i64, TW_CUT_SUM), c->head, &of_warp);
    tw_mega_barrier(g);
}

/* Finds the steps beyond which no candidate is within top-p. All candidates there have at most the mass that top-p
   leaves out, even if each is taken for the largest of its quarter. */
static tw_val find_reach(const tw_cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    count_octaves(c);
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_i32(b, QUARTERS))) {
        tw_val wide[2];
        wide[0] = tw_unary(b, TW_OP_zext_i64_i32, tw_cut_load_at(c, TW_T_i32, c->mass, i));
        wide[1] = tw_unary(b, TW_OP_zext_i64_i32, tw_draw_mass(b, tw_shl(b, i, QUARTER)));
        tw_val most = tw_mul(b, wide[0], wide[1]);
        tw_cut_store_at(c, c->list, i, most);
    }
    tw_mega_barrier(g);
    TW_IF (b, tw_cut_is_first(g)) {
        tw_val sum = tw_cut_get(c, TW_T_i64, TW_CUT_SUM), spare = tw_sub(b, sum, tw_draw_share(b, sum, c->top_p));
        tw_val last = tw_var_of(b, tw_i32(b, QUARTERS)), beyond = tw_var_of(b, tw_i64(b, 0));
        TW_WHILE (b, tw_and(b, tw_lt(b, tw_i32(b, 0), last), tw_not(b, tw_cut_below(b, spare, beyond)))) {
            tw_assign(b, last, tw_add_imm(b, last, -1));
            tw_assign(b, beyond, tw_add(b, beyond, tw_cut_rank_at(c, last)));
        }
        tw_cut_set(c, TW_CUT_FOUND, last);
    }
    tw_mega_barrier(g);
    return tw_shl(b, tw_add_imm(b, tw_cut_get(c, TW_T_i32, TW_CUT_FOUND), 1), QUARTER);
}

void tw_cut_place(const tw_cut *c, tw_val rank, tw_val n, tw_val *place, tw_val *mass) {
    tw_builder *b = c->g->b;
    *place = tw_var_of(b, tw_i32(b, 0));
    *mass = tw_var_of(b, tw_i64(b, 0));
    TW_FOR (b, j, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_val other = tw_cut_rank_at(c, j);
        tw_val weight = tw_cut_load_at(c, TW_T_i32, c->mass, j), before = tw_cut_below(b, other, rank);
        tw_assign(b, *place, tw_add(b, *place, tw_select(b, before, tw_i32(b, 1), tw_i32(b, 0))));
        tw_assign(b, *mass, tw_cut_add_mass(b, *mass, tw_select(b, before, weight, tw_i32(b, 0))));
    }
}

/* Applies the cuts to the list, which holds every candidate that may survive them, and draws from the survivors. */
static void draw_from_list(const tw_cut *c, tw_val n) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val cuts_k = tw_lt(b, tw_i32(b, 0), c->top_k), cuts_p = tw_ne(b, c->top_p, tw_i32(b, 0));
    tw_val k = tw_select(b, cuts_k, tw_min(b, c->top_k, n), tw_i32(b, INT32_MAX)), nothing = tw_i64(b, -1);
    TW_LOOP (b, i, tw_mega_thread_loop(g, n)) {
        tw_val place, before, rank = tw_cut_rank_at(c, i);
        tw_cut_place(c, rank, n, &place, &before);
        tw_val left = tw_select(b, tw_lt(b, place, k), tw_add(b, before, tw_i64(b, 0)), nothing);
        tw_cut_store_at(c, c->before, i, left);
        TW_IF (b, tw_and(b, cuts_k, tw_eq(b, place, tw_add_imm(b, k, -1))))
            tw_cut_set(c, TW_CUT_SUM, tw_cut_add_mass(b, before, tw_cut_load_at(c, TW_T_i32, c->mass, i)));
    }
    tw_mega_barrier(g);
    tw_val share = tw_draw_share(b, tw_cut_get(c, TW_T_i64, TW_CUT_SUM), c->top_p);
    share = tw_select(b, cuts_p, share, nothing);
    TW_LOOP (b, i, tw_mega_thread_loop(g, n)) {
        tw_val before = tw_cut_load_at(c, TW_T_i64, c->before, i), rank = tw_cut_rank_at(c, i);
        tw_val far = tw_unary(b, TW_OP_high_i32_i64, rank);
        tw_val z = tw_draw_unordered(b, tw_sub(b, c->order, far));
        TW_IF (b, tw_and(b, tw_cut_below(b, before, share), tw_cut_within_min_p(c, z)))
            tw_cut_consider(c, z, tw_unary(b, TW_OP_low_i32_i64, rank));
    }
    tw_cut_leave(c);
}

/* ---- the draw */

/* Finds a lower bound of the logits that survive the cuts, before all logits are read. With `few` it is the k-th
   largest of the slots' bests, which k logits reach. With `by_steps` it is `reach` steps below the largest. */
static tw_val find_bound(const tw_cut *c, tw_val few, tw_val by_steps, tw_val reach) {
    tw_builder *b = c->g->b;
    TW_IF (b, few) {
        TW_LOOP (b, i, tw_mega_thread_loop(c->g, c->o->slots)) {
            tw_val mine = best_of(c, i), before = tw_var_of(b, tw_i32(b, 0));
            TW_FOR (b, j, tw_i32(b, 0), c->o->slots, tw_i32(b, 1), true) {
                tw_val other = best_of(c, j);
                tw_val first = tw_or(b, tw_lt(b, mine, other), tw_and(b, tw_eq(b, mine, other), tw_lt(b, j, i)));
                tw_assign(b, before, tw_add(b, before, tw_select(b, first, tw_i32(b, 1), tw_i32(b, 0))));
            }
            tw_when(b, tw_eq(b, tw_add_imm(b, before, 1), c->top_k));
            tw_cut_set(c, TW_CUT_BOUND, mine);
        }
        tw_mega_barrier(c->g);
    }
    tw_val bound = tw_var_of(b, tw_cut_get(c, TW_T_f32, TW_CUT_BOUND));
    TW_IF (b, by_steps) {
        /* The bound is lower than exact, to allow for rounding. The exact comparison comes later. */
        tw_val steps = tw_unary(b, TW_OP_cvt_f32_s32, tw_add_imm(b, reach, 2));
        tw_val octaves = tw_mul(b, steps, tw_f32(b, 1.0001f / (1 << TW_SAMPLE_STEPS)));
        tw_val least = tw_sub(b, c->largest, tw_binary(b, TW_OP_div_f32, octaves, c->scale));
        tw_assign(b, bound, tw_max(b, least, bound));
    }
    return bound;
}

static void draw(tw_cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val zero = tw_i32(b, 0), cuts_k = tw_lt(b, zero, c->top_k), cuts_p = tw_ne(b, c->top_p, zero);
    tw_val few = tw_and(b, cuts_k, tw_le(b, c->top_k, c->o->slots)), all = tw_and(b, cuts_p, tw_not(b, cuts_k));
    tw_val reach = tw_var_of(b, c->min_p);
    TW_IF (b, all) tw_assign(b, reach, find_reach(c));
    tw_val bound = find_bound(c, few, tw_not(b, cuts_k), reach);
    /* Without a bound, a list is only worthwhile if it has room for the whole vocabulary. */
    const bool all_fit = g->p->vocab <= g->p->cut_list;
    tw_val n = tw_var_of(b, tw_i32(b, INT32_MAX)), bounded = tw_or(b, few, tw_not(b, cuts_k));
    TW_BLOCK (b, all_fit ? TW_NO_BLOCK : tw_push_if(b, bounded)) {
        for_slots(c, bound, list_some, tw_var_of(b, tw_i32(b, 0)));
        tw_mega_barrier(g);
        tw_assign(b, n, tw_cut_get(c, TW_T_i32, TW_CUT_COUNT));
    }
    TW_IF (b, tw_le(b, n, tw_i32(b, g->p->cut_list))) {
        draw_from_list(c, n);
    } else if (!all_fit) {
        tw_cut_draw_from_all(c);
    }
}

/* Copies the slots' bests and rows to shared memory and initialises the header of a draw. Every warp computes the
   largest of the bests. */
static void begin_cut(tw_cut *c, tw_val table) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    TW_LOOP (b, i, tw_mega_thread_loop(g, c->o->slots)) {
        tw_val rows[2] = {{0}};
        tw_val from = tw_mega_at(b, tw_mega_at(b, c->o->best, i, 8 * g->p->sequences), c->sequence, 8);
        tw_val best = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), from), cell = tw_mega_at(b, c->slots, i, SLOT_BYTES);
        tw_ld_vec(b, tw_mega_fixed(TW_T_i32, 2, 0), tw_mega_at(b, table, i, 8), rows);
        tw_st(b, tw_mega_shared(TW_T_f32, 1, 0), cell, &best);
        for (int r = 0; r < 2; r++) tw_st(b, tw_mega_shared(TW_T_i32, 1, 4 + 4 * r), cell, &rows[r]);
    }
    TW_IF (b, tw_cut_is_first(g)) {
        tw_cut_set(c, TW_CUT_COUNT, tw_i32(b, 0));
        tw_cut_set(c, TW_CUT_BOUND, tw_f32(b, nextafterf(TW_SAMPLE_LEAST, 0)));
        tw_cut_set(c, TW_CUT_SUM, tw_i64(b, 0));
        tw_cut_set(c, TW_CUT_LIMIT, tw_i64(b, -1));
    }
    tw_mega_barrier(g);
    tw_val value = tw_var_of(b, tw_f32(b, TW_SAMPLE_LEAST));
    TW_FOR (b, i, g->lane, c->o->slots, tw_i32(b, 32), false) tw_assign(b, value, tw_max(b, value, best_of(c, i)));
    c->largest = tw_part_warp_max(b, tw_add(b, value, tw_f32(b, 0)), 1, 32);
    c->order = tw_draw_ordered(b, c->largest);
}

void tw_mega_build_cut(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence, tw_val rules) {
    tw_builder *b = g->b;
    tw_cut c = {.g = g, .o = o, .sequence = sequence, .width = g->p->fours ? 4 : 1};
    c.logits = tw_mega_at(b, o->logits, sequence, 4 * g->p->vocab);
    c.head = tw_add_imm(b, g->shared, g->p->x);
    c.slots = tw_add_imm(b, c.head, SLOTS);
    c.list = tw_add_imm(b, c.slots, SLOT_BYTES * g->p->slots);
    const int entries = g->p->cut_list > QUARTERS ? g->p->cut_list : QUARTERS;
    c.before = tw_add_imm(b, c.list, 8 * entries);
    c.mass = tw_add_imm(b, c.before, 8 * entries);
    c.scale = TW_MEGA_RULE(g, rules, TW_T_f32, scale);
    c.top_k = TW_MEGA_RULE(g, rules, TW_T_i32, top_k);
    c.top_p = TW_MEGA_RULE(g, rules, TW_T_i32, top_p);
    c.min_p = TW_MEGA_RULE(g, rules, TW_T_i32, min_p);
    c.key = tw_mega_draw_key(g, rules, sequence);
    c.best = tw_argmax_of(b, TW_SAMPLE_LEAST);
    begin_cut(&c, o->rows);
    draw(&c);
    tw_mega_barrier(g);
}
