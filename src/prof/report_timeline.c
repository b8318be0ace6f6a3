/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline of a report: which SMs, which events, and their bars. */
#define _POSIX_C_SOURCE 200809L
#include "base/buf.h"
#include "base/grow.h"
#include "base/text.h"
#include "base/utf8.h"
#include "prof/report_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *trace_text(const char *text) {
    char *copy = strdup(text);
    if (copy) tw_utf8_mend(copy);
    return copy;
}

void trace_time(char out[TRACE_TIME], double time, const char *unit) {
    const double size = fabs(time);
    if (strcmp(unit, "ns"))
        snprintf(out, TRACE_TIME, "%.0f %.16s", time, unit);
    else if (size < 1e3)
        snprintf(out, TRACE_TIME, "%.1f ns", time);
    else if (size < 1e6)
        snprintf(out, TRACE_TIME, "%.2f µs", time * 1e-3);
    else
        snprintf(out, TRACE_TIME, "%.2f ms", time * 1e-6);
}

/* ---- the excerpt */

/* An SM, or a core. */
typedef struct group {
    int sm;
    int first, next; /* Of `order`: its tracks. */
    int64_t end;
    int rank; /* From 0, by when they end. */
    bool is_drawn;
    char why[48]; /* "the last to end". Empty: nothing is special about it. */
} group;

typedef struct excerpt {
    const tw_trace *t;
    const tw_layout *l;
    group *groups;
    int n_groups;
    int64_t end; /* What begins later is not drawn. */
    int n_drawn; /* Events. */
    int *bars;   /* Of each event: its number in the timeline, or -1. */
} excerpt;

static bool find_groups(excerpt *x) {
    const tw_trace *t = x->t;
    x->groups = calloc((size_t)t->n_tracks + 1, sizeof *x->groups);
    if (!x->groups) return false;
    for (int i = 0; i < t->n_tracks; i++) {
        const tw_layout_span *s = &x->l->tracks[x->l->order[i]];
        const int sm = x->l->rows[s->row].sm;
        if (!x->n_groups || x->groups[x->n_groups - 1].sm != sm)
            x->groups[x->n_groups++] = (group){.sm = sm, .first = i, .end = s->end};
        group *g = &x->groups[x->n_groups - 1];
        g->next = i + 1;
        if (s->end > g->end) g->end = s->end;
    }
    return true;
}

static int by_end(const void *a, const void *b) {
    const group *const *x = a, *const *y = b;
    if ((*x)->end != (*y)->end) return (*x)->end < (*y)->end ? -1 : 1;
    return (*x)->sm < (*y)->sm ? -1 : (*x)->sm > (*y)->sm;
}

static bool rank_groups(excerpt *x) {
    group **order = malloc(((size_t)x->n_groups + 1) * sizeof *order);
    if (!order) return false;
    for (int i = 0; i < x->n_groups; i++) order[i] = &x->groups[i];
    qsort(order, (size_t)x->n_groups, sizeof *order, by_end);
    for (int i = 0; i < x->n_groups; i++) order[i]->rank = i;
    free(order);
    return true;
}

static int count_events(const excerpt *x, const group *g) {
    int n = 0;
    for (int k = g->first; k < g->next; k++) n += x->l->firsts[x->l->order[k] + 1] - x->l->firsts[x->l->order[k]];
    return n;
}

static void choose_groups(excerpt *x) {
    const bool all = x->t->n_events <= TW_TRACE_DRAWN;
    const int last = x->n_groups - 1;
    for (int i = 0; i < x->n_groups; i++) {
        group *g = &x->groups[i];
        const char *why = "";
        if (last > 1 && g->rank == last / 2 && !all) why = "the middle one";
        if (last > 0 && g->rank == 0) why = "the first to end";
        if (last > 0 && g->rank == last) why = "the last to end";
        snprintf(g->why, sizeof g->why, "%s", why);
        g->is_drawn = all || last < 3 || *why;
    }
}

static int ascending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Ends the excerpt where what began before it is as much as can be drawn. */
static bool choose_end(excerpt *x) {
    int n = 0;
    x->end = INT64_MAX;
    for (int i = 0; i < x->n_groups; i++)
        if (x->groups[i].is_drawn) n += count_events(x, &x->groups[i]);
    if (n <= TW_TRACE_DRAWN) return true;
    int64_t *begins = malloc((size_t)n * sizeof *begins);
    if (!begins) return false;
    n = 0;
    for (int i = 0; i < x->n_groups; i++) {
        const group *g = &x->groups[i];
        for (int k = g->first; g->is_drawn && k < g->next; k++)
            for (int e = x->l->firsts[x->l->order[k]]; e < x->l->firsts[x->l->order[k] + 1]; e++)
                begins[n++] = x->l->events[e].begin;
    }
    qsort(begins, (size_t)n, sizeof *begins, ascending);
    x->end = begins[TW_TRACE_DRAWN];
    free(begins);
    return true;
}

