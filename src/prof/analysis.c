/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/analysis.h"

#include "base/diag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_there(const tw_analysis *a, tw_change_kind kind, int name) {
    for (int i = 0; i < a->n_gains; i++)
        if (a->gains[i].kind == kind && a->gains[i].name == name) return true;
    return false;
}

static int largest_first(const void *a, const void *b) {
    const tw_gain *x = a, *y = b;
    if (x->after != y->after) return x->after < y->after ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

/* Predicts the trace with a change of a name, if that changes anything. */
static tw_status try_edit(tw_analysis *a, const tw_dag *f, tw_change_kind kind, int name, tw_diag *diag) {
    if (name < 0 || a->n_gains == TW_ANALYSIS_GAINS || is_there(a, kind, name)) return TW_OK;
    const tw_change edit = {kind, f->trace->names[name].text, 0.5, 1};
    tw_prediction p;
    const tw_status st = tw_dag_predict(&p, f, &edit, 1, diag);
    if (st == TW_OK && p.after < p.before * (1 - 1e-9)) a->gains[a->n_gains++] = (tw_gain){kind, name, p.after};
    return st;
}

static bool copies(const tw_dag *f, int event) {
    const tw_trace_event *e = &f->trace->events[event];
    return e->kind == TW_EVENT_ASYNC && f->trace->names[e->name].engine == TW_ENGINE_COPY;
}

static bool track_copies(const tw_dag *f, int track) {
    for (int p = f->first[track]; p < f->first[track + 1]; p++)
        if (f->points[p].kind == TW_DAG_ISSUE && copies(f, f->points[p].event)) return true;
    return false;
}

/* Whether waits of a name are what another stage makes shorter: a producer's for a stage that is returned, or a loop's
   for copies of its own. The first wait that has an edge tells. */
static bool is_of_ring(const tw_dag *f, int name) {
    const tw_trace *t = f->trace;
    for (int e = 0; e < t->n_events; e++) {
        const int first = f->edges.first[e];
        if (t->events[e].kind != TW_EVENT_WAIT || t->events[e].name != name || first == f->edges.first[e + 1]) continue;
        const int from = f->edges.from[first];
        if (t->events[from].track == t->events[e].track) return copies(f, from);
        return t->events[from].kind != TW_EVENT_ASYNC && track_copies(f, t->events[e].track);
    }
    return false;
}

/* Half of what the path spends most on; another stage where tracks wait for others most. */
static tw_status find_gains(tw_analysis *a, const tw_trace *t, tw_diag *diag) {
    tw_dag *f = tw_dag_new(t);
    if (!f) return tw_fail_memory(diag);
    tw_status st = TW_OK;
    a->before = a->path.length;
    for (int i = 0, tried = 0; st == TW_OK && i < a->path.n_parts && tried < TW_ANALYSIS_GAINS / 2; i++) {
        const tw_path_part *p = &a->path.parts[i];
        if (p->cause != TW_CAUSE_WORK && p->cause != TW_CAUSE_ASYNC) continue;
        tried++;
        st = try_edit(a, f, TW_CHANGE_SCALE, p->name, diag);
    }
    for (int i = 0, tried = 0; st == TW_OK && i < a->bubbles.n && tried < TW_ANALYSIS_GAINS / 2; i++) {
        const tw_bubble *b = &a->bubbles.rows[i];
        if (b->engine >= 0 || b->channel < 0 || b->producer < 0) continue;
        tried++;
        if (is_of_ring(f, b->channel)) st = try_edit(a, f, TW_CHANGE_STAGES, b->channel, diag);
    }
    if (a->n_gains) qsort(a->gains, (size_t)a->n_gains, sizeof *a->gains, largest_first);
    tw_dag_free(f);
    return st;
}

/* Not every kernel has a loop of loads and products. */
static tw_status find_pipelines(tw_analysis *a, const tw_trace *t, tw_diag *diag) {
    const tw_status st = tw_pipelining_measure(&a->times, t, -1, diag);
    if (st == TW_OK) a->n_pipelines = tw_pipelining_choose(&a->times, TW_ANALYSIS_STAGES, a->pipelines);
    return st == TW_ERR_UNSUPPORTED ? TW_OK : st;
}

tw_status tw_analysis_make(tw_analysis *out, const tw_trace *t, const tw_peaks *peaks, tw_diag *diag) {
    *out = (tw_analysis){0};
    tw_status st = tw_iterations_find(&out->iterations, t, diag);
    if (st == TW_OK) st = tw_overlap_find(&out->overlap, t, diag);
    if (st == TW_OK) st = tw_bubbles_find(&out->bubbles, t, diag);
    if (st == TW_OK) st = tw_path_find(&out->path, t, diag);
    if (st == TW_OK) st = tw_balance_find(&out->balance, t, peaks ? peaks->sms : 0, diag);
    if (st == TW_OK) st = tw_regions_find(&out->regions, t, peaks, diag);
    if (st == TW_OK) st = find_gains(out, t, diag);
    if (st == TW_OK) st = find_pipelines(out, t, diag);
    if (st == TW_OK)
        tw_diag_clear(diag);
    else
        tw_analysis_free(out);
    return st;
}

void tw_analysis_free(tw_analysis *a) {
    tw_iterations_free(&a->iterations);
    tw_overlap_free(&a->overlap);
    tw_bubbles_free(&a->bubbles);
    tw_path_free(&a->path);
    tw_balance_free(&a->balance);
    tw_regions_free(&a->regions);
    *a = (tw_analysis){0};
}
