/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a step finds the token of each sequence. It is the best of all workers' bests. With top-k, top-p or min-p
   it is the best of the candidates that these cuts leave, as vm/sample.h defines them. */
#include "vm/cuda/draw.h"
#include "vm/cuda/generate.h"

#include <stddef.h>

/* Offsets from plan.x in shared memory, during a step's last instruction. A slot has the rows of a head
   instruction. */
enum {
    COUNT = 0,    /* i32: candidates in the list */
    BOUND = 4,    /* f32: the least logit that may survive the cuts. */
    SUM = 8,      /* i64: mass of all candidates, or of the first k */
    LIMIT = 16,   /* i64: the first rank that is cut. */
    FOUND = 24,   /* i32: the bin where a cut falls; -1: nothing is cut */
    IN_BIN = 28,  /* i32: candidates in bin FOUND. */
    BEFORE = 32,  /* i64: mass before bin FOUND. */
    BEFORES = 40, /* i32: candidates before bin FOUND. */
    CELLS = 64,   /* [warp]: f32 score, i32 id */
    SLOTS = CELLS + 8 * TW_MEGA_WARPS,
    SLOT_BYTES = 16, /* f32 best, i32 first row, i32 rows */
    BINS = 256,
    /* A bin has a count, and a mass in digits of 10 bits, since 64 bits are added in a loop. Each digit's sum fits 32
       bits: there are at most 2^20 candidates. */
    DIGITS = 4,
    DIGIT = 10,
    HISTOGRAM = BINS * 4 * (1 + DIGITS),
    QUARTER = TW_SAMPLE_STEPS - 2,
    QUARTERS = 128,    /* Quarters of octaves. Candidates beyond them have no mass. */
    ENTRY = 8 + 8 + 4, /* Bytes of a list's entry: i64 rank, i64 mass before it, i32 mass. */
    AT_ONCE = 5,       /* Slots that a lane loads at once. A warp loads those of 160 workers. */
    LOADS = 8,         /* Loads that a lane issues at once, of 16 bytes where rows allow it. */
};

int64_t tw_mega_cut_bytes(const tw_mega_plan *p) {
    const int64_t entries = p->cut_list > QUARTERS ? p->cut_list : QUARTERS, list = entries * ENTRY;
    return SLOTS + (int64_t)SLOT_BYTES * p->slots + (list > HISTOGRAM ? list : HISTOGRAM);
}

typedef struct cut {
    tw_mega_gen *g;
    const tw_mega_output *o;
    tw_val sequence, logits, head, slots, list, before, mass; /* logits: global. head to mass: shared addresses. */
    tw_val scale, top_k, top_p, min_p;
    tw_draw_key key;
    tw_val largest, order; /* The largest logit, and tw_draw_ordered of it. */
    tw_argmax best;        /* This thread's best score of what is left, and its id. */
    int width;             /* Adjacent rows of a lane's vector load. */
} cut;

/* Load and store a value of the header. */
static tw_val get(const cut *c, tw_type t, int offset) {
    return tw_ld(c->g->b, tw_mega_shared(t, 1, offset), c->head);
}

static void set(const cut *c, int offset, tw_val x) {
    tw_st(c->g->b, tw_mega_shared(tw_value_type(c->g->b->kernel, x), 1, offset), c->head, &x);
}

/* Load and store an element of a list in shared memory. */
static tw_val load_at(const cut *c, tw_type t, tw_val list, tw_val i) {
    return tw_ld(c->g->b, tw_mega_shared(t, 1, 0), tw_mega_at(c->g->b, list, i, tw_type_bits(t) / 8));
}

static void store_at(const cut *c, tw_val list, tw_val i, tw_val x) {
    const tw_type t = tw_value_type(c->g->b->kernel, x);
    tw_st(c->g->b, tw_mega_shared(t, 1, 0), tw_mega_at(c->g->b, list, i, tw_type_bits(t) / 8), &x);
}

static tw_val rank_at(const cut *c, tw_val i) {
    return load_at(c, TW_T_i64, c->list, i);
}

/* Returns attributes of an atomic addition to shared memory. */
static tw_attrs add_to(tw_type t, int offset) {
    return (tw_attrs){.rmw = TW_RMW_add,
                      .type = t,
                      .space = TW_SPACE_shared,
                      .offset = offset,
                      .order = TW_ORDER_relaxed,
                      .scope = TW_SCOPE_cta};
}

static tw_val best_of(const cut *c, tw_val slot) {
    return tw_ld(c->g->b, tw_mega_shared(TW_T_f32, 1, 0), tw_mega_at(c->g->b, c->slots, slot, SLOT_BYTES));
}

static tw_val is_first(tw_mega_gen *g) {
    return tw_eq(g->b, g->thread, tw_i32(g->b, 0));
}

static tw_val below_u64(tw_builder *b, tw_val x, tw_val y) {
    return tw_binary(b, TW_OP_lt_u64, x, y);
}

static tw_val rules_at(tw_mega_gen *g, tw_val sequence) {
    return tw_mega_at(g->b, g->arg[TW_MEGA_ARG_RULES], sequence, sizeof(tw_sample_rules));
}

#define RULE(g, rules, type, field) tw_ld((g)->b, tw_mega_fixed(type, 1, (int)offsetof(tw_sample_rules, field)), rules)

