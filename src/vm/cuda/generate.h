/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the generator share. */
#ifndef TW_VM_CUDA_GENERATE_H
#define TW_VM_CUDA_GENERATE_H

#include "kernels/parts/argmax.h"
#include "kernels/parts/convert.h"
#include "kernels/parts/flag.h"
#include "kernels/parts/reduce.h"
#include "kernels/parts/ring.h"
#include "vm/cuda/mega.h"

typedef struct tw_mega_gen {
    tw_builder *b;
    const tw_mega_plan *p;
    tw_val arg[TW_MEGA_ARGS];  /* The kernel's parameters. */
    tw_val shared;             /* Shared address of the block's memory. */
    tw_val lane, thread, warp; /* Numbers. The first thread and the first warp that multiply are 0. */
    tw_val row, column;  /* Place of the lane in a piece and in fragments of tensor cores: lane / 4 and lane % 4. */
    tw_val step;         /* Number of the step in its launch (i32), from 0. */
    tw_val epoch;        /* Number of the step since the program was loaded (i32), from 1. */
    tw_val pos;          /* Position of the step's first row. TW_NONE if sequences are several. */
    tw_val record;       /* The lane's word of the current record. */
    tw_val index;        /* Number of the current record. */
    tw_val nothing;      /* An i32 that is 0 at run time and that no compiler can know. */
    tw_ring ring;        /* The weights' ring. The consumers are the warps that multiply. */
    tw_ring_cursor next; /* The stage that the consumers take next. */
    tw_val gave_up;      /* Variable (i32): not 0 once the machine was aborted. Then nothing is waited for. */
} tw_mega_gen;

/* Read a word or an address of the current record. All lanes of a warp call them together. */
tw_val tw_mega_word(tw_mega_gen *g, int word);
tw_val tw_mega_address(tw_mega_gen *g, int word);

/* Computes the position of a row of the step. If sequences are several, row i is the next position of sequence i. */
tw_val tw_mega_position(tw_mega_gen *g, tw_val row);

static inline int tw_mega_threads(const tw_mega_plan *p) {
    return 32 * p->tuning.warps;
}
/* Returns attributes of accesses to the word at plan.ready. One consumer thread writes the word, and the producer reads
   it. */
static inline tw_attrs tw_mega_ready(const tw_mega_plan *p) {
    return (tw_attrs){.type = TW_T_i32,
                      .space = TW_SPACE_shared,
                      .offset = p->ready,
                      .order = TW_ORDER_relaxed,
                      .scope = TW_SCOPE_cta};
}
void tw_mega_barrier(tw_mega_gen *g);                                   /* A barrier of all threads that multiply. */
tw_val tw_mega_at(tw_builder *b, tw_val base, tw_val i, int64_t bytes); /* Computes base + i * bytes. */
tw_scope tw_mega_thread_loop(tw_mega_gen *g, tw_val count);             /* for (i = thread; i < count; i += threads) */
tw_type tw_mega_element(tw_dtype t); /* The IR's type of a cache's or table's elements. */

/* Returns attributes of accesses to `vec` adjacent elements (0: one) of shared memory, `offset` bytes from the
   address. */
static inline tw_attrs tw_mega_shared(tw_type t, int vec, int offset) {
    return (tw_attrs){.type = t, .vec = vec, .space = TW_SPACE_shared, .offset = offset};
}
/* Returns attributes of loads of data that other blocks write while the kernel runs. The loads bypass L1, which may be
   stale. */
static inline tw_attrs tw_mega_l2(tw_type t, int vec, int offset) {
    return (tw_attrs){.type = t, .vec = vec, .offset = offset, .cache = TW_CACHE_cg};
}
/* Returns attributes of loads of buffers that are read-only while the kernel runs. */
static inline tw_attrs tw_mega_fixed(tw_type t, int vec, int offset) {
    return (tw_attrs){.type = t, .vec = vec, .offset = offset, .cache = TW_CACHE_nc};
}

