/* SPDX-License-Identifier: Apache-2.0 */
/* Joins sums that were computed in parts: by groups of a block's threads, by the blocks of a cluster, or by blocks of
   the grid. Thread t of each group holds the same sums, `n` variables.

   Blocks exchange sums through a workspace in global memory: [tile][part][sum / v][thread][v], where v sums make 16
   bytes at most. All accesses are of whole vectors and need no bounds. Each tile has a counter, which is zero before
   and after every launch. */
#ifndef TW_KERNELS_PARTS_JOIN_H
#define TW_KERNELS_PARTS_JOIN_H

#include "kernels/parts/meet.h"

enum { TW_JOIN_CLUSTER = 8 /* the most blocks of a cluster */ };

typedef struct tw_join {
    tw_val *sums;       /* Variables: a thread's sums. */
    int n;              /* Number of sums. */
    tw_type type;       /* f32, f64 or i32. */
    tw_meeting meeting; /* Of all threads that hold sums. */
    tw_val tid;         /* A thread's number in the block. */
    int threads;        /* Threads in a group. */
    tw_val thread;      /* A thread's number in its group. */
    int groups;         /* Groups in a block, a power of two. */
    tw_val group;       /* A thread's group. */
    tw_val shared;      /* Shared address of memory that the sums may use; nobody reads it any more. */
    int target;         /* The target's sm. */

    /* Only for parts in several blocks. */
    int parts;        /* Blocks that hold parts of a tile. */
    tw_val part;      /* This block's part. */
    tw_val tile;      /* The tile's number. */
    tw_val workspace; /* Address of the workspace, aligned to 16 bytes. */
    tw_val counters;  /* Address of the tiles' counters, i32. */
} tw_join;

/* Adds up the sums of all groups. Afterwards group 0 has them. Needs groups / 2 * n * threads elements of shared
   memory. */
void tw_join_groups(tw_builder *b, const tw_join *j);

/* Opens a block for group 0. With one group there is none to open. */
tw_scope tw_join_push_first(tw_builder *b, const tw_join *j);
void tw_join_pop_first(tw_builder *b, const tw_join *j, tw_scope s);

/* How blocks add up their parts. */
typedef enum tw_join_way {
    TW_JOIN_LAST, /* The last block to arrive adds all parts, in order: deterministic. Workspace: `parts` of a tile. */
    TW_JOIN_ATOMIC, /* Blocks add to one part with atomics: the order differs. Workspace: one part, zero before. */
    TW_JOIN_SERIAL  /* Blocks add to one part in turn: deterministic. Workspace: one part. */
} tw_join_way;

typedef struct tw_join_open {
    tw_scope whole, first;
} tw_join_open;

/* Adds up the parts of all blocks, and opens a block for the threads that then have the sums: group 0 of one block. The
   workspace of TW_JOIN_ATOMIC and all counters are zero again afterwards. */
tw_join_open tw_join_push_blocks(tw_builder *b, const tw_join *j, tw_join_way way);
void tw_join_pop_blocks(tw_builder *b, const tw_join *j, const tw_join_open *o);

/* Adds up the parts of a cluster's blocks, in order, where `part` is the block's rank. Each block's group 0 gets a
   share of the sums, and stores it by `store`: sums from to below. Needs n * threads elements of shared memory. */
void tw_join_cluster(tw_builder *b, const tw_join *j, void (*store)(void *context, int from, int below), void *context);

#endif