static tw_draw_key key_of(tw_mega_gen *g, tw_val rules, tw_val sequence) {
    const tw_val seed[2] = {RULE(g, rules, TW_T_i32, seed[0]), RULE(g, rules, TW_T_i32, seed[1])};
    return tw_draw_key_of(g->b, seed, tw_mega_position(g, sequence));
}

static tw_val has(tw_builder *b, tw_val mode, int bits) {
    return tw_ne(b, tw_and(b, mode, tw_i32(b, bits)), tw_i32(b, 0));
}

/* ---- in the head: what a row's logit becomes */

/* Tells whether rows have values other than their logits: with penalties, or in a draw from all of them. */
static tw_val has_values(tw_builder *b, tw_val mode) {
    tw_val draws = tw_and(b, mode, tw_i32(b, TW_SAMPLE_DRAWS | TW_SAMPLE_CUTS));
    return tw_or(b, has(b, mode, TW_SAMPLE_PENALISES), tw_eq(b, draws, tw_i32(b, TW_SAMPLE_DRAWS)));
}

void tw_mega_build_value(tw_mega_gen *g, tw_val sequence, tw_val id, tw_val *z, tw_val *value) {
    tw_builder *b = g->b;
    *z = tw_var_of(b, *z);
    *value = tw_var_of(b, *value);
    tw_val rules = rules_at(g, sequence), mode = RULE(g, rules, TW_T_i32, mode);
    TW_IF (b, has(b, mode, TW_SAMPLE_PENALISES)) {
        tw_val counts = tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTS], sequence, 4 * g->p->vocab);
        tw_val count = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), tw_mega_at(b, counts, id, 4));
        tw_assign(b, *z,
                  tw_draw_penalise(b, RULE(g, rules, TW_T_f32, repetition), RULE(g, rules, TW_T_f32, presence),
                                   RULE(g, rules, TW_T_f32, frequency), *z, count));
        tw_assign(b, *value, *z);
    }
    tw_val draws = tw_and(b, mode, tw_i32(b, TW_SAMPLE_DRAWS | TW_SAMPLE_CUTS));
    TW_IF (b, tw_eq(b, draws, tw_i32(b, TW_SAMPLE_DRAWS)))
        tw_assign(b, *value, tw_draw_score(b, key_of(g, rules, sequence), RULE(g, rules, TW_T_f32, scale), *z, id));
}

/* Begins a loop over sequences if there are several. The scope's `i` is the sequence. */
static tw_scope push_sequences(tw_mega_gen *g) {
    tw_builder *b = g->b;
    const int n = g->p->sequences;
    tw_val zero = tw_i32(b, 0);
    return n > 1 ? tw_push_for(b, zero, tw_i32(b, n), tw_i32(b, 1), false) : TW_NO_LOOP(zero);
}

/* Applies each sequence's rules to the logits of the block's rows, and finds the largest values. The logits are read
   back from memory: while rows are multiplied, no registers are left for this. */
void tw_mega_build_values(tw_mega_gen *g, tw_mega_sums *s) {
    tw_builder *b = g->b;
    const int n = g->p->sequences;
    if (!g->p->samples) return;
    tw_val logits = tw_mega_address(g, TW_W_OUT), from = tw_mega_word(g, TW_W_FROM);
    tw_val count = tw_mega_word(g, TW_W_COUNT);
    TW_IF (b, has(b, g->arg[TW_MEGA_ARG_MODE], TW_SAMPLE_DRAWS | TW_SAMPLE_PENALISES)) {
        tw_mega_barrier(g);
        TW_LOOP (b, sequence, push_sequences(g)) {
            TW_IF (b, has_values(b, RULE(g, rules_at(g, sequence), TW_T_i32, mode))) {
                for (int u = 0; u < n; u++)
                    TW_IF (b, tw_eq(b, sequence, tw_i32(b, u))) {
                        tw_assign(b, s->best[u].value, tw_f32(b, TW_SAMPLE_LEAST));
                        tw_assign(b, s->best[u].number, tw_i32(b, INT32_MAX));
                    }
                TW_LOOP (b, i, tw_mega_thread_loop(g, count)) {
                    tw_val id = tw_add(b, from, i);
                    tw_val cell = tw_mega_at(b, tw_mega_at(b, logits, sequence, 4 * g->p->vocab), id, 4);
                    tw_val z = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), cell), value = z;
                    tw_mega_build_value(g, sequence, id, &z, &value);
                    tw_st(b, (tw_attrs){.type = TW_T_f32}, cell, &z);
                    for (int u = 0; u < n; u++)
                        TW_IF (b, tw_and(b, tw_eq(b, sequence, tw_i32(b, u)), tw_lt(b, s->best[u].value, value))) {
                            tw_assign(b, s->best[u].value, value);
                            tw_assign(b, s->best[u].number, id);
                        }
                }
            }
        }
    }
}

/* ---- the best of the bests */

/* One lane publishes a sequence's token: to the next step, to the host and to the penalties' counts. After the machine
   gave up the token is arbitrary, and the host is sent TW_MEGA_GAVE_UP instead. */
