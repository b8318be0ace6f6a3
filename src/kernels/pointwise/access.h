/* SPDX-License-Identifier: Apache-2.0 */
/* How a thread of a generated kernel loads and stores operands: a run of neighbouring elements of a row at once. */
#ifndef TW_KERNELS_POINTWISE_ACCESS_H
#define TW_KERNELS_POINTWISE_ACCESS_H

#include "ir/builder.h"
#include "kernels/pointwise/map.h"

enum { TW_POINT_RUN = 8, TW_POINT_PIECE = 16 /* Bytes of an access at most. */ };

/* Elements of a run: a power of two that divides the row's elements, as many of the smallest type accessed in vectors
   as a piece holds, and at most TW_POINT_RUN. */
int tw_points_run(const tw_points *p, const tw_point_operand *const *others, int n);

/* The element a thread is at: the first one of its run. */
typedef struct tw_point_at {
    tw_val index[TW_POINT_RANK]; /* i32, of every dimension but the last. */
    tw_val column;               /* i32 */
    tw_val there;                /* Predicate: there is such an element. TW_NONE: there always is. */
} tw_point_at;

/* Computes the indices of a row from its number (i32). */
void tw_point_at_row(tw_builder *b, const tw_points *p, tw_val row, tw_point_at *at);

/* An operand or a result as a thread sees it. */
typedef struct tw_point_view {
    const tw_point_operand *o;
    const struct tw_point_view *by; /* Of a gathered operand whose place differs within a run. NULL otherwise. */
    int run;
    int vec;        /* Elements of an access. */
    int64_t step;   /* Elements from one of the run to the next. */
    tw_val address; /* Of the run's first element, i64, less what `by` and `shift` add. */
    int64_t shift;  /* Bytes from there to the run's first element. */
    tw_val inside;  /* Predicate: the gathered place exists. TW_NONE: it always does. */
} tw_point_view;

/* Makes the view of an operand whose memory begins at `base`. `by`, the view of the operand that it gathers by, may be
   NULL where it does not gather. */
tw_point_view tw_point_view_of(tw_builder *b, const tw_points *p, const tw_point_operand *o, int run, tw_val base,
                               const tw_point_at *at, const tw_point_view *by);

/* The elements of a run, as loaded. */
typedef struct tw_point_run {
    tw_val raw[TW_POINT_RUN];
    tw_val inside[TW_POINT_RUN]; /* As of the view. */
} tw_point_run;

/* Loads the run that begins `ahead` elements after the view's. `there` is as in tw_point_at. */
tw_point_run tw_point_load(tw_builder *b, const tw_point_view *v, int64_t ahead, tw_val there);
/* Element i of a run, as expressions compute with it. */
tw_val tw_point_element(tw_builder *b, const tw_point_view *v, const tw_point_run *r, int i);
/* Stores a run of values. */
void tw_point_store(tw_builder *b, const tw_point_view *v, int64_t ahead, tw_val there, const tw_val *values);

/* All operands of an array of values. */
typedef struct tw_point_inputs {
    const tw_points *p;
    unsigned used; /* tw_points_used */
    int run;
    tw_val base[TW_POINT_OPERANDS];
    tw_point_view views[TW_POINT_OPERANDS];
} tw_point_inputs;

/* Declares a pointer for each operand that is used: "x0", "x1", ... Threads compute runs of `run` elements. */
void tw_point_inputs_declare(tw_builder *b, const tw_points *p, int run, tw_point_inputs *in);
/* Makes the views of a thread's run. */
void tw_point_inputs_view(tw_builder *b, tw_point_inputs *in, const tw_point_at *at);
/* The elements of a run of all operands, as loaded. */
typedef struct tw_point_loads {
    tw_point_run of[TW_POINT_OPERANDS];
} tw_point_loads;

/* Moves all views `by` indices on along a dimension that is not the last, and along which no operand is gathered by
   another place. */
void tw_point_inputs_move(tw_point_inputs *in, int dimension, int64_t by);
/* Operands that are elements of the expression, as bits, and those whose elements vary along a dimension. */
unsigned tw_point_inputs_elements(const tw_point_inputs *in);
unsigned tw_point_inputs_varying(const tw_point_inputs *in, int dimension);
/* Loads operands' runs that begin `ahead` columns after the views'. `which`: their bits. */
void tw_point_inputs_load(tw_builder *b, const tw_point_inputs *in, int64_t ahead, tw_val there, unsigned which,
                          tw_point_loads *loads);
/* Computes the values of a run that is loaded. */
void tw_point_inputs_compute(tw_builder *b, const tw_point_inputs *in, const tw_point_at *at, int64_t ahead,
                             const tw_point_loads *loads, tw_val *values);
/* Loads and computes the run that begins `ahead` columns after the views'. */
void tw_point_inputs_values(tw_builder *b, const tw_point_inputs *in, const tw_point_at *at, int64_t ahead,
                            tw_val there, tw_val *values);

/* A predicate that holds where both do. TW_NONE always holds. */
tw_val tw_point_both(tw_builder *b, tw_val p, tw_val q);
/* The alignment that accesses need, in bytes: what a launch may rely on and demands. */
int tw_point_align(const tw_points *p, const tw_point_operand *o, int run);

#endif
