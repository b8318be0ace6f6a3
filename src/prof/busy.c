/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/busy.h"

#include <stdlib.h>

/* What the innermost event of an engine, region or wait, keeps busy. A wait does where it is for the engine of a region
   around it. */
static tw_trace_engine engine_in(const tw_dag *f, int event) {
    const tw_trace *t = f->trace;
    tw_trace_engine waits_for = TW_ENGINE_NONE;
    for (int e = event; e >= 0; e = f->parent[e]) {
        const tw_trace_engine engine = t->names[t->events[e].name].engine;
        if (t->events[e].kind == TW_EVENT_WAIT) {
            if (engine == TW_ENGINE_NONE || engine == TW_ENGINE_SYNC) return TW_ENGINE_NONE;
            waits_for = engine;
        } else if (engine != TW_ENGINE_NONE) {
            return waits_for == TW_ENGINE_NONE || waits_for == engine ? engine : TW_ENGINE_NONE;
        }
    }
    return TW_ENGINE_NONE;
}

bool tw_busy_add(tw_busy *b, const tw_dag *f, int track) {
    const tw_trace *t = f->trace;
    bool fine = true;
    for (int p = f->first[track] + 1; fine && p < f->first[track + 1]; p++) {
        const tw_dag_point *x = &f->points[p];
        if (x->kind == TW_DAG_ISSUE) {
            const tw_trace_event *e = &t->events[x->event];
            fine = tw_spans_add(&b->engines[t->names[e->name].engine], e->begin, f->finish[x->event]) &&
                   tw_spans_add(&b->work, e->begin, f->finish[x->event]);
        }
        if (!fine || x->owner < 0 || !(x->time > x[-1].time)) continue;
        const tw_trace_engine engine = engine_in(f, x->owner);
        fine = (engine == TW_ENGINE_NONE || tw_spans_add(&b->engines[engine], x[-1].time, x->time)) &&
               (t->events[x->owner].kind == TW_EVENT_WAIT || tw_spans_add(&b->work, x[-1].time, x->time));
    }
    return fine && tw_spans_add(&b->resident, f->points[f->first[track]].time, f->points[f->first[track + 1] - 1].time);
}

void tw_busy_unite(tw_busy *b) {
    for (int e = 0; e < TW_ENGINES; e++) tw_spans_unite(&b->engines[e]);
    tw_spans_unite(&b->work);
    tw_spans_unite(&b->resident);
}

void tw_busy_free(tw_busy *b) {
    for (int e = 0; e < TW_ENGINES; e++) tw_spans_free(&b->engines[e]);
    tw_spans_free(&b->work);
    tw_spans_free(&b->resident);
}

typedef struct placed {
    int sm, block, track;
} placed;

static int by_place(const void *a, const void *b) {
    const placed *x = a, *y = b;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x->track < y->track ? -1 : x->track > y->track;
}

int *tw_busy_order(const tw_trace *t, int *n_sms) {
    const size_t n = (size_t)t->n_tracks;
    placed *all = malloc((n + 1) * sizeof *all);
    int *order = malloc((n + 1) * sizeof *order);
    *n_sms = 0;
    if (all && order) {
        for (size_t i = 0; i < n; i++) all[i] = (placed){t->tracks[i].sm, t->tracks[i].block, (int)i};
        if (n) qsort(all, n, sizeof *all, by_place);
        for (size_t i = 0; i < n; i++) {
            order[i] = all[i].track;
            if (!i || all[i].sm != all[i - 1].sm) ++*n_sms;
        }
    } else {
        free(order);
        order = NULL;
    }
    free(all);
    return order;
}
