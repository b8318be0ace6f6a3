/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/dag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tw_dag_role(const tw_trace *t, int track) {
    const int role = track >= 0 && track < t->n_tracks ? t->tracks[track].role : -1;
    return role >= 0 && role < t->n_names ? t->names[role].text : "";
}

static bool is_wait(const tw_dag *f, int event) {
    return event >= 0 && f->trace->events[event].kind == TW_EVENT_WAIT;
}

/* -- points */

/* Events of the track that are open, the innermost last. */
typedef struct open_events {
    int *list;
    int n;
} open_events;

static void add_point(tw_dag *f, const open_events *open, double time, int event, tw_dag_kind kind, bool first) {
    tw_dag_point *p = &f->points[f->n_points++];
    const double before = first ? time : p[-1].time;
    if (time < before) time = before;
    *p = (tw_dag_point){time, time - before, event, open->n ? open->list[open->n - 1] : -1, kind};
}

/* Ends open events that end at `time` at the latest. */
static void close_until(tw_dag *f, open_events *open, double time) {
    while (open->n) {
        const int e = open->list[open->n - 1];
        if (f->trace->events[e].end > time) return;
        f->end_point[e] = f->n_points;
        add_point(f, open, f->trace->events[e].end, e, TW_DAG_END, false);
        open->n--;
    }
}

static void add_event(tw_dag *f, int event, open_events *open) {
    const tw_trace_event *e = &f->trace->events[event];
    close_until(f, open, e->begin);
    f->parent[event] = open->n ? open->list[open->n - 1] : -1;
    f->end_point[event] = f->n_points;
    switch (e->kind) {
    case TW_EVENT_ASYNC:
        add_point(f, open, e->begin, event, TW_DAG_ISSUE, false);
        break;
    case TW_EVENT_MARK:
    case TW_EVENT_VALUE:
        add_point(f, open, e->begin, event, TW_DAG_MOMENT, false);
        break;
    default:
        add_point(f, open, e->begin, event, TW_DAG_BEGIN, false);
        open->list[open->n++] = event;
    }
}

static void add_track(tw_dag *f, int track, int begin, int end, open_events *open) {
    const tw_trace *t = f->trace;
    const tw_trace_track *k = &t->tracks[track];
    f->first[track] = f->n_points;
    open->n = 0;
    const double from = begin < end && t->events[begin].begin < k->begin ? t->events[begin].begin : k->begin;
    add_point(f, open, from, -1, TW_DAG_BEGIN, true);
    for (int i = begin; i < end; i++) add_event(f, i, open);
    close_until(f, open, INFINITY);
    add_point(f, open, k->end, -1, TW_DAG_END, false);
}

/* Events are sorted by track. */
static bool add_points(tw_dag *f) {
    const tw_trace *t = f->trace;
    open_events open = {malloc(((size_t)t->n_events + 1) * sizeof *open.list), 0};
    if (!open.list) return false;
    for (int track = 0, i = 0; track < t->n_tracks; track++) {
        const int begin = i;
        while (i < t->n_events && t->events[i].track == track) i++;
        add_track(f, track, begin, i, &open);
    }
    f->first[t->n_tracks] = f->n_points;
    free(open.list);
    return true;
}

/* -- medians per name */

typedef struct sample {
    int name;
    double x;
} sample;

static int by_name(const void *a, const void *b) {
    const sample *x = a, *y = b;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    return (x->x > y->x) - (x->x < y->x);
}

/* Sets out[name] to the median of its samples; other entries stay. */
static void medians(sample *s, int n, double *out) {
    if (n) qsort(s, (size_t)n, sizeof *s, by_name);
    for (int i = 0, j; i < n; i = j) {
        for (j = i; j < n && s[j].name == s[i].name;) j++;
        out[s[i].name] = (s[i + (j - i) / 2].x + s[i + (j - i - 1) / 2].x) / 2;
    }
}

/* -- asynchronous events */

