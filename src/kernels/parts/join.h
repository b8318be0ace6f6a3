/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up sums that were computed in parts: by groups of a block's threads, by the blocks of a cluster, or by blocks of
   the grid. Thread t of each group holds parts of the same `n` sums. Blocks of the grid exchange sums through a
   workspace in global memory: [tile][part][n / v][thread][v], where v sums are at most 16 bytes. Accesses are of whole
   vectors and need no bounds. Each tile has a counter, which is zero before and after every launch. */
#ifndef TW_KERNELS_PARTS_JOIN_H
#define TW_KERNELS_PARTS_JOIN_H

#include "kernels/parts/meet.h"

enum { TW_JOIN_BLOCKS = 8 /* The most blocks of a cluster. */ };

/* How blocks add up their parts. All but TW_JOIN_ATOMIC are deterministic. */
typedef enum tw_join_way {
    TW_JOIN_LAST,    /* The last block to arrive adds all parts in order. Workspace: `parts` per tile. */
    TW_JOIN_SERIAL,  /* Blocks add to one part in order. Workspace: one part per tile. */
    TW_JOIN_ATOMIC,  /* Blocks add to one part in any order. Workspace: one part per tile, zero between launches. */
    TW_JOIN_CLUSTER, /* Blocks of a cluster each add up a share in order. Without workspace, from sm_90 on. */
    TW_JOIN_WAYS
} tw_join_way;

typedef struct tw_join {
    tw_val *sums;       /* Variables: a thread's sums. */
    int n;              /* Number of sums. */
    tw_type type;       /* f32, f64 or i32. */
    tw_meeting meeting; /* The barrier of all threads that hold sums. */
    tw_val tid;         /* A thread's number in the block. */
    int threads;        /* Threads in a group. */
    tw_val thread;      /* A thread's number in its group. */
    int groups;         /* Groups in a block, a power of two. */
    tw_val group;       /* A thread's group. */
    /* Shared address of memory for the exchange: groups / 2 * n * threads elements, and n * threads for a cluster. No
       thread reads its old contents any more. */
    tw_val shared;

    /* The fields below except `parts` serve several blocks only. */
    int parts;        /* Blocks that hold parts of a tile. 1: the block has all of it. */
    tw_join_way way;  /* How they add up their parts. */
    tw_val part;      /* This block's part. In a cluster its rank. */
    tw_val tile;      /* The tile's number. */
    tw_val workspace; /* Address of the workspace, aligned to 16 bytes. */
    tw_val counters;  /* Address of the tiles' counters, i32. */
} tw_join;

/* Stores sums `from` to `below` - 1 of a thread. */
typedef void tw_join_store(void *context, int from, int below);

/* Adds up the sums of all groups and blocks, and has them stored by `store`: by group 0 of one block, or in a cluster
   by group 0 of each block a share. Afterwards the workspace of TW_JOIN_ATOMIC and all counters are zero again. */
void tw_join_sums(tw_builder *b, const tw_join *j, tw_join_store *store, void *context);

#endif
