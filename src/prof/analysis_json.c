/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/analysis.h"

/* A text of the trace as JSON. NULL stands for "there is none". */
static const char *text_of(const tw_trace *t, int name) {
    return name >= 0 ? t->names[name].text : NULL;
}

static int shown(int n, int rows) {
    return rows > 0 && rows < n ? rows : n;
}

/* Appends a row. False: out of memory. */
static bool add(json_t *list, json_t *row) {
    return json_array_append_new(list, row) == 0;
}

/* A list, or NULL after a failure. */
static json_t *finish(json_t *list, bool fine) {
    if (fine) return list;
    json_decref(list);
    return NULL;
}

static json_t *iterations_json(const tw_analysis *a, const tw_trace *t) {
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; fine && i < a->iterations.n; i++) {
        const tw_iteration_loop *l = &a->iterations.loops[i];
        fine =
            add(list, json_pack("{s:i, s:s, s:s?, s:I, s:I, s:f, s:f, s:f, s:{s:I, s:f, s:f, s:f}, s:f, s:f, s:f, s:f}",
                                "loop", l->loop, "name", text_of(t, l->name), "role", text_of(t, l->role), "iterations",
                                (json_int_t)l->iterations, "runs", (json_int_t)l->runs, "mean", l->mean, "p50", l->p50,
                                "p95", l->p95, "steady", "iterations", (json_int_t)l->steady, "mean", l->steady_mean,
                                "p50", l->steady_p50, "p95", l->steady_p95, "fill", l->fill, "drain", l->drain,
                                "before", l->before, "after", l->after));
    }
    return finish(list, fine);
}

static json_t *overlap_json(const tw_analysis *a) {
    json_t *list = json_array(), *shares = json_object();
    bool fine = list && shares;
    for (int i = TW_ENGINE_ALU; fine && i < TW_ENGINE_SYNC; i++) {
        if (!(a->overlap.share[i] > 0)) continue;
        fine =
            json_object_set_new(shares, tw_trace_engine_name((tw_trace_engine)i), json_real(a->overlap.share[i])) == 0;
        for (int j = i + 1; fine && j < TW_ENGINE_SYNC; j++)
            if (a->overlap.share[j] > 0)
                fine = add(list,
                           json_pack("{s:s, s:s, s:f}", "a", tw_trace_engine_name((tw_trace_engine)i), "b",
                                     tw_trace_engine_name((tw_trace_engine)j), "fraction", a->overlap.fraction[i][j]));
    }
    json_t *both = fine ? json_pack("{s:O, s:O}", "busy", shares, "overlap", list) : NULL;
    json_decref(list);
    json_decref(shares);
    return both;
}

static json_t *idle_json(const tw_idle *i) {
    return json_pack("{s:f, s:f, s:f}", "time", i->time, "idle", i->idle, "attributed", i->attributed);
}

static json_t *bubble_json(const tw_bubble *b, const tw_trace *t) {
    return json_pack("{s:s?, s:s?, s:s?, s:s?, s:s?, s:s, s:s?, s:s?, s:f, s:I, s:f, s:b}", "engine",
                     b->engine >= 0 ? tw_trace_engine_name((tw_trace_engine)b->engine) : NULL, "role",
                     text_of(t, b->role), "wait", text_of(t, b->channel), "producer_role", text_of(t, b->producer_role),
                     "producer", text_of(t, b->producer), "cause", tw_dag_cause_name(b->cause), "cause_role",
                     text_of(t, b->cause_role), "cause_name", text_of(t, b->cause_name), "time", b->time, "count",
                     (json_int_t)b->count, "longest", b->longest, "attributed", b->attributed);
}

static json_t *bubbles_json(const tw_analysis *a, const tw_trace *t, int rows) {
    json_t *list = json_array(), *engines = json_object();
    bool fine = list && engines;
    for (int e = 0; fine && e < TW_ENGINES; e++)
        if (a->bubbles.engines[e].time > 0)
            fine = json_object_set_new(engines, tw_trace_engine_name((tw_trace_engine)e),
                                       idle_json(&a->bubbles.engines[e])) == 0;
    for (int i = 0; fine && i < shown(a->bubbles.n, rows); i++) fine = add(list, bubble_json(&a->bubbles.rows[i], t));
    json_t *all = fine ? json_pack("{s:o, s:O, s:O, s:i}", "tracks", idle_json(&a->bubbles.tracks), "engines", engines,
                                   "rows", list, "ignored", a->bubbles.ignored)
                       : NULL;
    json_decref(list);
    json_decref(engines);
    return all;
}

static json_t *path_json(const tw_analysis *a, const tw_trace *t, int rows) {
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; fine && i < shown(a->path.n_parts, rows); i++) {
        const tw_path_part *p = &a->path.parts[i];
        fine = add(list, json_pack("{s:s, s:s?, s:s?, s:f, s:I}", "cause", tw_dag_cause_name(p->cause), "name",
                                   text_of(t, p->name), "role", text_of(t, p->role), "time", p->time, "count",
                                   (json_int_t)p->count));
    }
    if (!(list = finish(list, fine))) return NULL;
    return json_pack("{s:f, s:f, s:o, s:i}", "length", a->path.length, "start", a->path.start, "parts", list, "ignored",
                     a->path.ignored);
}

