/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a loop's stages, from a trace. */
#include "base/diag.h"
#include "prof/dag.h"
#include "prof/pipelining.h"
#include "prof/spans.h"
#include "prof/tally.h"

#include <math.h>
#include <stdlib.h>

/* What happens in an iteration of one track. */
typedef struct iteration {
    double issue; /* Work in regions of the copy engine. */
    double tensor;
    double work;             /* All other work but waiting. */
    double last_issue, done; /* Of its loads. */
    bool loads, known;       /* It has any; their ends are known. */
} iteration;

typedef struct meter {
    const tw_dag *f;
    int loop;
    iteration *of;             /* Per event, for the loop's iterations. */
    bool *consumes, *produces; /* Per track. */
} meter;

/* The mean and the deviation of samples that come one by one. */
typedef struct moments {
    double sum, squares;
    int64_t n;
} moments;

static void take(moments *m, double x) {
    m->sum += x;
    m->squares += x * x;
    m->n++;
}

static tw_pipelining_time time_of(const moments *m) {
    if (!m->n) return (tw_pipelining_time){0};
    const double mean = m->sum / (double)m->n;
    return (tw_pipelining_time){mean, sqrt(fmax(m->squares / (double)m->n - mean * mean, 0))};
}

/* The loop's iteration around an event. -1: there is none. */
static int iteration_of(const meter *m, int event) {
    const tw_trace *t = m->f->trace;
    for (int e = event; e >= 0; e = m->f->parent[e])
        if (t->events[e].kind == TW_EVENT_ITERATION && t->events[e].loop == m->loop) return e;
    return -1;
}

/* The engine of the innermost region or wait around, that has one. `*waits`: it is a wait. */
static tw_trace_engine engine_of(const tw_dag *f, int event, bool *waits) {
    const tw_trace *t = f->trace;
    *waits = false;
    for (int e = event; e >= 0; e = f->parent[e]) {
        *waits = t->events[e].kind == TW_EVENT_WAIT;
        const tw_trace_engine engine = t->names[t->events[e].name].engine;
        if (*waits || engine != TW_ENGINE_NONE) return engine;
    }
    return TW_ENGINE_NONE;
}

/* `last`: the track's last iteration before. What is issued at the moment at which an iteration ends belongs to it. */
static void see_async(meter *m, int event, int last) {
    const tw_trace_event *e = &m->f->trace->events[event];
    int i = iteration_of(m, m->f->parent[event]);
    if (i < 0 && last >= 0 && m->f->trace->events[last].end == e->begin) i = last;
    if (i < 0) return;
    iteration *it = &m->of[i];
    switch (m->f->trace->names[e->name].engine) {
    case TW_ENGINE_TENSOR:
        it->tensor += m->f->latency[event];
        m->consumes[e->track] = true;
        break;
    case TW_ENGINE_COPY:
        it->last_issue = it->loads ? fmax(it->last_issue, e->begin) : e->begin;
        it->done = fmax(it->done, e->begin + m->f->latency[event]);
        it->known = (it->known || !it->loads) && !(e->least < e->most);
        it->loads = true;
        m->produces[e->track] = true;
        break;
    default:
        break;
    }
}

static void see_points(meter *m) {
    const tw_dag *f = m->f;
    for (int track = 0; track < f->trace->n_tracks; track++)
        for (int p = f->first[track] + 1, last = -1; p < f->first[track + 1]; p++) {
            const tw_dag_point *x = &f->points[p];
            if (x->kind == TW_DAG_ISSUE) see_async(m, x->event, last);
            if (x->kind == TW_DAG_END && x->event >= 0 && iteration_of(m, x->event) == x->event) last = x->event;
            const int i = iteration_of(m, x->owner);
            if (i < 0) continue;
            bool waits;
            const tw_trace_engine engine = engine_of(f, x->owner, &waits);
            const double took = x->time - x[-1].time;
            if (waits) continue;
            if (engine == TW_ENGINE_TENSOR) {
                m->of[i].tensor += took;
                m->consumes[track] = true;
            } else if (engine == TW_ENGINE_COPY) {
                m->of[i].issue += took;
            } else {
                m->of[i].work += took;
            }
        }
}

/* How long tensor cores were busy in the loop, over all blocks: what its consumers would take one after the other. */
static bool tensor_time(const meter *m, double *sum) {
    const tw_dag *f = m->f;
    const tw_trace *t = f->trace;
    *sum = 0;
    for (int b = 0; b < f->n_blocks; b++) {
        tw_spans s = {0};
        bool fine = true;
        for (int k = f->block_first[b]; k < f->block_first[b + 1]; k++) {
            const int track = f->block_tracks[k];
            for (int p = f->first[track] + 1; fine && p < f->first[track + 1]; p++) {
                const tw_dag_point *x = &f->points[p];
                bool waits;
                if (x->kind == TW_DAG_ISSUE && t->names[t->events[x->event].name].engine == TW_ENGINE_TENSOR &&
                    iteration_of(m, f->parent[x->event]) >= 0)
                    fine = tw_spans_add(&s, f->finish[x->event] - f->latency[x->event], f->finish[x->event]);
                if (fine && iteration_of(m, x->owner) >= 0 && engine_of(f, x->owner, &waits) == TW_ENGINE_TENSOR &&
                    !waits)
                    fine = tw_spans_add(&s, x[-1].time, x->time);
            }
        }
        tw_spans_unite(&s);
        *sum += tw_spans_length(&s);
        tw_spans_free(&s);
        if (!fine) return false;
    }
    return true;
}