static void leave(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence, tw_val token) {
    tw_builder *b = g->b;
    tw_st(b, (tw_attrs){.type = TW_T_i32}, tw_mega_at(b, o->token, sequence, 4), &token);
    tw_val out = tw_mega_at(b, tw_mega_at(b, g->arg[TW_MEGA_ARG_OUT], g->step, 4 * g->p->sequences), sequence, 4);
    tw_val said = tw_select(b, tw_eq(b, o->aborted, tw_i32(b, 0)), token, tw_i32(b, TW_MEGA_GAVE_UP));
    tw_st(b, (tw_attrs){.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_sys}, out, &said);
    if (!g->p->samples) return;
    TW_IF (b, has(b, g->arg[TW_MEGA_ARG_MODE], TW_SAMPLE_PENALISES)) {
        TW_IF (b, has(b, RULE(g, rules_at(g, sequence), TW_T_i32, mode), TW_SAMPLE_PENALISES)) {
            tw_val id = tw_binary(b, TW_OP_min_u32, token, tw_i32(b, (int32_t)g->p->vocab - 1));
            tw_val counts = tw_mega_at(b, g->arg[TW_MEGA_ARG_COUNTS], sequence, 4 * g->p->vocab);
            tw_val cell = tw_mega_at(b, counts, id, 4);
            tw_val count = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 0), cell);
            count = tw_or(b, tw_add_imm(b, count, 1), tw_i32(b, (int32_t)TW_SAMPLE_SEEN));
            tw_st(b, (tw_attrs){.type = TW_T_i32}, cell, &count);
        }
    }
}

/* Without candidates the best is id 0. */
static tw_val number_or_first(tw_builder *b, tw_val number) {
    return tw_select(b, tw_eq(b, number, tw_i32(b, INT32_MAX)), tw_i32(b, 0), number);
}

/* A warp reduces the workers' bests of a sequence to one; each lane reads some of them. */
static void leave_best(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence) {
    tw_builder *b = g->b;
    const tw_argmax mine = tw_argmax_of(b, TW_SAMPLE_LEAST);
    TW_FOR (b, i, g->lane, o->slots, tw_i32(b, 32 * AT_ONCE), false) {
        tw_val v[AT_ONCE], one[AT_ONCE], there[AT_ONCE];
        for (int u = 0; u < AT_ONCE; u++) {
            tw_val slot = tw_add_imm(b, i, 32 * u);
            tw_val from = tw_mega_at(b, tw_mega_at(b, o->best, slot, 8 * g->p->sequences), sequence, 8);
            there[u] = tw_lt(b, slot, o->slots);
            tw_when(b, there[u]);
            v[u] = tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), from);
            tw_when(b, there[u]);
            one[u] = tw_ld(b, tw_mega_l2(TW_T_i32, 1, 4), from);
        }
        for (int u = 0; u < AT_ONCE; u++) {
            TW_IF (b, tw_and(b, there[u], tw_lt(b, mine.value, v[u]))) {
                tw_assign(b, mine.value, v[u]);
                tw_assign(b, mine.number, one[u]);
            }
        }
    }
    tw_val token = number_or_first(b, tw_argmax_warp(b, &mine).number);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0))) leave(g, o, sequence, token);
}

/* ---- cuts: who is a candidate */

/* Updates this thread's best candidate. */
static void consider(const cut *c, tw_val z, tw_val id) {
    tw_argmax_take(c->g->b, &c->best, tw_draw_score(c->g->b, c->key, c->scale, z, id), id);
}

static tw_val within_min_p(const cut *c, tw_val z) {
    return tw_le(c->g->b, tw_draw_distance(c->g->b, c->scale, c->largest, z), c->min_p);
}

/* Reduces all threads' bests to one and publishes it. */
static void leave_drawn(const cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    const tw_argmax warp = tw_argmax_warp(b, &c->best);
    TW_IF (b, tw_eq(b, g->lane, tw_i32(b, 0)))
        tw_argmax_store(b, &warp, tw_mega_shared(TW_T_f32, 1, CELLS), tw_mega_at(b, c->head, g->warp, TW_ARGMAX_BYTES));
    tw_mega_barrier(g);
    TW_IF (b, is_first(g)) {
        const tw_argmax all = tw_argmax_of(b, TW_SAMPLE_LEAST);
        tw_argmax_take_cells(b, &all, c->head, CELLS, g->p->tuning.warps);
        leave(g, c->o, c->sequence, number_or_first(b, all.number));
    }
}

/* Appends a candidate to the list, if there is room. */
static void list_one(const cut *c, tw_val z, tw_val id) {
    tw_builder *b = c->g->b;
    tw_val place = tw_atom(b, add_to(TW_T_i32, COUNT), c->head, tw_i32(b, 1), TW_NONE);
    TW_IF (b, tw_lt(b, place, tw_i32(b, c->g->p->cut_list))) {
        tw_val rank = tw_draw_rank(b, c->order, z, id);
        tw_val mass = tw_draw_mass(b, tw_draw_distance(b, c->scale, c->largest, z));
        store_at(c, c->list, place, rank);
        store_at(c, c->mass, place, mass);
    }
}

/* Logits that a lane loads: LOADS loads of cut.width rows. Rows count from `from`, and `count` of them exist. */
typedef struct some {
    tw_val row[LOADS], there[LOADS]; /* The first row of each load, and whether it exists. */
    tw_val z[LOADS][4];
} some;