/* Where the records leave open when an event was done, it took as long as others of its name. */
static void find_finish(tw_dag *f, sample *s) {
    const tw_trace *t = f->trace;
    int n = 0;
    double *usual = tw_arena_array(&f->arena, (size_t)t->n_names + 1, sizeof *usual);
    if (!usual) return;
    for (int i = 0; i < t->n_names; i++) usual[i] = INFINITY;
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind == TW_EVENT_ASYNC && !(e->least < e->most)) s[n++] = (sample){e->name, e->end - e->begin};
    }
    medians(s, n, usual);
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        f->finish[i] = e->kind == TW_EVENT_ASYNC ? e->end : f->points[f->end_point[i]].time;
        if (e->kind != TW_EVENT_ASYNC || !(e->least < e->most)) continue;
        const double took = fmax(usual[e->name], e->least);
        if (e->begin + took < e->end) f->finish[i] = e->begin + took;
    }
}

/* Whether a copy ended as soon after the one before as copies can. Its own latency did not matter then. */
static bool is_behind(double after, double least) {
    return after <= 1.05 * least;
}

/* Latencies of the events of [begin, end), one track, from what its copies left between their ends. */
static void set_latencies(tw_dag *f, int begin, int end, const double *least, sample *s) {
    const tw_trace *t = f->trace;
    int n = 0;
    double *usual = f->name_latency;
    for (int i = begin; i < end; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind != TW_EVENT_ASYNC) continue;
        usual[e->name] = INFINITY;
        f->latency[i] = f->finish[i] - e->begin;
        const int before = f->before[i];
        const double after = before < 0 ? INFINITY : f->finish[i] - f->finish[before];
        if (after < 0) f->before[i] = -1; /* They ended in another order. */
        if (!is_behind(after, least[e->name])) s[n++] = (sample){e->name, f->latency[i]};
    }
    medians(s, n, usual);
    for (int i = begin; i < end; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind != TW_EVENT_ASYNC || f->before[i] < 0) continue;
        const double after = f->finish[i] - f->finish[f->before[i]];
        if (t->names[e->name].engine == TW_ENGINE_TENSOR) {
            f->latency[i] = fmin(f->latency[i], after);
        } else if (is_behind(after, least[e->name])) {
            f->gap[i] = after;
            f->latency[i] = fmin(f->latency[i], usual[e->name]);
        } else {
            f->gap[i] = fmax(least[e->name], 0);
        }
    }
}

/* Queues of a track's asynchronous events, one a name. Tensor cores work on one event at a time. Copies overlap, but
   end one after the other, and the shortest time between two ends while both were on their way is what the memory
   allows at most: another in flight does not make it faster. */
static void find_queues(tw_dag *f, sample *s) {
    const tw_trace *t = f->trace;
    int *last = tw_arena_array(&f->arena, (size_t)t->n_names + 1, sizeof *last);
    double *least = tw_arena_array(&f->arena, (size_t)t->n_names + 1, sizeof *least);
    if (f->arena.failed) return;
    for (int begin = 0, end; begin < t->n_events; begin = end) {
        for (int n = 0; n < t->n_names; n++) last[n] = -1, least[n] = INFINITY;
        for (end = begin; end < t->n_events && t->events[end].track == t->events[begin].track; end++) {
            const tw_trace_event *e = &t->events[end];
            if (e->kind != TW_EVENT_ASYNC) continue;
            const int before = f->before[end] = last[e->name];
            last[e->name] = end;
            if (before < 0 || f->finish[before] <= e->begin) continue;
            least[e->name] = fmin(least[e->name], fmax(f->finish[end] - f->finish[before], 0));
        }
        for (int n = 0; n < t->n_names; n++)
            if (isinf(least[n])) least[n] = -1; /* No two were on their way together. */
        set_latencies(f, begin, end, least, s);
    }
}

/* -- edges and waits */

static bool leads_somewhere(const tw_dag *f, const tw_trace_edge *g) {
    const int n = f->trace->n_events;
    return g->to >= 0 && g->to < n && g->from >= 0 && g->from < n && g->from != g->to && is_wait(f, g->to);
}

