/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/bubble.h"

#include "base/diag.h"
#include "prof/busy.h"
#include "prof/tally.h"

#include <math.h>
#include <stdlib.h>

enum { ENGINE, ROLE, CHANNEL, PRODUCER_ROLE, PRODUCER, CAUSE, CAUSE_ROLE, CAUSE_NAME };

typedef struct finder {
    const tw_dag *f;
    tw_dag_run run;
    tw_tally tally;
    int32_t key[TW_TALLY_KEYS]; /* Of the idle time that is being blamed, without the cause. */
    double begin, end;          /* That time. */
    double weight;
} finder;

static int name_of(const tw_trace *t, int event) {
    return event >= 0 ? t->events[event].name : -1;
}

static int role_of(const tw_trace *t, int track) {
    return track >= 0 ? t->tracks[track].role : -1;
}

/* Counts the part of a piece within the idle time. */
static bool blame_piece(void *context, const tw_dag_piece *piece) {
    finder *x = context;
    const double begin = fmax(piece->begin, x->begin), end = fmin(piece->end, x->end);
    if (!(end > begin)) return true;
    x->key[CAUSE] = piece->cause;
    x->key[CAUSE_ROLE] = role_of(x->f->trace, piece->track);
    x->key[CAUSE_NAME] = name_of(x->f->trace, piece->event);
    return tw_tally_add(&x->tally, x->key, (end - begin) * x->weight, piece->event);
}

static bool is_wait(const finder *x, int event) {
    return event >= 0 && x->f->trace->events[event].kind == TW_EVENT_WAIT;
}

/* Blames [begin, end) of the time before point `p`, in which its track waited or worked. */
static bool blame(finder *x, int engine, int track, int p, double begin, double end) {
    const tw_dag *f = x->f;
    const tw_trace *t = f->trace;
    const int owner = f->points[p].owner;
    const bool waits = is_wait(x, owner);
    int32_t *key = x->key;
    key[ENGINE] = engine;
    key[ROLE] = role_of(t, track);
    key[CHANNEL] = waits ? name_of(t, owner) : -1;
    key[PRODUCER_ROLE] = key[PRODUCER] = -1;
    x->begin = begin;
    x->end = end;
    const bool ends = waits && f->points[p].kind == TW_DAG_END && f->points[p].event == owner;
    const int cause = ends ? x->run.cause[p] : -1;
    if (cause >= 0) {
        const int from = f->edges.from[cause];
        key[PRODUCER_ROLE] = role_of(t, t->events[from].track);
        key[PRODUCER] = name_of(t, from);
    }
    if (waits) return tw_dag_walk(f, &f->edges, &x->run, p, fmax(begin, f->points[p - 1].time), blame_piece, x);
    const tw_dag_piece own = {TW_CAUSE_WORK, track, owner, begin, end};
    return blame_piece(x, &own);
}

/* -- tracks */

static bool blame_track(finder *x, int track, tw_idle *sum) {
    const tw_dag *f = x->f;
    const int first = f->first[track], end = f->first[track + 1];
    sum->time += f->points[end - 1].time - f->points[first].time;
    for (int p = first + 1; p < end; p++) {
        if (!is_wait(x, f->points[p].owner) || !(f->points[p].time > f->points[p - 1].time)) continue;
        sum->idle += f->points[p].time - f->points[p - 1].time;
        if (!blame(x, -1, track, p, f->points[p - 1].time, f->points[p].time)) return false;
    }
    return true;
}

/* -- engines */

static double begin_of(const tw_dag *f, int track) {
    return f->points[f->first[track]].time;
}

static double end_of(const tw_dag *f, int track) {
    return f->points[f->first[track + 1] - 1].time;
}

