/* SPDX-License-Identifier: Apache-2.0 */
/* How long iterations of loops take. */
#ifndef TW_PROF_ITERATION_H
#define TW_PROF_ITERATION_H

#include "prof/trace.h"

/* A loop of one role. */
typedef struct tw_iteration_loop {
    int loop;           /* As the events number it. */
    int name, role;     /* Indices into the trace's names. The role may be -1. */
    int64_t iterations; /* Of all tracks. */
    int64_t runs;       /* How often the loop was entered. */
    double mean, p50, p95;
    int64_t steady; /* Iterations without those that fill and drain a pipeline: the first and the last ones of a run
                       that take more than 1.25 or less than 0.8 times the median of its middle half, at most a
                       quarter of the run on either side. */
    double steady_mean, steady_p50, steady_p95;
    double fill, drain; /* Iterations of a run left out at its begin and its end, on average. */
    double before;      /* From a track's begin to its first iteration of the loop, on average. */
    double after;       /* From its last one to the track's end, on average. */
} tw_iteration_loop;

typedef struct tw_iterations {
    tw_iteration_loop *loops; /* Ascending by loop, then by role, then by name. */
    int n;
} tw_iterations;

tw_status tw_iterations_find(tw_iterations *out, const tw_trace *t, tw_diag *diag);
void tw_iterations_free(tw_iterations *i);

#endif
