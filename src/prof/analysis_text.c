/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/analysis.h"

#include <math.h>

typedef struct writer {
    const tw_analysis *a;
    const tw_trace *t;
    tw_buf *out;
    int rows;
} writer;

static const char *text_of(const writer *w, int name) {
    return name >= 0 ? w->t->names[name].text : "-";
}

static int shown(const writer *w, int n) {
    return w->rows > 0 && w->rows < n ? w->rows : n;
}

static double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

/* Says how many rows were left out. */
static void put_rest(const writer *w, int n) {
    if (shown(w, n) < n) tw_buf_printf(w->out, "  and %d more\n", n - shown(w, n));
}

static void put_head(const writer *w) {
    const tw_regions *r = &w->a->regions;
    tw_buf_printf(w->out, "%s on %s: %.1f %s\n", w->t->title, w->t->device, w->a->path.length, w->t->unit);
    if (r->uncertainty > 0)
        tw_buf_printf(w->out, "times of different tracks may be off by %.1f %s\n", r->uncertainty, w->t->unit);
    if (r->dropped)
        tw_buf_printf(w->out, "%lld records are lost: buffers were full, and what follows is of the rest\n",
                      (long long)r->dropped);
}

static void put_iterations(const writer *w) {
    const tw_iterations *all = &w->a->iterations;
    if (!all->n) return;
    tw_buf_printf(w->out, "\niterations                          count      mean       p50       p95    steady\n");
    for (int i = 0; i < shown(w, all->n); i++) {
        const tw_iteration_loop *l = &all->loops[i];
        tw_buf_printf(w->out, "  %-16.16s %-14.14s %7lld %9.1f %9.1f %9.1f %9.1f\n", text_of(w, l->name),
                      text_of(w, l->role), (long long)l->iterations, l->mean, l->p50, l->p95, l->steady_mean);
    }
    put_rest(w, all->n);
}

static void put_engines(const writer *w) {
    const tw_overlap *o = &w->a->overlap;
    tw_buf_printf(w->out, "\nengines              busy  idle attributed\n");
    for (int e = TW_ENGINE_ALU; e < TW_ENGINE_SYNC; e++) {
        const tw_idle *i = &w->a->bubbles.engines[e];
        if (!(i->time > 0)) continue;
        tw_buf_printf(w->out, "  %-14s %7.1f %% %13.1f %%\n", tw_trace_engine_name((tw_trace_engine)e),
                      100 * o->share[e], i->idle > 0 ? percent(i->attributed, i->idle) : 100);
    }
    for (int a = TW_ENGINE_ALU; a < TW_ENGINE_SYNC; a++)
        for (int b = a + 1; b < TW_ENGINE_SYNC; b++)
            if (o->share[a] > 0 && o->share[b] > 0)
                tw_buf_printf(w->out, "  %s and %s overlap for %.1f %% of the shorter\n",
                              tw_trace_engine_name((tw_trace_engine)a), tw_trace_engine_name((tw_trace_engine)b),
                              100 * o->fraction[a][b]);
}

static void put_cause(const writer *w, const tw_bubble *b) {
    switch (b->cause) {
    case TW_CAUSE_START:
        tw_buf_printf(w->out, "nothing had begun, or all had ended\n");
        return;
    case TW_CAUSE_UNKNOWN:
        tw_buf_printf(w->out, "nothing tells for whom\n");
        return;
    case TW_CAUSE_NEWS:
        tw_buf_printf(w->out, "news of %s, to %s\n", text_of(w, b->cause_name), text_of(w, b->cause_role));
        return;
    case TW_CAUSE_PASSING:
        tw_buf_printf(w->out, "%s itself, of %s\n", text_of(w, b->cause_name), text_of(w, b->cause_role));
        return;
    default:
        if (b->cause_name < 0)
            tw_buf_printf(w->out, "code of %s outside of regions\n", text_of(w, b->cause_role));
        else
            tw_buf_printf(w->out, "%s of %s\n", text_of(w, b->cause_name), text_of(w, b->cause_role));
    }
}

/* Rows of an engine, or (-1) of tracks. */
static void put_bubbles(const writer *w, int engine, const char *who, const tw_idle *idle) {
    const tw_bubbles *all = &w->a->bubbles;
    if (!(idle->idle > 0)) return;
    tw_buf_printf(w->out, "\nbubbles of %s: %.1f %% of %.1f %s idle, %.1f %% of that attributed\n", who,
                  percent(idle->idle, idle->time), idle->time, w->t->unit, percent(idle->attributed, idle->idle));
    int n = 0, of = 0;
    for (int i = 0; i < all->n; i++) {
        const tw_bubble *b = &all->rows[i];
        if (b->engine != engine) continue;
        of++;
        if (w->rows > 0 && n == w->rows) continue;
        n++;
        tw_buf_printf(w->out, "  %5.1f %%  ", percent(b->time, idle->idle));
        if (b->role >= 0)
            tw_buf_printf(w->out, "%s%s%s: ", text_of(w, b->role), b->channel >= 0 ? " in " : "",
                          b->channel >= 0 ? text_of(w, b->channel) : "");
        put_cause(w, b);
    }
    put_rest(w, of);
}