static void sort_edges(tw_dag *f) {
    const tw_trace *t = f->trace;
    int *first = f->edges.first;
    for (int i = 0; i < t->n_edges; i++) {
        if (leads_somewhere(f, &t->edges[i]))
            first[t->edges[i].to + 1]++;
        else
            f->odd++;
    }
    for (int e = 0; e < t->n_events; e++) first[e + 1] += first[e];
    int *next = tw_arena_array(&f->arena, (size_t)t->n_events + 1, sizeof *next);
    if (!next) return;
    memcpy(next, first, (size_t)t->n_events * sizeof *next);
    for (int i = 0; i < t->n_edges; i++)
        if (leads_somewhere(f, &t->edges[i])) f->edges.from[next[t->edges[i].to]++] = t->edges[i].from;
}

/* A wait that nothing had to be waited for shows what a wait takes itself, any other one how late the news was. */
static void find_binding(tw_dag *f, sample *s) {
    const tw_trace *t = f->trace;
    int n_own = 0, n_lag = 0;
    sample *lags = s + t->n_events; /* Room for two samples an event. */
    for (int e = 0; e < t->n_events; e++) {
        f->binding[e] = -1;
        double latest = -INFINITY;
        for (int i = f->edges.first[e]; i < f->edges.first[e + 1]; i++) {
            if (!(f->finish[f->edges.from[i]] > latest)) continue;
            latest = f->finish[f->edges.from[i]];
            f->binding[e] = i;
        }
        if (f->binding[e] < 0) continue;
        const tw_dag_point *end = &f->points[f->end_point[e]];
        if (latest > end[-1].time) {
            lags[n_lag++] = (sample){t->events[e].name, end->time - latest};
        } else {
            f->binding[e] = -1;
            s[n_own++] = (sample){t->events[e].name, end->cost};
        }
    }
    medians(s, n_own, f->name_own);
    medians(lags, n_lag, f->name_lag);
}

static void find_lags(tw_dag *f) {
    const tw_trace *t = f->trace;
    for (int e = 0; e < t->n_events; e++) {
        if (f->edges.first[e] == f->edges.first[e + 1]) continue;
        tw_dag_point *end = &f->points[f->end_point[e]];
        const int name = t->events[e].name;
        if (f->binding[e] >= 0) end->cost = fmin(f->name_own[name], end->cost);
        for (int i = f->edges.first[e]; i < f->edges.first[e + 1]; i++) {
            const double late = end->time - f->finish[f->edges.from[i]];
            f->edges.lag[i] = i == f->binding[e] ? late : fmin(f->name_lag[name], late);
        }
    }
}

/* -- blocks */

typedef struct resident {
    int sm, block, track; /* `block` and `track` as the trace numbers them. */
    double begin, end;
} resident;

static int by_block(const void *a, const void *b) {
    const resident *x = a, *y = b;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x->track < y->track ? -1 : x->track > y->track;
}