static bool is_drawn(const excerpt *x, int64_t begin) {
    return begin < x->end;
}

/* ---- bars */

/* The names of engines in the legend. */
static const char *const kinds[TW_ENGINES] = {
    [TW_ENGINE_NONE] = "several or none", [TW_ENGINE_ALU] = "ordinary instructions",
    [TW_ENGINE_TENSOR] = "tensor cores",  [TW_ENGINE_COPY] = "copies to shared memory",
    [TW_ENGINE_MEMORY] = "global memory", [TW_ENGINE_SYNC] = "other threads"};

static void describe(tw_text *d, const tw_trace *t, const tw_trace_event *e) {
    if (e->kind == TW_EVENT_VALUE) tw_text_add(d, "value %" PRId64, e->value);
    if (!tw_is_moment(e->kind) && e->least < e->most)
        tw_text_add(d, "between %.4g and %.4g %s", e->least, e->most, t->unit);
    if (e->kind == TW_EVENT_ASYNC) tw_text_add(d, d->used ? ", asynchronous" : "asynchronous");
}

static bool add_event(tw_page *p, excerpt *x, int i, int level) {
    static const tw_page_look styles[TW_EVENT_KINDS] = {
        [TW_EVENT_REGION] = TW_PAGE_WORK, [TW_EVENT_WAIT] = TW_PAGE_WAIT,   [TW_EVENT_ITERATION] = TW_PAGE_FRAME,
        [TW_EVENT_ASYNC] = TW_PAGE_WORK,  [TW_EVENT_MARK] = TW_PAGE_MOMENT, [TW_EVENT_VALUE] = TW_PAGE_MOMENT};
    const tw_trace_event *e = &x->t->events[i];
    const tw_layout_span *s = &x->l->events[i];
    char detail[128] = "", *name = trace_text(x->t->names[e->name].text);
    tw_text d = {detail, sizeof detail, 0};
    if (!name) return false;
    describe(&d, x->t, e);
    x->bars[i] = tw_page_add_bar(p, &(tw_page_bar){.kind = (int)x->t->names[e->name].engine,
                                                   .style = styles[e->kind],
                                                   .level = level,
                                                   .begin = (double)s->begin,
                                                   .end = (double)s->end,
                                                   .name = name,
                                                   .iteration = e->iteration,
                                                   .detail = d.used ? detail : NULL});
    x->n_drawn++;
    free(name);
    return true;
}

typedef struct stack {
    int64_t *ends;
    int depth, room;
} stack;

static bool push(stack *k, int64_t end) {
    int64_t *grown = tw_grow(k->ends, k->depth, &k->room, 16, sizeof *k->ends);
    if (!grown) return false;
    k->ends = grown;
    k->ends[k->depth++] = end;
    return true;
}

/* Adds a bar that frames all events of a track. Its label is the number of the thread block. */
static void add_frame(tw_page *p, const excerpt *x, int track) {
    const tw_trace_track *k = &x->t->tracks[track];
    const tw_layout_span *s = &x->l->tracks[track];
    char name[32], detail[64];
    snprintf(name, sizeof name, "block %d", k->block);
    snprintf(detail, sizeof detail, "%" PRId64 " records lost", k->dropped);
    tw_page_add_bar(p, &(tw_page_bar){.style = TW_PAGE_FRAME,
                                      .begin = (double)s->begin,
                                      .end = (double)s->end,
                                      .name = name,
                                      .iteration = -1,
                                      .detail = k->dropped ? detail : NULL});
}

/* Adds what a track did itself, and what is nested a level lower. */
static bool add_track(tw_page *p, excerpt *x, int track) {
    const tw_layout *l = x->l;
    stack k = {0};
    bool good = true;
    if (l->blocks && is_drawn(x, l->tracks[track].begin)) add_frame(p, x, track);
    for (int i = l->firsts[track]; good && i < l->firsts[track + 1]; i++) {
        const tw_layout_span *s = &l->events[i];
        if (x->t->events[i].kind == TW_EVENT_ASYNC || !is_drawn(x, s->begin)) continue;
        while (k.depth && k.ends[k.depth - 1] <= s->begin) k.depth--;
        good = add_event(p, x, i, k.depth + l->blocks);
        if (good && s->end > s->begin) good = push(&k, s->end);
    }
    free(k.ends);
    return good;
}

static bool add_lane(tw_page *p, excerpt *x, const group *g, int row) {
    for (int k = g->first; k < g->next; k++)
        for (int i = x->l->firsts[x->l->order[k]]; i < x->l->firsts[x->l->order[k] + 1]; i++)
            if (x->l->events[i].row == row && is_drawn(x, x->l->events[i].begin) && !add_event(p, x, i, 0))
                return false;
    return true;
}

