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

/* Tiles of which some are cut along k, so that all blocks of a grid get equally much of them: `streamed` tiles of
   `stages` each are a row of stages, of which each block takes a part of its own, from one tile into the next. The
   tiles behind them are dealt to the blocks whole. */
typedef struct tw_stream {
    tw_val tiles;    /* Number of tiles (i32). */
    tw_val streamed; /* Number of tiles that are cut, from tile 0 on (i32). streamed * stages * blocks is below 2^31. */
    tw_val stages;   /* Stages of a tile along k (i32). */
    /* Set by tw_stream_push, for the tile at hand: */
    tw_val tile;     /* Its number. */
    tw_val first;    /* The first of its stages that this block takes. */
    tw_val count;    /* Number of stages that this block takes. */
    tw_val is_first; /* Predicate: it is the block's first. */
    tw_val cut;      /* Predicate: the tile is among those that are cut, though perhaps not between blocks. */
    tw_val blocks;   /* Number of the grid's blocks. */
} tw_stream;
/* Opens the loop of a block over its tiles. */
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
    /* Set by tw_groups_push, for the tile at hand: */
    tw_val group;    /* The number of its matrix. */
    tw_val row, end; /* Its first row in the common matrix, and the end of its matrix. */
    tw_val column;   /* Its column of tiles. */
    tw_val number;   /* Its number, counted over all matrices. */
} tw_groups;
/* Opens the loop over tiles `from`, `from` + `step`, ... of all matrices. */
tw_scope tw_groups_push(tw_builder *b, tw_groups *s, tw_val from, tw_val step);
/* Counts the tiles of all matrices. */
tw_val tw_groups_tiles(tw_builder *b, const tw_groups *s);

#endif