static void load_some(const cut *c, some *s, int loads, tw_val first, int apart, tw_val from, tw_val count) {
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

static tw_val add_mass(tw_builder *b, tw_val sum, tw_val mass) {
    return tw_add(b, sum, tw_unary(b, TW_OP_zext_i64_i32, mass));
}

/* Builds a loop of each warp over its slots. `bound` leaves out slots whose best is below it; TW_NONE: none. `visit`
   builds the use of the logits that a lane loads together. */
static void for_slots(const cut *c, tw_val bound, void (*visit)(const cut *, const some *, tw_val bound, tw_val with),
                      tw_val with) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    const int stride = 32 * c->width;
    TW_FOR (b, slot, g->warp, c->o->slots, tw_i32(b, g->p->tuning.warps), false) {
        tw_val cell = tw_mega_at(b, c->slots, slot, SLOT_BYTES);
        tw_val least = bound.id ? bound : tw_i32(b, 0);
        TW_IF (b, tw_le(b, least, bound.id ? tw_ld(b, tw_mega_shared(TW_T_f32, 1, 0), cell) : slot)) {
            tw_val from = tw_ld(b, tw_mega_shared(TW_T_i32, 1, 4), cell);
            tw_val count = tw_ld(b, tw_mega_shared(TW_T_i32, 1, 8), cell);
            TW_FOR (b, row, tw_mul_imm(b, g->lane, c->width), count, tw_i32(b, stride * LOADS), false) {
                some s;
                load_some(c, &s, LOADS, row, stride, from, count);
                visit(c, &s, bound, with);
            }
        }
    }
}

/* Appends a lane's candidates at or above the bound to the list. `bits` has a bit for each load and element. Candidates
   are few, so their logits are loaded again rather than kept in registers. */
static void list_some(const cut *c, const some *s, tw_val bound, tw_val bits) {
    tw_builder *b = c->g->b;
    tw_assign(b, bits, tw_i32(b, 0));
    for (int u = 0; u < LOADS; u++)
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
        list_one(c, tw_ld(b, tw_mega_l2(TW_T_f32, 1, 0), tw_mega_at(b, c->logits, row, 4)), row);
        tw_op_to(b, bits, TW_OP_xor_i32, bits, one, TW_NONE);
    }
}

/* Counts a lane's candidates in each quarter of an octave of probability, and adds their mass to `sum`. */
static void count_some(const cut *c, const some *s, tw_val bound, tw_val sum) {
    tw_builder *b = c->g->b;
    tw_val none = tw_i32(b, 0), one = tw_i32(b, 1);
    (void)bound;
    for (int u = 0; u < LOADS; u++)
        for (int e = 0; e < c->width; e++) {
            tw_val far = tw_draw_distance(b, c->scale, c->largest, s->z[u][e]);
            tw_val mass = tw_select(b, s->there[u], tw_draw_mass(b, far), none), quarter = tw_shr(b, far, QUARTER);
            tw_val bin = tw_mega_at(b, c->mass, tw_min(b, quarter, tw_i32(b, QUARTERS - 1)), 4);
            tw_assign(b, sum, add_mass(b, sum, mass));
            tw_when(b, tw_ne(b, mass, none));
            tw_red(b, add_to(TW_T_i32, 0), bin, &one);
        }
}

/* Adds the mass of all candidates to SUM, and counts them by quarters of octaves. */
static void count_octaves(const cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val none = tw_i32(b, 0);
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_i32(b, QUARTERS))) store_at(c, c->mass, i, none);
    tw_mega_barrier(g);
    tw_val sum = tw_var_of(b, tw_i64(b, 0));
    for_slots(c, TW_NONE, count_some, sum);
    tw_val of_warp = tw_part_warp_sum(b, sum, 1, 32);
    tw_when(b, tw_eq(b, g->lane, none));
    tw_red(b, add_to(TW_T_i64, SUM), c->head, &of_warp);
    tw_mega_barrier(g);
}

/* Finds the steps beyond which no candidate is within top-p. All candidates there have at most the mass that top-p
   leaves out, even if each is taken for the largest of its quarter. */
static tw_val find_reach(const cut *c) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    count_octaves(c);
    TW_LOOP (b, i, tw_mega_thread_loop(g, tw_i32(b, QUARTERS))) {
        tw_val wide[2];
        wide[0] = tw_unary(b, TW_OP_zext_i64_i32, load_at(c, TW_T_i32, c->mass, i));
        wide[1] = tw_unary(b, TW_OP_zext_i64_i32, tw_draw_mass(b, tw_shl(b, i, QUARTER)));
        tw_val most = tw_mul(b, wide[0], wide[1]);
        store_at(c, c->list, i, most);
    }
    tw_mega_barrier(g);
    TW_IF (b, is_first(g)) {
        tw_val sum = get(c, TW_T_i64, SUM), spare = tw_sub(b, sum, tw_draw_share(b, sum, c->top_p));
        tw_val last = tw_var_of(b, tw_i32(b, QUARTERS)), beyond = tw_var_of(b, tw_i64(b, 0));
        TW_WHILE (b, tw_and(b, tw_lt(b, tw_i32(b, 0), last), tw_not(b, below_u64(b, spare, beyond)))) {
            tw_assign(b, last, tw_add_imm(b, last, -1));
            tw_assign(b, beyond, tw_add(b, beyond, rank_at(c, last)));
        }
        set(c, FOUND, last);
    }
    tw_mega_barrier(g);
    return tw_shl(b, tw_add_imm(b, get(c, TW_T_i32, FOUND), 1), QUARTER);
}

