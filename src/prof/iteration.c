/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/iteration.h"

#include "base/diag.h"
#include "base/stats.h"
#include "prof/dag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct iteration {
    int loop, role, name, track, event, parent;
    double begin, end;
} iteration;

static int by_loop(const void *a, const void *b) {
    const iteration *x = a, *y = b;
    if (x->loop != y->loop) return x->loop < y->loop ? -1 : 1;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    if (x->name != y->name) return x->name < y->name ? -1 : 1;
    return x->event < y->event ? -1 : x->event > y->event;
}

static bool same_loop(const iteration *a, const iteration *b) {
    return a->loop == b->loop && a->role == b->role && a->name == b->name;
}

/* Durations of n iterations. */
static void copy_times(double *out, const iteration *list, int n) {
    for (int i = 0; i < n; i++) out[i] = list[i].end - list[i].begin;
}

static bool is_odd(const iteration *i, double usual) {
    const double took = i->end - i->begin;
    return took > 1.25 * usual || took < 0.8 * usual;
}

/* The steady iterations of a run of n: [*from, *until). `room` has room for n. */
static void find_steady(const iteration *run, int n, double *room, int *from, int *until) {
    const int quarter = n / 4;
    const int middle = n - 2 * quarter;
    copy_times(room, run + quarter, middle);
    tw_stats_sort(room, (size_t)middle);
    const double usual = tw_stats_quantile(room, (size_t)middle, 0.5);
    for (*from = 0; *from < quarter && is_odd(&run[*from], usual);) ++*from;
    for (*until = n; *until > n - quarter && is_odd(&run[*until - 1], usual);) --*until;
}

/* Where the run ends that begins with the first of n iterations of a loop: at another track or another event around,
   or where more time than an iteration's went by. */
static int run_end(const iteration *list, int n, double usual) {
    int i = 1;
    while (i < n && list[i].track == list[0].track && list[i].parent == list[0].parent &&
           list[i].begin - list[i - 1].end <= usual)
        i++;
    return i;
}

static void measure(tw_iteration_loop *out, const tw_dag *f, const iteration *list, int n, double *all, double *room) {
    *out = (tw_iteration_loop){.loop = list->loop, .name = list->name, .role = list->role, .iterations = n};
    copy_times(all, list, n);
    tw_stats s = tw_stats_of(all, (size_t)n);
    out->mean = s.mean;
    out->p50 = s.median;
    out->p95 = tw_stats_quantile(all, (size_t)n, 0.95);
    int steady = 0;
    for (int i = 0, end, from, until; i < n; i = end) {
        end = i + run_end(list + i, n - i, s.median);
        find_steady(list + i, end - i, room, &from, &until);
        copy_times(all + steady, list + i + from, until - from);
        steady += until - from;
        out->runs++;
        out->fill += from;
        out->drain += end - i - until;
    }
    out->steady = steady;
    s = tw_stats_of(all, (size_t)steady);
    out->steady_mean = s.mean;
    out->steady_p50 = s.median;
    out->steady_p95 = tw_stats_quantile(all, (size_t)steady, 0.95);
    out->fill /= (double)out->runs;
    out->drain /= (double)out->runs;
    int tracks = 0;
    for (int i = 0; i < n; i++) {
        const int track = list[i].track;
        if (!i || list[i - 1].track != track) {
            tracks++;
            out->before += list[i].begin - f->points[f->first[track]].time;
        }
        if (i == n - 1 || list[i + 1].track != track)
            out->after += f->points[f->first[track + 1] - 1].time - list[i].end;
    }
    out->before /= tracks;
    out->after /= tracks;
}

tw_status tw_iterations_find(tw_iterations *out, const tw_trace *t, tw_diag *diag) {
    *out = (tw_iterations){0};
    const size_t room = (size_t)t->n_events + 1;
    tw_dag *f = tw_dag_new(t);
    iteration *list = malloc(room * sizeof *list);
    double *times = malloc(room * sizeof *times), *more = malloc(room * sizeof *more);
    bool fine = f && list && times && more;
    int n = 0, loops = 0;
    for (int i = 0; fine && i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind == TW_EVENT_ITERATION)
            list[n++] =
                (iteration){e->loop, t->tracks[e->track].role, e->name, e->track, i, f->parent[i], e->begin, e->end};
    }
    if (n) qsort(list, (size_t)n, sizeof *list, by_loop);
    for (int i = 0; i < n; i++)
        if (!i || !same_loop(&list[i], &list[i - 1])) loops++;
    out->loops = fine ? calloc((size_t)loops + 1, sizeof *out->loops) : NULL;
    fine = out->loops != NULL;
    for (int i = 0, end; fine && i < n; i = end) {
        for (end = i; end < n && same_loop(&list[end], &list[i]);) end++;
        measure(&out->loops[out->n++], f, list + i, end - i, times, more);
    }
    free(list);
    free(times);
    free(more);
    tw_dag_free(f);
    return fine ? TW_OK : tw_fail_memory(diag);
}

void tw_iterations_free(tw_iterations *i) {
    free(i->loops);
    *i = (tw_iterations){0};
}
