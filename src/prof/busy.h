/* SPDX-License-Identifier: Apache-2.0 */
/* When engines are busy. An engine is busy in asynchronous events of it, and in regions of it but for waits for
   something else and regions of other engines within them. */
#ifndef TW_PROF_BUSY_H
#define TW_PROF_BUSY_H

#include "prof/dag.h"
#include "prof/spans.h"

typedef struct tw_busy {
    tw_spans engines[TW_ENGINES];
    tw_spans work;     /* Anything but waiting, in a region or behind a track's back. */
    tw_spans resident; /* A track had begun and not ended. */
} tw_busy;

/* Adds a track's busy time. Sets are not united yet. False: out of memory. */
bool tw_busy_add(tw_busy *b, const tw_dag *f, int track);
void tw_busy_unite(tw_busy *b);
void tw_busy_free(tw_busy *b);

/* The tracks in order of multiprocessor, block and track, and how many different multiprocessors there are. NULL: out
   of memory. The caller frees it. */
int *tw_busy_order(const tw_trace *t, int *n_sms);

#endif