/* Computes an entry's place among the n in the list: how many come before it, and their mass. */
static void place_in_list(const cut *c, tw_val rank, tw_val n, tw_val *place, tw_val *mass) {
    tw_builder *b = c->g->b;
    *place = tw_var_of(b, tw_i32(b, 0));
    *mass = tw_var_of(b, tw_i64(b, 0));
    TW_FOR (b, j, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_val other = rank_at(c, j);
        tw_val weight = load_at(c, TW_T_i32, c->mass, j), before = below_u64(b, other, rank);
        tw_assign(b, *place, tw_add(b, *place, tw_select(b, before, tw_i32(b, 1), tw_i32(b, 0))));
        tw_assign(b, *mass, add_mass(b, *mass, tw_select(b, before, weight, tw_i32(b, 0))));
    }
}

/* Applies the cuts to the list, which holds every candidate that may survive them, and draws from the survivors. */
static void draw_from_list(const cut *c, tw_val n) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val cuts_k = tw_lt(b, tw_i32(b, 0), c->top_k), cuts_p = tw_ne(b, c->top_p, tw_i32(b, 0));
    tw_val k = tw_select(b, cuts_k, tw_min(b, c->top_k, n), tw_i32(b, INT32_MAX)), nothing = tw_i64(b, -1);
    TW_LOOP (b, i, tw_mega_thread_loop(g, n)) {
        tw_val place, before, rank = rank_at(c, i);
        place_in_list(c, rank, n, &place, &before);
        tw_val left = tw_select(b, tw_lt(b, place, k), tw_add(b, before, tw_i64(b, 0)), nothing);
        store_at(c, c->before, i, left);
        TW_IF (b, tw_and(b, cuts_k, tw_eq(b, place, tw_add_imm(b, k, -1))))
            set(c, SUM, add_mass(b, before, load_at(c, TW_T_i32, c->mass, i)));
    }
    tw_mega_barrier(g);
    tw_val share = tw_draw_share(b, get(c, TW_T_i64, SUM), c->top_p);
    share = tw_select(b, cuts_p, share, nothing);
    TW_LOOP (b, i, tw_mega_thread_loop(g, n)) {
        tw_val before = load_at(c, TW_T_i64, c->before, i), rank = rank_at(c, i);
        tw_val far = tw_unary(b, TW_OP_high_i32_i64, rank);
        tw_val z = tw_draw_unordered(b, tw_sub(b, c->order, far));
        TW_IF (b, tw_and(b, below_u64(b, before, share), within_min_p(c, z)))
            consider(c, z, tw_unary(b, TW_OP_low_i32_i64, rank));
    }
    leave_drawn(c);
}

/* ---- cuts of more candidates than the list has room for */

static void for_all(const cut *c, int loads, void (*visit)(const cut *c, tw_val z, tw_val id, tw_val rank, void *with),
                    void *with) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    const int stride = tw_mega_threads(g->p) * c->width;
    tw_val vocab = tw_i32(b, (int32_t)g->p->vocab), step = tw_i32(b, stride * loads);
    TW_FOR (b, i, tw_mul_imm(b, g->thread, c->width), vocab, step, false) {
        some s;
        load_some(c, &s, loads, i, stride, tw_i32(b, 0), vocab);
        for (int u = 0; u < loads; u++)
            for (int e = 0; e < c->width; e++) {
                tw_val z = s.z[u][e], id = tw_add_imm(b, s.row[u], e);
                TW_IF (b, tw_and(b, s.there[u], tw_lt(b, tw_f32(b, TW_SAMPLE_LEAST), z)))
                    visit(c, z, id, tw_draw_rank(b, c->order, z, id), with);
            }
    }
}

/* A histogram over ranks. Each bin covers 2^shift ranks; the last bin also holds all ranks beyond the range. A thread
   sums consecutive candidates of one bin in registers before it adds them to shared memory, since in a flat
   distribution neighbours share a bin. */
typedef struct range {
    tw_val from, below, shift; /* variables: i64, i64, i32 */
    tw_val bin, count, mass;   /* variables: i32, i32, i64 */
} range;

static tw_val bin_at(const cut *c, tw_val bin) {
    return tw_mega_at(c->g->b, c->list, bin, 4 * (1 + DIGITS));
}

static void add_to_bin(const cut *c, const range *r) {
    tw_builder *b = c->g->b;
    TW_IF (b, tw_lt(b, tw_i32(b, 0), r->count)) {
        tw_val bin = bin_at(c, r->bin), count = tw_add_imm(b, r->count, 0);
        tw_red(b, add_to(TW_T_i32, 0), bin, &count);
        for (int i = 0; i < DIGITS; i++) {
            tw_val digit = tw_unary(b, TW_OP_low_i32_i64, tw_shr(b, r->mass, DIGIT * i));
            if (i < DIGITS - 1) digit = tw_and(b, digit, tw_i32(b, (1 << DIGIT) - 1));
            tw_red(b, add_to(TW_T_i32, 4 + 4 * i), bin, &digit);
        }
    }
    tw_assign(b, r->count, tw_i32(b, 0));
    tw_assign(b, r->mass, tw_i64(b, 0));
}

