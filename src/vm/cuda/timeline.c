/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cuda/timeline.h"

#include "base/diag.h"
#include "prof/clocks.h"
#include "vm/traced.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NANOSECONDS = 1000000000 };

/* Marks of an instruction. */
enum { BEGUN, WAITED, PREPARED, MULTIPLIED, FINISHED, ARRIVED };

/* Phases of an instruction that are regions within its own. */
enum { PREPARE, MULTIPLY, FINISH, PHASES };

typedef struct making {
    const tw_schedule *s;
    const tw_mega_clocks *c;
    tw_trace *t;
    tw_traced p;
    tw_prof_clocks clocks;
    double origin;
    int layer, arrive;     /* Names. */
    int *phase;            /* [name * PHASES + phase]: names of an instruction's phases. -1: not named yet. */
    int *arrival, *waited; /* See tw_traced_add_edges. */
    bool failed;           /* Memory ran out. */
} making;

/* -- clocks */

static bool came(const tw_mega_anchor *a) {
    return a->clock[1] != 0;
}

static tw_status fit(making *m, tw_diag *diag) {
    const int workers = m->s->n_workers;
    tw_prof_anchor *list = calloc(2 * (size_t)workers, sizeof *list);
    if (!list) return tw_fail_memory(diag);
    int n = 0;
    for (int w = 0; w < workers; w++)
        for (int i = 0; i < 2 && came(&m->c->anchors[w]); i++) {
            const tw_mega_anchor *a = &m->c->anchors[w];
            list[n++] = (tw_prof_anchor){a->sm, a->clock[i], a->time[i]};
        }
    tw_status st = n ? tw_prof_clocks_fit(&m->clocks, list, n, m->c->emulated ? 1 : 0, diag)
                     : tw_fail(diag, TW_ERR_FORMAT, "no worker left records");
    m->origin = INFINITY;
    for (int i = 0; i < n && st == TW_OK; i++)
        m->origin = fmin(m->origin, tw_prof_time_at(&m->clocks, list[i].sm, list[i].clock, 0));
    free(list);
    if (st != TW_OK) return st;
    m->t->ghz = m->c->emulated ? 0 : m->clocks.ghz;
    m->t->began_unix = m->c->emulated ? 0 : (double)m->clocks.origin / NANOSECONDS;
    return TW_OK;
}

static double time_of(const making *m, int worker, int64_t clock) {
    return tw_prof_time_at(&m->clocks, m->c->anchors[worker].sm, clock, 0) - m->origin;
}

/* -- events */

static int add(making *m, int track, int name, tw_event_kind kind, int layer, double begin, double end) {
    const tw_trace_event e = {.track = track,
                              .name = name,
                              .kind = kind,
                              .iteration = layer,
                              .loop = layer < 0 ? -1 : TW_LOOP_LAYER,
                              .begin = begin,
                              .end = end,
                              .least = end - begin,
                              .most = end - begin};
    const int i = name < 0 ? -1 : tw_trace_add_event(m->t, &e);
    m->failed = m->failed || i < 0;
    return i;
}

/* The name of a phase of the instructions that have this name: "qkv multiply". */
static int phase_name(making *m, int name, int phase) {
    static const char *const texts[PHASES] = {"prepare", "multiply", "finish"};
    static const tw_trace_engine engines[PHASES] = {TW_ENGINE_MEMORY, TW_ENGINE_TENSOR, TW_ENGINE_MEMORY};
    int *known = &m->phase[name * PHASES + phase];
    char text[64];
    if (*known < 0) {
        snprintf(text, sizeof text, "%s %s", m->t->names[name].text, texts[phase]);
        *known = tw_trace_add_name(m->t, text, engines[phase]);
    }
    return *known;
}

static bool is_whole(const int64_t marks[TW_MEGA_MARKS]) {
    for (int i = 0; i < TW_MEGA_MARKS; i++)
        if (!marks[i]) return false;
    return true;
}

/* Adds the events of an instruction whose records begin with `marks`. */
static void add_events(making *m, int worker, int i, const int64_t (*marks)[TW_MEGA_MARKS], int records) {
    const tw_instr *in = &m->s->workers[worker].list[i];
    const int number = m->p.first[worker] + i;
    const tw_traced_instr *x = &m->p.instr[number];
    double at[TW_MEGA_MARKS];
    /* What follows a wait in a record of its own takes no time. */
    for (int k = 0; k < in->n_waits; k++) {
        const double begin = time_of(m, worker, marks[k][BEGUN]), over = time_of(m, worker, marks[k][WAITED]);
        const int name = m->p.wait_name[in->waits[k].counter];
        m->waited[x->first_wait + k] = add(m, worker, name, TW_EVENT_WAIT, x->layer, begin, over);
    }
    for (int k = 0; k < TW_MEGA_MARKS; k++) at[k] = time_of(m, worker, marks[records - 1][k]);
    const double begin = at[in->n_waits ? WAITED : BEGUN];
    m->arrival[number] = add(m, worker, x->name, TW_EVENT_REGION, x->layer, begin, at[FINISHED]);
    for (int k = 0; k < PHASES; k++)
        add(m, worker, phase_name(m, x->name, k), TW_EVENT_REGION, x->layer, at[WAITED + k], at[WAITED + k + 1]);
    if (in->arrive >= 0) add(m, worker, m->arrive, TW_EVENT_REGION, x->layer, at[FINISHED], at[ARRIVED]);
}

