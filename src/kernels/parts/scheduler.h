/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which blocks compute tiles of a matrix. */
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

/* Opens the loop of a persistent block over tile numbers: from %ctaid.x in steps of %nctaid.x. The scope's `i` is the
   number. */
tw_scope tw_scheduler_push(tw_builder *b, const tw_scheduler *s);

#endif
