/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring candidates for a choice, whatever they are: each is prepared, checked and timed by the caller's functions,
   in an order and with a protocol that are the same everywhere. A candidate has a number from 0. */
#ifndef TW_SPACE_MEASURE_H
#define TW_SPACE_MEASURE_H

#include "base/stats.h"
#include "tilewright/base.h"

/* What became of a candidate. */
typedef struct tw_measured {
    int candidate;
    tw_status status;    /* TW_OK. TW_ERR_MISMATCH: its result is wrong. Else: it could not be run. */
    const tw_diag *diag; /* Why it is not TW_OK; otherwise empty. */
    tw_stats time;       /* In the unit of `sample`. n is 0 where it was not timed. */
} tw_measured;

/* What the measuring calls, in this order. NULL: there is nothing to do. A candidate whose open, check, warm or sample
   fails is not asked further, and closed. */
typedef struct tw_measure_calls {
    /* Makes n candidates ready at once: compiles them, say. A failure ends everything: what is wrong with one of them
       is for its `open` to say. Every call of `prepare` is followed by one of `release`, even if it failed. */
    tw_status (*prepare)(void *context, int first, int n, tw_diag *diag);
    tw_status (*open)(void *context, int i, tw_diag *diag);
    /* Computes once at the size that is measured, and compares. TW_ERR_MISMATCH: wrong. */
    tw_status (*check)(void *context, int i, tw_diag *diag);
    tw_status (*warm)(void *context, int i, tw_diag *diag);
    /* Takes one sample. Whether it finds its data in a cache is the caller's affair. Required. */
    tw_status (*sample)(void *context, int i, double *time, tw_diag *diag);
    void (*close)(void *context, int i);
    /* Takes a result, as soon as it is known. A failure ends everything. */
    tw_status (*result)(void *context, const tw_measured *m, tw_diag *diag);
    void (*release)(void *context, int first, int n);
    /* Asked before every candidate and every sample. True: whatever is under way is closed without a result. */
    bool (*interrupted)(void *context);
} tw_measure_calls;

typedef struct tw_measure_protocol {
    int batch;       /* Candidates prepared at once. 0: all. */
    int warmups;     /* Samples of each that are thrown away. */
    int samples;     /* Of each, at least 1. */
    bool turns;      /* Those of a batch take turns, so that a drift meets all alike; otherwise one after another. */
    bool time_wrong; /* Also time what is wrong. */
    double seconds;  /* Once they are over no candidate begins, and of those in turns no round. 0: no limit. */
    int64_t most_samples; /* Likewise for samples, warm-ups included. 0: no limit. */
} tw_measure_protocol;

typedef struct tw_measure_report {
    int right, wrong, failed; /* of the candidates that have a result */
    int64_t samples;          /* warm-ups included */
    double seconds;
    bool cut; /* A budget ended, or somebody interrupted. */
} tw_measure_report;

/* Measures candidates 0..n-1. `report` may be NULL. An ended budget or an interruption is no failure. */
tw_status tw_measure(const tw_measure_calls *calls, void *context, int n, const tw_measure_protocol *p,
                     tw_measure_report *report, tw_diag *diag);

#endif