static tw_val within(tw_builder *b, const range *r, tw_val rank) {
    tw_val early = below_u64(b, rank, r->from);
    return tw_and(b, tw_not(b, early), below_u64(b, rank, r->below));
}

static void count_in_bin(const cut *c, tw_val z, tw_val id, tw_val rank, void *with) {
    tw_builder *b = c->g->b;
    const range *r = with;
    (void)id;
    TW_IF (b, within(b, r, rank)) {
        tw_val bin = tw_binary(b, TW_OP_shr_u64, tw_sub(b, rank, r->from), r->shift), last = tw_i64(b, BINS - 1);
        bin = tw_select(b, below_u64(b, bin, last), bin, last);
        bin = tw_unary(b, TW_OP_low_i32_i64, bin);
        TW_IF (b, tw_ne(b, bin, r->bin)) {
            add_to_bin(c, r);
            tw_assign(b, r->bin, bin);
        }
        tw_assign(b, r->count, tw_add_imm(b, r->count, 1));
        tw_val mass = tw_draw_mass(b, tw_draw_distance(b, c->scale, c->largest, z));
        tw_assign(b, r->mass, add_mass(b, r->mass, mass));
    }
}

static void list_in_range(const cut *c, tw_val z, tw_val id, tw_val rank, void *with) {
    TW_IF (c->g->b, within(c->g->b, with, rank)) list_one(c, z, id);
}

static void draw_below(const cut *c, tw_val z, tw_val id, tw_val rank, void *with) {
    tw_builder *b = c->g->b;
    const tw_val *limit = with;
    TW_IF (b, tw_and(b, below_u64(b, rank, *limit), within_min_p(c, z))) consider(c, z, id);
}

/* Nothing precedes the range of the first round. */
static void begin_range(const cut *c) {
    TW_IF (c->g->b, is_first(c->g)) {
        set(c, BEFORES, tw_i32(c->g->b, 0));
        set(c, BEFORE, tw_i64(c->g->b, 0));
    }
}

/* Finds the bin where a cut falls: the first with which there are `goal` candidates, or a mass of `mass_goal`. One
   thread looks through the bins. BEFORES and BEFORE begin with what precedes the range. */
static void find_bin(const cut *c, tw_val goal, tw_val mass_goal) {
    tw_builder *b = c->g->b;
    TW_IF (b, is_first(c->g)) {
        tw_val n = tw_var_of(b, get(c, TW_T_i32, BEFORES));
        tw_val sum = tw_var_of(b, get(c, TW_T_i64, BEFORE)), found = tw_var_of(b, tw_i32(b, -1));
        tw_val count = tw_var_of(b, tw_i32(b, 0)), i = tw_var_of(b, tw_i32(b, 0));
        TW_WHILE (b, tw_and(b, tw_lt(b, i, tw_i32(b, BINS)), tw_lt(b, found, tw_i32(b, 0)))) {
            tw_val bin = bin_at(c, i), mass = tw_i64(b, 0);
            tw_assign(b, count, tw_ld(b, tw_mega_shared(TW_T_i32, 1, 0), bin));
            for (int d = 0; d < DIGITS; d++) {
                tw_val digit = tw_ld(b, tw_mega_shared(TW_T_i32, 1, 4 + 4 * d), bin);
                digit = tw_unary(b, TW_OP_zext_i64_i32, digit);
                mass = tw_add(b, mass, tw_shl(b, digit, DIGIT * d));
            }
            tw_val with = tw_add(b, sum, mass);
            tw_val enough = tw_or(b, tw_le(b, goal, tw_add(b, n, count)), tw_not(b, below_u64(b, with, mass_goal)));
            TW_IF (b, enough) {
                tw_assign(b, found, i);
            } else {
                tw_assign(b, n, tw_add(b, n, count));
                tw_assign(b, sum, with);
                tw_assign(b, i, tw_add_imm(b, i, 1));
            }
        }
        set(c, FOUND, found);
        set(c, IN_BIN, count);
        set(c, BEFORES, n);
        set(c, BEFORE, sum);
    }
}

/* Narrows the range to the bin where the cut falls. `go` becomes 0 if its candidates fit the list, or nothing is cut.
   If the cut falls in the last bin of the first round, which holds all other ranks, another round takes coarser
   bins. */