static bool add_row(tw_page *p, excerpt *x, const group *g, int row) {
    char name[TW_ROW_NAME];
    tw_layout_name(x->l, x->t, row, name);
    tw_page_timeline_row(p, name, x->l->rows[row].lane > 0);
    if (x->l->rows[row].lane) return add_lane(p, x, g, row);
    for (int k = g->first; k < g->next; k++)
        if (x->l->tracks[x->l->order[k]].row == row && !add_track(p, x, x->l->order[k])) return false;
    return true;
}

static bool add_group(tw_page *p, excerpt *x, const group *g) {
    char name[TW_ROW_NAME], heading[2 * TW_ROW_NAME];
    tw_layout_group_name(x->t, g->sm, name);
    snprintf(heading, sizeof heading, "%s%s%s", name, *g->why ? ", " : "", g->why);
    tw_page_group(p, heading);
    for (int row = x->l->tracks[x->l->order[g->first]].row; row < x->l->n_rows && x->l->rows[row].sm == g->sm; row++)
        if (!add_row(p, x, g, row)) return false;
    return true;
}

static bool add_groups(tw_page *p, excerpt *x) {
    for (int i = 0; i < x->n_groups; i++)
        if (x->groups[i].is_drawn && !add_group(p, x, &x->groups[i])) return false;
    for (int i = 0; i < x->t->n_edges; i++) {
        const int from = x->bars[x->t->edges[i].from], to = x->bars[x->t->edges[i].to];
        if (from >= 0 && to >= 0) tw_page_arrow(p, from, to);
    }
    return true;
}

/* ---- */

/* Says what is drawn, and what is not. */
static void write_note(tw_text *n, const excerpt *x) {
    const char *what = x->t->on_processor ? "cores" : "SMs";
    int drawn = 0;
    for (int i = 0; i < x->n_groups; i++) drawn += x->groups[i].is_drawn;
    if (drawn < x->n_groups)
        tw_text_add(n, "An excerpt: %d of %d %s, those that end first, in the middle and last. ", drawn, x->n_groups,
                    what);
    if (x->end != INT64_MAX) {
        char end[TRACE_TIME];
        trace_time(end, (double)x->end, x->t->unit);
        tw_text_add(n, "%s after %s is left out. ", drawn < x->n_groups ? "What begins" : "An excerpt: what begins",
                    end);
    }
    tw_text_add(
        n,
        "The wheel zooms, and so do + and −; dragging moves; a double click shows everything. Pointing at a bar tells "
        "what it is, and shows arrows from what it waited for or to what waited for it.");
}

/* Adds a plot of when SMs end. */
static void add_ends(tw_page *p, const excerpt *x) {
    char y[64], title[64];
    const bool ns = !strcmp(x->t->unit, "ns");
    if (x->n_groups < 4) return;
    snprintf(y, sizeof y, "end, %s", ns ? "µs" : x->t->unit);
    snprintf(title, sizeof title, "When %s end", x->t->on_processor ? "cores" : "SMs");
    tw_page_add_plot(p,
                     &(tw_page_plot){.title = title, .x = x->t->on_processor ? "core" : "SM", .y = y, .zero_y = true});
    tw_page_series(p, "last instruction", TW_PAGE_POINTS);
    for (int i = 0; i < x->n_groups; i++)
        tw_page_point(p, x->groups[i].sm, (double)x->groups[i].end * (ns ? 1e-3 : 1), x->groups[i].why);
}

static void add_timeline(tw_page *p, const excerpt *x) {
    char note[640];
    tw_text n = {note, sizeof note, 0};
    write_note(&n, x);
    tw_page_add_timeline(p, &(tw_page_timeline){.title = "What was done when",
                                                .note = note,
                                                .unit = x->t->unit,
                                                .begin = 0,
                                                .end = (double)(x->end < x->l->end ? x->end : x->l->end),
                                                .kinds = kinds,
                                                .n_kinds = TW_ENGINES});
}

bool trace_timeline(tw_page *p, const tw_trace *t, const tw_layout *l) {
    excerpt x = {.t = t, .l = l, .bars = malloc(((size_t)t->n_events + 1) * sizeof *x.bars)};
    bool good = x.bars && find_groups(&x) && rank_groups(&x);
    if (good) {
        for (int i = 0; i < t->n_events; i++) x.bars[i] = -1;
        choose_groups(&x);
        good = choose_end(&x);
    }
    if (good && x.n_groups) {
        tw_page_section(p, "Timeline", NULL);
        add_timeline(p, &x);
        good = add_groups(p, &x);
        add_ends(p, &x);
    }
    free(x.groups);
    free(x.bars);
    return good;
}