/* What waits of the loop take themselves, and how late news from other tracks are. */
static void measure_waits(const meter *m, tw_pipelining_times *out) {
    const tw_dag *f = m->f;
    const tw_trace *t = f->trace;
    moments pass = {0}, lag = {0};
    for (int e = 0; e < t->n_events; e++) {
        if (t->events[e].kind != TW_EVENT_WAIT || iteration_of(m, e) < 0) continue;
        const int first = f->edges.first[e];
        if (first == f->edges.first[e + 1] || t->events[f->edges.from[first]].track == t->events[e].track) continue;
        take(&pass, f->name_own[t->events[e].name]);
        take(&lag, f->name_lag[t->events[e].name]);
    }
    out->pass = time_of(&pass).mean;
    out->lag = time_of(&lag).mean;
}

/* Whatever is left: how many consumers and iterations there are, and what is around the loop. */
static void measure_shape(const meter *m, tw_pipelining_times *out) {
    const tw_dag *f = m->f;
    moments before = {0}, after = {0}, count = {0};
    for (int b = 0; b < f->n_blocks; b++) {
        int consumers = 0;
        double first = INFINITY, last = -INFINITY, begin = INFINITY, end = -INFINITY;
        for (int k = f->block_first[b]; k < f->block_first[b + 1]; k++) {
            const int track = f->block_tracks[k];
            int n = 0;
            begin = fmin(begin, f->points[f->first[track]].time);
            end = fmax(end, f->points[f->first[track + 1] - 1].time);
            for (int p = f->first[track]; p < f->first[track + 1]; p++) {
                const tw_dag_point *x = &f->points[p];
                if (x->event < 0 || x->kind != TW_DAG_BEGIN || iteration_of(m, x->event) != x->event) continue;
                n++;
                first = fmin(first, x->time);
                last = fmax(last, f->points[f->end_point[x->event]].time);
            }
            if (!m->consumes[track] || !n) continue;
            consumers++;
            take(&count, n);
        }
        if (!consumers) continue;
        out->consumers = consumers > out->consumers ? consumers : out->consumers;
        take(&before, first - begin);
        take(&after, end - last);
    }
    out->before = time_of(&before).mean;
    out->after = time_of(&after).mean;
    out->iterations = (int)lround(time_of(&count).mean);
}

/* The loop whose iterations take most time together. -1: there is none. False: out of memory. */
static bool find_loop(const tw_trace *t, int *loop) {
    tw_tally sums = {0};
    bool fine = true;
    for (int i = 0; fine && i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind != TW_EVENT_ITERATION) continue;
        fine = tw_tally_add(&sums, (int32_t[TW_TALLY_KEYS]){e->loop}, e->end - e->begin, i);
    }
    tw_tally_sort(&sums);
    *loop = sums.n ? sums.rows[0].key[0] : -1;
    tw_tally_free(&sums);
    return fine;
}

/* False: out of memory. */
static bool measure(meter *m, tw_pipelining_times *out) {
    const tw_trace *t = m->f->trace;
    see_points(m);
    bool specialised = false;
    for (int i = 0; i < t->n_tracks; i++) specialised |= m->produces[i] && !m->consumes[i];
    moments issue = {0}, latency = {0}, all_latency = {0}, product = {0}, alu = {0};
    double gap = INFINITY;
    for (int e = 0; e < t->n_events; e++) {
        const int track = t->events[e].track;
        if (t->events[e].kind == TW_EVENT_ASYNC && t->names[t->events[e].name].engine == TW_ENGINE_COPY &&
            m->f->before[e] >= 0 && m->f->gap[e] > 0)
            gap = fmin(gap, m->f->gap[e]);
        if (iteration_of(m, e) != e) continue;
        const iteration *i = &m->of[e];
        if (i->loads) {
            take(&all_latency, i->done - i->last_issue);
            if (i->known) take(&latency, i->done - i->last_issue);
            take(&issue, m->consumes[track] ? i->issue : i->issue + i->work);
        }
        if (!m->consumes[track]) continue;
        take(&product, i->tensor);
        take(&alu, specialised ? i->issue + i->work : i->work);
    }
    out->issue = time_of(&issue);
    out->latency = time_of(latency.n ? &latency : &all_latency);
    out->alu = time_of(&alu);
    out->product = time_of(&product);
    double tensor;
    if (!tensor_time(m, &tensor)) return false;
    if (product.n && product.sum > 0) {
        const double alone = tensor / product.sum;
        out->product.mean *= alone;
        out->product.deviation *= alone;
    }
    out->gap = isfinite(gap) ? gap : 0;
    measure_waits(m, out);
    measure_shape(m, out);
    return true;
}

tw_status tw_pipelining_measure(tw_pipelining_times *out, const tw_trace *t, int loop, tw_diag *diag) {
    *out = (tw_pipelining_times){0};
    meter m = {.f = tw_dag_new(t), .loop = loop};
    m.of = calloc((size_t)t->n_events + 1, sizeof *m.of);
    m.consumes = calloc((size_t)t->n_tracks + 1, sizeof *m.consumes);
    m.produces = calloc((size_t)t->n_tracks + 1, sizeof *m.produces);
    const bool room = m.f && m.of && m.consumes && m.produces && (loop >= 0 || find_loop(t, &m.loop));
    const bool fine = room && measure(&m, out);
    bool loads = false;
    for (int i = 0; fine && i < t->n_tracks; i++) loads |= m.produces[i];
    free(m.of);
    free(m.consumes);
    free(m.produces);
    tw_dag_free((tw_dag *)m.f);
    if (!fine) return tw_fail_memory(diag);
    if (m.loop < 0) return tw_fail(diag, TW_ERR_UNSUPPORTED, "no iterations are recorded: there is no loop to model");
    if (!out->iterations)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "loop %d has no products on tensor cores: there is nothing to model",
                       m.loop);
    if (!loads)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "loop %d has no asynchronous copies: there is nothing to model",
                       m.loop);
    return TW_OK;
}
