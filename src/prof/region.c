/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/region.h"

#include "base/diag.h"
#include "base/stats.h"
#include "prof/spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct visit {
    int name, role, kind, sm;
    double begin, end;
} visit;

static int by_place(const void *a, const void *b) {
    const visit *x = a, *y = b;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static bool same_region(const visit *a, const visit *b) {
    return a->name == b->name && a->kind == b->kind && a->role == b->role;
}

static int longest_first(const void *a, const void *b) {
    const tw_region *x = a, *y = b;
    if (x->total != y->total) return x->total > y->total ? -1 : 1;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    return x->role < y->role ? -1 : x->role > y->role;
}

/* Nanoseconds of a trace are time, operations of the emulator are not. */
static void find_roofline(tw_region *r, const tw_trace *t, const tw_peaks *peaks, int sms) {
    const tw_trace_name *name = &t->names[r->name];
    if (r->kind != TW_EVENT_REGION && r->kind != TW_EVENT_ASYNC) return;
    if (r->busy > 0) {
        r->flops_rate = name->flops * (double)r->count / r->busy;
        r->bytes_rate = name->bytes * (double)r->count / r->busy;
    }
    if (name->bytes > 0) r->intensity = name->flops / name->bytes;
    if (strcmp(t->unit, "ns") != 0 || sms <= 0) return;
    if (peaks->flops > 0) r->flops_share = r->flops_rate * 1e9 / (peaks->flops / sms);
    if (peaks->bandwidth > 0) r->bytes_share = r->bytes_rate * 1e9 / (peaks->bandwidth / sms);
    r->share = fmax(r->flops_share, r->bytes_share);
}

/* `times` has room for n. False: out of memory. */
static bool measure(tw_region *r, const visit *v, int n, double *times) {
    *r = (tw_region){.name = v->name, .role = v->role, .kind = (tw_event_kind)v->kind, .count = n};
    for (int i = 0, j; i < n; i = j) {
        tw_spans s = {0};
        bool fine = true;
        for (j = i; fine && j < n && v[j].sm == v[i].sm; j++) {
            times[j] = v[j].end - v[j].begin;
            r->total += times[j];
            fine = tw_spans_add(&s, v[j].begin, v[j].end);
        }
        tw_spans_unite(&s);
        r->busy += tw_spans_length(&s);
        tw_spans_free(&s);
        if (!fine) return false;
    }
    tw_stats_sort(times, (size_t)n);
    r->mean = r->total / n;
    r->least = times[0];
    r->p50 = tw_stats_quantile(times, (size_t)n, 0.5);
    r->p95 = tw_stats_quantile(times, (size_t)n, 0.95);
    r->p99 = tw_stats_quantile(times, (size_t)n, 0.99);
    r->most = times[n - 1];
    return true;
}

static int count_sms(const tw_trace *t) {
    int n = 0;
    for (int i = 0; i < t->n_tracks; i++) {
        bool seen = false;
        for (int j = 0; j < i && !seen; j++) seen = t->tracks[j].sm == t->tracks[i].sm;
        n += !seen;
    }
    return n;
}

tw_status tw_regions_find(tw_regions *out, const tw_trace *t, const tw_peaks *peaks, tw_diag *diag) {
    *out = (tw_regions){0};
    const size_t room = (size_t)t->n_events + 1;
    visit *v = malloc(room * sizeof *v);
    double *times = malloc(room * sizeof *times);
    bool fine = v && times;
    int n = 0, regions = 0;
    for (int i = 0; fine && i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind == TW_EVENT_MARK || e->kind == TW_EVENT_VALUE) continue;
        const tw_trace_track *k = &t->tracks[e->track];
        v[n++] = (visit){e->name, k->role, (int)e->kind, k->sm, e->begin, e->end};
    }
    if (n) qsort(v, (size_t)n, sizeof *v, by_place);
    for (int i = 0; i < n; i++)
        if (!i || !same_region(&v[i], &v[i - 1])) regions++;
    out->list = fine ? malloc(((size_t)regions + 1) * sizeof *out->list) : NULL;
    fine = out->list != NULL;
    if (!peaks) peaks = &t->peaks;
    const bool known = peaks->flops > 0 || peaks->bandwidth > 0;
    const int sms = peaks->sms > 0 ? peaks->sms : fine && known ? count_sms(t) : 0;
    for (int i = 0, j; fine && i < n; i = j) {
        for (j = i; j < n && same_region(&v[j], &v[i]);) j++;
        fine = measure(&out->list[out->n], v + i, j - i, times);
        if (fine) find_roofline(&out->list[out->n++], t, peaks, sms);
    }
    if (fine && out->n) qsort(out->list, (size_t)out->n, sizeof *out->list, longest_first);
    for (int i = 0; i < t->n_tracks; i++) {
        out->dropped += t->tracks[i].dropped;
        out->uncertainty = fmax(out->uncertainty, t->tracks[i].uncertainty);
    }
    free(v);
    free(times);
    if (fine) return TW_OK;
    tw_regions_free(out);
    return tw_fail_memory(diag);
}

void tw_regions_free(tw_regions *r) {
    free(r->list);
    *r = (tw_regions){0};
}
