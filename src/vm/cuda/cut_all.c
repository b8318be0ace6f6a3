/* SPDX-License-Identifier: Apache-2.0 */
/* A draw under cuts of more candidates than the list has room for. A histogram over ranks, ever finer, finds the bin
   where a cut falls, until the candidates of that bin fit the list. */
#include "vm/cuda/cut.h"

enum {
    BINS = 256,
    /* A bin has a count, and a mass in digits of 10 bits, since 64 bits are added in a loop. Each digit's sum fits 32
       bits: there are at most 2^20 candidates. */
    DIGITS = 4,
    DIGIT = 10
};

int64_t tw_cut_histogram_bytes(void) {
    return BINS * 4 * (1 + DIGITS);
}

/* Builds a loop of all threads over all candidates. `visit` builds the use of one. */
static void for_all(const tw_cut *c, int loads,
                    void (*visit)(const tw_cut *c, tw_val z, tw_val id, tw_val rank, void *with), void *with) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    const int stride = tw_mega_threads(g->p) * c->width;
    tw_val vocab = tw_i32(b, (int32_t)g->p->vocab), step = tw_i32(b, stride * loads);
    TW_FOR (b, i, tw_mul_imm(b, g->thread, c->width), vocab, step, false) {
        tw_cut_logits s;
        tw_cut_load(c, &s, loads, i, stride, tw_i32(b, 0), vocab);
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

static tw_val bin_at(const tw_cut *c, tw_val bin) {
    return tw_mega_at(c->g->b, c->list, bin, 4 * (1 + DIGITS));
}

static void add_to_bin(const tw_cut *c, const range *r) {
    tw_builder *b = c->g->b;
    TW_IF (b, tw_lt(b, tw_i32(b, 0), r->count)) {
        tw_val bin = bin_at(c, r->bin), count = tw_add_imm(b, r->count, 0);
        tw_red(b, tw_cut_add_to(TW_T_i32, 0), bin, &count);
        for (int i = 0; i < DIGITS; i++) {
            tw_val digit = tw_unary(b, TW_OP_low_i32_i64, tw_shr(b, r->mass, DIGIT * i));
            if (i < DIGITS - 1) digit = tw_and(b, digit, tw_i32(b, (1 << DIGIT) - 1));
            tw_red(b, tw_cut_add_to(TW_T_i32, 4 + 4 * i), bin, &digit);
        }
    }
    tw_assign(b, r->count, tw_i32(b, 0));
    tw_assign(b, r->mass, tw_i64(b, 0));
}

static tw_val within(tw_builder *b, const range *r, tw_val rank) {
    tw_val early = tw_cut_below(b, rank, r->from);
    return tw_and(b, tw_not(b, early), tw_cut_below(b, rank, r->below));
}

static void count_in_bin(const tw_cut *c, tw_val z, tw_val id, tw_val rank, void *with) {
    tw_builder *b = c->g->b;
    const range *r = with;
    (void)id;
    TW_IF (b, within(b, r, rank)) {
        tw_val bin = tw_binary(b, TW_OP_shr_u64, tw_sub(b, rank, r->from), r->shift), last = tw_i64(b, BINS - 1);
        bin = tw_select(b, tw_cut_below(b, bin, last), bin, last);
        bin = tw_unary(b, TW_OP_low_i32_i64, bin);
        TW_IF (b, tw_ne(b, bin, r->bin)) {
            add_to_bin(c, r);
            tw_assign(b, r->bin, bin);
        }
        tw_assign(b, r->count, tw_add_imm(b, r->count, 1));
        tw_val mass = tw_draw_mass(b, tw_draw_distance(b, c->scale, c->largest, z));
        tw_assign(b, r->mass, tw_cut_add_mass(b, r->mass, mass));
    }
}

static void list_in_range(const tw_cut *c, tw_val z, tw_val id, tw_val rank, void *with) {
    TW_IF (c->g->b, within(c->g->b, with, rank)) tw_cut_list(c, z, id);
}

static void draw_below(const tw_cut *c, tw_val z, tw_val id, tw_val rank, void *with) {
    tw_builder *b = c->g->b;
    const tw_val *limit = with;
    TW_IF (b, tw_and(b, tw_cut_below(b, rank, *limit), tw_cut_within_min_p(c, z))) tw_cut_consider(c, z, id);
}

/* Nothing precedes the range of the first round. */
static void begin_range(const tw_cut *c) {
    TW_IF (c->g->b, tw_cut_is_first(c->g)) {
        tw_cut_set(c, TW_CUT_BEFORES, tw_i32(c->g->b, 0));
        tw_cut_set(c, TW_CUT_BEFORE, tw_i64(c->g->b, 0));
    }
}

/* Finds the bin where a cut falls. Up to the end of this bin there are `goal` candidates, or a mass of `mass_goal`, and
   up to its beginning there are fewer. One thread looks through the bins. TW_CUT_BEFORES and TW_CUT_BEFORE begin with
   what precedes the range. */
static void find_bin(const tw_cut *c, tw_val goal, tw_val mass_goal) {
    tw_builder *b = c->g->b;
    TW_IF (b, tw_cut_is_first(c->g)) {
        tw_val n = tw_var_of(b, tw_cut_get(c, TW_T_i32, TW_CUT_BEFORES));
        tw_val sum = tw_var_of(b, tw_cut_get(c, TW_T_i64, TW_CUT_BEFORE)), found = tw_var_of(b, tw_i32(b, -1));
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
            tw_val enough = tw_or(b, tw_le(b, goal, tw_add(b, n, count)), tw_not(b, tw_cut_below(b, with, mass_goal)));
            TW_IF (b, enough) {
                tw_assign(b, found, i);
            } else {
                tw_assign(b, n, tw_add(b, n, count));
                tw_assign(b, sum, with);
                tw_assign(b, i, tw_add_imm(b, i, 1));
            }
        }
        tw_cut_set(c, TW_CUT_FOUND, found);
        tw_cut_set(c, TW_CUT_IN_BIN, count);
        tw_cut_set(c, TW_CUT_BEFORES, n);
        tw_cut_set(c, TW_CUT_BEFORE, sum);
    }
}