/* By multiprocessor and begin. `block` is the block counted over the trace. */
static int by_start(const void *a, const void *b) {
    const resident *x = a, *y = b;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static int by_stop(const void *a, const void *b) {
    const resident *x = a, *y = b;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

/* A block begins where another ended: of those of its multiprocessor that ended before and whose place nobody took, the
   last one made room. */
static bool chain_blocks(tw_dag *f, const resident *blocks) {
    const size_t n = (size_t)f->n_blocks;
    resident *start = malloc((n + 1) * sizeof *start), *stop = malloc((n + 1) * sizeof *stop);
    int *stack = malloc((n + 1) * sizeof *stack);
    if (start && stop && stack) {
        memcpy(start, blocks, n * sizeof *start);
        memcpy(stop, blocks, n * sizeof *stop);
        qsort(start, n, sizeof *start, by_start);
        qsort(stop, n, sizeof *stop, by_stop);
        for (size_t i = 0, j = 0, depth = 0; i < n; i++) {
            if (!i || start[i].sm != start[i - 1].sm) depth = 0;
            while (j < n && stop[j].sm < start[i].sm) j++;
            for (; j < n && stop[j].sm == start[i].sm && stop[j].end <= start[i].begin; j++)
                if (stop[j].block != start[i].block) stack[depth++] = stop[j].block;
            f->block_before[start[i].block] = depth ? stack[--depth] : -1;
        }
    }
    const bool fine = start && stop && stack;
    free(start);
    free(stop);
    free(stack);
    return fine;
}

static bool find_blocks(tw_dag *f) {
    const tw_trace *t = f->trace;
    const int n = t->n_tracks;
    resident *all = malloc(((size_t)n + 1) * sizeof *all);
    if (!all) return false;
    for (int i = 0; i < n; i++)
        all[i] = (resident){t->tracks[i].sm, t->tracks[i].block, i, f->points[f->first[i]].time,
                            f->points[f->first[i + 1] - 1].time};
    if (n) qsort(all, (size_t)n, sizeof *all, by_block);
    int b = -1;
    for (int i = 0; i < n; i++) {
        const resident r = all[i];
        if (!i || r.sm != t->tracks[f->block_tracks[i - 1]].sm || r.block != t->tracks[f->block_tracks[i - 1]].block) {
            f->block_first[++b] = i;
            all[b] = (resident){r.sm, b, r.track, r.begin, r.end};
        }
        f->block_tracks[i] = r.track;
        f->block[r.track] = b;
        all[b].begin = fmin(all[b].begin, r.begin);
        all[b].end = fmax(all[b].end, r.end);
    }
    f->n_blocks = b + 1;
    f->block_first[f->n_blocks] = n;
    for (int i = 0; i < f->n_blocks; i++) f->block_end[i] = all[i].end;
    const bool fine = chain_blocks(f, all);
    free(all);
    return fine;
}

/* -- all of it */

tw_dag *tw_dag_new(const tw_trace *t) {
    tw_dag *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->trace = t;
    tw_arena *a = &f->arena;
    const size_t events = (size_t)t->n_events + 1, tracks = (size_t)t->n_tracks + 1, names = (size_t)t->n_names + 1;
    f->points = tw_arena_array(a, 2 * events + 2 * tracks, sizeof *f->points);
    f->first = tw_arena_array(a, tracks, sizeof *f->first);
    f->end_point = tw_arena_array(a, events, sizeof *f->end_point);
    f->parent = tw_arena_array(a, events, sizeof *f->parent);
    f->edges.first = tw_arena_array(a, events, sizeof *f->edges.first);
    f->edges.from = tw_arena_array(a, (size_t)t->n_edges + 1, sizeof *f->edges.from);
    f->edges.lag = tw_arena_array(a, (size_t)t->n_edges + 1, sizeof *f->edges.lag);
    f->finish = tw_arena_array(a, events, sizeof *f->finish);
    f->latency = tw_arena_array(a, events, sizeof *f->latency);
    f->gap = tw_arena_array(a, events, sizeof *f->gap);
    f->before = tw_arena_array(a, events, sizeof *f->before);
    f->binding = tw_arena_array(a, events, sizeof *f->binding);
    f->name_lag = tw_arena_array(a, names, sizeof *f->name_lag);
    f->name_latency = tw_arena_array(a, names, sizeof *f->name_latency);
    f->name_own = tw_arena_array(a, names, sizeof *f->name_own);
    f->block = tw_arena_array(a, tracks, sizeof *f->block);
    f->block_before = tw_arena_array(a, tracks, sizeof *f->block_before);
    f->block_first = tw_arena_array(a, tracks + 1, sizeof *f->block_first);
    f->block_tracks = tw_arena_array(a, tracks, sizeof *f->block_tracks);
    f->block_end = tw_arena_array(a, tracks, sizeof *f->block_end);
    sample *samples = a->failed ? NULL : malloc(2 * events * sizeof *samples);
    bool fine = samples && add_points(f) && find_blocks(f);
    if (fine) {
        find_finish(f, samples);
        find_queues(f, samples);
        sort_edges(f);
        if (!a->failed) {
            find_binding(f, samples);
            find_lags(f);
        }
        fine = !a->failed;
    }
    free(samples);
    if (fine) return f;
    tw_dag_free(f);
    return NULL;
}

void tw_dag_free(tw_dag *f) {
    if (!f) return;
    tw_arena_free(&f->arena);
    free(f);
}
