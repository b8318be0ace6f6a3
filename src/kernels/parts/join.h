/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up sums that were computed in parts: by groups of a block's threads, by the blocks of a cluster, or by blocks of
   the grid. Thread t of each group holds parts of the same `n` sums. Blocks of the grid exchange sums through a
   workspace in global memory: [tile][part][n / v][thread][v], where v sums are at most 16 bytes. Accesses are of whole
   vectors and need no bounds. Each tile has a counter, which is zero before and after every launch. */
#ifndef TW_KERNELS_PARTS_JOIN_H
#define TW_KERNELS_PARTS_JOIN_H

#include "kernels/parts/meet.h"

enum { TW_JOIN_CLUSTER = 8 /* The most blocks of a cluster. */ };

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
    tw_val shared;      /* Shared address of memory for the exchange. No thread reads its old contents any more. */
    int target;         /* Compute capability, such as 90. */

    /* The fields below serve parts in several blocks only. */
    int parts;        /* Blocks that hold parts of a tile. */
    tw_val part;      /* This block's part. */
    tw_val tile;      /* The tile's number. */
    tw_val workspace; /* Address of the workspace, aligned to 16 bytes. */
    tw_val counters;  /* Address of the tiles' counters, i32. */
} tw_join;

/* Adds up the sums of all groups. Group 0 gets the result. Uses groups / 2 * n * threads elements of shared memory. */
void tw_join_groups(tw_builder *b, const tw_join *j);

/* Opens an IR block for group 0, which the caller closes by TW_BLOCK. With one group it opens none. */
tw_scope tw_join_push_first(tw_builder *b, const tw_join *j);

/* Stores sums `from` to `below` - 1 of a thread. */
typedef void tw_join_store(void *context, int from, int below);

/* How blocks add up their parts. */
typedef enum tw_join_way {
    TW_JOIN_LAST,   /* The last block to arrive adds all parts in order. Deterministic. Workspace: `parts` per tile. */
    TW_JOIN_ATOMIC, /* Blocks add to one part by atomics, in any order. Workspace: one part per tile, zero before. */
    TW_JOIN_SERIAL  /* Blocks add to one part in order. Deterministic. Workspace: one part per tile. */
} tw_join_way;

/* Adds up the parts of all blocks. Group 0 of one block gets the sums, and stores all of them by `store`. Afterwards
   the workspace of TW_JOIN_ATOMIC and all counters are zero again. */
void tw_join_blocks(tw_builder *b, const tw_join *j, tw_join_way way, tw_join_store *store, void *context);

/* Adds up the parts of a cluster's blocks in order. `part` is the block's rank. Group 0 of each block gets a share,
   sums `from` to `below` - 1, and stores it by `store`. Uses n * threads elements of shared memory. */
void tw_join_cluster(tw_builder *b, const tw_join *j, tw_join_store *store, void *context);

#endif
