/* SPDX-License-Identifier: Apache-2.0 */
/* What determined a point's time, and what determined that. */
#include "prof/dag.h"

#include <math.h>

const char *tw_dag_cause_name(tw_dag_cause c) {
    static const char *const names[TW_CAUSES] = {"work", "async", "news", "passing", "start", "unknown"};
    return c < TW_CAUSES ? names[c] : "?";
}

typedef struct walker {
    const tw_dag *f;
    const tw_dag_edges *edges;
    const tw_dag_run *run;
    double from;
    tw_dag_visit *visit;
    void *context;
    int point; /* Where the walk is. */
    int async; /* An asynchronous event at whose end the walk is. -1: it is at the point. */
    double time;
} walker;

/* Goes back to `begin`. News may come before what they are of, if clocks disagree: such a piece is none, and what lies
   behind it counts from where the walk was. */
static bool go(walker *w, tw_dag_cause cause, int track, int event, double begin) {
    if (!(begin < w->time)) return true;
    const double end = w->time;
    w->time = begin;
    const tw_dag_piece piece = {cause, track, event, fmax(begin, w->from), end};
    return !(piece.end > piece.begin) || w->visit(w->context, &piece);
}

static bool leave_async(walker *w) {
    const tw_dag *f = w->f;
    const int e = w->async, track = f->trace->events[e].track;
    if (w->run->queued[e]) {
        w->async = f->before[e];
        return go(w, TW_CAUSE_ASYNC, track, e, w->run->done[w->async]);
    }
    w->async = -1;
    w->point = f->end_point[e];
    return go(w, TW_CAUSE_ASYNC, track, e, w->run->at[w->point]);
}

static bool leave_wait(walker *w, const tw_dag_point *x, int edge) {
    const int from = w->edges->from[edge], track = w->f->trace->events[x->event].track;
    const bool async = w->f->trace->events[from].kind == TW_EVENT_ASYNC;
    w->point = w->f->end_point[from];
    if (async) w->async = from;
    return go(w, TW_CAUSE_NEWS, track, x->event, async ? w->run->done[from] : w->run->at[w->point]);
}

static bool leave_point(walker *w, int track) {
    const tw_trace *t = w->f->trace;
    const tw_dag_point *x = &w->f->points[w->point];
    tw_dag_cause cause = TW_CAUSE_WORK;
    if (x->owner >= 0 && t->events[x->owner].kind == TW_EVENT_WAIT) {
        const bool ends = x->kind == TW_DAG_END && x->event == x->owner;
        const bool edges = w->edges->first[x->owner] < w->edges->first[x->owner + 1];
        cause = ends && !edges ? TW_CAUSE_UNKNOWN : TW_CAUSE_PASSING;
    }
    w->point--;
    return go(w, cause, track, x->owner, w->run->at[w->point]);
}

/* The track of a point. */
static int track_of(const tw_dag *f, int point) {
    int lo = 0, hi = f->trace->n_tracks - 1;
    while (lo < hi) {
        const int mid = lo + (hi - lo + 1) / 2;
        if (f->first[mid] <= point)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

bool tw_dag_walk(const tw_dag *f, const tw_dag_edges *edges, const tw_dag_run *run, int point, double from,
                 tw_dag_visit *visit, void *context) {
    walker w = {f, edges, run, from, visit, context, point, -1, run->at[point]};
    while (w.time > from) {
        if (w.async >= 0) {
            if (!leave_async(&w)) return false;
            continue;
        }
        const tw_dag_point *x = &f->points[w.point];
        const int cause = run->cause[w.point];
        if (x->event >= 0 && cause >= 0) {
            if (!leave_wait(&w, x, cause)) return false;
            continue;
        }
        const int track = track_of(f, w.point);
        if (w.point > f->first[track]) {
            if (!leave_point(&w, track)) return false;
        } else if (cause >= 0) {
            w.point = f->first[cause + 1] - 1;
            if (!go(&w, TW_CAUSE_START, track, -1, run->at[w.point])) return false;
        } else {
            return isinf(from) || go(&w, TW_CAUSE_START, track, -1, from);
        }
    }
    return true;
}
