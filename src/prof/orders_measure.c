/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a loop of two products, from a trace. */
#include "base/diag.h"
#include "base/stats.h"
#include "prof/orders.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tensor cores had other tracks' products to end before most products. This share of all products is taken to have
   found them idle. */
#define ALONE 0.1

typedef struct meter {
    const tw_trace *t;
    const tw_orders_names *names;
    bool *multiplies; /* [tracks]: the track issues first products. */
    double *samples;  /* [events]: room for samples. */
    int firsts;       /* Number of first products. */
} meter;

static bool is(const meter *m, int event, const char *name, tw_event_kind kind) {
    const tw_trace_event *e = &m->t->events[event];
    return e->kind == kind && !strcmp(m->t->names[e->name].text, name);
}

/* A quantile of the durations of what has a name on tracks that multiply. 0: there is nothing. */
static double quantile(const meter *m, const char *name, tw_event_kind kind, double q) {
    size_t n = 0;
    for (int i = 0; i < m->t->n_events; i++)
        if (is(m, i, name, kind) && m->multiplies[m->t->events[i].track])
            m->samples[n++] = m->t->events[i].end - m->t->events[i].begin;
    tw_stats_sort(m->samples, n);
    return n ? tw_stats_quantile(m->samples, n, q) : 0;
}

static double median(const meter *m, const char *name, tw_event_kind kind) {
    return quantile(m, name, kind, 0.5);
}

/* Estimates how many records were made for one that was kept. Most events have two. */
static double made_for_one(const meter *m) {
    int64_t kept = 0, dropped = 0;
    for (int i = 0; i < m->t->n_events; i++)
        if (m->multiplies[m->t->events[i].track]) kept += m->t->events[i].kind == TW_EVENT_MARK ? 1 : 2;
    for (int i = 0; i < m->t->n_tracks; i++)
        if (m->multiplies[i]) dropped += m->t->tracks[i].dropped;
    return kept ? (double)(kept + dropped) / (double)kept : 1;
}

/* Finds the tracks that multiply, and the median time between two first products of a track. */
static void measure_iterations(meter *m, tw_orders_times *out) {
    size_t n = 0;
    double total = 0;
    for (int i = 0, last = -1; i < m->t->n_events; i++) {
        if (!is(m, i, m->names->first, TW_EVENT_ASYNC)) continue;
        const tw_trace_event *e = &m->t->events[i];
        m->firsts++;
        if (last >= 0 && m->t->events[last].track == e->track) m->samples[n++] = e->begin - m->t->events[last].begin;
        m->multiplies[e->track] = true;
        last = i;
    }
    tw_stats_sort(m->samples, n);
    out->iteration = n ? tw_stats_quantile(m->samples, n, 0.5) : 0;
    for (int i = 0; i < m->t->n_tracks; i++)
        if (m->multiplies[i]) total += m->t->tracks[i].end - m->t->tracks[i].begin;
    out->share = total > 0 ? fmin(out->iteration * m->firsts * made_for_one(m) / total, 1) : 0;
}

/* Counts the tracks that multiply in the first block that has any. */
static int count_tracks(const meter *m) {
    int n = 0, block = -1;
    for (int i = 0; i < m->t->n_tracks; i++) {
        if (!m->multiplies[i]) continue;
        if (block < 0) block = m->t->tracks[i].block;
        n += m->t->tracks[i].block == block;
    }
    return n;
}

/* Tells the order: the steps overlap if the work begins behind the issue of a second product that is not waited for. */
static tw_orders_order order_of(const meter *m) {
    tw_orders_order o = {false, false};
    int pending = 0;
    for (int i = 0; i < m->t->n_events; i++) {
        if (i && m->t->events[i].track != m->t->events[i - 1].track) pending = 0;
        if (is(m, i, m->names->second, TW_EVENT_ASYNC)) pending++;
        if (is(m, i, m->names->second, TW_EVENT_WAIT)) pending = 0;
        o.overlapped |= pending && is(m, i, m->names->work, TW_EVENT_REGION);
        o.turns |= is(m, i, m->names->turn, TW_EVENT_WAIT);
    }
    return o;
}

/* Sums up the medians of waits for copies that come about once an iteration. */
static double loads_of(const meter *m) {
    double sum = 0;
    for (int name = 0; name < m->t->n_names; name++) {
        if (m->t->names[name].engine != TW_ENGINE_COPY) continue;
        int n = 0;
        for (int i = 0; i < m->t->n_events; i++)
            n += m->t->events[i].name == name && m->t->events[i].kind == TW_EVENT_WAIT &&
                 m->multiplies[m->t->events[i].track];
        if (2 * n > m->firsts) sum += median(m, m->t->names[name].text, TW_EVENT_WAIT);
    }
    return sum;
}

static double flops_of(const meter *m, const char *name) {
    for (int i = 0; i < m->t->n_names; i++)
        if (!strcmp(m->t->names[i].text, name) && m->t->names[i].flops > 0) return m->t->names[i].flops;
    return 0;
}

/* The end of a second product under which work runs is seen behind that work. Its time then follows from the first
   one's, by their operations. */
static double second_of(const meter *m, const tw_orders_times *x) {
    const double seen = quantile(m, m->names->second, TW_EVENT_ASYNC, ALONE);
    const double first = flops_of(m, m->names->first), second = flops_of(m, m->names->second);
    if (!x->order.overlapped || first <= 0 || second <= 0) return seen;
    return fmin(seen, x->first * second / first);
}

static void measure(meter *m, tw_orders_times *out) {
    const tw_orders_names *n = m->names;
    measure_iterations(m, out);
    out->order = order_of(m);
    out->tracks = count_tracks(m);
    out->first = quantile(m, n->first, TW_EVENT_ASYNC, ALONE);
    out->second = second_of(m, out);
    out->work = median(m, n->work, TW_EVENT_REGION);
    out->rest = median(m, n->rest, TW_EVENT_REGION);
    out->loads = loads_of(m);
    double known = out->work + out->rest + out->loads + median(m, n->turn, TW_EVENT_WAIT);
    known += median(m, n->first, out->order.overlapped ? TW_EVENT_WAIT : TW_EVENT_ASYNC);
    known += median(m, n->second, out->order.overlapped ? TW_EVENT_WAIT : TW_EVENT_ASYNC);
    out->other = fmax(out->iteration - known, 0);
}

tw_status tw_orders_measure(tw_orders_times *out, const tw_trace *t, const tw_orders_names *names, tw_diag *diag) {
    meter m = {.t = t,
               .names = names,
               .multiplies = calloc((size_t)t->n_tracks + 1, sizeof *m.multiplies),
               .samples = malloc(((size_t)t->n_events + 1) * sizeof *m.samples)};
    tw_status st = TW_OK;
    *out = (tw_orders_times){0};
    if (!m.multiplies || !m.samples)
        st = tw_fail_memory(diag);
    else
        measure(&m, out);
    if (st == TW_OK && (!(out->iteration > 0) || !(out->first > 0) || !(out->second > 0) || !(out->work > 0)))
        st = tw_fail(diag, TW_ERR_USAGE, "the trace has no loop of \"%s\", \"%s\" and \"%s\"", names->first,
                     names->work, names->second);
    free(m.multiplies);
    free(m.samples);
    return st;
}
