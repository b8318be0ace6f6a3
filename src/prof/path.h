/* SPDX-License-Identifier: Apache-2.0 */
/* The critical path of a trace, and how long it would be after a change of the kernel. */
#ifndef TW_PROF_PATH_H
#define TW_PROF_PATH_H

#include "prof/dag.h"

/* What the critical path spends somewhere. */
typedef struct tw_path_part {
    tw_dag_cause cause;
    int name;      /* Index into the trace's names: of the region, the asynchronous event or the wait. -1: none. */
    int role;      /* The same, of the track. -1: none. */
    double time;   /* Over the whole path. */
    int64_t count; /* Pieces. */
} tw_path_part;

typedef struct tw_path {
    double length;       /* Of the trace, as tw_trace_length. */
    double start;        /* When the first track of the path began. The parts are length - start together. */
    tw_path_part *parts; /* The longest first. */
    int n_parts;
    tw_dag_piece *pieces; /* In order of time. Neighbours of the same event are one. */
    int n_pieces;
    int ignored; /* Edges left out, since they contradict others or lead nowhere. */
} tw_path;

tw_status tw_path_find(tw_path *out, const tw_trace *t, tw_diag *diag);
void tw_path_free(tw_path *p);

/* A change of the kernel. */
typedef enum tw_change_kind {
    TW_CHANGE_SCALE,  /* Regions, asynchronous events, or a wait's own cost, of a name take `factor` times as long. */
    TW_CHANGE_STAGES, /* A ring gets `stages` more, or less: waits of a name are for what waits so much before, or
                       after, them on their track were for. The name of a producer's waits for a free stage, or in a
                       loop that loads ahead the name of the waits for its loads. */
    TW_CHANGE_REMOVE  /* Waits of a name do not wait. */
} tw_change_kind;

typedef struct tw_change {
    tw_change_kind kind;
    const char *name;
    double factor;
    int stages;
} tw_change;

typedef struct tw_prediction {
    double before; /* The trace's length. */
    double after;  /* With the edits. */
    int matched;   /* Events of the edits' names. 0: the edits change nothing. */
    int ignored;   /* Edges left out. */
} tw_prediction;

/* Predicts the length of the trace after all of the edits. TW_ERR_USAGE: a factor below 0. TW_ERR_MEMORY. */
tw_status tw_path_predict(tw_prediction *out, const tw_trace *t, const tw_change *edits, int n, tw_diag *diag);
/* The same on a graph that exists. */
tw_status tw_dag_predict(tw_prediction *out, const tw_dag *f, const tw_change *edits, int n, tw_diag *diag);

#endif
