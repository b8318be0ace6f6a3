/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of some query heads over a part of the past, in two ways: by lanes that share a position and multiply
   floats, which runs everything, and on tensor cores. Scores are in powers of two, with a running maximum and sum. */
#ifndef TW_VM_CUDA_ATTEND_H
#define TW_VM_CUDA_ATTEND_H

#include "kernels/parts/softmax.h"
#include "vm/cuda/generate.h"

/* Positions first .. last - 1 of one key/value head's cache, dealt out to the warps. */
typedef struct tw_mega_past {
    tw_val k, v, first, last;
} tw_mega_past;

/* A warp leaves its heads' results at plan.scratch + warp * plan.attend_heads * (head_dim + 2) floats: of each the
   sums, the largest score, and the sum of the weights. */
typedef struct tw_mega_attender {
    void *state;
    void (*declare)(void *state, tw_mega_gen *g);
    /* Those rows of the warps' first batches that lie in from .. below - 1 (from: none, any). */
    void (*fetch_first)(void *state, const tw_mega_past *p, tw_val from, tw_val below);
    void (*load_queries)(void *state, tw_val q, tw_val position, tw_val head, tw_val heads);
    void (*walk)(void *state, const tw_mega_past *p); /* all positions; the first batch is there already */
    void (*leave)(void *state, tw_val heads);
} tw_mega_attender;

/* attend_lanes.c */
enum {
    TW_MEGA_WIDE = 8 /* elements a lane has of a head */,
    TW_MEGA_TOGETHER = 2 /* positions of a lane on their way */
};
typedef struct tw_mega_batch {
    tw_val k[TW_MEGA_TOGETHER][TW_MEGA_WIDE], v[TW_MEGA_TOGETHER][TW_MEGA_WIDE];
} tw_mega_batch;
typedef struct tw_mega_by_lanes {
    tw_mega_gen *g;
    int lanes;                             /* that share a position: a power of two */
    tw_val mine;                           /* this lane's first element of a head; none beyond the head's end */
    tw_val inside;                         /* predicate */
    tw_val sub;                            /* which of a warp's positions */
    tw_val q[TW_MEGA_HEADS][TW_MEGA_WIDE]; /* variables, here and below */
    tw_softmax seen[TW_MEGA_HEADS];
    tw_val acc[TW_MEGA_HEADS][TW_MEGA_WIDE];
    tw_mega_batch batch[2];
} tw_mega_by_lanes;
tw_mega_attender tw_mega_attend_by_lanes(tw_mega_by_lanes *state);

/* attend_tensor.c */
enum { TW_MEGA_TENSOR_HEADS = 8, TW_MEGA_TENSOR_DIM = 128 };
typedef struct tw_mega_by_tensor {
    tw_mega_gen *g;
    tw_type pair;
    tw_mma_kind mma;
    tw_val q; /* address of this lane's part of the queries, in shared memory */
    tw_val k[2][TW_MEGA_TENSOR_DIM / 32][4], v[4][TW_MEGA_TENSOR_DIM / 16]; /* variables, here and below */
    tw_softmax seen;
    tw_val acc[TW_MEGA_TENSOR_DIM / 8][4];
} tw_mega_by_tensor;
tw_mega_attender tw_mega_attend_by_tensor(tw_mega_by_tensor *state);

#endif
