/* SPDX-License-Identifier: Apache-2.0 */
/* Times of a graph's points from its durations. */
#include "prof/dag.h"

#include <math.h>
#include <stdlib.h>

/* A track goes on until it needs the end of an event, or of a track, that is not known yet. That event or track then
   has the track in its list of those to wake. Nodes to wait for: events, and behind them tracks. */
typedef struct player {
    const tw_dag *f;
    const double *factor;
    const tw_dag_edges *edges;
    tw_dag_run *run;
    int *cursor;  /* Per track: the next point. */
    int *sleeper; /* Per node: a track that waits for it. -1: none. */
    int *next;    /* Per track: another track that waits for the same node. -1: none. */
    int *where;   /* Per track: the node that it waits for. */
    int *ready;   /* Tracks that can go on. */
    bool *known;  /* Per node. */
    double *when; /* Per node: when it ended. */
    int n_ready;
    int forced; /* A point that does without what is not known. -1: none. */
} player;

static double factor_of(const player *p, int event) {
    return p->factor ? p->factor[p->f->trace->events[event].name] : 1;
}

/* Work in a region shrinks with the innermost region around it that has a factor. A wait shrinks with its own only. */
static double scaled(const player *p, const tw_dag_point *x) {
    if (!p->factor || x->owner < 0) return x->cost;
    const bool waits = p->f->trace->events[x->owner].kind == TW_EVENT_WAIT && x->kind == TW_DAG_END;
    for (int e = x->owner; e >= 0; e = waits ? -1 : p->f->parent[e])
        if (factor_of(p, e) != 1) return x->cost * factor_of(p, e);
    return x->cost;
}

static void settle(player *p, int node, double when) {
    p->known[node] = true;
    p->when[node] = when;
    for (int t = p->sleeper[node], next; t >= 0; t = next) {
        next = p->next[t];
        p->ready[p->n_ready++] = t;
    }
    p->sleeper[node] = -1;
}

/* Tells whether `node` is known. Otherwise `track` sleeps until it is, or leaves it out. */
static bool await(player *p, int track, int node, bool *left_out) {
    *left_out = false;
    if (p->known[node]) return true;
    if (p->forced == p->cursor[track]) {
        *left_out = true;
        p->run->ignored++;
        return true;
    }
    p->next[track] = p->sleeper[node];
    p->sleeper[node] = track;
    p->where[track] = node;
    return false;
}

/* The end of a wait. False: the track sleeps. */
static bool end_wait(player *p, int track, const tw_dag_point *x, double *time, int *cause) {
    const tw_dag_edges *g = p->edges;
    bool left_out;
    for (int i = g->first[x->event]; i < g->first[x->event + 1]; i++)
        if (!await(p, track, g->from[i], &left_out)) return false;
    for (int i = g->first[x->event]; i < g->first[x->event + 1]; i++) {
        if (!p->known[g->from[i]]) continue;
        const double then = p->when[g->from[i]] + g->lag[i];
        if (!(then > *time)) continue;
        *time = then;
        *cause = i;
    }
    return true;
}

/* The begin of a track: as much later as the block that made room for it was. */
static bool begin_track(player *p, int track, double *time, int *cause) {
    const tw_dag *f = p->f;
    const int before = f->block_before[f->block[track]];
    *time = f->points[f->first[track]].time;
    if (before < 0) return true;
    bool left_out, all = true;
    for (int i = f->block_first[before]; i < f->block_first[before + 1]; i++) {
        if (!await(p, track, f->trace->n_events + f->block_tracks[i], &left_out)) return false;
        if (left_out) all = false;
    }
    if (!all) return true;
    double ended = -INFINITY;
    for (int i = f->block_first[before]; i < f->block_first[before + 1]; i++) {
        const double end = p->when[f->trace->n_events + f->block_tracks[i]];
        if (!(end > ended)) continue;
        ended = end;
        *cause = f->block_tracks[i];
    }
    *time += ended - f->block_end[before];
    return true;
}

static void issue(player *p, int event, double time) {
    const tw_dag *f = p->f;
    const double factor = factor_of(p, event);
    const int before = f->before[event];
    const bool tensor = f->trace->names[f->trace->events[event].name].engine == TW_ENGINE_TENSOR;
    const double from = before >= 0 ? p->run->done[before] : -INFINITY, latency = f->latency[event] * factor;
    const double alone = time + latency, queued = from + (tensor ? latency : f->gap[event] * factor);
    p->run->queued[event] = queued > alone;
    p->run->done[event] = fmax(alone, queued);
    settle(p, event, p->run->done[event]);
}

