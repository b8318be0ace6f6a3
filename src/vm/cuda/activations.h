/* SPDX-License-Identifier: Apache-2.0 */
/* Copies an instruction's activations to shared memory, where all warps read them as the products' operands. If an RMS
   norm precedes the product, they are multiplied by its weights, and their squares are summed. A layer norm is applied
   as they are copied. */
#ifndef TW_VM_CUDA_ACTIVATIONS_H
#define TW_VM_CUDA_ACTIVATIONS_H

#include "vm/cuda/generate.h"

enum { TW_MEGA_AHEAD = 4 /* Loads that a thread issues at once if the input has RMS norm. */ };

typedef struct tw_mega_activations {
    tw_mega_gen *g;
    tw_val in, norm;           /* Addresses of the first position's activations, and of the norm's weights. */
    tw_val bias, biased;       /* plan.layer_norm: address of the norm's biases, and the predicate that they exist. */
    tw_val normed;             /* Predicate: RMS norm is applied to the activations. */
    tw_val padded;             /* plan.experts: predicate that the input is of experts_down. */
    tw_val columns, positions; /* Number of columns, and of positions. */
    tw_val pitch;              /* Columns from a position to the next. */
    tw_val width;              /* Columns of a chunk, rounded up to whole stages. */
    tw_val tag, mask;          /* plan.flags: the tag to wait for, and its bits that count. */
    int span;                  /* Columns of a turn of all threads. */
    /* Runs of columns whose loads a thread issues together. [1]: for inputs with RMS norm. */
    int at_once[2];
    bool one_turn[2];             /* True: one turn of all threads covers a chunk. [1]: for inputs with RMS norm. */
    tw_val from, limit;           /* Variables: the chunk's first column, and how many of its columns exist. */
    tw_val w[TW_MEGA_AHEAD][4];   /* Variables: the norm's weights of the thread's first columns of the chunk. */
    tw_val add[TW_MEGA_AHEAD][4]; /* plan.layer_norm: likewise, the norm's biases. */
    tw_val mean[TW_CUDA_VM_TOKENS], inverse[TW_CUDA_VM_TOKENS]; /* plan.layer_norm: by position; 1 / deviation. */
    tw_val row[TW_CUDA_VM_TOKENS], to[TW_CUDA_VM_TOKENS]; /* Addresses of each position, in memory and shared memory. */
    tw_val there[TW_CUDA_VM_TOKENS];                      /* Predicates: the position exists. */
} tw_mega_activations;

void tw_mega_find_activations(
    tw_mega_activations *a); /* Sets span, at_once, one_turn, from, limit, w, row, to and there, for chunk 0. */
void tw_mega_find_chunk(tw_mega_activations *a, tw_val chunk);  /* Sets from, limit and w for a chunk. */
void tw_mega_stage_chunk(tw_mega_activations *a, tw_val chunk); /* Stores the chunk at `from`. A barrier must follow. */

#endif
