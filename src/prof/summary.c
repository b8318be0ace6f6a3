/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/summary.h"

#include "base/diag.h"
#include "base/grow.h"
#include "prof/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tw_stall_name(tw_trace_engine e) {
    static const char *const names[TW_ENGINES] = {[TW_ENGINE_NONE] = "other",
                                                  [TW_ENGINE_ALU] = "wait",
                                                  [TW_ENGINE_TENSOR] = "warpgroup arrive",
                                                  [TW_ENGINE_COPY] = "long scoreboard",
                                                  [TW_ENGINE_MEMORY] = "long scoreboard",
                                                  [TW_ENGINE_SYNC] = "barrier"};
    return e < TW_ENGINES ? names[e] : "other";
}

/* ---- samples: the events, by what they have in common */

typedef struct sample {
    int role; /* Number in the summary. */
    int name;
    tw_event_kind kind;
    double duration; /* Or value. */
    double self, least, most;
} sample;

#define DIFFER(a, b)                                                                                                   \
    if ((a) != (b)) return (a) < (b) ? -1 : 1

static int by_what(const void *a, const void *b) {
    const sample *x = a, *y = b;
    DIFFER(x->role, y->role);
    DIFFER(x->name, y->name);
    DIFFER(x->kind, y->kind);
    DIFFER(x->duration, y->duration);
    return 0;
}

static bool is_same(const sample *a, const sample *b) {
    return a->role == b->role && a->name == b->name && a->kind == b->kind;
}

static void fill_sample(sample *x, const tw_trace_event *e, int role) {
    *x = (sample){role, e->name, e->kind, e->end - e->begin, 0, e->least, e->most};
    if (e->kind == TW_EVENT_VALUE) x->duration = (double)e->value;
    if (tw_is_moment(e->kind)) x->least = x->most = 0;
    if (!tw_is_moment(e->kind)) x->self = x->duration;
}

/* Fills in a sample for each event of a track, and takes from regions what is inside them. `open` has room for all. */
static void sample_track(sample *samples, const tw_trace *t, const tw_layout *l, int track, int role, int *open) {
    int depth = 0;
    for (int i = l->firsts[track]; i < l->firsts[track + 1]; i++) {
        const tw_trace_event *e = &t->events[i];
        fill_sample(&samples[i], e, role);
        if (e->kind == TW_EVENT_ASYNC || tw_is_moment(e->kind)) continue;
        while (depth && t->events[open[depth - 1]].end <= e->begin) depth--;
        if (depth) samples[open[depth - 1]].self -= fmin(e->end, t->events[open[depth - 1]].end) - e->begin;
        if (e->end > e->begin) open[depth++] = i;
    }
}

/* ---- regions */

/* Linear interpolation between the two nearest ranks. */
static double quantile(const sample *sorted, int64_t n, double q) {
    const double at = q * (double)(n - 1), below = floor(at);
    const int64_t i = (int64_t)below;
    return i + 1 < n ? sorted[i].duration + (at - below) * (sorted[i + 1].duration - sorted[i].duration)
                     : sorted[i].duration;
}

static tw_summary_region region_of(const sample *sorted, int64_t n, double time) {
    tw_summary_region r = {.name = sorted->name, .kind = sorted->kind, .count = n};
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += sorted[i].duration;
        r.self += sorted[i].self;
        r.least += sorted[i].least;
        r.most += sorted[i].most;
    }
    r.mean = sum / (double)n;
    r.p50 = quantile(sorted, n, 0.5);
    r.p95 = quantile(sorted, n, 0.95);
    r.p99 = quantile(sorted, n, 0.99);
    r.max = sorted[n - 1].duration;
    if (!tw_is_moment(r.kind)) r.total = sum;
    if (time > 0) r.share = r.total / time;
    return r;
}

static int by_total(const void *a, const void *b) {
    const tw_summary_region *x = a, *y = b;
    DIFFER(tw_is_moment(x->kind), tw_is_moment(y->kind));
    DIFFER(y->total, x->total);
    DIFFER(x->name, y->name);
    DIFFER(x->kind, y->kind);
    return 0;
}

static int by_wait(const void *a, const void *b) {
    const tw_summary_wait *x = a, *y = b;
    DIFFER(y->total, x->total);
    return strcmp(x->reason, y->reason);
}

static void add_wait(tw_summary_role *role, const char *reason, const tw_summary_region *r) {
    int i = 0;
    while (i < role->n_waits && strcmp(role->waits[i].reason, reason)) i++;
    if (i == role->n_waits) role->waits[role->n_waits++] = (tw_summary_wait){.reason = reason};
    role->waits[i].count += r->count;
    role->waits[i].total += r->self;
    if (role->time > 0) role->waits[i].share = role->waits[i].total / role->time;
}

