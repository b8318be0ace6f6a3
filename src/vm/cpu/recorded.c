/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cpu/recorded.h"

#include "base/diag.h"
#include "tilewright/device.h"
#include "vm/traced.h"

#include <stdlib.h>

typedef struct making {
    const tw_vm *vm;
    const tw_recorded *r;
    tw_trace *t;
    tw_arena arena;
    tw_traced *traced; /* [program], in the machine's order. `s` is NULL until a step of the program is added. */
    int wait_launch, launch, launched, step, layer, arrive; /* Names. */
    int *arrival, *waited;                                  /* Of the step that is added; see tw_traced_add_edges. */
    const int64_t **at;                                     /* [worker]: the next readings. */
    double *ended;                                          /* [worker]: when its last step ended. */
    int mark;                                               /* The event of the step's launch. */
    bool failed;                                            /* Memory ran out. */
} making;

/* Nanoseconds from the first step's launch. */
static double time_of(const making *m, int64_t stamp) {
    return (double)(stamp - m->r->steps[0].began);
}

/* Which iteration of which loop an event belongs to. */
typedef struct place {
    int loop, iteration;
} place;
static const place nowhere = {-1, -1};

/* Adds an event that includes so many readings of the clock. Returns its index, or -1 if memory runs out. */
static int add(making *m, int track, int name, tw_event_kind kind, place in, double begin, double end, int readings) {
    const double least = end - begin - (double)m->r->reading * readings;
    const tw_trace_event e = {.track = track,
                              .name = name,
                              .kind = kind,
                              .iteration = in.iteration,
                              .loop = in.loop,
                              .begin = begin,
                              .end = end,
                              .least = least > 0 ? least : 0,
                              .most = end - begin};
    const int i = tw_trace_add_event(m->t, &e);
    m->failed = m->failed || i < 0;
    return i;
}

/* -- a worker's step */

/* Instructions of one layer that follow each other. They become an iteration. */
typedef struct run {
    int layer; /* -1: none. */
    double begin;
    int readings;
} run;

static void end_run(making *m, int track, const run *r, double end) {
    if (r->layer < 0) return;
    add(m, track, m->layer, TW_EVENT_ITERATION, (place){TW_LOOP_LAYER, r->layer}, r->begin, end, r->readings);
}

/* Adds the events of one instruction, which the worker came to at `now`. Returns when it left the instruction. */
static double add_instr(making *m, const tw_traced *p, int worker, int i, int step, double now) {
    const int number = p->first[worker] + i;
    const tw_traced_instr *x = &p->instr[number];
    const tw_instr *in = &p->s->workers[worker].list[i];
    const place at = x->layer < 0 ? (place){TW_LOOP_STEP, step} : (place){TW_LOOP_LAYER, x->layer};
    for (int k = 0; k < in->n_waits; k++) {
        const double over = time_of(m, *m->at[worker]++);
        const int name = p->wait_name[in->waits[k].counter];
        m->waited[x->first_wait + k] = add(m, worker, name, TW_EVENT_WAIT, at, now, over, 1);
        now = over;
    }
    const double done = time_of(m, m->at[worker][TW_STAMP_DONE]), left = time_of(m, m->at[worker][TW_STAMP_ARRIVED]);
    m->at[worker] += TW_STAMPS_INSTR;
    m->arrival[number] = add(m, worker, x->name, TW_EVENT_REGION, at, now, done, 1);
    if (in->arrive >= 0) add(m, worker, m->arrive, TW_EVENT_REGION, at, done, left, 1);
    return left;
}

/* Adds what comes before a worker's first instruction. Worker 0 wakes the others, and they wait for it since their last
   step. */
static void add_launch(making *m, int worker, int step, double began) {
    const double launch = time_of(m, m->r->steps[step].began);
    if (worker) {
        const double since = step ? m->ended[worker] : launch;
        const int e = add(m, worker, m->wait_launch, TW_EVENT_WAIT, nowhere, since, began, 1);
        m->failed = m->failed || tw_trace_add_edge(m->t, m->mark, e) < 0;
        return;
    }
    m->mark = add(m, 0, m->launched, TW_EVENT_MARK, nowhere, launch, launch, 0);
    add(m, 0, m->launch, TW_EVENT_REGION, nowhere, launch, began, 1);
}

