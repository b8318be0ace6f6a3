/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of an engine's steps, on tokens that it draws itself. */
#ifndef TW_ENGINE_TRACE_H
#define TW_ENGINE_TRACE_H

#include "prof/trace.h"
#include "tilewright/engine.h"

typedef struct tw_engine_trace_options {
    const char *title; /* Of the trace. */
    int64_t context;   /* Tokens in the cache before the traced steps. */
    int64_t prefill;   /* Tokens of a prompt, whose steps are traced. 0: decode. */
    int64_t steps;     /* Decode: steps, of one token each. */
    int64_t runs;      /* Runs with a trace, and as many without. 0: three, or more that take half a second together. Of
                          runs that take seconds it may be one. */
} tw_engine_trace_options;

/* Runs the steps with and without a trace by turns. *out is the trace of the fastest run with one, and its `clean` and
   `traced` are the fastest times. The engine is rewound first, and afterwards holds the tokens of the last run. The
   caller frees the trace. TW_ERR_USAGE: the tokens do not fit the context, or there are none.
   A GPU's engine must have been opened to be traced (tw_engine_options.traced; else TW_ERR_USAGE). The trace is then of
   the last step, and `clean` is 0, since such an engine always records. */
tw_status tw_engine_trace(tw_engine *e, const tw_engine_trace_options *o, tw_trace **out, tw_diag *diag);
/* The fastest time of the same steps, in nanoseconds, on an engine that does not record. */
tw_status tw_engine_time_untraced(tw_engine *e, const tw_engine_trace_options *o, double *ns, tw_diag *diag);

#endif
