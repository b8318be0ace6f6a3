/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/ring.h"

#include "base/random.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { MOST = 512, CONSUMERS = 4 };

ring ring_of(double issue, double load, double product, double alu) {
    return (ring){.seed = 1,
                  .iterations = 40,
                  .stages = 3,
                  .consumers = 1,
                  .blocks = 1,
                  .sms = 1,
                  .resident = 1,
                  .issue = issue,
                  .load = load,
                  .product = product,
                  .alu = alu,
                  .prologue = 20,
                  .epilogue = 50,
                  .iterate = true};
}

/* A time that depends only on what it is of. */
static double draw(const ring *r, int block, int track, int iteration, int what, double mean) {
    uint64_t s = r->seed;
    const int of[] = {block, track, iteration, what};
    for (int i = 0; i < 4; i++) s = tw_splitmix64(&s) ^ (uint64_t)of[i];
    tw_random x = tw_random_seed(s);
    return mean * (1 + r->spread * (2 * tw_random_unit(&x) - 1));
}

typedef struct names {
    int producer, consumer, empty, full, issue, load, product, products, alu, arrive, prologue, epilogue, loop;
} names;

typedef struct machine {
    const ring *r;
    tw_trace *t;
    names n;
    bool failed;
} machine;

static int event(machine *m, int track, int name, tw_event_kind kind, int iteration, double begin, double end) {
    const tw_trace_event e = {track, name, kind, iteration, 0, begin, end, end - begin, end - begin, 0};
    const int i = tw_trace_add_event(m->t, &e);
    if (i < 0) m->failed = true;
    return i;
}

static void edge(machine *m, int from, int to) {
    if (tw_trace_add_edge(m->t, from, to) < 0) m->failed = true;
}

/* A region from *time on. */
static int work(machine *m, int track, int name, int iteration, double *time, double takes) {
    const double begin = *time;
    *time += takes;
    return event(m, track, name, TW_EVENT_REGION, iteration, begin, *time);
}

/* A wait from *time until `ready` and the news of it. */
static int wait(machine *m, int track, int name, int iteration, double *time, double ready) {
    const double begin = *time;
    *time = fmax(begin + m->r->pass, ready + m->r->lag);
    return event(m, track, name, TW_EVENT_WAIT, iteration, begin, *time);
}

/* Iterations come before what is in them, so that they are around it. */
static int begin_iteration(machine *m, int track, int iteration, double time) {
    return m->r->iterate ? event(m, track, m->n.loop, TW_EVENT_ITERATION, iteration, time, time) : -1;
}

static void end_iteration(machine *m, int loop, double time) {
    if (loop < 0) return;
    tw_trace_event *e = &m->t->events[loop];
    e->end = time;
    e->least = e->most = time - e->begin;
}

static int add_track(machine *m, int sm, int block, int warp, int role, double begin) {
    const int i = tw_trace_add_track(
        m->t, &(tw_trace_track){.sm = sm, .block = block, .warp = warp, .role = role, .begin = begin});
    if (i < 0) m->failed = true;
    return i < 0 ? 0 : i;
}