/* The first point of a track after `time`. */
static int point_after(const tw_dag *f, int track, double time) {
    int lo = f->first[track], hi = f->first[track + 1];
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (f->points[mid].time > time)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

/* Blames what a track that would keep the engine busy does in [begin, end). */
static bool blame_user(finder *x, int engine, int track, double begin, double end) {
    const tw_dag *f = x->f;
    for (int p = point_after(f, track, begin); p < f->first[track + 1] && begin < end; p++) {
        const double until = fmin(f->points[p].time, end);
        if (until > begin && !blame(x, engine, track, p, begin, until)) return false;
        begin = fmax(begin, until);
    }
    return true;
}

/* Until when after `begin` the same users are there, and how many. */
static double until_change(const tw_dag *f, const int *users, int n, double begin, double end, int *there) {
    double next = end;
    *there = 0;
    for (int i = 0; i < n; i++) {
        const double from = begin_of(f, users[i]), until = end_of(f, users[i]);
        if (from > begin) next = fmin(next, from);
        if (until > begin) next = fmin(next, until);
        if (from <= begin && until > begin) ++*there;
    }
    return next;
}

/* Idle time in which none of an engine's users is there. */
static bool blame_absence(finder *x, int engine, double begin, double end) {
    for (int i = 0; i < TW_TALLY_KEYS; i++) x->key[i] = -1;
    x->key[ENGINE] = engine;
    x->begin = begin;
    x->end = end;
    const tw_dag_piece absent = {TW_CAUSE_START, -1, -1, begin, end};
    return blame_piece(x, &absent);
}

/* An idle interval of an engine. Its users that are there share the blame. */
static bool blame_interval(finder *x, int engine, const int *users, int n, double begin, double end) {
    const tw_dag *f = x->f;
    bool fine = true;
    while (fine && begin < end) {
        int there;
        const double next = until_change(f, users, n, begin, end, &there);
        if (!there) fine = blame_absence(x, engine, begin, next);
        x->weight = there ? 1.0 / there : 1;
        for (int i = 0; fine && i < n; i++)
            if (begin_of(f, users[i]) <= begin && end_of(f, users[i]) > begin)
                fine = blame_user(x, engine, users[i], begin, next);
        x->weight = 1;
        begin = next;
    }
    return fine;
}

/* Collects the tracks of a multiprocessor that use an engine. */
static int find_users(const tw_dag *f, const int *tracks, int n, int engine, int *users) {
    const tw_trace *t = f->trace;
    int found = 0;
    for (int i = 0; i < n; i++)
        for (int p = f->first[tracks[i]]; p < f->first[tracks[i] + 1]; p++) {
            const int e = f->points[p].event;
            if (e < 0 || t->names[t->events[e].name].engine != (tw_trace_engine)engine) continue;
            if (t->events[e].kind != TW_EVENT_REGION && t->events[e].kind != TW_EVENT_ASYNC) continue;
            users[found++] = tracks[i];
            break;
        }
    return found;
}

/* One multiprocessor. `used`: engines that the trace has anything of. */
static bool blame_engines(finder *x, const int *tracks, int n, double begin, double end, const bool *used,
                          tw_bubbles *out) {
    const tw_dag *f = x->f;
    tw_busy busy = {0};
    int *users = malloc(((size_t)n + 1) * sizeof *users);
    bool fine = users != NULL;
    for (int i = 0; fine && i < n; i++) fine = tw_busy_add(&busy, f, tracks[i]);
    tw_busy_unite(&busy);
    for (int e = TW_ENGINE_ALU; fine && e < TW_ENGINE_SYNC; e++) {
        if (!used[e]) continue;
        tw_spans idle = {0};
        fine = tw_spans_complement(&busy.engines[e], begin, end, &idle);
        const int n_users = fine ? find_users(f, tracks, n, e, users) : 0;
        for (int i = 0; fine && i < idle.n; i++)
            fine = blame_interval(x, e, users, n_users, idle.list[i].begin, idle.list[i].end);
        out->engines[e].time += end - begin;
        out->engines[e].idle += tw_spans_length(&idle);
        tw_spans_free(&idle);
    }
    tw_busy_free(&busy);
    free(users);
    return fine;
}

static bool blame_sms(finder *x, tw_bubbles *out) {
    const tw_trace *t = x->f->trace;
    int n_sms;
    int *order = tw_busy_order(t, &n_sms);
    if (!order) return false;
    bool used[TW_ENGINES] = {false}, fine = true;
    for (int i = 0; i < t->n_events; i++)
        if (t->events[i].kind == TW_EVENT_REGION || t->events[i].kind == TW_EVENT_ASYNC)
            used[t->names[t->events[i].name].engine] = true;
    double begin = INFINITY, end = -INFINITY;
    for (int i = 0; i < t->n_tracks; i++) begin = fmin(begin, begin_of(x->f, i)), end = fmax(end, end_of(x->f, i));
    for (int i = 0, j; fine && i < t->n_tracks; i = j) {
        for (j = i; j < t->n_tracks && t->tracks[order[j]].sm == t->tracks[order[i]].sm;) j++;
        fine = blame_engines(x, order + i, j - i, begin, end, used, out);
    }
    free(order);
    return fine;
}

/* -- rows */

/* Tensor cores first, then the other engines, then tracks. */
static int rank(int engine) {
    return engine < 0 ? TW_ENGINES : engine == TW_ENGINE_TENSOR ? -1 : engine;
}

static int in_order(const void *a, const void *b) {
    const tw_bubble *x = a, *y = b;
    if (x->engine != y->engine) return rank(x->engine) < rank(y->engine) ? -1 : 1;
    if (x->time != y->time) return x->time > y->time ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool is_attributed(const int32_t *key) {
    switch ((tw_dag_cause)key[CAUSE]) {
    case TW_CAUSE_START:
        return true;
    case TW_CAUSE_UNKNOWN:
        return false;
    default:
        return key[CAUSE_NAME] >= 0;
    }
}

static bool copy_rows(finder *x, tw_bubbles *out) {
    tw_tally_sort(&x->tally);
    out->rows = malloc(((size_t)x->tally.n + 1) * sizeof *out->rows);
    if (!out->rows) return false;
    for (int i = 0; i < x->tally.n; i++) {
        const tw_tally_row *r = &x->tally.rows[i];
        const int32_t *k = r->key;
        const bool attributed = is_attributed(k);
        out->rows[out->n++] =
            (tw_bubble){k[ENGINE],     k[ROLE],       k[CHANNEL], k[PRODUCER_ROLE], k[PRODUCER], (tw_dag_cause)k[CAUSE],
                        k[CAUSE_ROLE], k[CAUSE_NAME], r->sum,     r->count,         r->longest,  r->where,
                        attributed};
        if (attributed) (k[ENGINE] < 0 ? &out->tracks : &out->engines[k[ENGINE]])->attributed += r->sum;
    }
    if (out->n) qsort(out->rows, (size_t)out->n, sizeof *out->rows, in_order);
    return true;
}

tw_status tw_bubbles_find(tw_bubbles *out, const tw_trace *t, tw_diag *diag) {
    *out = (tw_bubbles){0};
    finder x = {.f = tw_dag_new(t), .run = {.last = -1}, .weight = 1};
    bool fine = x.f && tw_dag_play(x.f, NULL, NULL, &x.run);
    for (int i = 0; fine && i < t->n_tracks; i++) fine = blame_track(&x, i, &out->tracks);
    fine = fine && blame_sms(&x, out) && copy_rows(&x, out);
    if (fine) out->ignored = x.f->odd + x.run.ignored;
    tw_tally_free(&x.tally);
    tw_dag_run_free(&x.run);
    tw_dag_free((tw_dag *)x.f);
    if (fine) return TW_OK;
    tw_bubbles_free(out);
    return tw_fail_memory(diag);
}

void tw_bubbles_free(tw_bubbles *b) {
    free(b->rows);
    *b = (tw_bubbles){0};
}