static void narrow(const cut *c, const range *r, tw_val go) {
    enum { FIRST = 48, COARSE = 56, OF_IDS = 12 };
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val found = get(c, TW_T_i32, FOUND), count = get(c, TW_T_i32, IN_BIN);
    tw_val zero = tw_i32(b, 0), first = tw_eq(b, r->shift, tw_i32(b, FIRST));
    tw_val open = tw_and(b, first, tw_eq(b, tw_add_imm(b, found, 1 - BINS), zero));
    open = tw_and(b, open, below_u64(b, tw_i64(b, INT64_C(1) << COARSE), tw_sub(b, r->below, r->from)));
    tw_mega_barrier(g);
    TW_IF (b, tw_lt(b, found, zero)) {
        tw_assign(b, go, zero);
    } else {
        TW_IF (b, open) {
            tw_assign(b, r->shift, tw_i32(b, COARSE));
            begin_range(c);
        } else {
            tw_val wide = tw_unary(b, TW_OP_zext_i64_i32, found);
            tw_assign(b, r->from, tw_add(b, r->from, tw_binary(b, TW_OP_shl_i64, wide, r->shift)));
            tw_val end = tw_add(b, r->from, tw_binary(b, TW_OP_shl_i64, tw_i64(b, 1), r->shift));
            tw_val wraps = below_u64(b, end, r->from), nearer = below_u64(b, end, r->below);
            TW_IF (b, tw_and(b, tw_not(b, wraps), nearer)) tw_assign(b, r->below, end);
            TW_IF (b, tw_le(b, count, tw_i32(b, g->p->cut_list))) {
                tw_assign(b, go, zero);
            } else {
                tw_val ids = tw_eq(b, r->shift, tw_i32(b, 32));
                tw_assign(b, r->shift, tw_select(b, ids, tw_i32(b, OF_IDS), tw_add_imm(b, r->shift, -8)));
            }
        }
    }
    tw_mega_barrier(g);
}

/* Sets LIMIT to the rank at which a cut falls, after `goal` candidates or `mass_goal`, and SUM to the mass before
   it. */
static void find_limit(const cut *c, tw_val goal, tw_val mass_goal) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val zero = tw_i32(b, 0), none = tw_i64(b, 0), go = tw_var_of(b, tw_i32(b, 1));
    range r = {tw_var_of(b, none),          tw_var_of(b, get(c, TW_T_i64, LIMIT)),
               tw_var_of(b, tw_i32(b, 48)), tw_var_of(b, zero),
               tw_var_of(b, zero),          tw_var_of(b, none)};
    begin_range(c);
    TW_WHILE (b, tw_ne(b, go, zero)) {
        TW_LOOP (b, i, tw_mega_thread_loop(g, tw_i32(b, BINS * (1 + DIGITS)))) store_at(c, c->list, i, zero);
        tw_mega_barrier(g);
        for_all(c, LOADS / 2, count_in_bin, &r);
        add_to_bin(c, &r);
        tw_mega_barrier(g);
        find_bin(c, goal, mass_goal);
        tw_mega_barrier(g);
        narrow(c, &r, go);
    }
    tw_val found = get(c, TW_T_i32, FOUND);
    TW_IF (b, tw_lt(b, found, zero)) {
        TW_IF (b, is_first(g)) set(c, SUM, get(c, TW_T_i64, BEFORE));
    } else {
        TW_IF (b, is_first(g)) set(c, COUNT, zero);
        tw_mega_barrier(g);
        for_all(c, LOADS / 2, list_in_range, &r);
        tw_mega_barrier(g);
        tw_val n = get(c, TW_T_i32, COUNT), before_n = get(c, TW_T_i32, BEFORES);
        tw_val before_mass = get(c, TW_T_i64, BEFORE);
        TW_LOOP (b, i, tw_mega_thread_loop(g, tw_min(b, n, tw_i32(b, g->p->cut_list)))) {
            tw_val place, before, rank = rank_at(c, i);
            place_in_list(c, rank, n, &place, &before);
            tw_val ahead = tw_add(b, before_mass, before);
            tw_val with = add_mass(b, ahead, load_at(c, TW_T_i32, c->mass, i));
            tw_val reaches = tw_and(b, below_u64(b, ahead, mass_goal), tw_not(b, below_u64(b, with, mass_goal)));
            tw_val last = tw_eq(b, tw_add_imm(b, tw_add(b, before_n, place), 1), goal);
            TW_IF (b, tw_or(b, last, reaches)) {
                set(c, LIMIT, tw_add(b, rank, tw_i64(b, 1)));
                set(c, SUM, with);
            }
        }
    }
    tw_mega_barrier(g);
}

/* Finds where top-k cuts, then where top-p cuts, and then draws. Each looks through all logits. */
static void draw_from_all(const cut *c) {
    tw_builder *b = c->g->b;
    tw_val cuts_k = tw_lt(b, tw_i32(b, 0), c->top_k), cuts_p = tw_ne(b, c->top_p, tw_i32(b, 0));
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, 2), tw_i32(b, 1), false) {
        tw_val first = tw_eq(b, i, tw_i32(b, 0));
        tw_val wanted = tw_or(b, tw_and(b, first, cuts_k), tw_and(b, tw_not(b, first), cuts_p));
        TW_IF (b, wanted) {
            tw_val goal = tw_select(b, first, c->top_k, tw_i32(b, INT32_MAX));
            tw_val share = tw_draw_share(b, get(c, TW_T_i64, SUM), c->top_p);
            tw_mega_barrier(c->g);
            find_limit(c, goal, tw_select(b, first, tw_i64(b, -1), share));
        }
    }
    tw_val limit = get(c, TW_T_i64, LIMIT);
    for_all(c, LOADS / 4, draw_below, &limit);
    leave_drawn(c);
}

/* ---- cuts */

/* Finds a lower bound of the logits that survive the cuts, before all logits are read. With `few` it is the k-th
   largest of the slots' bests, which k logits reach. With `by_steps` it is `reach` steps below the largest. */