/* Adds an instruction, if all its marks are there. Returns the number of its records. *from and *to get when it began
   and ended. */
static int add_instr(making *m, int worker, int i, const int64_t (*marks)[TW_MEGA_MARKS], double *from, double *to) {
    const tw_instr *in = &m->s->workers[worker].list[i];
    const int records = in->n_waits > 1 ? in->n_waits : 1, number = m->p.first[worker] + i;
    m->arrival[number] = -1;
    for (int k = 0; k < in->n_waits; k++) m->waited[m->p.instr[number].first_wait + k] = -1;
    if (!came(&m->c->anchors[worker])) return records;
    for (int k = 0; k < records; k++)
        if (!is_whole(marks[k])) return records;
    add_events(m, worker, i, marks, records);
    *from = time_of(m, worker, marks[0][BEGUN]);
    *to = time_of(m, worker, marks[records - 1][ARRIVED]);
    return records;
}

/* Instructions of one layer that follow each other. They become an iteration. */
typedef struct run {
    int layer; /* -1: none. */
    double begin, end;
} run;

static void end_run(making *m, int track, const run *r) {
    if (r->layer >= 0 && r->begin <= r->end) add(m, track, m->layer, TW_EVENT_ITERATION, r->layer, r->begin, r->end);
}

static void add_worker(making *m, int worker) {
    const int64_t(*marks)[TW_MEGA_MARKS] = m->c->marks + (ptrdiff_t)worker * m->c->rows;
    run r = {-1, 0, -1};
    for (int i = 0; i < m->s->workers[worker].count; i++) {
        const int layer = m->p.instr[m->p.first[worker] + i].layer;
        double from = INFINITY, to = -INFINITY;
        if (layer != r.layer) {
            end_run(m, worker, &r);
            r = (run){layer, INFINITY, -INFINITY};
        }
        marks += add_instr(m, worker, i, marks, &from, &to);
        r.begin = fmin(r.begin, from);
        r.end = fmax(r.end, to);
    }
    end_run(m, worker, &r);
}

static bool add_tracks(making *m) {
    const int role = tw_trace_add_name(m->t, "worker", TW_ENGINE_NONE);
    for (int w = 0; w < m->s->n_workers; w++) {
        const tw_mega_anchor *a = &m->c->anchors[w];
        tw_trace_track x = {.sm = a->sm, .block = w, .warp = 1, .role = role};
        if (came(a)) {
            x.begin = time_of(m, w, a->clock[0]);
            x.end = time_of(m, w, a->clock[1]);
            x.uncertainty = m->c->emulated ? 0 : m->clocks.uncertain[a->sm];
        }
        if (role < 0 || tw_trace_add_track(m->t, &x) < 0) return false;
    }
    return true;
}

static bool make_room(making *m, tw_arena *arena) {
    m->layer = tw_trace_add_name(m->t, "layer", TW_ENGINE_NONE);
    m->arrive = tw_trace_add_name(m->t, "arrive", TW_ENGINE_SYNC);
    const int names = m->t->n_names * PHASES;
    m->phase = tw_arena_array(arena, (size_t)names, sizeof *m->phase);
    m->arrival = tw_arena_array(arena, (size_t)m->p.n_instr + 1, sizeof *m->arrival);
    m->waited = tw_arena_array(arena, (size_t)m->p.n_waits + 1, sizeof *m->waited);
    for (int i = 0; m->phase && i < names; i++) m->phase[i] = -1;
    return m->layer >= 0 && m->arrive >= 0 && !arena->failed;
}

static tw_status make(making *m, int64_t n, int64_t pos, tw_arena *arena, tw_diag *diag) {
    tw_status st = fit(m, diag);
    if (st == TW_OK) st = tw_traced_make(&m->p, m->t, m->s, arena, diag);
    if (st == TW_OK) st = tw_traced_add_work(&m->p, m->t, n, pos, diag);
    if (st == TW_OK && (!make_room(m, arena) || !add_tracks(m))) st = tw_fail_memory(diag);
    if (st != TW_OK) return st;
    for (int w = 0; w < m->s->n_workers && !m->failed; w++) add_worker(m, w);
    if (m->failed) return tw_fail_memory(diag);
    st = tw_traced_add_edges(&m->p, m->t, m->arrival, m->waited, diag);
    if (st == TW_OK) tw_traced_finish_work(m->t);
    return st == TW_OK ? tw_trace_finish(m->t, diag) : st;
}

tw_status tw_mega_timeline(tw_trace **out, const tw_schedule *s, const tw_mega_clocks *c, int64_t n, int64_t pos,
                           const char *title, const char *device, tw_diag *diag) {
    tw_arena arena = {0};
    making m = {.s = s, .c = c, .t = tw_trace_new(title, device, c->emulated ? "ops" : "ns")};
    *out = NULL;
    const tw_status st = m.t ? make(&m, n, pos, &arena, diag) : tw_fail_memory(diag);
    tw_prof_clocks_free(&m.clocks);
    tw_arena_free(&arena);
    if (st == TW_OK)
        *out = m.t;
    else
        tw_trace_free(m.t);
    return st;
}
