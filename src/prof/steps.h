/* SPDX-License-Identifier: Apache-2.0 */
/* A laid-out trace as steps in time: something begins, ends or happens. For writers of formats that say so. */
#ifndef TW_PROF_STEPS_H
#define TW_PROF_STEPS_H

#include "prof/rows.h"

typedef enum tw_step_kind {
    TW_STEP_BEGIN,       /* A region, wait, iteration or asynchronous event. */
    TW_STEP_END,         /* The same. */
    TW_STEP_MOMENT,      /* A mark or a value. */
    TW_STEP_TRACK_BEGIN, /* A track. It is around all its events but asynchronous ones. */
    TW_STEP_TRACK_END
} tw_step_kind;

typedef struct tw_step {
    uint64_t when; /* Twice the time, and 1 for what follows marks of the same time that an edge begins at. */
    int index;     /* Of the event or track. */
    tw_step_kind kind;
} tw_step;

/* All steps, ascending by time. Those of a row are well nested, also where times are equal. A mark that an edge begins
   at is before whatever else has its time. NULL: out of memory. The caller frees it. */
tw_step *tw_steps_make(const tw_layout *l, const tw_trace *t, size_t *n);

/* Tells whether an edge's source has begun at a step before the one in which its wait ends. Times of different SMs may
   be off, and an edge that leads back in time cannot be drawn. */
bool tw_edge_is_drawn(const tw_layout *l, const tw_trace *t, const tw_trace_edge *e);

#endif
