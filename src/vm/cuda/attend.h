/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of some query heads over a part of the past. Either a few lanes share a position, which serves every model,
   or tensor cores take 16 positions of a warp at once. A score is an exponent of 2. */
#ifndef TW_VM_CUDA_ATTEND_H
#define TW_VM_CUDA_ATTEND_H

#include "kernels/parts/softmax.h"
#include "vm/cuda/generate.h"

/* Positions first to last - 1 of the past, dealt out to the warps. A head's keys and values are at k and v. */
typedef struct tw_mega_past {
    tw_val k, v, first, last;
} tw_mega_past;

/* A way to attend. A warp takes the past in batches of positions. */
typedef struct tw_mega_attender {
    void *state;
    void (*declare)(void *state, tw_mega_gen *g); /* Declares the variables. */
    /* Fetches keys and values of the warp's first batch, at positions in [from, below). TW_NONE for `from` is 0. */
    void (*fetch_first)(void *state, const tw_mega_past *p, tw_val from, tw_val below);
    /* Loads the queries of `heads` heads of a position, and resets the softmax. With plan.turns q is a shared address,
       and heads are the instruction's. */
    void (*load_queries)(void *state, tw_val q, tw_val position, tw_val head, tw_val heads);
    void (*walk)(void *state, const tw_mega_past *p); /* Attends to all positions. The first batch is fetched. */
    /* Stores the warp's results at plan.x + warp * plan.attend_heads * (head_dim + 2) floats. A head's result is
       its sums, the largest score, and the sum of the weights. */
    void (*leave)(void *state, tw_val heads);
} tw_mega_attender;

/* attend_lanes.c */
enum {
    TW_MEGA_WIDE = 8,    /* Elements of a head that a lane takes. */
    TW_MEGA_TOGETHER = 2 /* Positions of a batch that a lane fetches. */
};
typedef struct tw_mega_batch {
    tw_val k[TW_MEGA_TOGETHER][TW_MEGA_WIDE], v[TW_MEGA_TOGETHER][TW_MEGA_WIDE];
} tw_mega_batch;
typedef struct tw_mega_by_lanes {
    tw_mega_gen *g;
    int lanes;                               /* Lanes that share a position: a power of two. */
    tw_val mine;                             /* The lane's first element of a head. */
    tw_val inside;                           /* Predicate: `mine` is within the head. */
    tw_val sub;                              /* Number of the lane's position among the warp's, from 0. */
    tw_val whole;                            /* Where 8 does not divide the head: the lane has all of its elements. */
    tw_val q[TW_MEGA_HEADS][TW_MEGA_WIDE];   /* Queries, scaled to powers of two. */
    tw_softmax seen[TW_MEGA_HEADS];          /* State of the softmax. */
    tw_val acc[TW_MEGA_HEADS][TW_MEGA_WIDE]; /* Variables: weighted sums of values. */
    tw_mega_batch batch[2];                  /* Variables: one batch is used while the other is fetched. */
} tw_mega_by_lanes;
tw_mega_attender tw_mega_attend_by_lanes(tw_mega_by_lanes *state);

/* attend_tensor.c */
enum { TW_MEGA_TENSOR_HEADS = 8, TW_MEGA_TENSOR_DIM = 128 };
typedef struct tw_mega_by_tensor {
    tw_mega_gen *g;
    tw_type pair;
    tw_mma_kind mma;
    tw_val q;                                                               /* Shared address of the lane's queries. */
    tw_val k[2][TW_MEGA_TENSOR_DIM / 32][4], v[4][TW_MEGA_TENSOR_DIM / 16]; /* Variables: a batch's keys and values. */
    tw_softmax seen;                                                        /* State of the softmax. */
    tw_val acc[TW_MEGA_TENSOR_DIM / 8][4];                                  /* Variables: weighted sums of values. */
} tw_mega_by_tensor;
tw_mega_attender tw_mega_attend_by_tensor(tw_mega_by_tensor *state);

/* Caps a score, which is an exponent of 2, if the model caps scores. */
tw_val tw_mega_cap_score(const tw_mega_gen *g, tw_val score);

#endif
