/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/dot.h"

#include <string.h>

enum { FEW = 4 /* The most arrivals of a counter that is drawn as edges, not as a node. */ };

static const tw_finding *found_at(const tw_report *r, const char *where) {
    for (size_t i = 0; r && i < r->count; i++) {
        size_t n = strlen(where);
        if (!strncmp(r->findings[i].where, where, n) && (!r->findings[i].where[n] || r->findings[i].where[n] == ' '))
            return &r->findings[i];
    }
    return NULL;
}

/* Prints a label. Quotes and backslashes would end it. */
static void put_label(tw_buf *out, const char *text) {
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || *text == '\n')
            tw_buf_str(out, "'");
        else
            tw_buf_add(out, text, 1);
}

static void put_tasks(tw_buf *out, const tw_flow *f, const tw_report *r) {
    char name[96];
    for (int w = 0; w < f->n_workers; w++) {
        if (f->first[w] == f->first[w + 1]) continue;
        tw_buf_printf(out, " subgraph cluster_%d {\n  label=\"worker %d\"; color=gray80;\n", w, w);
        for (int t = f->first[w]; t < f->first[w + 1]; t++) {
            f->name_task(f->context, t, name);
            const tw_finding *x = found_at(r, name);
            tw_buf_printf(out, "  t%d [label=\"", t);
            put_label(out, name);
            if (x) {
                tw_buf_str(out, "\\n");
                put_label(out, x->rule);
            }
            tw_buf_printf(out, "\"%s];\n", x ? ", style=filled, fillcolor=\"#ffb3a7\"" : "");
            if (t > f->first[w]) tw_buf_printf(out, "  t%d -> t%d [color=gray60];\n", t - 1, t);
        }
        tw_buf_str(out, " }\n");
    }
}

static void put_counters(tw_buf *out, const tw_flow *f, const int *arrivals) {
    for (int c = 0; c < f->n_counters; c++) {
        if (arrivals[c] <= FEW) continue;
        tw_buf_printf(out, " c%d [shape=ellipse, label=\"", c);
        put_label(out, f->name_counter(f->context, c));
        tw_buf_printf(out, "\\n%d arrivals\"];\n", arrivals[c]);
    }
    for (int t = 0; t < f->first[f->n_workers]; t++) {
        int arrive = f->tasks[t].arrive;
        if (arrive >= 0 && arrivals[arrive] > FEW) tw_buf_printf(out, " t%d -> c%d;\n", t, arrive);
    }
}

static void put_waits(tw_buf *out, const tw_flow *f, const int *arrivals) {
    int n = f->first[f->n_workers];
    for (int t = 0; t < n; t++)
        for (int i = 0; i < f->tasks[t].n_waits; i++) {
            tw_wait wait = f->waits[f->tasks[t].first_wait + i];
            const char *style = wait.threshold == arrivals[wait.counter] ? "" : ", color=red, penwidth=2";
            if (arrivals[wait.counter] > FEW || !arrivals[wait.counter]) {
                tw_buf_printf(out, " c%d -> t%d [label=\"%lld\"%s];\n", wait.counter, t, (long long)wait.threshold,
                              style);
                continue;
            }
            for (int p = 0; p < n; p++)
                if (f->tasks[p].arrive == wait.counter)
                    tw_buf_printf(out, " t%d -> t%d [label=\"%lld\"%s];\n", p, t, (long long)wait.threshold, style);
        }
}

bool tw_flow_dot(const tw_flow *f, const tw_report *report, tw_buf *out) {
    tw_arena arena = {0};
    int *arrivals = tw_arena_array(&arena, (size_t)f->n_counters + 1, sizeof *arrivals);
    if (!arrivals) return false;
    for (int t = 0; t < f->first[f->n_workers]; t++)
        if (f->tasks[t].arrive >= 0) arrivals[f->tasks[t].arrive]++;
    tw_buf_str(out, "digraph schedule {\n rankdir=TB; node [shape=box, fontsize=10]; edge [fontsize=8];\n");
    put_tasks(out, f, report);
    put_counters(out, f, arrivals);
    put_waits(out, f, arrivals);
    bool ok = tw_buf_str(out, "}\n");
    tw_arena_free(&arena);
    return ok;
}