static void add_worker(making *m, const tw_traced *p, int worker, int step) {
    const tw_worker *w = &p->s->workers[worker];
    tw_trace_track *track = &m->t->tracks[worker];
    track->sm = (int)m->at[worker][TW_STAMP_CPU];
    const double began = time_of(m, m->at[worker][TW_STAMP_BEGIN]);
    m->at[worker] += TW_STAMPS_STEP;
    add_launch(m, worker, step, began);
    double now = began;
    run r = {-1, began, 0};
    int readings = 0;
    for (int i = 0; i < w->count; i++) {
        const int layer = p->instr[p->first[worker] + i].layer, n = w->list[i].n_waits + TW_STAMPS_INSTR;
        if (layer != r.layer) {
            end_run(m, worker, &r, now);
            r = (run){layer, now, 0};
        }
        now = add_instr(m, p, worker, i, step, now);
        r.readings += n;
        readings += n;
    }
    end_run(m, worker, &r, now);
    add(m, worker, m->step, TW_EVENT_ITERATION, (place){TW_LOOP_STEP, step}, began, now, readings);
    m->ended[worker] = track->end = now;
}

/* -- the trace */

/* Finds a program as the trace needs it. Names are the trace's only if a step needs them. */
static tw_status find_traced(making *m, const tw_program *program, const tw_traced **out, tw_diag *diag) {
    int i = 0;
    for (const tw_program *p = m->vm->programs; p != program; p = p->next) i++;
    *out = &m->traced[i];
    return m->traced[i].s ? TW_OK : tw_traced_make(&m->traced[i], m->t, program->s, &m->arena, diag);
}

static tw_status add_step(making *m, int step, tw_diag *diag) {
    const tw_recorded_step *s = &m->r->steps[step];
    const tw_traced *p = NULL;
    tw_status st = find_traced(m, s->program, &p, diag);
    if (st == TW_OK) st = tw_traced_add_work(p, m->t, s->n, s->pos, diag);
    if (st != TW_OK) return st;
    m->arrival = malloc(((size_t)p->n_instr + 1) * sizeof *m->arrival);
    m->waited = malloc(((size_t)p->n_waits + 1) * sizeof *m->waited);
    m->failed = !m->arrival || !m->waited;
    for (int w = 0; w < m->vm->n_threads && !m->failed; w++) add_worker(m, p, w, step);
    st = m->failed ? tw_fail_memory(diag) : tw_traced_add_edges(p, m->t, m->arrival, m->waited, diag);
    free(m->arrival);
    free(m->waited);
    return st;
}

static tw_status begin(making *m, tw_diag *diag) {
    tw_trace *t = m->t;
    const int role = tw_trace_add_name(t, "worker", TW_ENGINE_NONE);
    m->wait_launch = tw_trace_add_name(t, "wait launch", TW_ENGINE_SYNC);
    m->launch = tw_trace_add_name(t, "launch", TW_ENGINE_SYNC);
    m->launched = tw_trace_add_name(t, "launched", TW_ENGINE_NONE);
    m->step = tw_trace_add_name(t, "step", TW_ENGINE_NONE);
    m->layer = tw_trace_add_name(t, "layer", TW_ENGINE_NONE);
    m->arrive = tw_trace_add_name(t, "arrive", TW_ENGINE_SYNC);
    bool room = m->arrive >= 0 && t->n_names == 7;
    for (int i = 0; i < m->vm->n_threads && room; i++) {
        const tw_recorded_worker *w = &m->r->workers[i];
        const tw_trace_track track = {
            .warp = i, .role = role, .dropped = w->dropped, .uncertainty = (double)m->r->reading};
        m->at[i] = w->stamps;
        room = tw_trace_add_track(t, &track) == i;
    }
    t->on_processor = true;
    t->began_unix = (double)m->r->began_unix * 1e-9;
    return room ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_recorded_trace(const tw_vm *vm, const char *title, tw_trace **out, tw_diag *diag) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    making m = {.vm = vm, .r = vm->recorded, .t = tw_trace_new(title, cpu.model, "ns")};
    m.traced = tw_arena_array(&m.arena, (size_t)vm->n_programs + 1, sizeof *m.traced);
    m.at = tw_arena_array(&m.arena, (size_t)vm->n_threads, sizeof *m.at);
    m.ended = tw_arena_array(&m.arena, (size_t)vm->n_threads, sizeof *m.ended);
    tw_status st = m.t && !m.arena.failed ? begin(&m, diag) : tw_fail_memory(diag);
    for (int i = 0; i < m.r->n_steps && st == TW_OK; i++) st = add_step(&m, i, diag);
    if (st == TW_OK) {
        tw_traced_finish_work(m.t);
        st = tw_trace_finish(m.t, diag);
    }
    tw_arena_free(&m.arena);
    if (st == TW_OK)
        *out = m.t;
    else
        tw_trace_free(m.t);
    return st;
}