/* Activations as integers: multiply.h. */
enum {
    TW_MEGA_DIGITS = 3,
    /* Bits of the float 1.5 * 2^23. Adding an integer of up to 22 bits and a sign to them adds it to the float. */
    TW_MEGA_NUMBER = 0x4b400000
};

/* Waits until the instruction's input is there. Every builder calls it, as late as it can. */
void tw_mega_wait(tw_mega_gen *g);
void tw_mega_wait_alone(tw_mega_gen *g); /* tw_mega_wait for instructions without weights, which copy no activations. */

/* Computes the tag that the instruction reads or writes, with plan.flags. A step writes the buffer `uses` times. */
tw_val tw_mega_tag(tw_mega_gen *g, bool writes, int uses);
tw_val tw_mega_mask(tw_mega_gen *g); /* Computes which of the tag's bits count: none if the input has no tags. */
void tw_mega_put(tw_mega_gen *g, tw_val address, tw_val x, tw_val tag); /* Stores an f32, with plan.flags tagged. */
void tw_mega_poll(tw_mega_gen *g, tw_flag_words *x, int n);             /* Reads addresses as tw_flag_poll does. */
void tw_mega_mark(tw_mega_gen *g, int mark); /* Records a mark of the current instruction, for the profiler. */

/* producer.c: the warp that feeds the ring. */
void tw_mega_build_producer(tw_mega_gen *g, tw_val tape, tw_val stages, tw_val before_head);
int tw_mega_feeders(const tw_mega_plan *p); /* Lanes that arrive at a stage's full mbarrier. */
void tw_mega_build_product(tw_mega_gen *g, tw_val kind);
enum { TW_MEGA_BLOCKS = 8 /* The most pieces of a stage that a warp takes. */, TW_MEGA_FRAGMENTS = 4 };
/* A warp's part of a stage, in variables (i32). */
typedef struct tw_mega_taken {
    tw_val w[TW_MEGA_BLOCKS][4];      /* The lane's words of each piece. */
    tw_val scale[2 * TW_MEGA_BLOCKS]; /* The lane's words of scales. */
    tw_val empty;                     /* Address of the stage's empty mbarrier. */
} tw_mega_taken;
/* What a warp holds in variables while it multiplies an instruction's stages. Activations that a lane does not load
   stay zero. */
typedef struct tw_mega_stream {
    tw_mega_taken taken[2];                            /* Two stages: one is multiplied while the other is taken. */
    tw_val x[TW_MEGA_BLOCKS][TW_MEGA_FRAGMENTS][4];    /* Activations by piece, then by step or two positions. */
    tw_val x_scale[TW_MEGA_BLOCKS][TW_MEGA_FRAGMENTS]; /* Integers: scales of the activations (f32). */
    tw_val left;                                       /* Stages of the instruction that are not taken yet (i32). */
} tw_mega_stream;
void tw_mega_begin_stream(tw_mega_gen *g, tw_mega_stream *s, tw_val stages); /* For an instruction's `stages`. */
typedef struct tw_mega_units {
    tw_val part;                     /* Shared address of the warps' sums. */
    tw_val chunk;                    /* Number of the chunk. Sums of chunk 0 are stored, those of others are added. */
    tw_val count, stages, positions; /* Numbers of units, of stages of a unit, and of positions. */
} tw_mega_units;
/* Multiplies units by a chunk of activations. Their stages come next in the ring; the first of the instruction's is
   taken. NULL: takes that one, which waits for nothing but the memory. */
