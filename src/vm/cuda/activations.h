/* SPDX-License-Identifier: Apache-2.0 */
/* An instruction's activations on their way to shared memory, where all warps' products find them: normed, and as the
   products' operands want them. */
#ifndef TW_VM_CUDA_ACTIVATIONS_H
#define TW_VM_CUDA_ACTIVATIONS_H

#include "vm/cuda/generate.h"

enum { TW_MEGA_AHEAD = 4 /* loads of normed activations on their way at once */ };

typedef struct tw_mega_activations {
    tw_mega_gen *g;
    tw_val in, norm, columns, positions;
    tw_val normed;    /* predicate */
    tw_val width;     /* columns of a chunk, whole stages */
    tw_val tag, mask; /* of what is read, with plan.flags */
    tw_type pair;
    /* What is known of a chunk before its values are there: its first column and how many columns there are from there
       on, the norm's weights of the thread's first ones (all variables); and of each position its row, its place in
       shared memory and whether there is such a position. */
    tw_val from, limit, w[TW_MEGA_AHEAD][4];
    tw_val row[TW_CUDA_VM_TOKENS], to[TW_CUDA_VM_TOKENS], there[TW_CUDA_VM_TOKENS];
} tw_mega_activations;

/* The rest of what is known, given the first fields; of the first chunk. */
void tw_mega_find_activations(tw_mega_activations *a);
void tw_mega_find_chunk(tw_mega_activations *a, tw_val chunk);
void tw_mega_stage_chunk(tw_mega_activations *a, tw_val chunk); /* the chunk that was found; nobody waits for it */

#endif
