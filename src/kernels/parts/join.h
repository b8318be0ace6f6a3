/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up sums that were computed in parts: by groups of a block's threads, by the blocks of a cluster, or by blocks of
   the grid. Thread t of each group holds parts of the same `n` sums. Blocks of the grid exchange sums through a
   workspace in global memory: [tile][part][n / v][thread][v], where v sums are at most 16 bytes. Accesses are of whole
   vectors and need no bounds. Each tile has a counter, which is zero before and after every launch. */
#ifndef TW_KERNELS_PARTS_JOIN_H
#define TW_KERNELS_PARTS_JOIN_H

#include "kernels/parts/meet.h"

enum { TW_JOIN_BLOCKS = 8 /* The most blocks of a cluster. */ };

/* Ways to reduce the partial sums of several blocks. The sums of TW_JOIN_ATOMIC differ from run to run; the other ways
   are deterministic. */
typedef enum tw_join_way {
    TW_JOIN_LAST,    /* The last block to arrive adds all parts in order. Workspace: `parts` per tile. */
    TW_JOIN_SERIAL,  /* Blocks add to one part in order. Workspace: one part per tile. */
    TW_JOIN_ATOMIC,  /* Blocks add to one part in any order. Workspace: one part per tile, zero between launches. */
    TW_JOIN_CLUSTER, /* Each block of a cluster adds a share of all parts in order. No workspace. From sm_90 on. */
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
    /* Shared address of memory for the exchange: at least groups / 2 * n * threads elements, and in a cluster at least
       n * threads. No thread may still read its old contents. */
    tw_val shared;

    int parts;        /* Blocks that hold parts of a tile. 1: way, part, tile, workspace and counters are unused. */
    tw_join_way way;  /* The way in which the blocks join their parts. */
    tw_val part;      /* The block's part. In a cluster: its rank. */
    tw_val tile;      /* The tile's number. */
    tw_val workspace; /* Address of the workspace, aligned to 16 bytes. */
    tw_val counters;  /* Address of the tiles' counters, i32. */
} tw_join;

/* What a block has of a tile whose parts along k belong to consecutive blocks (tw_stream). Numbers are i32. */
typedef struct tw_join_share {
    tw_val whole;  /* Predicate: the block has all parts of the tile. */
    tw_val begins; /* Predicate: the block has the tile's first part. */
    tw_val block;  /* The block's number. */
    tw_val first;  /* The number of the block that has the tile's first part. */
    tw_val blocks; /* Number of blocks that have parts of the tile. */
} tw_join_share;

/* Stores sums `from` to `below` - 1 of a thread. */
typedef void tw_join_store(void *context, int from, int below);

/* Adds up the sums of all groups and blocks, and builds their stores by `store`. Group 0 of one block stores all sums;
   in a cluster group 0 of each block stores a share. Afterwards all counters and the workspace of TW_JOIN_ATOMIC are
   zero. */
void tw_join_sums(tw_builder *b, const tw_join *j, tw_join_store *store, void *context);

/* Adds up the sums of the blocks that share a tile, in order, in the last of them to arrive, which stores them. The
   result is deterministic. `j` needs sums, n, type, meeting, tid, threads, thread, shared (4 bytes), tile, workspace
   and counters. Workspace: [block][2][n / v][thread][v], where a block's second part is that of a tile which it begins.
 */
void tw_join_shares(tw_builder *b, const tw_join *j, const tw_join_share *s, tw_join_store *store, void *context);

#endif
