/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/trace.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/divide.h"
#include "engine/engine.h"
#include "engine/timing.h"

#include <math.h>

static bool again(const tw_engine_trace_options *o, int64_t runs, double seconds) {
    if (o->runs) return runs < o->runs;
    return (runs < 3 && seconds < 5) || (runs < 100 && seconds < 0.5);
}

static tw_status run(tw_engine *e, const tw_engine_trace_options *o, double *ns, tw_diag *diag) {
    tw_random r = tw_random_seed(1);
    double seconds = 0;
    tw_engine_rewind(e, o->context);
    const tw_status st = o->prefill ? tw_time_prompt(e, &r, o->prefill, &seconds, diag)
                                    : tw_time_steps(e, o->steps, NULL, &seconds, diag);
    *ns = seconds * 1e9;
    return st;
}

/* Runs the steps with a trace. *out is that trace. */
static tw_status run_traced(tw_engine *e, const tw_engine_trace_options *o, tw_trace **out, double *ns, tw_diag *diag) {
    const tw_engine_backend *b = e->machine.backend;
    tw_diag ignored;
    const int64_t steps = o->prefill ? tw_ceil_div(o->prefill, tw_engine_step_tokens(e, TW_PROGRAM_PREFILL)) : o->steps;
    tw_status st = b->trace_begin(&e->machine, steps, diag);
    if (st != TW_OK) return st;
    st = run(e, o, ns, diag);
    const tw_status end = b->trace_end(&e->machine, o->title, out, st == TW_OK ? diag : &ignored);
    if (st == TW_OK) return end;
    tw_trace_free(*out);
    *out = NULL;
    return st;
}

static tw_status check(const tw_engine *e, const tw_engine_trace_options *o, tw_diag *diag) {
    const int64_t n = o->prefill ? o->prefill : o->steps;
    if (o->context < 0 || n < 1 || o->runs < 0)
        return tw_fail(diag, TW_ERR_USAGE, "a trace needs tokens, at least one");
    return n + o->context <= e->context
               ? TW_OK
               : tw_fail(diag, TW_ERR_USAGE, "%lld tokens after %lld others do not fit the context of %lld",
                         (long long)n, (long long)o->context, (long long)e->context);
}

tw_status tw_engine_time_untraced(tw_engine *e, const tw_engine_trace_options *o, double *ns, tw_diag *diag) {
    tw_random r = tw_random_seed(1);
    double one;
    *ns = INFINITY;
    tw_status st = check(e, o, diag);
    tw_engine_rewind(e, 0);
    if (st == TW_OK) st = tw_feed_random(e, &r, o->context, diag);
    if (st == TW_OK) st = run(e, o, &one, diag);
    const int64_t start = tw_now_ns();
    for (int64_t i = 0; st == TW_OK && again(o, i, (double)(tw_now_ns() - start) * 1e-9); i++) {
        st = run(e, o, &one, diag);
        *ns = fmin(*ns, one);
    }
    return st;
}

tw_status tw_engine_trace(tw_engine *e, const tw_engine_trace_options *o, tw_trace **out, tw_diag *diag) {
    tw_random r = tw_random_seed(1);
    double clean = INFINITY, traced = INFINITY, ns = 0;
    *out = NULL;
    tw_status st = check(e, o, diag);
    tw_engine_rewind(e, 0);
    if (st == TW_OK) st = tw_feed_random(e, &r, o->context, diag);
    if (st == TW_OK) st = run(e, o, &ns, diag); /* It warms caches and pages, and is not counted. */
    const int64_t start = tw_now_ns();
    for (int64_t i = 0; st == TW_OK && again(o, i, (double)(tw_now_ns() - start) * 1e-9); i++) {
        tw_trace *t = NULL;
        /* A GPU's machine records in every run. The first one brings its clocks up after the host's work. */
        st = run(e, o, &ns, diag);
        if (st == TW_OK && ns < clean) clean = ns;
        if (st == TW_OK) st = run_traced(e, o, &t, &ns, diag);
        if (st != TW_OK) break;
        if (ns < traced) {
            tw_trace_free(*out);
            *out = t;
            traced = ns;
        } else
            tw_trace_free(t);
    }
    if (st == TW_OK) {
        (*out)->clean = e->machine.backend->gpu ? 0 : clean;
        (*out)->traced = traced;
        return TW_OK;
    }
    tw_trace_free(*out);
    *out = NULL;
    return st;
}
