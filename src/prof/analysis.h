/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses of a trace, and their results as JSON and as text. */
#ifndef TW_PROF_ANALYSIS_H
#define TW_PROF_ANALYSIS_H

#include "base/buf.h"
#include "prof/balance.h"
#include "prof/bubble.h"
#include "prof/iteration.h"
#include "prof/overlap.h"
#include "prof/path.h"
#include "prof/pipelining.h"
#include "prof/region.h"

#include <jansson.h>

/* A change, and how long the kernel would be with it. */
typedef struct tw_gain {
    tw_change_kind kind; /* TW_CHANGE_SCALE by 0.5, or TW_CHANGE_STAGES by one more. */
    int name;            /* Index into the trace's names. */
    double after;
} tw_gain;

enum { TW_ANALYSIS_STAGES = 4, TW_ANALYSIS_GAINS = 16 };

typedef struct tw_analysis {
    tw_iterations iterations;
    tw_overlap overlap;
    tw_bubbles bubbles;
    tw_path path;
    tw_balance balance;
    tw_regions regions;
    double before;                    /* The trace's length. */
    tw_gain gains[TW_ANALYSIS_GAINS]; /* For names that the critical path spends most on. The largest first. */
    int n_gains;
    tw_pipelining_times times;                                        /* Of the longest loop. */
    tw_pipelining_prediction pipelines[2 * (TW_ANALYSIS_STAGES - 1)]; /* The fastest first. */
    int n_pipelines;                                                  /* 0: no loop has loads and products. */
} tw_analysis;

/* Makes all analyses. `peaks` NULL: rooflines use the trace's peaks, and the balance is among the multiprocessors that
   have tracks. With `peaks` the balance is among peaks->sms multiprocessors. */
tw_status tw_analysis_make(tw_analysis *out, const tw_trace *t, const tw_peaks *peaks, tw_diag *diag);
void tw_analysis_free(tw_analysis *a);

/* The results as an object. `rows`: how many rows of a list at most; 0: all. NULL: out of memory. */
json_t *tw_analysis_json(const tw_analysis *a, const tw_trace *t, int rows);
/* Appends the results as lines to read, of at most `rows` rows a list (0: all). False: out of memory. */
bool tw_analysis_lines(const tw_analysis *a, const tw_trace *t, int rows, tw_buf *out);

#endif
