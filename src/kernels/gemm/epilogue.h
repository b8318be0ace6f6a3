/* SPDX-License-Identifier: Apache-2.0 */
/* From sums to cells of C: what the ways to store them share. A line is contiguous in C: a row of the tile, or a column
   if operands are swapped. Neighbouring cells of a line are computed together as a run. */
#ifndef TW_KERNELS_GEMM_EPILOGUE_H
#define TW_KERNELS_GEMM_EPILOGUE_H

#include "kernels/gemm/generate.h"

enum { TW_GEMM_RUN = 8 /* The most cells of a run. */ };

/* A run: adjacent cells of a line in one thread. */
typedef struct tw_gemm_run {
    int cells[TW_GEMM_RUN]; /* Indices of the cells' sums. */
    int n;                  /* Number of cells, a power of two. */
    int offset;             /* Bytes from the thread's first cell of the line to the run. */
    tw_val inside;          /* Predicate: the run is within C. TW_NONE: true. */
} tw_gemm_run;

/* Addresses of the thread's first cell of a line. */
typedef struct tw_gemm_line {
    tw_val c, bias, mul, residual;
    tw_val residual_gains; /* Only of a residual that lacks its norm. */
    tw_val
        residual_factor; /* What the line's residual is multiplied by (f32). Only of a residual that lacks its norm. */
    tw_val residual_offset; /* What is then added to it (f32). */
    tw_val gains, scaled;   /* Only with scaled cells. */
    tw_val factor;          /* The line's factor (f32). Only of products that scatter their rows. */
} tw_gemm_line;

/* What a run is combined with, as loaded. */
typedef struct tw_gemm_others {
    tw_val c[TW_GEMM_RUN], bias[TW_GEMM_RUN], mul[TW_GEMM_RUN], residual[TW_GEMM_RUN];
    tw_val residual_gains[TW_GEMM_RUN], gains[TW_GEMM_RUN];
} tw_gemm_others;

/* Operands of the epilogue that were loaded before it. They are kept by patches of 16 rows and 16 columns, and by pairs
   of neighbouring cells. A pair is one run or two. */
enum {
    TW_GEMM_PATCH = 16,  /* Columns of a patch. */
    TW_GEMM_COUPLES = 4, /* Pairs of cells that a thread has of a patch. */
    TW_GEMM_PATCHES = TW_GEMM_MAX_ACC / (2 * TW_GEMM_COUPLES)
};
typedef struct tw_gemm_ahead {
    struct {
        tw_gemm_others couple[TW_GEMM_COUPLES][2];
    } of[TW_GEMM_PATCHES];
    int all;     /* Patches that a warp has of a tile. */
    int fetched; /* Patches whose operands are loaded. */
} tw_gemm_ahead;

/* The thread's cells: lines, and places along them. */
typedef struct tw_gemm_cells {
    const tw_gemm_operand *across, *along; /* The operands along whose rows (columns of Y) lines follow one another, and
                                              cells follow within a line. */
    tw_val line, place;                    /* The thread's first line, and its first place (i32). */
    tw_val c;                              /* Address of C, or of the product's C if the batch is by pointers. */
    tw_val at;                             /* Bytes from there to the thread's first cell (i64). */
} tw_gemm_cells;

tw_gemm_cells tw_gemm_cells_of(tw_gemm_gen *g);
/* Computes the addresses of the line of a sum. *inside is a predicate for whether it is within C, or TW_NONE: it is. */
tw_gemm_line tw_gemm_line_of(tw_gemm_gen *g, const tw_gemm_cells *of, int sum, tw_val *inside);
/* Sets the factor and the offset that normalise a line's residual, if it lacks its norm. The tile must be multiplied.
   `row` is the line's row, relative to the thread's first. */
void tw_gemm_line_norm(tw_gemm_gen *g, int row, tw_gemm_line *l);
/* Returns the predicate that the run which begins with a sum is within C, or TW_NONE. `line_inside` is the
   predicate of the run's line. */
tw_val tw_gemm_inside(tw_gemm_gen *g, const tw_gemm_cells *of, int sum, tw_val line_inside);
/* Loads what a run is combined with. */
void tw_gemm_cells_load(tw_gemm_gen *g, const tw_gemm_line *l, const tw_gemm_run *r, tw_gemm_others *others);
/* The same in two steps, for what stays in registers for some time: others as they lie in memory, two 16-bit floats in
   a register, and those widened. */
void tw_gemm_cells_fetch(tw_gemm_gen *g, const tw_gemm_line *l, const tw_gemm_run *r, tw_gemm_others *raw);
void tw_gemm_cells_widen(tw_gemm_gen *g, const tw_gemm_run *r, const tw_gemm_others *raw, tw_gemm_others *others);
/* Computes the cells of a run from its sums, in the type that the epilogue computes with. */
void tw_gemm_cells_compute(tw_gemm_gen *g, const tw_gemm_line *l, const tw_gemm_run *r, const tw_gemm_others *others,
                           tw_val *x);

/* Applies an activation function to an f32. */
tw_val tw_gemm_activate(tw_builder *b, tw_gemm_activation a, tw_val x);

/* squares.c: begins the sums of squares of the thread's rows of a tile, and stores them, if the epilogue has them. */
void tw_gemm_squares_begin(tw_gemm_gen *g);
void tw_gemm_squares_end(tw_gemm_gen *g);
/* Adds the square of a cell as C holds it, or of layer norms before that (f32). `cell` is the number of its sum. */
void tw_gemm_squares_add(tw_gemm_gen *g, int cell, tw_val x);

/* boxed.c: loads operands of the epilogue before the tile is multiplied, as many as there are registers for. `ahead`
   must outlive the store of the tile. */
void tw_gemm_boxed_begin(tw_gemm_gen *g, tw_gemm_ahead *ahead);
/* Stores all sums through boxes in shared memory, as tw_gemm_config.staged says. */
void tw_gemm_boxed_store(tw_gemm_gen *g);
/* Waits until the thread's stores by the copy engine are over. */
void tw_gemm_boxed_end(tw_gemm_gen *g);

#endif
