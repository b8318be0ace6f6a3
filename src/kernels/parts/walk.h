/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which blocks compute the tiles of a matrix. */
#ifndef TW_KERNELS_PARTS_WALK_H
#define TW_KERNELS_PARTS_WALK_H

#include "ir/builder.h"

typedef struct tw_walk {
    tw_val rows;    /* Tiles along rows (i32). */
    tw_val columns; /* Tiles along columns (i32). */
    int band;       /* 1: row after row. More: bands of so many rows; within a band column after column. */
} tw_walk;

typedef struct tw_walk_tile {
    tw_val row, column; /* In tiles. */
} tw_walk_tile;

/* Finds tile `number` (i32), 0 to rows * columns - 1. */
tw_walk_tile tw_walk_find(tw_builder *b, const tw_walk *w, tw_val number);

/* Opens the loop of a persistent block: tile numbers from %ctaid.x in steps of %nctaid.x. `i` of the scope is the
 * number. */
tw_scope tw_walk_push(tw_builder *b, const tw_walk *w);

#endif
