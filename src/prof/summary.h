/* SPDX-License-Identifier: Apache-2.0 */
/* A trace in figures: how often each role did what, and for how long; what it waited for, in the words of Nsight
   Compute; what was lost, and how far the figures can be trusted. */
#ifndef TW_PROF_SUMMARY_H
#define TW_PROF_SUMMARY_H

#include "base/buf.h"
#include "prof/trace.h"

#include <jansson.h>

/* Traced time that differs by more from clean time makes a trace untrusted. */
#define TW_SUMMARY_TRUST 0.02

/* What the events of a role have in common: name and kind. Durations are in the trace's unit. */
typedef struct tw_summary_region {
    int name;
    tw_event_kind kind;
    int64_t count;
    double total;
    double self;  /* Of `total`, without what is nested inside. */
    double share; /* `total` as a part of the time of the role's tracks. Of asynchronous events it can exceed 1. */
    double mean, p50, p95, p99, max; /* Of durations, or of values if kind is TW_EVENT_VALUE. */
    double least, most;              /* Bounds of `total`. */
} tw_summary_region;

/* What a role waited for. */
typedef struct tw_summary_wait {
    const char *reason; /* As tw_stall_name. */
    int64_t count;
    double total, share;
} tw_summary_wait;

typedef struct tw_summary_role {
    int name;
    int tracks;
    double time; /* Of the tracks, from begin to end, together. */
    int64_t dropped;
    tw_summary_region *regions; /* Descending by total; moments are the last. */
    int n_regions;
    tw_summary_wait waits[TW_ENGINES]; /* Descending by total. */
    int n_waits;
} tw_summary_role;

typedef struct tw_summary {
    tw_summary_role *roles; /* In the order of their first tracks. */
    int n_roles;
    int sms, blocks;
    int64_t dropped;
    double uncertainty; /* The largest one of a track. */
    double length;      /* From the first to the last instruction. */
    double overhead;    /* Traced time against clean time: 0.01 is a percent more. Not finite: one is not known. */
    bool trusted;       /* False: recording changed what was to be seen, by more than TW_SUMMARY_TRUST. */
} tw_summary;

/* What Nsight Compute calls the reason for which a warp stalls while it waits for an engine: "barrier", "long
   scoreboard", "warpgroup arrive", "wait", or "other". docs/prof.md says why. */
const char *tw_stall_name(tw_trace_engine e);

/* TW_ERR_USAGE: the trace cannot be laid out (tw_layout_make). TW_ERR_MEMORY. The caller frees the summary in any case.
   It refers to the trace by numbers of names. */
tw_status tw_summary_make(tw_summary *s, const tw_trace *t, tw_diag *diag);
void tw_summary_free(tw_summary *s);

/* Appends a text of tables. */
void tw_summary_text(tw_buf *out, const tw_summary *s, const tw_trace *t);
/* The same as JSON. NULL: out of memory. The caller decrements its references. */
json_t *tw_summary_json(const tw_summary *s, const tw_trace *t);

#endif
