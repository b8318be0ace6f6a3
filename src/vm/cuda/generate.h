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
    tw_val arg[TW_MEGA_ARGS];
    tw_val shared, lane, thread, warp; /* thread and warp count from the first that multiplies */
    tw_val row, column;                /* lane / 4 and lane % 4: of a piece, and of the tensor cores' tiles */
    tw_val step, epoch;                /* i32, of the step */
    tw_val pos;                        /* of the step's first row; none with several sequences: tw_mega_position */
    tw_val record;                     /* this lane's word of the record */
    tw_val nothing;                    /* i32: 0, which no compiler can know */
    tw_ring ring;                      /* The weights' ring. The consumers are the warps that multiply. */
    tw_ring_cursor next;               /* The stage that the consumers take next. */
    tw_val trace;                      /* of the current record; none: not traced */
    tw_val index;                      /* of the current record */
    tw_val gave_up; /* variable, of each thread that polls: the machine was aborted, so nothing is waited for */
} tw_mega_gen;

/* Words and addresses of the current record; all lanes of a warp ask together. */
tw_val tw_mega_word(tw_mega_gen *g, int word);
tw_val tw_mega_address(tw_mega_gen *g, int word);

/* The position of a row of the step: those of one sequence follow one another, several sequences have one each. */
tw_val tw_mega_position(tw_mega_gen *g, tw_val row);

static inline int tw_mega_threads(const tw_mega_plan *p) {
    return 32 * p->tuning.warps;
}
/* All threads that multiply. */
void tw_mega_barrier(tw_mega_gen *g);
/* base + i * bytes */
tw_val tw_mega_at(tw_mega_gen *g, tw_val base, tw_val i, int64_t bytes);
tw_scope tw_mega_thread_loop(tw_mega_gen *g, tw_val count); /* for (i = thread; i < count; i += threads) */
tw_type tw_mega_element(tw_dtype t);                        /* The IR's type of a cache's or table's elements. */
/* Activations as integers: multiply.h. */
enum {
    TW_MEGA_DIGITS = 3,
    /* The float 1.5 * 2^23: with an integer of up to 22 bits and a sign added to its bits it is that much more. */
    TW_MEGA_NUMBER = 0x4b400000
};

/* Until what the instruction waits for is there: every builder calls it, as late as it can. */
void tw_mega_wait(tw_mega_gen *g);

/* Where data is its own flag (plan.flags; the tag is nothing otherwise): the number of the writing that the instruction
   reads or writes, of a buffer that a step writes `uses` times; writing an element with it; and reading elements, over
   and over, until all have it. */
tw_val tw_mega_tag(tw_mega_gen *g, bool writes, int uses);
tw_val tw_mega_mask(tw_mega_gen *g); /* the tag's bits, or none where what the instruction reads has no tags */
void tw_mega_put(tw_mega_gen *g, tw_val address, tw_val x, tw_val tag);
void tw_mega_poll(tw_mega_gen *g, tw_flag_words *x, int n);
/* The clock, where the plan traces. */
void tw_mega_mark(tw_mega_gen *g, int mark);

/* producer.c: the warp that feeds the ring. */
void tw_mega_build_producer(tw_mega_gen *g, tw_val tape, tw_val stages, tw_val before_head);
int tw_mega_feeders(const tw_mega_plan *p); /* lanes that arrive for a stage */
void tw_mega_build_product(tw_mega_gen *g, tw_val kind);
/* What a warp has of an instruction's stages in registers: two stages' pieces, and the activations that they meet. */
enum { TW_MEGA_BLOCKS = 8 /* most of a stage */, TW_MEGA_FRAGMENTS = 4 };
typedef struct tw_mega_taken {
    tw_val w[TW_MEGA_BLOCKS][4], scale[2 * TW_MEGA_BLOCKS]; /* variables, i32 */
    tw_val empty;                                           /* variable: address of the slot's barrier */
} tw_mega_taken;
typedef struct tw_mega_stream {
    tw_mega_taken taken[2];
    /* Variables: of each piece, of floats a fragment for every step, of integers the words and the scale for every two
       positions. What a lane does not load stays zero, and is not made so again for every group. */
    tw_val x[TW_MEGA_BLOCKS][TW_MEGA_FRAGMENTS][4], x_scale[TW_MEGA_BLOCKS][TW_MEGA_FRAGMENTS];
    tw_val left; /* variable: stages of the instruction that were not taken yet */
} tw_mega_stream;
/* Takes the first of an instruction's `stages` stages, which waits for nothing but the memory. */
void tw_mega_begin_stream(tw_mega_gen *g, tw_mega_stream *s, tw_val is_head, tw_val stages);
/* The products of `count` units with a chunk of activations, whose stages come next; each warp's sums go to its part,
   where those of an earlier chunk are. */
typedef struct tw_mega_units {
    tw_mega_stream *stream;
    tw_val part, chunk, count, stages, positions; /* stages: of a unit */
} tw_mega_units;
void tw_mega_build_units(tw_mega_gen *g, const tw_mega_format *f, const tw_mega_units *u);
/* What becomes of a group's sums: rows `first` (counted from the instruction's) and on, `rows` of them, of `positions`.
   `part`: address of the warps' parts; `share`: 1 / columns, of the squares where they are normed. */
typedef struct tw_mega_sums {
    tw_val kind, part, first, rows, positions, normed;
    tw_val share;
    tw_val factor; /* plan.flags: the norm's, known already */
    /* With one position, fetched before the wait: this thread's row of what a projection adds to, in the first group;
       and the cosine and sine of its pair of rows in qkv. */
    tw_val before, angle[2];
    tw_val early;                      /* whether that may be */
    tw_argmax best[TW_CUDA_VM_TOKENS]; /* head: the thread's largest logit of each sequence, and its row. */
} tw_mega_sums;
void tw_mega_build_epilogue(tw_mega_gen *g, const tw_mega_sums *s);
void tw_mega_build_factor(tw_mega_gen *g, const tw_mega_sums *s); /* sets s->factor from the squares; position 0's */
void tw_mega_build_before(tw_mega_gen *g, tw_mega_sums *s);       /* sets s->before and s->angle */
void tw_mega_build_best(tw_mega_gen *g, const tw_mega_sums *s);
/* Where the plan samples, once the head's rows are through: bests of what rows are by their sequence's rules, whose
   logits become what penalties leave. And of a row: its logit, and what is looked for the largest of. */
void tw_mega_build_values(tw_mega_gen *g, tw_mega_sums *s);
void tw_mega_build_value(tw_mega_gen *g, tw_val sequence, tw_val id, tw_val *z, tw_val *value);
/* The last instruction: the token of each sequence. */
typedef struct tw_mega_output {
    tw_val slots, best, token;
    tw_val logits, rows; /* where the plan samples */
    tw_val aborted;      /* the abort record's flag */
} tw_mega_output;
void tw_mega_build_output_of(tw_mega_gen *g, const tw_mega_output *o);
void tw_mega_build_output(tw_mega_gen *g);
int64_t tw_mega_cut_bytes(const tw_mega_plan *p); /* of shared memory */
void tw_mega_build_attend(tw_mega_gen *g);
void tw_mega_build_merge(tw_mega_gen *g);

#endif