static void advance(player *p, int track) {
    const tw_dag *f = p->f;
    const int first = f->first[track], end = f->first[track + 1];
    for (int *c = &p->cursor[track]; *c < end; ++*c) {
        const tw_dag_point *x = &f->points[*c];
        double time;
        int cause = -1;
        if (*c == first) {
            if (!begin_track(p, track, &time, &cause)) return;
        } else {
            time = p->run->at[*c - 1] + scaled(p, x);
        }
        const bool waited =
            x->kind == TW_DAG_END && x->event >= 0 && p->edges->first[x->event] < p->edges->first[x->event + 1];
        if (waited && !end_wait(p, track, x, &time, &cause)) return;
        p->run->at[*c] = time;
        p->run->cause[*c] = cause;
        if (x->event < 0) continue;
        if (x->kind == TW_DAG_ISSUE)
            issue(p, x->event, time);
        else if (x->kind != TW_DAG_BEGIN)
            settle(p, x->event, time);
    }
    const double ended = p->run->at[end - 1];
    settle(p, f->trace->n_events + track, ended);
    if (p->run->last >= 0 && !(ended > p->run->length)) return;
    p->run->last = track;
    p->run->length = ended;
}

/* Everybody sleeps: edges contradict each other. The track that stopped first goes on. */
static int stopped_first(const player *p) {
    int first = -1;
    double time = INFINITY;
    for (int t = 0; t < p->f->trace->n_tracks; t++) {
        if (p->cursor[t] == p->f->first[t + 1] || !(p->f->points[p->cursor[t]].time < time)) continue;
        first = t;
        time = p->f->points[p->cursor[t]].time;
    }
    return first;
}

/* Takes a track out of the list that it sleeps in. */
static void wake(player *p, int track) {
    int *t = &p->sleeper[p->where[track]];
    while (*t != track) t = &p->next[*t];
    *t = p->next[track];
}

static void play(player *p) {
    const tw_trace *t = p->f->trace;
    for (int i = 0; i < t->n_tracks; i++) p->cursor[i] = p->f->first[i];
    for (int i = t->n_tracks - 1; i >= 0; i--) p->ready[p->n_ready++] = i;
    for (;;) {
        while (p->n_ready) advance(p, p->ready[--p->n_ready]);
        const int track = stopped_first(p);
        if (track < 0) return;
        wake(p, track);
        p->forced = p->cursor[track];
        p->ready[p->n_ready++] = track;
    }
}

bool tw_dag_play(const tw_dag *f, const double *factor, const tw_dag_edges *edges, tw_dag_run *run) {
    const size_t tracks = (size_t)f->trace->n_tracks + 1, events = (size_t)f->trace->n_events + 1;
    const size_t nodes = events + tracks;
    *run = (tw_dag_run){.last = -1};
    run->at = malloc(((size_t)f->n_points + 1) * sizeof *run->at);
    run->cause = malloc(((size_t)f->n_points + 1) * sizeof *run->cause);
    run->done = calloc(events, sizeof *run->done);
    run->queued = calloc(events, sizeof *run->queued);
    player p = {.f = f, .factor = factor, .edges = edges ? edges : &f->edges, .run = run, .forced = -1};
    p.cursor = malloc(tracks * sizeof *p.cursor);
    p.next = malloc(tracks * sizeof *p.next);
    p.where = calloc(tracks, sizeof *p.where);
    p.ready = malloc(tracks * sizeof *p.ready);
    p.sleeper = malloc(nodes * sizeof *p.sleeper);
    p.known = calloc(nodes, sizeof *p.known);
    p.when = calloc(nodes, sizeof *p.when);
    const bool fine = run->at && run->cause && run->done && run->queued && p.cursor && p.next && p.where && p.ready &&
                      p.sleeper && p.known && p.when;
    if (fine) {
        for (size_t i = 0; i < nodes; i++) p.sleeper[i] = -1;
        play(&p);
    }
    free(p.cursor);
    free(p.next);
    free(p.where);
    free(p.ready);
    free(p.sleeper);
    free(p.known);
    free(p.when);
    if (!fine) tw_dag_run_free(run);
    return fine;
}

void tw_dag_run_free(tw_dag_run *run) {
    free(run->at);
    free(run->cause);
    free(run->done);
    free(run->queued);
    *run = (tw_dag_run){.last = -1};
}
