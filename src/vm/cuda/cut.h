/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a draw under cuts share: top-k, top-p and min-p leave candidates, as vm/sample.h defines them, and
   the best of them is drawn. */
#ifndef TW_VM_CUDA_CUT_H
#define TW_VM_CUDA_CUT_H

#include "vm/cuda/draw.h"
#include "vm/cuda/generate.h"

#include <stddef.h>

/* Offsets from plan.x in shared memory, during a step's last instruction. */
enum {
    TW_CUT_COUNT = 0,    /* i32: candidates in the list */
    TW_CUT_BOUND = 4,    /* f32: the least logit that may survive the cuts. */
    TW_CUT_SUM = 8,      /* i64: mass of all candidates, or of the first k */
    TW_CUT_LIMIT = 16,   /* i64: the first rank that is cut. */
    TW_CUT_FOUND = 24,   /* i32: the bin where a cut falls; -1: nothing is cut */
    TW_CUT_IN_BIN = 28,  /* i32: candidates in the bin. */
    TW_CUT_BEFORE = 32,  /* i64: mass before the bin. */
    TW_CUT_BEFORES = 40, /* i32: candidates before the bin. */
    TW_CUT_CELLS = 64,   /* [warp]: f32 score, i32 id */
    TW_CUT_HEADER = TW_CUT_CELLS + 8 * TW_MEGA_WARPS
};
enum { TW_CUT_LOADS = 8 }; /* Loads that a lane issues at once, of 16 bytes where rows allow it. */

typedef struct tw_cut {
    tw_mega_gen *g;
    const tw_mega_output *o;
    tw_val sequence, logits, head, slots, list, before, mass; /* logits: global. head to mass: shared addresses. */
    tw_val scale, top_k, top_p, min_p;
    tw_draw_key key;
    tw_val largest, order; /* The largest logit, and tw_draw_ordered of it. */
    tw_argmax best;        /* This thread's best score of what is left, and its id. */
    int width;             /* Adjacent rows of a lane's vector load. */
} tw_cut;

/* Logits that a lane loads: TW_CUT_LOADS loads of tw_cut.width adjacent rows. */
typedef struct tw_cut_logits {
    tw_val row[TW_CUT_LOADS], there[TW_CUT_LOADS]; /* The first row of each load, and whether it exists. */
    tw_val z[TW_CUT_LOADS][4];
} tw_cut_logits;

/* output.c */
/* Loads a field of a sequence's tw_sample_rules. */
#define TW_MEGA_RULE(g, rules, type, field)                                                                            \
    tw_ld((g)->b, tw_mega_fixed(type, 1, (int)offsetof(tw_sample_rules, field)), rules)
tw_draw_key tw_mega_draw_key(tw_mega_gen *g, tw_val rules, tw_val sequence);
/* One lane publishes a sequence's token: to the next step, to the host and to the penalties' counts. After the machine
   gave up the token is arbitrary, and the host is sent TW_MEGA_GAVE_UP instead. */
void tw_mega_leave(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence, tw_val token);
/* Without candidates the best is id 0. */
tw_val tw_mega_number_or_first(tw_builder *b, tw_val number);

/* cut.c */
/* Draws the token of a sequence whose rules, at address `rules`, have cuts. By all threads. */
void tw_mega_build_cut(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence, tw_val rules);
/* Load and store a value of the header. */
tw_val tw_cut_get(const tw_cut *c, tw_type t, int offset);
void tw_cut_set(const tw_cut *c, int offset, tw_val x);
/* Load and store an element of a list in shared memory. */
tw_val tw_cut_load_at(const tw_cut *c, tw_type t, tw_val list, tw_val i);
void tw_cut_store_at(const tw_cut *c, tw_val list, tw_val i, tw_val x);
tw_val tw_cut_rank_at(const tw_cut *c, tw_val i);
/* Returns attributes of an atomic addition to shared memory. */
tw_attrs tw_cut_add_to(tw_type t, int offset);
tw_val tw_cut_add_mass(tw_builder *b, tw_val sum, tw_val mass);
tw_val tw_cut_below(tw_builder *b, tw_val x, tw_val y); /* x < y, both u64. */
tw_val tw_cut_is_first(tw_mega_gen *g);                 /* Predicate: this is the block's first thread. */
tw_val tw_cut_within_min_p(const tw_cut *c, tw_val z);
/* Loads logits, `apart` rows from load to load. `first` counts from row `from`, where `count` rows begin. */
void tw_cut_load(const tw_cut *c, tw_cut_logits *s, int loads, tw_val first, int apart, tw_val from, tw_val count);
/* Appends a candidate to the list, if there is room. */
void tw_cut_list(const tw_cut *c, tw_val z, tw_val id);
/* Computes an entry's place among the n in the list: how many come before it, and their mass. */
void tw_cut_place(const tw_cut *c, tw_val rank, tw_val n, tw_val *place, tw_val *mass);
/* Updates this thread's best candidate. */
void tw_cut_consider(const tw_cut *c, tw_val z, tw_val id);
/* Reduces all threads' bests to one and publishes it. */
void tw_cut_leave(const tw_cut *c);

/* cut_all.c */
int64_t tw_cut_histogram_bytes(void); /* Shared memory at tw_cut.list that tw_cut_draw_from_all needs. */
/* Finds where top-k cuts, then where top-p cuts, and then draws. Each looks through all logits. */
void tw_cut_draw_from_all(const tw_cut *c);

#endif