/* Narrows the range to the bin where the cut falls. `go` becomes 0 if its candidates fit the list, or nothing is cut.
   If the cut falls in the last bin of the first round, which holds all other ranks, another round takes coarser
   bins. */
static void narrow(const tw_cut *c, const range *r, tw_val go) {
    enum { FIRST = 48, COARSE = 56, OF_IDS = 12 };
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val found = tw_cut_get(c, TW_T_i32, TW_CUT_FOUND), count = tw_cut_get(c, TW_T_i32, TW_CUT_IN_BIN);
    tw_val zero = tw_i32(b, 0), first = tw_eq(b, r->shift, tw_i32(b, FIRST));
    tw_val open = tw_and(b, first, tw_eq(b, tw_add_imm(b, found, 1 - BINS), zero));
    open = tw_and(b, open, tw_cut_below(b, tw_i64(b, INT64_C(1) << COARSE), tw_sub(b, r->below, r->from)));
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
            tw_val wraps = tw_cut_below(b, end, r->from), nearer = tw_cut_below(b, end, r->below);
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

/* Sets TW_CUT_LIMIT to the rank at which a cut falls, after `goal` candidates or `mass_goal`, and TW_CUT_SUM to the
   mass before it. */
static void find_limit(const tw_cut *c, tw_val goal, tw_val mass_goal) {
    tw_mega_gen *g = c->g;
    tw_builder *b = g->b;
    tw_val zero = tw_i32(b, 0), none = tw_i64(b, 0), go = tw_var_of(b, tw_i32(b, 1));
    range r = {tw_var_of(b, none),          tw_var_of(b, tw_cut_get(c, TW_T_i64, TW_CUT_LIMIT)),
               tw_var_of(b, tw_i32(b, 48)), tw_var_of(b, zero),
               tw_var_of(b, zero),          tw_var_of(b, none)};
    begin_range(c);
    TW_WHILE (b, tw_ne(b, go, zero)) {
        TW_LOOP (b, i, tw_mega_thread_loop(g, tw_i32(b, BINS * (1 + DIGITS)))) tw_cut_store_at(c, c->list, i, zero);
        tw_mega_barrier(g);
        for_all(c, TW_CUT_LOADS / 2, count_in_bin, &r);
        add_to_bin(c, &r);
        tw_mega_barrier(g);
        find_bin(c, goal, mass_goal);
        tw_mega_barrier(g);
        narrow(c, &r, go);
    }
    tw_val found = tw_cut_get(c, TW_T_i32, TW_CUT_FOUND);
    TW_IF (b, tw_lt(b, found, zero)) {
        TW_IF (b, tw_cut_is_first(g)) tw_cut_set(c, TW_CUT_SUM, tw_cut_get(c, TW_T_i64, TW_CUT_BEFORE));
    } else {
        TW_IF (b, tw_cut_is_first(g)) tw_cut_set(c, TW_CUT_COUNT, zero);
        tw_mega_barrier(g);
        for_all(c, TW_CUT_LOADS / 2, list_in_range, &r);
        tw_mega_barrier(g);
        tw_val n = tw_cut_get(c, TW_T_i32, TW_CUT_COUNT), before_n = tw_cut_get(c, TW_T_i32, TW_CUT_BEFORES);
        tw_val before_mass = tw_cut_get(c, TW_T_i64, TW_CUT_BEFORE);
        TW_LOOP (b, i, tw_mega_thread_loop(g, tw_min(b, n, tw_i32(b, g->p->cut_list)))) {
            tw_val place, before, rank = tw_cut_rank_at(c, i);
            tw_cut_place(c, rank, n, &place, &before);
            tw_val ahead = tw_add(b, before_mass, before);
            tw_val with = tw_cut_add_mass(b, ahead, tw_cut_load_at(c, TW_T_i32, c->mass, i));
            tw_val reaches = tw_and(b, tw_cut_below(b, ahead, mass_goal), tw_not(b, tw_cut_below(b, with, mass_goal)));
            tw_val last = tw_eq(b, tw_add_imm(b, tw_add(b, before_n, place), 1), goal);
            TW_IF (b, tw_or(b, last, reaches)) {
                tw_cut_set(c, TW_CUT_LIMIT, tw_add(b, rank, tw_i64(b, 1)));
                tw_cut_set(c, TW_CUT_SUM, with);
            }
        }
    }
    tw_mega_barrier(g);
}

void tw_cut_draw_from_all(const tw_cut *c) {
    tw_builder *b = c->g->b;
    tw_val cuts_k = tw_lt(b, tw_i32(b, 0), c->top_k), cuts_p = tw_ne(b, c->top_p, tw_i32(b, 0));
    TW_FOR (b, i, tw_i32(b, 0), tw_i32(b, 2), tw_i32(b, 1), false) {
        tw_val first = tw_eq(b, i, tw_i32(b, 0));
        tw_val wanted = tw_or(b, tw_and(b, first, cuts_k), tw_and(b, tw_not(b, first), cuts_p));
        TW_IF (b, wanted) {
            tw_val goal = tw_select(b, first, c->top_k, tw_i32(b, INT32_MAX));
            tw_val share = tw_draw_share(b, tw_cut_get(c, TW_T_i64, TW_CUT_SUM), c->top_p);
            tw_mega_barrier(c->g);
            find_limit(c, goal, tw_select(b, first, tw_i64(b, -1), share));
        }
    }
    tw_val limit = tw_cut_get(c, TW_T_i64, TW_CUT_LIMIT);
    for_all(c, TW_CUT_LOADS / 4, draw_below, &limit);
    tw_cut_leave(c);
}
