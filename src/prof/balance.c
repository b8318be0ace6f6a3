/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/balance.h"

#include "base/diag.h"
#include "prof/busy.h"

#include <math.h>
#include <stdlib.h>

static bool measure_sms(tw_balance *out, const tw_dag *f, const int *order) {
    const tw_trace *t = f->trace;
    for (int i = 0, j; i < t->n_tracks; i = j) {
        tw_balance_sm *s = &out->sms[out->n_sms++];
        *s = (tw_balance_sm){.sm = t->tracks[order[i]].sm, .last = -INFINITY};
        tw_busy busy = {0};
        bool fine = true;
        for (j = i; fine && j < t->n_tracks && t->tracks[order[j]].sm == s->sm; j++) {
            fine = tw_busy_add(&busy, f, order[j]);
            s->last = fmax(s->last, f->points[f->first[order[j] + 1] - 1].time);
            out->begin = fmin(out->begin, f->points[f->first[order[j]]].time);
            if (j == i || t->tracks[order[j]].block != t->tracks[order[j - 1]].block) s->blocks++;
        }
        tw_busy_unite(&busy);
        s->busy = tw_spans_length(&busy.work);
        tw_busy_free(&busy);
        if (!fine) return false;
    }
    return true;
}

static void sum_up(tw_balance *out, int sms) {
    double first = INFINITY;
    out->end = -INFINITY;
    for (int i = 0; i < out->n_sms; i++) {
        const tw_balance_sm *s = &out->sms[i];
        out->mean += s->busy / out->n_sms;
        if (s->busy > out->most || !i) {
            out->most = s->busy;
            out->busiest = s->sm;
        }
        first = fmin(first, s->last);
        out->end = fmax(out->end, s->last);
    }
    out->imbalance = out->mean > 0 ? out->most / out->mean : 0;
    out->unused = sms > out->n_sms ? sms - out->n_sms : 0;
    const double length = out->end - out->begin;
    out->tail = out->unused ? length : out->end - first;
    out->idle_at_end = out->unused * length;
    for (int i = 0; i < out->n_sms; i++) out->idle_at_end += out->end - out->sms[i].last;
    out->idle_share = length > 0 ? out->idle_at_end / (length * (out->n_sms + out->unused)) : 0;
}

/* A region on a multiprocessor. */
typedef struct visit {
    int name, sm;
    double time;
} visit;

static int by_name(const void *a, const void *b) {
    const visit *x = a, *y = b;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    return (x->time > y->time) - (x->time < y->time);
}

static double cost(const tw_balance_stage *s) {
    return (s->slowest_mean - s->mean) * (double)s->count / s->sms;
}

static int dearest_first(const void *a, const void *b) {
    const tw_balance_stage *x = a, *y = b;
    if (cost(x) != cost(y)) return cost(x) > cost(y) ? -1 : 1;
    return x->name < y->name ? -1 : x->name > y->name;
}

/* The regions of one name. */
static tw_balance_stage measure_stage(const visit *v, int n) {
    tw_balance_stage s = {.name = v->name, .count = n, .slowest_mean = -1, .most_total = -1};
    double all = 0;
    for (int i = 0, j; i < n; i = j) {
        double sum = 0;
        for (j = i; j < n && v[j].sm == v[i].sm; j++) sum += v[j].time;
        s.sms++;
        all += sum;
        if (sum / (j - i) > s.slowest_mean) {
            s.slowest_mean = sum / (j - i);
            s.slowest = v[i].sm;
        }
        if (sum > s.most_total) {
            s.most_total = sum;
            s.most = v[i].sm;
        }
    }
    s.mean = all / n;
    s.total = all / s.sms;
    return s;
}

static bool find_stages(tw_balance *out, const tw_trace *t) {
    visit *v = malloc(((size_t)t->n_events + 1) * sizeof *v);
    out->stages = malloc(((size_t)t->n_names + 1) * sizeof *out->stages);
    const bool fine = v && out->stages;
    int n = 0;
    for (int i = 0; fine && i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind == TW_EVENT_REGION) v[n++] = (visit){e->name, t->tracks[e->track].sm, e->end - e->begin};
    }
    if (n) qsort(v, (size_t)n, sizeof *v, by_name);
    for (int i = 0, j; i < n; i = j) {
        for (j = i; j < n && v[j].name == v[i].name;) j++;
        const tw_balance_stage s = measure_stage(v + i, j - i);
        if (s.sms > 1) out->stages[out->n_stages++] = s;
    }
    if (fine && out->n_stages) qsort(out->stages, (size_t)out->n_stages, sizeof *out->stages, dearest_first);
    free(v);
    return fine;
}

tw_status tw_balance_find(tw_balance *out, const tw_trace *t, int sms, tw_diag *diag) {
    *out = (tw_balance){.begin = INFINITY};
    tw_dag *f = tw_dag_new(t);
    int n = 0;
    int *order = f ? tw_busy_order(t, &n) : NULL;
    out->sms = order ? calloc((size_t)n + 1, sizeof *out->sms) : NULL;
    const bool fine = out->sms && measure_sms(out, f, order) && find_stages(out, t);
    if (fine && out->n_sms)
        sum_up(out, sms);
    else
        out->begin = 0;
    free(order);
    tw_dag_free(f);
    if (fine) return TW_OK;
    tw_balance_free(out);
    return tw_fail_memory(diag);
}

void tw_balance_free(tw_balance *b) {
    free(b->sms);
    free(b->stages);
    *b = (tw_balance){0};
}
