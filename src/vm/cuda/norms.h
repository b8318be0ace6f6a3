/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of heads of queries and keys: a warp has a head of a position at a time. */
#ifndef TW_VM_CUDA_NORMS_H
#define TW_VM_CUDA_NORMS_H

#include "vm/cuda/generate.h"

enum { TW_MEGA_PAIRS = 4 /* Pairs of a lane: of heads of 256 elements. */ };

/* A lane's pairs of a head's rows. Those that rope rotates are half of the rotated rows apart, others neighbours. */
typedef struct tw_mega_pairs {
    int n;
    tw_val there[TW_MEGA_PAIRS], turned[TW_MEGA_PAIRS]; /* Predicates: the head has the pair, and rope rotates it. */
    tw_val number[TW_MEGA_PAIRS], index[TW_MEGA_PAIRS][2];
    tw_val of_q[TW_MEGA_PAIRS][2], of_k[TW_MEGA_PAIRS][2]; /* Weights of norms of heads. */
} tw_mega_pairs;

/* Finds a lane's pairs. Weights of norms of heads are loaded, since no instruction writes them. */
void tw_mega_find_pairs(tw_mega_gen *g, tw_mega_pairs *p);

/* What attention norms and rotates: `count` query heads from `from` on, and if `last` holds their keys. */
typedef struct tw_mega_raw {
    tw_val q, k, cache,
        rope; /* Addresses of raw queries and keys, of the cache's keys, and of the position's angles. */
    tw_val from, count, last;
} tw_mega_raw;

/* Norms and rotates. Queries go to plan.turned in shared memory, [head][element], keys to the cache. A barrier must
   follow. */
void tw_mega_turn_raw(tw_mega_gen *g, const tw_mega_pairs *p, const tw_mega_raw *a);

#endif
