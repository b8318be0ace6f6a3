/* SPDX-License-Identifier: Apache-2.0 */
/* Bubbles: time in which a track waits, or an engine idles, and what is to blame.

   A wait's time is given to what determined its end: by its edge to the event that it was for, and back along that
   event's track. Where that track waited itself, its wait's cause is the cause. */
#ifndef TW_PROF_BUBBLE_H
#define TW_PROF_BUBBLE_H

#include "prof/dag.h"

/* Idle time of one kind. Indices are of the trace's names; -1: none. */
typedef struct tw_bubble {
    int engine;  /* The tw_trace_engine that idles on its multiprocessor. -1: the row is of tracks that wait. */
    int role;    /* Of the track that waits, or that would keep the engine busy. */
    int channel; /* Name of the wait. -1: an engine idles while its track does something else, or none is there. */
    int producer_role; /* The wait's edge leads from a track of this role, */
    int producer;      /* and from an event of this name. */
    tw_dag_cause cause;
    int cause_role; /* Whose work, copy or wait took the time in the end, */
    int cause_name; /* and what it was. */
    double time;    /* Of tracks: summed over them. Of engines: summed over multiprocessors. */
    int64_t count;
    double longest;    /* Of the pieces of time counted here. */
    int longest_event; /* The cause in that piece. -1: none. */
    bool attributed;   /* There is a cause with a name, or the track had not begun. */
} tw_bubble;

typedef struct tw_idle {
    double time;       /* Of all tracks, or of the engine on all multiprocessors from the first track's begin to the
                          trace's end. */
    double idle;       /* Of that. */
    double attributed; /* Of that. */
} tw_idle;

typedef struct tw_bubbles {
    tw_bubble *rows; /* Tensor cores, other engines, then tracks; the longest first within each. */
    int n;
    tw_idle engines[TW_ENGINES]; /* All zero where the trace has nothing of the engine. */
    tw_idle tracks;
    int ignored; /* Edges left out, since they contradict others or lead nowhere. */
} tw_bubbles;

tw_status tw_bubbles_find(tw_bubbles *out, const tw_trace *t, tw_diag *diag);
void tw_bubbles_free(tw_bubbles *b);

#endif