void tw_mega_build_units(tw_mega_gen *g, tw_mega_stream *s, tw_val is_head, const tw_mega_units *u);
/* The sums of a group, which the epilogue makes the instruction's results. */
typedef struct tw_mega_sums {
    tw_val kind;      /* The tw_mega_kind. */
    tw_val part;      /* Shared address of the warps' sums. */
    tw_val first;     /* The group's first row of the result, counted from the instruction's. */
    tw_val rows;      /* Rows of the group, gate's and up's both counted. */
    tw_val positions; /* Number of positions. */
    tw_val normed;    /* Predicate: RMS norm was applied to the activations. */
    tw_val share;     /* 1 / columns (f32), which makes the sum of squares their mean. */
    tw_val factor;    /* plan.flags: variable (f32) with 1 / rms of the activations, or 1. */
    tw_val early;     /* plan.tokens 1: predicate that `before` and `angle` are read before the wait. */
    tw_val before;    /* With `early`: what project adds to in this thread's row of the first group. */
    tw_val angle[2];  /* With `early`: cosine and sine of qkv's pair of rows of this thread in the first group. */
    tw_argmax best[TW_CUDA_VM_TOKENS]; /* head: variables, the thread's bests by sequence. */
} tw_mega_sums;
/* merge.c. Adds up the parts of a product. */
void tw_mega_build_sum(tw_mega_gen *g);
/* norms.c. Adds the norm of what project stored to some columns of every position of the residual stream. */
void tw_mega_build_residual(tw_mega_gen *g);
/* Norms and rotates heads of queries and keys, and appends the keys to the cache. */
void tw_mega_build_turn(tw_mega_gen *g);
/* epilogue.c. Appends two elements (f32) of a key or value of a position to the cache, whose type they get. */
void tw_mega_put_cached(tw_mega_gen *g, tw_val cache, tw_val head, tw_val position, const tw_val *index,
                        const tw_val *y);
tw_val tw_mega_activate(tw_builder *b, tw_activation activation, tw_val x); /* Computes the activation of x (f32). */
void tw_mega_build_epilogue(tw_mega_gen *g, const tw_mega_sums *s);
void tw_mega_build_factor(tw_mega_gen *g, const tw_mega_sums *s); /* Sets s->factor from the squares of position 0. */
void tw_mega_build_before(tw_mega_gen *g, tw_mega_sums *s);       /* Sets s->before and s->angle. */
void tw_mega_build_best(tw_mega_gen *g, const tw_mega_sums *s);   /* Stores the block's best row of each sequence. */
/* With plan.samples, after the head's last group: sets bests to the largest values by the sequences' rules, and logits
   to what penalties leave of them. */
void tw_mega_build_values(tw_mega_gen *g, tw_mega_sums *s);
/* Applies penalties to a row's logit (*z), and computes its score (*value). The row of the largest score is drawn. */
void tw_mega_build_value(tw_mega_gen *g, tw_val sequence, tw_val id, tw_val *z, tw_val *value);
/* The last instruction, which finds the token of each sequence. */
typedef struct tw_mega_output {
    tw_val slots;        /* Number of slots. */
    tw_val best;         /* Address of the slots' bests: [slot][sequence] of value and row. */
    tw_val token;        /* Address of the tokens that are found. */
    tw_val logits, rows; /* plan.samples: addresses of the logits, and of TW_W_SLOT_ROWS. */
    tw_val aborted;      /* Flag of the abort record. */
} tw_mega_output;
void tw_mega_build_output_of(tw_mega_gen *g, const tw_mega_output *o);
/* Finds the token of one sequence, by all threads. With plan.samples. */
void tw_mega_build_output_one(tw_mega_gen *g, const tw_mega_output *o, tw_val sequence);
void tw_mega_build_output(tw_mega_gen *g);
int64_t tw_mega_cut_bytes(const tw_mega_plan *p); /* Shared memory that a cut needs. */
void tw_mega_build_attend(tw_mega_gen *g);
void tw_mega_build_merge(tw_mega_gen *g);
void tw_mega_build_score(tw_mega_gen *g);
void tw_mega_build_choose(tw_mega_gen *g);
/* In a warp: chooses the best experts by f32 scores[experts], in descending order. Lane u gets the number of the u-th
   (i32) and its weight (f32). */
void tw_mega_choose(tw_builder *b, const tw_model *m, tw_val lane, tw_val scores, tw_val *expert, tw_val *share);

#endif