static json_t *gains_json(const tw_analysis *a, const tw_trace *t) {
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; fine && i < a->n_gains; i++) {
        const tw_gain *g = &a->gains[i];
        fine = add(list,
                   json_pack("{s:s, s:s, s:f, s:f}", "change", g->kind == TW_CHANGE_SCALE ? "half" : "one stage more",
                             "name", text_of(t, g->name), "before", a->before, "after", g->after));
    }
    return finish(list, fine);
}

static json_t *balance_json(const tw_analysis *a, const tw_trace *t, int rows) {
    const tw_balance *b = &a->balance;
    json_t *list = json_array(), *sms = json_array();
    bool fine = list && sms;
    for (int i = 0; fine && i < shown(b->n_stages, rows); i++) {
        const tw_balance_stage *s = &b->stages[i];
        fine = add(list, json_pack("{s:s, s:i, s:I, s:f, s:i, s:f, s:f, s:i, s:f}", "name", text_of(t, s->name), "sms",
                                   s->sms, "count", (json_int_t)s->count, "mean", s->mean, "slowest", s->slowest,
                                   "slowest_mean", s->slowest_mean, "total", s->total, "most", s->most, "most_total",
                                   s->most_total));
    }
    for (int i = 0; fine && i < b->n_sms; i++)
        fine = add(sms, json_pack("{s:i, s:i, s:f, s:f}", "sm", b->sms[i].sm, "blocks", b->sms[i].blocks, "busy",
                                  b->sms[i].busy, "last", b->sms[i].last));
    json_t *all =
        fine ? json_pack("{s:O, s:O, s:i, s:f, s:f, s:i, s:f, s:f, s:f, s:f}", "sms", sms, "stages", list, "unused",
                         b->unused, "mean", b->mean, "most", b->most, "busiest", b->busiest, "imbalance", b->imbalance,
                         "tail", b->tail, "idle_at_end", b->idle_at_end, "idle_share", b->idle_share)
             : NULL;
    json_decref(list);
    json_decref(sms);
    return all;
}

static json_t *regions_json(const tw_analysis *a, const tw_trace *t, int rows) {
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; fine && i < shown(a->regions.n, rows); i++) {
        const tw_region *r = &a->regions.list[i];
        fine =
            add(list,
                json_pack("{s:s, s:s?, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
                          "s:f}",
                          "name", text_of(t, r->name), "role", text_of(t, r->role), "kind", tw_event_kind_name(r->kind),
                          "count", (json_int_t)r->count, "total", r->total, "mean", r->mean, "least", r->least, "p50",
                          r->p50, "p95", r->p95, "p99", r->p99, "most", r->most, "busy", r->busy, "flops_rate",
                          r->flops_rate, "bytes_rate", r->bytes_rate, "intensity", r->intensity, "flops_share",
                          r->flops_share, "bytes_share", r->bytes_share, "share", r->share));
    }
    return finish(list, fine);
}

static json_t *time_json(const tw_pipelining_time *t) {
    return json_pack("{s:f, s:f}", "mean", t->mean, "deviation", t->deviation);
}

static json_t *pipelines_json(const tw_analysis *a) {
    const tw_pipelining_times *m = &a->times;
    if (!a->n_pipelines) return json_null();
    json_t *list = json_array();
    bool fine = list != NULL;
    for (int i = 0; fine && i < a->n_pipelines; i++) {
        const tw_pipelining_prediction *p = &a->pipelines[i];
        fine = add(list, json_pack("{s:s, s:i, s:f, s:f, s:s}", "kind", tw_pipelining_kind_name(p->kind), "stages",
                                   p->stages, "iteration", p->iteration, "total", p->total, "bound",
                                   tw_pipelining_bound_name(p->bound)));
    }
    if (!(list = finish(list, fine))) return NULL;
    return json_pack("{s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:i, s:i, s:f, s:f, s:o}", "issue", time_json(&m->issue),
                     "latency", time_json(&m->latency), "product", time_json(&m->product), "alu", time_json(&m->alu),
                     "gap", m->gap, "pass", m->pass, "lag", m->lag, "consumers", m->consumers, "iterations",
                     m->iterations, "before", m->before, "after", m->after, "predictions", list);
}

json_t *tw_analysis_json(const tw_analysis *a, const tw_trace *t, int rows) {
    return json_pack("{s:s, s:s, s:s, s:f, s:I, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "title", t->title,
                     "device", t->device, "unit", t->unit, "length", a->path.length, "dropped",
                     (json_int_t)a->regions.dropped, "uncertainty", a->regions.uncertainty, "iterations",
                     iterations_json(a, t), "engines", overlap_json(a), "bubbles", bubbles_json(a, t, rows),
                     "critical_path", path_json(a, t, rows), "what_if", gains_json(a, t), "balance",
                     balance_json(a, t, rows), "regions", regions_json(a, t, rows), "pipelines", pipelines_json(a));
}
