/* SPDX-License-Identifier: Apache-2.0 */
/* What a loop of two products would take with its steps in another order. Attention is such a loop: in an iteration a
   warpgroup multiplies out scores, computes weights of them, and multiplies these by values. Several warpgroups share
   the tensor cores. docs/prof-analyses.md describes the model. */
#ifndef TW_PROF_ORDERS_H
#define TW_PROF_ORDERS_H

#include "prof/trace.h"

/* What a trace calls the steps. */
typedef struct tw_orders_names {
    const char *first;  /* The product whose sums are worked on. */
    const char *work;   /* The region of the work on these sums. */
    const char *second; /* The product of what the work made. */
    const char *rest;   /* The region of the work on the second product's sums. */
    const char *turn;   /* Name of the event in which a track waits until it may issue products. */
} tw_orders_names;

typedef struct tw_orders_order {
    bool overlapped; /* The work runs under the second product of the iteration before. False: one step after the other.
                      */
    bool turns;      /* Tracks take turns to issue products. */
} tw_orders_order;

/* Times of an iteration of one track, in the trace's unit. */
typedef struct tw_orders_times {
    tw_orders_order order; /* The order of the trace. */
    int tracks;            /* Tracks of a multiprocessor that multiply at the same time. */
    double first, second;  /* Products on tensor cores that they have alone. */
    double work, rest;     /* The two regions. */
    double loads;          /* Waits for copies. */
    double other;          /* All else that the track does. */
    double iteration;      /* From one first product's issue to the next one's. */
    double share;          /* The part of the tracks' time that is in the loop. */
} tw_orders_times;

/* Measures the times. TW_ERR_USAGE: the trace has no such loop. */
tw_status tw_orders_measure(tw_orders_times *out, const tw_trace *t, const tw_orders_names *names, tw_diag *diag);

/* Returns the time of an iteration in an order, by simulation. */
double tw_orders_iteration(const tw_orders_times *x, tw_orders_order order);

/* Returns the time of the whole trace in an order over its time in the order that it has. */
double tw_orders_ratio(const tw_orders_times *x, tw_orders_order order);

#endif
