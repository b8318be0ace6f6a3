/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which blocks compute tiles of a matrix, and how tiles are dealt to the blocks of a grid. */
#ifndef TW_KERNELS_PARTS_SCHEDULER_H
#define TW_KERNELS_PARTS_SCHEDULER_H

#include "kernels/parts/ring.h"

typedef struct tw_scheduler {
    tw_val rows;    /* Tiles along rows (i32). */
    tw_val columns; /* Tiles along columns (i32). */
    int band;       /* Rows per band. Bands follow one another; within a band the order is by columns. 1: by rows. */
} tw_scheduler;

typedef struct tw_scheduler_tile {
    tw_val row, column; /* Position in the matrix of tiles. */
} tw_scheduler_tile;

/* Computes the position of a tile. `number` (i32) is 0 to rows * columns - 1. */
tw_scheduler_tile tw_scheduler_find(tw_builder *b, const tw_scheduler *s, tw_val number);

/* Tiles of a grid, of which the first `streamed` are cut along k. The stages of these form one sequence, of which each
   block takes an equal part. A part may begin in one tile and end in another. The other tiles are dealt out whole. */
typedef struct tw_stream {
    tw_val tiles;    /* Number of tiles (i32). */
    tw_val streamed; /* Number of tiles that are cut, from tile 0 on (i32). streamed * stages * blocks is below 2^31. */
    tw_val stages;   /* Stages of a tile along k (i32). */
    /* tw_stream_push sets these, which are of the tile in the loop's body. */
    tw_val tile;     /* The tile's number. */
    tw_val first;    /* The first stage of the tile that this block takes. */
    tw_val count;    /* Number of the tile's stages that this block takes. */
    tw_val is_first; /* Predicate: the tile is the block's first. */
    tw_val blocks;   /* Number of the grid's blocks. */
} tw_stream;
/* Opens the loop over the tiles of the block that runs it. */
tw_scope tw_stream_push(tw_builder *b, tw_stream *s);
/* Computes the number of the block that takes a stage of the streamed tiles, counted from the first tile's first. */
tw_val tw_stream_block(tw_builder *b, const tw_stream *s, tw_val stage);

/* Deals tiles out to the blocks of a grid that are ready for one. The block's first tile has the block's number. A
   counter in global memory counts the tiles that were begun, and gives each block that begins one the number of its
   next. It is 0 before and after every launch. One warp takes numbers for its block. */
typedef struct tw_deal {
    tw_val counter; /* Address of the counter, i32. */
    tw_val taken;   /* Variable: lane 0's last number from the counter, before the grid's blocks are added. */
    tw_val base;    /* Variable: what to add. */
} tw_deal;
tw_deal tw_deal_begin(tw_builder *b, tw_val counter);
/* Returns the number of the block's current tile. All lanes call it. */
tw_val tw_deal_number(tw_builder *b, const tw_deal *d);
/* Takes the number of the block's next tile, where `lowest` holds, which is in lane 0. All lanes call it, once for each
   tile that there is. */
void tw_deal_next(tw_builder *b, const tw_deal *d, tw_val lowest);
/* Puts the counter back, in the block that took the last number. All lanes call it behind the loop. `tiles` is the
   number of tiles. */
void tw_deal_end(tw_builder *b, const tw_deal *d, tw_val lowest, tw_val tiles);

/* Tiles of matrices whose numbers of rows only the device knows. Matrix i owns rows ends[i - 1] to ends[i] - 1 of a
   common matrix. An end below the one before counts as that, and an end beyond the common matrix as its last row's.
   With `reserved`, matrix i owns the first counts[i] rows of the `reserved` ones that begin with row i * reserved.

   One warp finds tiles, and all of its lanes take part. Each lane holds four neighbouring ends, so that 128 are loaded
   at a time, and no tile's place depends on a chain of loads. */
typedef struct tw_groups {
    tw_val ends;         /* Address of the ends, i32, or of the counts. */
    tw_val reserved;     /* Rows reserved for each matrix (i32). TW_NONE: there are ends. */
    tw_val rows;         /* Rows of the common matrix (i32). */
    tw_val count;        /* Number of matrices (i32). */
    tw_scheduler matrix; /* Tiles of each matrix. tw_groups_find sets its rows. */
    int height;          /* Rows of a tile. */
    tw_val lane;         /* The lane's number. */
    /* Variables, which tw_groups_begin makes. */
    tw_val next;             /* The first matrix whose end is not loaded. */
    tw_val row;              /* The row behind the last one of the matrices that are loaded or passed by. */
    tw_val tiles;            /* Number of tiles of these. */
    tw_val start[4], end[4]; /* The first rows and the ends of the lane's matrices. */
    tw_val before;           /* Number of tiles of all matrices before the lane's first one. */
} tw_groups;

typedef struct tw_groups_tile {
    tw_val group;  /* The number of the tile's matrix. Below 0: there is no such tile. */
    tw_val row;    /* The tile's first row in the common matrix. */
    tw_val end;    /* The row behind the last one of its matrix. */
    tw_val column; /* The tile's number along columns. */
} tw_groups_tile;

void tw_groups_begin(tw_builder *b, tw_groups *s);
/* Finds the tile of a number (i32, the same in all lanes) among those of all matrices. Numbers ascend from call to call
   at run time. All lanes get the tile. */
tw_groups_tile tw_groups_find(tw_builder *b, tw_groups *s, tw_val number);

/* A ring in shared memory by which the warp that finds tiles tells others. Its stages have TW_GROUPS_BYTES, and a
   multiple of 16 bytes as their address. Each thread that is told returns the stage. */
enum { TW_GROUPS_BYTES = 16 };
/* Tells a tile. One thread calls it. */
void tw_groups_tell(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c, const tw_groups_tile *t);
/* Waits for a tile, and returns the stage. */
tw_groups_tile tw_groups_hear(tw_builder *b, const tw_ring *r, const tw_ring_cursor *c);

#endif
