/* SPDX-License-Identifier: Apache-2.0 */
/* How far engines work at the same time. */
#ifndef TW_PROF_OVERLAP_H
#define TW_PROF_OVERLAP_H

#include "prof/trace.h"

/* Of one multiprocessor, or of one block. */
typedef struct tw_overlap_of {
    int sm, block;   /* block -1: all blocks of the multiprocessor. */
    double resident; /* How long at least one of its tracks was there. */
    double busy[TW_ENGINES];
    double both[TW_ENGINES][TW_ENGINES]; /* Both engines at the same time. both[e][e] is busy[e]. */
} tw_overlap_of;

typedef struct tw_overlap {
    tw_overlap_of *sms, *blocks; /* Ascending. */
    int n_sms, n_blocks;
    /* Over all multiprocessors: the time in both engines, over the time in the one that is less busy. 0: one of them is
       never busy. */
    double fraction[TW_ENGINES][TW_ENGINES];
    double share[TW_ENGINES]; /* Time that an engine is busy, over the time that tracks are there. */
} tw_overlap;

tw_status tw_overlap_find(tw_overlap *out, const tw_trace *t, tw_diag *diag);
void tw_overlap_free(tw_overlap *o);

/* |A and B| / min(|A|, |B|). 0: one of them is never busy. */
double tw_overlap_fraction(const tw_overlap_of *o, tw_trace_engine a, tw_trace_engine b);

#endif