/* Makes the regions of a role of its samples, which are sorted. Returns false if memory runs out. */
static bool add_regions(tw_summary_role *role, const tw_trace *t, const sample *sorted, int64_t n) {
    int kinds = 0;
    for (int64_t i = 0; i < n; i++) kinds += !i || !is_same(&sorted[i], &sorted[i - 1]);
    role->regions = calloc((size_t)kinds + 1, sizeof *role->regions);
    if (!role->regions) return false;
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && is_same(&sorted[next], &sorted[i]);) next++;
        role->regions[role->n_regions++] = region_of(&sorted[i], next - i, role->time);
    }
    qsort(role->regions, (size_t)role->n_regions, sizeof *role->regions, by_total);
    for (int i = 0; i < role->n_regions; i++)
        if (role->regions[i].kind == TW_EVENT_WAIT)
            add_wait(role, tw_stall_name(t->names[role->regions[i].name].engine), &role->regions[i]);
    qsort(role->waits, (size_t)role->n_waits, sizeof *role->waits, by_wait);
    return true;
}

/* ---- roles */

/* Finds the role of a name, or adds one. -1: out of memory. */
static int role_of(tw_summary *s, int *room, int name) {
    for (int i = 0; i < s->n_roles; i++)
        if (s->roles[i].name == name) return i;
    tw_summary_role *grown = tw_grow(s->roles, s->n_roles, room, 8, sizeof *s->roles);
    if (!grown) return -1;
    s->roles = grown;
    s->roles[s->n_roles] = (tw_summary_role){.name = name};
    return s->n_roles++;
}

static bool add_roles(tw_summary *s, const tw_trace *t, int *role_of_track) {
    int room = 0;
    for (int i = 0; i < t->n_tracks; i++) {
        const tw_trace_track *k = &t->tracks[i];
        const int role = role_of(s, &room, k->role);
        if (role < 0) return false;
        role_of_track[i] = role;
        s->roles[role].tracks++;
        s->roles[role].time += k->end - k->begin;
        s->roles[role].dropped += k->dropped;
        s->dropped += k->dropped;
        s->uncertainty = fmax(s->uncertainty, k->uncertainty);
    }
    return true;
}

static bool add_samples(tw_summary *s, const tw_trace *t, const tw_layout *l, const int *role_of_track) {
    const size_t n = (size_t)t->n_events;
    sample *samples = malloc((n + 1) * sizeof *samples);
    int *open = malloc((n + 1) * sizeof *open);
    bool good = samples && open;
    if (good) {
        for (int i = 0; i < t->n_tracks; i++) sample_track(samples, t, l, i, role_of_track[i], open);
        qsort(samples, n, sizeof *samples, by_what);
        for (size_t i = 0; good && i < n;) {
            size_t next = i + 1;
            while (next < n && samples[next].role == samples[i].role) next++;
            good = add_regions(&s->roles[samples[i].role], t, &samples[i], (int64_t)(next - i));
            i = next;
        }
    }
    free(samples);
    free(open);
    return good;
}

static int ascending(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int count_different(int *list, int n) {
    int different = 0;
    if (n) qsort(list, (size_t)n, sizeof *list, ascending);
    for (int i = 0; i < n; i++) different += !i || list[i] != list[i - 1];
    return different;
}

tw_status tw_summary_make(tw_summary *s, const tw_trace *t, tw_diag *diag) {
    tw_layout l;
    double first = INFINITY;
    *s = (tw_summary){.overhead = (double)NAN, .trusted = true};
    tw_status st = tw_layout_make(&l, t, diag);
    int *list = malloc(((size_t)t->n_tracks + 1) * sizeof *list);
    if (st == TW_OK && !(list && add_roles(s, t, list) && add_samples(s, t, &l, list))) st = tw_fail_memory(diag);
    if (st == TW_OK) {
        for (int i = 0; i < t->n_tracks; i++) list[i] = t->tracks[i].sm;
        s->sms = count_different(list, t->n_tracks);
        for (int i = 0; i < t->n_tracks; i++) list[i] = t->tracks[i].block;
        s->blocks = count_different(list, t->n_tracks);
        for (int i = 0; i < t->n_tracks; i++) first = fmin(first, t->tracks[i].begin);
        if (t->n_tracks) s->length = tw_trace_length(t) - first;
        if (t->clean > 0 && t->traced > 0) s->overhead = t->traced / t->clean - 1;
        if (isfinite(s->overhead)) s->trusted = fabs(t->traced - t->clean) <= TW_SUMMARY_TRUST * t->clean;
    }
    free(list);
    tw_layout_free(&l);
    return st;
}

void tw_summary_free(tw_summary *s) {
    for (int i = 0; i < s->n_roles; i++) free(s->roles[i].regions);
    free(s->roles);
    *s = (tw_summary){0};
}
