/* SPDX-License-Identifier: Apache-2.0 */
/* Traces made by hand. */
#ifndef TW_TESTS_PROF_HAND_H
#define TW_TESTS_PROF_HAND_H

#include "support/support.h"

#include "prof/trace.h"

#include <math.h>
#include <string.h>

static inline void near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.17g is not %.17g", a, b);
}

static inline int hand_track(tw_trace *t, int sm, int block, const char *role, double begin, double end) {
    const tw_trace_track k = {
        .sm = sm, .block = block, .role = tw_trace_add_name(t, role, TW_ENGINE_NONE), .begin = begin, .end = end};
    return tw_trace_add_track(t, &k);
}

static inline int hand_event(tw_trace *t, int track, tw_event_kind kind, const char *name, tw_trace_engine engine,
                             double begin, double end) {
    const tw_trace_event e = {
        track, tw_trace_add_name(t, name, engine), kind, -1, -1, begin, end, end - begin, end - begin, 0};
    return tw_trace_add_event(t, &e);
}

static inline const char *hand_name(const tw_trace *t, int name) {
    return name < 0 ? "" : t->names[name].text;
}

#endif
