/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the generator share. */
#ifndef TW_VM_CUDA_GENERATE_H
#define TW_VM_CUDA_GENERATE_H

#include "ir/builder.h"
#include "vm/cuda/mega.h"

typedef struct tw_mega_gen {
    tw_builder *b;
    const tw_mega_plan *p;
    tw_val arg[TW_MEGA_ARGS];
    tw_val shared, lane, thread, warp; /* thread and warp count from the first that multiplies */
    tw_val row, column;                /* lane / 4 and lane % 4: of a piece, and of the tensor cores' tiles */
    tw_val step, epoch, pos;           /* i32, of the step */
    tw_val record;                     /* this lane's word of the record */
    tw_val slot, phase;                /* variables: the stage of the ring that comes next, and its barrier's phase */
    tw_val trace; /* of the current record; none: not traced */
    tw_val index; /* of the current record */
    tw_val gave_up;                    /* variable, lane 0's: the machine was aborted, so nothing is waited for */
} tw_mega_gen;

/* Words and addresses of the current record; all lanes of a warp ask together. */
tw_val tw_mega_word(tw_mega_gen *g, int word);
tw_val tw_mega_address(tw_mega_gen *g, int word);

static inline int tw_mega_threads(const tw_mega_plan *p) {
    return 32 * p->tuning.warps;
}
/* All threads that multiply. */
void tw_mega_barrier(tw_mega_gen *g);
/* base + i * bytes */
tw_val tw_mega_at(tw_mega_gen *g, tw_val base, tw_val i, int64_t bytes);
/* The sum (or largest) over a warp's lanes whose numbers differ in the bits of `below` x 2, ... */
tw_val tw_mega_warp_sum(tw_mega_gen *g, tw_val x, int from, int below);
tw_val tw_mega_warp_max(tw_mega_gen *g, tw_val x, int from, int below);
tw_val tw_mega_thread_loop(tw_mega_gen *g, tw_val count); /* for (i = thread; i < count; i += threads); pop it */
/* Elements of a cache or table as f32, and back. */
tw_val tw_mega_to_f32(tw_mega_gen *g, tw_dtype t, tw_val x);
tw_type tw_mega_element(tw_dtype t);

/* Until what the instruction waits for is there: every builder calls it, as late as it can. */
void tw_mega_wait(tw_mega_gen *g);
/* The clock, where the plan traces. */
void tw_mega_mark(tw_mega_gen *g, int mark);

/* producer.c: the warp that feeds the ring. */
void tw_mega_build_producer(tw_mega_gen *g, tw_val tape, tw_val stages);
int tw_mega_feeders(const tw_mega_plan *p); /* lanes that arrive for a stage */
void tw_mega_build_product(tw_mega_gen *g, tw_val kind);
/* What becomes of a group's sums: rows `first` (counted from the instruction's) and on, `rows` of them, of `n` positions.
   `part`: address of the warps' parts; `scale`: of a position's sums of squares, where it is normed. */
typedef struct tw_mega_sums {
    tw_val kind, part, first, rows, positions, columns, normed;
    tw_val best, best_row; /* variables of the head */
} tw_mega_sums;
void tw_mega_build_epilogue(tw_mega_gen *g, const tw_mega_sums *s);
void tw_mega_build_best(tw_mega_gen *g, const tw_mega_sums *s);
void tw_mega_build_attend(tw_mega_gen *g);
void tw_mega_build_merge(tw_mega_gen *g);

#endif
