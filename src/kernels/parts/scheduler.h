/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which blocks compute tiles of a matrix, and how tiles are dealt to the blocks of a grid. */
#ifndef TW_KERNELS_PARTS_SCHEDULER_H
#define TW_KERNELS_PARTS_SCHEDULER_H

#include "ir/builder.h"

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

/* Tiles of matrices whose numbers of rows only the device knows. Matrix i owns rows ends[i - 1] to ends[i] - 1 of a
   common matrix. An end below the one before counts as that, and an end beyond the common matrix as its last row's. */
typedef struct tw_groups {
    tw_val ends;    /* Address of the ends, i32. */
    tw_val rows;    /* Rows of the common matrix (i32). */
    tw_val count;   /* Number of matrices (i32). */
    tw_val columns; /* Tiles along columns of each (i32). */
    int height;     /* Rows of a tile. */
    /* tw_groups_push sets these, which are of the tile in the loop's body. */
    tw_val group;    /* The number of the tile's matrix. */
    tw_val row, end; /* The tile's first row in the common matrix, and the row behind the last one of its matrix. */
    tw_val column;   /* The tile's number along columns. */
    tw_val number;   /* The tile's number among those of all matrices. */
} tw_groups;
/* Opens the loop of a block over tiles of all matrices: number `from` (i32), and every `step`-th (i32) after it. */
tw_scope tw_groups_push(tw_builder *b, tw_groups *s, tw_val from, tw_val step);
/* Counts the tiles of all matrices. */
tw_val tw_groups_tiles(tw_builder *b, const tw_groups *s);

#endif