/* Returns when the block ends. */
static double run_block(machine *m, int block, int sm, double begin) {
    const ring *r = m->r;
    const names *n = &m->n;
    const int producer = add_track(m, sm, block, 0, n->producer, begin);
    int consumer[CONSUMERS];
    double now[CONSUMERS], done[MOST], returned[MOST][CONSUMERS], time = begin;
    int loads[MOST], arrivals[MOST][CONSUMERS];
    for (int c = 0; c < r->consumers; c++) {
        consumer[c] = add_track(m, sm, block, 4 * (c + 1), n->consumer, begin);
        now[c] = begin;
        if (m->failed) return begin;
        work(m, consumer[c], n->prologue, -1, &now[c], draw(r, block, c + 1, 0, 0, r->prologue));
    }
    work(m, producer, n->prologue, -1, &time, draw(r, block, 0, 0, 0, r->prologue));
    for (int i = 0; i < r->iterations; i++) {
        double ready = -INFINITY;
        for (int c = 0; c < r->consumers && i >= r->stages; c++) ready = fmax(ready, returned[i - r->stages][c]);
        const int loop = begin_iteration(m, producer, i, time);
        const int empty = wait(m, producer, n->empty, i, &time, ready);
        for (int c = 0; c < r->consumers && i >= r->stages; c++) edge(m, arrivals[i - r->stages][c], empty);
        work(m, producer, n->issue, i, &time, draw(r, block, 0, i, 1, r->issue));
        end_iteration(m, loop, time);
        done[i] = time + draw(r, block, 0, i, 2, r->load);
        if (i) done[i] = fmax(done[i], done[i - 1] + r->gap);
        loads[i] = event(m, producer, n->load, TW_EVENT_ASYNC, i, time, done[i]);
        double seen = INFINITY;
        for (int c = 0; c < r->consumers; c++) {
            const bool late = done[i] > now[c];
            const int inner = begin_iteration(m, consumer[c], i, now[c]);
            const int full = wait(m, consumer[c], n->full, i, &now[c], done[i]);
            edge(m, loads[i], full);
            if (!late)
                seen = fmin(seen, now[c]);
            else
                seen = -1;
            const double issued = now[c];
            const double until = issued + draw(r, block, c + 1, i, 3, r->product);
            const int product = event(m, consumer[c], n->product, TW_EVENT_ASYNC, i, issued, until);
            now[c] = until;
            edge(m, product, event(m, consumer[c], n->products, TW_EVENT_WAIT, i, issued, until));
            returned[i][c] = now[c];
            arrivals[i][c] = event(m, consumer[c], n->arrive, TW_EVENT_MARK, i, now[c], now[c]);
            work(m, consumer[c], n->alu, i, &now[c], draw(r, block, c + 1, i, 4, r->alu));
            end_iteration(m, inner, now[c]);
        }
        if (r->hidden && seen > 0 && seen < INFINITY && loads[i] >= 0) {
            tw_trace_event *e = &m->t->events[loads[i]];
            e->end = seen;
            e->least = 0;
            e->most = seen - e->begin;
        }
    }
    double end = time;
    m->t->tracks[producer].end = time;
    for (int c = 0; c < r->consumers; c++) {
        work(m, consumer[c], n->epilogue, -1, &now[c], draw(r, block, c + 1, 0, 5, r->epilogue));
        m->t->tracks[consumer[c]].end = now[c];
        end = fmax(end, now[c]);
    }
    return end;
}

tw_trace *ring_trace(const ring *r) {
    assert(r->iterations <= MOST && r->consumers <= CONSUMERS);
    machine m = {.r = r, .t = tw_trace_new("ring", "simulated", "ns")};
    double *free_at = calloc((size_t)r->sms * (size_t)r->resident, sizeof *free_at);
    if (!m.t || !free_at) goto fail;
    const struct {
        int *index;
        const char *text;
        tw_trace_engine engine;
    } list[] = {{&m.n.producer, "producer", TW_ENGINE_NONE}, {&m.n.consumer, "consumer", TW_ENGINE_NONE},
                {&m.n.empty, "empty", TW_ENGINE_SYNC},       {&m.n.full, "full", TW_ENGINE_COPY},
                {&m.n.issue, "issue", TW_ENGINE_ALU},        {&m.n.load, "load", TW_ENGINE_COPY},
                {&m.n.product, "product", TW_ENGINE_TENSOR}, {&m.n.products, "products", TW_ENGINE_TENSOR},
                {&m.n.alu, "softmax", TW_ENGINE_ALU},        {&m.n.arrive, "arrive", TW_ENGINE_NONE},
                {&m.n.prologue, "prologue", TW_ENGINE_ALU},  {&m.n.epilogue, "epilogue", TW_ENGINE_MEMORY},
                {&m.n.loop, "loop", TW_ENGINE_NONE}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if ((*list[i].index = tw_trace_add_name(m.t, list[i].text, list[i].engine)) < 0) goto fail;
    m.t->names[m.n.product].flops = 1e6;
    m.t->names[m.n.load].bytes = 32768;
    for (int b = 0; b < r->blocks; b++) {
        const int sm = b % r->sms, place = sm * r->resident + b / r->sms % r->resident;
        free_at[place] = run_block(&m, b, sm, free_at[place]);
        if (m.failed) goto fail;
    }
    if (tw_trace_finish(m.t, NULL) != TW_OK) goto fail;
    free(free_at);
    return m.t;
fail:
    free(free_at);
    tw_trace_free(m.t);
    return NULL;
}

double ring_length(const ring *r) {
    tw_trace *t = ring_trace(r);
    assert(t);
    const double length = tw_trace_length(t);
    tw_trace_free(t);
    return length;
}
