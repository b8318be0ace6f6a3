/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "prof/trace.h"

#include "base/diag.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

const char *tw_trace_engine_name(tw_trace_engine e) {
    static const char *const names[TW_ENGINES] = {"none", "alu", "tensor", "copy", "memory", "sync"};
    return e < TW_ENGINES ? names[e] : "?";
}

const char *tw_event_kind_name(tw_event_kind k) {
    static const char *const names[TW_EVENT_KINDS] = {"region", "wait", "iteration", "async", "mark", "value"};
    return k < TW_EVENT_KINDS ? names[k] : "?";
}

tw_trace *tw_trace_new(const char *title, const char *device, const char *unit) {
    tw_trace *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->title = strdup(title);
    t->device = strdup(device);
    t->unit = strdup(unit);
    if (t->title && t->device && t->unit) return t;
    tw_trace_free(t);
    return NULL;
}

void tw_trace_free(tw_trace *t) {
    if (!t) return;
    for (int i = 0; i < t->n_names; i++) free(t->names[i].text);
    free(t->names);
    free(t->tracks);
    free(t->events);
    free(t->edges);
    free(t->title);
    free(t->device);
    free(t->unit);
    free(t);
}

/* Appends a copy of `x` to a list. Returns its index, or -1 if memory runs out. */
#define APPEND(list, n, room, x)                                                                                       \
    do {                                                                                                               \
        void *grown = tw_grow(list, n, &(room), 64, sizeof *(list));                                                   \
        if (!grown) return -1;                                                                                         \
        (list) = grown;                                                                                                \
        (list)[n] = (x);                                                                                               \
        return (n)++;                                                                                                  \
    } while (0)

int tw_trace_add_name(tw_trace *t, const char *text, tw_trace_engine engine) {
    for (int i = 0; i < t->n_names; i++)
        if (t->names[i].engine == engine && !strcmp(t->names[i].text, text)) return i;
    tw_trace_name *grown = tw_grow(t->names, t->n_names, &t->room_names, 64, sizeof *t->names);
    if (!grown) return -1;
    t->names = grown;
    char *copy = strdup(text);
    if (!copy) return -1;
    t->names[t->n_names] = (tw_trace_name){.text = copy, .engine = engine};
    return t->n_names++;
}

int tw_trace_add_track(tw_trace *t, const tw_trace_track *track) {
    APPEND(t->tracks, t->n_tracks, t->room_tracks, *track);
}

int tw_trace_add_event(tw_trace *t, const tw_trace_event *event) {
    APPEND(t->events, t->n_events, t->room_events, *event);
}

int tw_trace_add_edge(tw_trace *t, int from, int to) {
    const tw_trace_edge edge = {from, to};
    APPEND(t->edges, t->n_edges, t->room_edges, edge);
}

/* -- sorting */

typedef struct placed {
    const tw_trace_event *event;
    int was;
} placed;

static int by_begin(const void *a, const void *b) {
    const placed *x = a, *y = b;
    const tw_trace_event *e = x->event, *f = y->event;
    if (e->track != f->track) return e->track < f->track ? -1 : 1;
    if (e->begin != f->begin) return e->begin < f->begin ? -1 : 1;
    return x->was < y->was ? -1 : x->was > y->was;
}

/* Whether other events may be in it that begin with it. */
static bool is_around(const tw_trace_event *e) {
    return e->end > e->begin && e->kind != TW_EVENT_ASYNC;
}

/* Puts the outer one first of events in [0, n) that begin together. Those that nothing is in keep their places: they
   tell in which order the track came by them. */
static void sort_together(placed *p, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i, k = i - 1; k >= 0 && is_around(p[j].event); k--) {
            if (!is_around(p[k].event)) continue;
            if (!(p[j].event->end > p[k].event->end)) break;
            const placed outer = p[j];
            p[j] = p[k];
            p[k] = outer;
            j = k;
        }
}

static int by_to(const void *a, const void *b) {
    const tw_trace_edge *e = a, *f = b;
    if (e->to != f->to) return e->to < f->to ? -1 : 1;
    return e->from < f->from ? -1 : e->from > f->from;
}

tw_status tw_trace_finish(tw_trace *t, tw_diag *diag) {
    const size_t n = (size_t)t->n_events;
    if (!n) return TW_OK;
    placed *order = malloc(n * sizeof *order);
    tw_trace_event *sorted = malloc(n * sizeof *sorted);
    int *now = malloc(n * sizeof *now);
    const bool room = order && sorted && now;
    if (room) {
        for (size_t i = 0; i < n; i++) order[i] = (placed){&t->events[i], (int)i};
        qsort(order, n, sizeof *order, by_begin);
        for (size_t i = 0, end; i < n; i = end) {
            const tw_trace_event *e = order[i].event;
            for (end = i; end < n && order[end].event->track == e->track && order[end].event->begin == e->begin;) end++;
            sort_together(order + i, (int)(end - i));
        }
        for (size_t i = 0; i < n; i++) {
            sorted[i] = *order[i].event;
            now[order[i].was] = (int)i;
        }
        memcpy(t->events, sorted, n * sizeof *sorted);
        for (int i = 0; i < t->n_edges; i++) {
            t->edges[i].from = now[t->edges[i].from];
            t->edges[i].to = now[t->edges[i].to];
        }
        if (t->n_edges) qsort(t->edges, (size_t)t->n_edges, sizeof *t->edges, by_to);
    }
    free(order);
    free(sorted);
    free(now);
    return room ? TW_OK : tw_fail_memory(diag);
}

double tw_trace_length(const tw_trace *t) {
    double last = 0;
    for (int i = 0; i < t->n_tracks; i++)
        if (t->tracks[i].end > last) last = t->tracks[i].end;
    return last;
}
