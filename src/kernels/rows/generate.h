/* SPDX-License-Identifier: Apache-2.0 */
/* Generating the kernel of rows. */
#ifndef TW_KERNELS_ROWS_GENERATE_H
#define TW_KERNELS_ROWS_GENERATE_H

#include "kernels/pointwise/access.h"
#include "kernels/rows/rows_kernel.h"

/* The problem as it is computed. */
typedef struct tw_rows_shape {
    tw_rows_problem p; /* Leading dimensions are joined. */
    tw_rows_config c;
    int run;    /* Elements that a thread computes at once. */
    int lanes;  /* Threads of a row. */
    int pieces; /* Runs of a row. */
    int turns;  /* Runs of a thread, at most. */
    int64_t rows, columns;
    bool is_long; /* The row is not kept: every pass computes it anew. */
} tw_rows_shape;

/* TW_ERR_USAGE: the problem makes no sense, or the configuration is not legal. `c` may be NULL. */
tw_status tw_rows_shape_of(const tw_rows_problem *p, const tw_rows_config *c, tw_rows_shape *s, tw_diag *diag);

/* A kernel in the making. */
typedef struct tw_rows_gen {
    const tw_rows_shape *s;
    tw_builder *b;
    tw_point_inputs in;
    tw_point_at at;
    tw_point_view out, kept, gain, bias;
    tw_val lane;  /* The thread's number in its row, i32. */
    tw_val slot;  /* The row's number in its block, i32. */
    tw_val there; /* Predicate: there is such a row. TW_NONE: there always is. */
    tw_val shared;
    int reductions; /* Reductions across warps so far. */
} tw_rows_gen;

typedef enum tw_rows_reduction {
    TW_ROWS_by_sum,
    TW_ROWS_by_max,
    TW_ROWS_by_min,
    TW_ROWS_by_product,
    TW_ROWS_REDUCTIONS
} tw_rows_reduction;
enum { TW_ROWS_MOST_REDUCTIONS = 3 };

/* Returns the bytes of a value in registers: of f64 8, of f32 4. */
static inline int tw_rows_each(const tw_rows_shape *s) {
    return tw_cells_class(&s->p.x.cells) == TW_CLASS_double ? 8 : 4;
}

/* reduce.c: reduces a value of each thread of a row, and gives all of them the result, with the same bits. Every
   thread of the block takes part. */
tw_val tw_rows_reduce(tw_rows_gen *g, tw_val x, tw_rows_reduction by);
/* Combines two values. */
tw_val tw_rows_combine(tw_builder *b, tw_rows_reduction by, tw_val x, tw_val y);

/* body.c: everything after the declarations. */
void tw_rows_body(tw_rows_gen *g);

#endif