static void put_path(const writer *w) {
    const tw_path *p = &w->a->path;
    if (!p->n_parts) return;
    tw_buf_printf(w->out, "\ncritical path, %.1f %s\n", p->length - p->start, w->t->unit);
    for (int i = 0; i < shown(w, p->n_parts); i++) {
        const tw_path_part *x = &p->parts[i];
        const char *what = x->cause == TW_CAUSE_NEWS ? "news of " : x->cause == TW_CAUSE_PASSING ? "passing " : "";
        const char *name = x->name >= 0                 ? text_of(w, x->name)
                           : x->cause == TW_CAUSE_START ? "between blocks"
                                                        : "outside of regions";
        tw_buf_printf(w->out, "  %5.1f %% %11.1f  %s%s of %s, %lld times\n", percent(x->time, p->length - p->start),
                      x->time, what, name, text_of(w, x->role), (long long)x->count);
    }
    put_rest(w, p->n_parts);
    if (p->ignored) tw_buf_printf(w->out, "  %d edges contradict others, and were left out\n", p->ignored);
}

static void put_gains(const writer *w) {
    if (!w->a->n_gains) return;
    tw_buf_printf(w->out, "\nwhat if\n");
    for (int i = 0; i < shown(w, w->a->n_gains); i++) {
        const tw_gain *g = &w->a->gains[i];
        tw_buf_printf(w->out, "  %.1f %s, %.1f %% less, %s %s\n", g->after, w->t->unit,
                      percent(w->a->before - g->after, w->a->before),
                      g->kind == TW_CHANGE_SCALE ? "if half as long were" : "with one stage more for",
                      text_of(w, g->name));
    }
    put_rest(w, w->a->n_gains);
}

static void put_balance(const writer *w) {
    const tw_balance *b = &w->a->balance;
    if (b->n_sms < 2) return;
    tw_buf_printf(
        w->out,
        "\n%d multiprocessors: the busiest, %d, works %.3f times the mean; %.1f %% of their time is idle at the "
        "end, over a tail of %.1f %s\n",
        b->n_sms + b->unused, b->busiest, b->imbalance, 100 * b->idle_share, b->tail, w->t->unit);
    for (int i = 0; i < shown(w, b->n_stages); i++) {
        const tw_balance_stage *s = &b->stages[i];
        tw_buf_printf(w->out, "  %-24.24s mean %.1f; slowest on %d: %.1f\n", text_of(w, s->name), s->mean, s->slowest,
                      s->slowest_mean);
    }
    put_rest(w, b->n_stages);
}

static void put_regions(const writer *w) {
    const tw_regions *r = &w->a->regions;
    if (!r->n) return;
    tw_buf_printf(w->out,
                  "\nregions                              count      mean       p50       p95       p99  FLOP/%s  "
                  "bytes/%s  roofline\n",
                  w->t->unit, w->t->unit);
    for (int i = 0; i < shown(w, r->n); i++) {
        const tw_region *x = &r->list[i];
        tw_buf_printf(w->out, "  %-17.17s %-14.14s %7lld %9.1f %9.1f %9.1f %9.1f", text_of(w, x->name),
                      text_of(w, x->role), (long long)x->count, x->mean, x->p50, x->p95, x->p99);
        if (x->flops_rate > 0 || x->bytes_rate > 0) tw_buf_printf(w->out, " %8.0f %9.1f", x->flops_rate, x->bytes_rate);
        if (x->share > 0) tw_buf_printf(w->out, " %7.1f %%", 100 * x->share);
        tw_buf_printf(w->out, "\n");
    }
    put_rest(w, r->n);
}

static void put_pipelines(const writer *w) {
    const tw_analysis *a = w->a;
    if (!a->n_pipelines) return;
    tw_buf_printf(w->out,
                  "\nmodel of the longest loop: issue %.1f, latency %.1f, product %.1f, other work %.1f an iteration\n",
                  a->times.issue.mean, a->times.latency.mean, a->times.product.mean, a->times.alu.mean);
    for (int i = 0; i < a->n_pipelines; i++) {
        const tw_pipelining_prediction *p = &a->pipelines[i];
        tw_buf_printf(w->out, "  %s, %d stages: %.1f an iteration, %.1f in all, bound by %s%s\n",
                      tw_pipelining_kind_name(p->kind), p->stages, p->iteration, p->total,
                      tw_pipelining_bound_name(p->bound), i ? "" : ": the fastest");
    }
}

bool tw_analysis_lines(const tw_analysis *a, const tw_trace *t, int rows, tw_buf *out) {
    const writer w = {a, t, out, rows};
    put_head(&w);
    put_engines(&w);
    for (int i = 0; i < TW_ENGINES; i++) {
        /* Tensor cores first. */
        const int e = i == 0 ? TW_ENGINE_TENSOR : i <= TW_ENGINE_TENSOR ? i - 1 : i;
        put_bubbles(&w, e, e == TW_ENGINE_TENSOR ? "tensor cores" : tw_trace_engine_name((tw_trace_engine)e),
                    &a->bubbles.engines[e]);
    }
    put_bubbles(&w, -1, "tracks", &a->bubbles.tracks);
    put_path(&w);
    put_gains(&w);
    put_iterations(&w);
    put_regions(&w);
    put_balance(&w);
    put_pipelines(&w);
    return !out->failed;
}