static tw_val find_bound(const cut *c, tw_val few, tw_val by_steps, tw_val reach) {
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
            set(c, BOUND, mine);
        }
        tw_mega_barrier(c->g);
    }
    tw_val bound = tw_var_of(b, get(c, TW_T_f32, BOUND));
    TW_IF (b, by_steps) {
        /* The bound is lower than exact, to allow for rounding. The exact comparison comes later. */
        tw_val steps = tw_unary(b, TW_OP_cvt_f32_s32, tw_add_imm(b, reach, 2));
        tw_val octaves = tw_mul(b, steps, tw_f32(b, 1.0001f / (1 << TW_SAMPLE_STEPS)));
        tw_val least = tw_sub(b, c->largest, tw_binary(b, TW_OP_div_f32, octaves, c->scale));
        tw_assign(b, bound, tw_max(b, least, bound));
    }
    return bound;
}

static void draw(cut *c) {
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
        tw_assign(b, n, get(c, TW_T_i32, COUNT));
    }
    TW_IF (b, tw_le(b, n, tw_i32(b, g->p->cut_list))) {
        draw_from_list(c, n);
    } else if (!all_fit) {
        draw_from_all(c);
    }
}

/* Copies the slots' bests and rows to shared memory and initialises the header of a draw. Every warp computes the
   largest of the bests. */
static void begin_cut(cut *c, tw_val table) {
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
    TW_IF (b, is_first(g)) {
        set(c, COUNT, tw_i32(b, 0));
        set(c, BOUND, tw_f32(b, nextafterf(TW_SAMPLE_LEAST, 0)));
        set(c, SUM, tw_i64(b, 0));
        set(c, LIMIT, tw_i64(b, -1));
    }
    tw_mega_barrier(g);
    tw_val value = tw_var_of(b, tw_f32(b, TW_SAMPLE_LEAST));
    TW_FOR (b, i, g->lane, c->o->slots, tw_i32(b, 32), false) tw_assign(b, value, tw_max(b, value, best_of(c, i)));
    c->largest = tw_part_warp_max(b, tw_add(b, value, tw_f32(b, 0)), 1, 32);
    c->order = tw_draw_ordered(b, c->largest);
}

void tw_mega_build_output_one(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence) {
    tw_builder *b = g->b;
    cut c = {.g = g, .o = o, .sequence = sequence, .width = g->p->fours ? 4 : 1};
    tw_val rules = rules_at(g, sequence), mode = RULE(g, rules, TW_T_i32, mode);
    TW_IF (b, has(b, mode, TW_SAMPLE_CUTS)) {
        c.logits = tw_mega_at(b, o->logits, sequence, 4 * g->p->vocab);
        c.head = tw_add_imm(b, g->shared, g->p->x);
        c.slots = tw_add_imm(b, c.head, SLOTS);
        c.list = tw_add_imm(b, c.slots, SLOT_BYTES * g->p->slots);
        const int entries = g->p->cut_list > QUARTERS ? g->p->cut_list : QUARTERS;
        c.before = tw_add_imm(b, c.list, 8 * entries);
        c.mass = tw_add_imm(b, c.before, 8 * entries);
        c.scale = RULE(g, rules, TW_T_f32, scale);
        c.top_k = RULE(g, rules, TW_T_i32, top_k);
        c.top_p = RULE(g, rules, TW_T_i32, top_p);
        c.min_p = RULE(g, rules, TW_T_i32, min_p);
        c.key = key_of(g, rules, sequence);
        c.best = tw_argmax_of(b, TW_SAMPLE_LEAST);
        begin_cut(&c, o->rows);
        draw(&c);
        tw_mega_barrier(g);
    } else {
        TW_IF (b, tw_eq(b, g->warp, tw_i32(b, 0))) leave_best(g, o, sequence);
    }
}

/* Each warp takes some of the sequences. */
static void leave_bests(tw_mega_gen *g, const tw_mega_output *o) {
    tw_val n = tw_i32(g->b, g->p->sequences), warps = tw_i32(g->b, g->p->tuning.warps);
    TW_FOR (g->b, i, g->warp, n, warps, false) leave_best(g, o, i);
}

void tw_mega_build_output_of(tw_mega_gen *g, const tw_mega_output *o) {
    tw_builder *b = g->b;
    if (!g->p->samples) {
        leave_bests(g, o);
        return;
    }
    TW_IF (b, tw_not(b, has(b, g->arg[TW_MEGA_ARG_MODE], TW_SAMPLE_CUTS))) {
        leave_bests(g, o);
    } else {
        TW_LOOP (b, sequence, push_sequences(g)) tw_mega_build_output_one(g, o, sequence);
    }
}

void tw_mega_build_output(tw_mega_gen *g) {
    tw_mega_output o = {.slots = tw_mega_word(g, TW_W_COUNT), .best = tw_mega_address(g, TW_W_IN)};
    o.token = tw_mega_address(g, TW_W_OUT);
    if (g->p->samples) {
        o.logits = tw_mega_address(g, TW_W_LOGITS);
        o.rows = tw_mega_address(g, TW_W_SLOT_ROWS);
    }
    tw_mega_wait_alone(g);
    tw_attrs look = {.type = TW_T_i32, .order = TW_ORDER_relaxed, .scope = TW_SCOPE_gpu};
    o.aborted = tw_ld(g->b, look, g->arg[TW_MEGA_ARG_ABORT]);
    tw_mega_build_output_of(g, &o);
}
