/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a graph: what had to happen before what. The analyses of waits share it; critical paths and predictions
   are longest paths through it.

   Nodes are points: where an event of a track begins or ends, where an asynchronous event was issued, and where it was
   done. A point follows
     - the point before it on its track, after the time that the track worked in between;
     - where it ends a wait, the events that edges lead from, each after a lag (until the news arrived);
     - where it is the end of an asynchronous event, its issue, after a latency; and the end of the event of that name
       before it on the track: a later one on tensor cores does not start before, and copies end in order;
     - where it begins a block's track, the end of the block on that multiprocessor that made room for it.
   Only durations of work are kept. How long a wait takes follows. */
#ifndef TW_PROF_DAG_H
#define TW_PROF_DAG_H

#include "base/arena.h"
#include "prof/trace.h"

typedef enum tw_dag_kind {
    TW_DAG_BEGIN,  /* An event begins, or (event -1) a track. */
    TW_DAG_END,    /* An event ends, or (event -1) a track. */
    TW_DAG_MOMENT, /* A mark or a value. */
    TW_DAG_ISSUE   /* An asynchronous event begins. */
} tw_dag_kind;

typedef struct tw_dag_point {
    double time; /* Never before the previous point of the track. */
    double cost; /* Of work between the previous point of the track and this one. At the end of a wait whose edges are
                    known: what the wait takes at least. */
    int32_t event;
    int32_t owner; /* The innermost region, wait or iteration in which the time before this point went by. -1: none. */
    tw_dag_kind kind;
} tw_dag_point;

/* Edges of all waits: those into event e are first[e] to first[e + 1] - 1. */
typedef struct tw_dag_edges {
    int *first;
    int32_t *from;
    double *lag; /* From the end of `from` until the wait can end. */
} tw_dag_edges;

typedef struct tw_dag {
    const tw_trace *trace;
    tw_dag_point *points;
    int n_points;
    int *first;     /* Points of track t are first[t] to first[t + 1] - 1, in program order. */
    int *end_point; /* Per event: the point where it ends. Asynchronous events: where they are issued. */
    int *parent;    /* Per event: the innermost event around it on its track. -1: none. */
    tw_dag_edges edges;
    double *finish;  /* Per event: when it was done, as far as it is known. */
    double *latency; /* Per asynchronous event: from its issue, or on tensor cores from the later of that and the end of
                        the one before, until it is done. */
    double *gap;     /* Per asynchronous event: to the end of the one before at least. Not on tensor cores. */
    int *before;     /* Per asynchronous event: the one before it in its queue. -1: none. */
    int *binding;    /* Per event, a wait: the edge that ended it. -1: it had not to wait for any. */
    double *name_lag;     /* Per name, of waits: the usual lag. */
    double *name_latency; /* Per name: the usual latency on the last track that has any. */
    double *name_own;     /* Per name, of waits: what a wait takes whose edges are all there. */
    int *block;           /* Per track: its block, counted over the trace. */
    int *block_before;    /* Per block: the block that made room for it. -1: none. */
    int *block_first;     /* Tracks of block b are block_tracks[block_first[b]] to [block_first[b + 1] - 1]. */
    int *block_tracks;
    double *block_end;
    int n_blocks;
    int odd; /* Edges that lead nowhere: not into a wait, or from an event to itself. They are left out. */
    tw_arena arena;
} tw_dag;

/* NULL: out of memory. The trace is finished (tw_trace_finish), outlives the graph and stays as it is. */
tw_dag *tw_dag_new(const tw_trace *t);
void tw_dag_free(tw_dag *f); /* NULL is fine. */

/* The role's name, of a track. "": there is none. */
const char *tw_dag_role(const tw_trace *t, int track);

/* Times of a graph. */
typedef struct tw_dag_run {
    double *at;   /* Per point. */
    double *done; /* Per asynchronous event. */
    int *cause; /* Per point: the edge, or at the begin of a block's track the track, that determined it. -1: the point
                   before it did. */
    bool *queued; /* Per asynchronous event: the one before it in its queue determined its end. */
    int last;     /* The track that ends last. */
    double length;
    int ignored; /* Edges that contradict others, and were left out. */
} tw_dag_run;

/* Computes all times again from durations. `factor`: of durations, per name; NULL: all 1. `edges`: NULL: those of the
   graph. False: out of memory. The caller frees the run. */
bool tw_dag_play(const tw_dag *f, const double *factor, const tw_dag_edges *edges, tw_dag_run *run);
void tw_dag_run_free(tw_dag_run *run);

/* -- walking back from a point to what it waited for */

typedef enum tw_dag_cause {
    TW_CAUSE_WORK,    /* A region or an iteration of the track; the event -1: its code outside of them. */
    TW_CAUSE_ASYNC,   /* An asynchronous event. */
    TW_CAUSE_NEWS,    /* From the end of what a wait was for until the wait ended. `event` is the wait. */
    TW_CAUSE_PASSING, /* What a wait itself takes. */
    TW_CAUSE_START,   /* The track had not begun. */
    TW_CAUSE_UNKNOWN, /* A wait without an edge: nothing tells for whom. */
    TW_CAUSES
} tw_dag_cause;
const char *tw_dag_cause_name(tw_dag_cause c); /* "work", "async", "news", "passing", "start", "unknown" */

typedef struct tw_dag_piece {
    tw_dag_cause cause;
    int track, event; /* Whose. The event may be -1. */
    double begin, end;
} tw_dag_piece;

/* Walks back along what determined each time, from a point to the time `from`, and calls `visit` with each piece, the
   last first; pieces cover the time without gaps and end at `from`, or where the first track begins. Ends where
   `visit` returns false, and returns what it returned. */
typedef bool tw_dag_visit(void *context, const tw_dag_piece *piece);
bool tw_dag_walk(const tw_dag *f, const tw_dag_edges *edges, const tw_dag_run *run, int point, double from,
                 tw_dag_visit *visit, void *context);

#endif
