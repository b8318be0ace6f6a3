/* SPDX-License-Identifier: Apache-2.0 */
/* Where a trace's events are drawn: rows, each of which holds what nests, and whole numbers for times. Writers of
   timelines share it. */
#ifndef TW_PROF_ROWS_H
#define TW_PROF_ROWS_H

#include "prof/trace.h"

/* A row of a timeline. Thread blocks that an SM runs one after the other share rows. */
typedef struct tw_layout_row {
    int sm;
    int place; /* Of the thread block among those that the SM runs at the same time. From 0. */
    int warp;
    int role;
    int turn; /* Tracks of the same place, warp and role that overlap have turns from 0, and rows of their own. */
    int lane; /* 0: what the tracks do themselves. From 1: asynchronous events, of which those of a lane do not overlap.
               */
} tw_layout_row;

typedef struct tw_layout_span {
    int64_t begin, end; /* In units since `origin`. */
    int row;
} tw_layout_span;

typedef struct tw_layout {
    double origin;          /* What is subtracted from times: 0, or the earliest one if that is below 0. */
    int64_t end;            /* The latest time, in units since `origin`. */
    tw_layout_row *rows;    /* Ascending by SM, place, warp, role, turn, lane. */
    tw_layout_span *tracks; /* Of each track. Contains the spans of all its events but asynchronous ones. */
    tw_layout_span *events; /* Of each event. Spans of lane 0 nest. */
    int *order;             /* Tracks by row, and in a row by time. */
    int *firsts;            /* First event of each track, and the number of events. */
    int n_rows;
    bool places; /* Some SM runs several thread blocks at the same time. */
    bool blocks; /* There are several thread blocks. */
} tw_layout;

/* Lays out a trace after tw_trace_finish. A region that reaches beyond the one around it is cut. TW_ERR_USAGE: an index
   is out of range, or a time is not finite or beyond 2^52 units. TW_ERR_MEMORY. The caller frees it in either case. */
tw_status tw_layout_make(tw_layout *l, const tw_trace *t, tw_diag *diag);
void tw_layout_free(tw_layout *l);

/* Tells whether an event is a moment: a mark or a value. */
static inline bool tw_is_moment(tw_event_kind k) {
    return k == TW_EVENT_MARK || k == TW_EVENT_VALUE;
}

/* Nanoseconds since 1970 at the layout's time 0. 0: that is not known. */
int64_t tw_layout_began(const tw_layout *l, const tw_trace *t);

enum { TW_ROW_NAME = 160 /* Bytes of a row's name, with the 0 at its end. Longer names are cut. */ };

/* A row's name, as UTF-8: "warp 4, producer", "place 1, warp 4, producer, async 2". */
void tw_layout_name(const tw_layout *l, const tw_trace *t, int row, char out[TW_ROW_NAME]);
/* The name of the rows of an SM together: "SM 12". */
void tw_layout_group_name(const tw_trace *t, int sm, char out[TW_ROW_NAME]);

#endif
