/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/machine.h"

#include <stdlib.h>
#include <string.h>

enum { CHANGES = 3 };

/* Events of a worker: 2i begins its instance i, 2i + 1 ends it. */
typedef struct machine {
    const order *o;
    int *events; /* [worker]: so many happened */
    int64_t *value;
} machine;

static bool start(machine *m, const order *o) {
    *m = (machine){o, calloc((size_t)o->s->n_workers, sizeof *m->events),
                   calloc((size_t)o->s->n_counters + 1, sizeof *m->value)};
    if (!m->events || !m->value) abort();
    for (int c = 0; c < o->s->n_counters; c++) m->value[c] = o->s->counters[c].init;
    return true;
}

static void stop(machine *m) {
    free(m->events);
    free(m->value);
}

/* The instance that a worker is in or comes to next; -1: it is through. */
static int instance_of(const machine *m, int w) {
    int i = m->events[w] / 2;
    return i < m->o->first[w + 1] - m->o->first[w] ? m->o->first[w] + i : -1;
}

static bool running(const machine *m, int w) {
    return m->events[w] % 2;
}

static bool possible(const machine *m, int w) {
    int at = instance_of(m, w);
    if (at < 0) return false;
    if (running(m, w)) return true;
    const tw_instr *in = order_instr(m->o, at);
    int step = order_step(m->o, at);
    for (int i = 0; i < in->n_waits; i++)
        if (!order_wait_met(in->waits[i], m->value[in->waits[i].counter], step)) return false;
    return true;
}

static void happen(machine *m, int w) {
    const tw_instr *in = order_instr(m->o, instance_of(m, w));
    if (running(m, w) && in->arrive >= 0) m->value[in->arrive]++;
    m->events[w]++;
}

/* Everything goes on, but `a` and `b` do not end. */
static void go_on_without(machine *m, int a, int b) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < m->o->s->n_workers; w++)
            while (possible(m, w) && !(running(m, w) && (instance_of(m, w) == a || instance_of(m, w) == b))) {
                happen(m, w);
                moved = true;
            }
    }
}

bool machine_meet(const order *o, int a, int b) {
    machine m;
    start(&m, o);
    go_on_without(&m, a, b);
    int u = o->worker[a], v = o->worker[b];
    bool met = running(&m, u) && running(&m, v) && instance_of(&m, u) == a && instance_of(&m, v) == b;
    stop(&m);
    return met;
}

bool machine_begins_without(const order *o, int first, int held) {
    machine m;
    start(&m, o);
    go_on_without(&m, held, -1);
    int w = o->worker[first];
    bool began = m.events[w] > 2 * (first - o->first[w]);
    stop(&m);
    return began;
}

/* A fault of state: two that run conflict, or an output runs while its step is not through. */
static hazard state_fault(const machine *m, const memory *mem, int w) {
    int at = instance_of(m, w), element;
    const tw_schedule *s = m->o->s;
    if (!running(m, w)) return HAZARD_NONE;
    bool ends = order_instr(m->o, at)->op == TW_INSTR_OUTPUT;
    if (ends && order_instr(m->o, at) != &s->workers[w].list[s->workers[w].count - 1]) return HAZARD_STEP_END;
    for (int v = 0; v < s->n_workers; v++) {
        if (v == w) continue;
        if (running(m, v) && memory_conflict(mem, at, instance_of(m, v), &element)) return HAZARD_RACE;
        if (ends && m->events[v] < 2 * s->workers[v].count * (order_step(m->o, at) + 1)) return HAZARD_STEP_END;
    }
    return HAZARD_NONE;
}

static hazard event(machine *m, memory *mem, int w) {
    int at = instance_of(m, w), element;
    bool ends = running(m, w);
    happen(m, w);
    if (!ends) {
        hazard h = state_fault(m, mem, w);
        return h != HAZARD_NONE ? h : memory_read(mem, at, &element);
    }
    memory_write(mem, at);
    if (order_instr(m->o, at)->op != TW_INSTR_OUTPUT) return HAZARD_NONE;
    return memory_step_end(mem, order_step(m->o, at), &element);
}

static void shuffle(int *v, int n, tw_random *r) {
    for (int i = n - 1; i > 0; i--) {
        int j = (int)tw_random_below(r, (uint64_t)i + 1), t = v[i];
        v[i] = v[j];
        v[j] = t;
    }
}

hazard machine_random(memory *mem, tw_random *r) {
    machine m;
    int W = mem->o->s->n_workers, change[CHANGES];
    int *priority = calloc((size_t)W, sizeof *priority);
    if (!priority) abort();
    start(&m, mem->o);
    memory_restart(mem);
    for (int w = 0; w < W; w++) priority[w] = w;
    shuffle(priority, W, r);
    for (int i = 0; i < CHANGES; i++) change[i] = (int)tw_random_below(r, 2 * (uint64_t)mem->o->total + 1);
    hazard h = HAZARD_NONE;
    for (int n = 0; n < 2 * mem->o->total && h == HAZARD_NONE; n++) {
        for (int i = 0; i < CHANGES; i++)
            if (change[i] == n) shuffle(priority, W, r);
        int best = 0;
        while (best < W && !possible(&m, priority[best])) best++;
        h = best == W ? HAZARD_DEADLOCK : event(&m, mem, priority[best]);
    }
    stop(&m);
    free(priority);
    return h;
}

/* ---- all runs ---- */

typedef struct states {
    machine m;
    const memory *mem;
    int *keys; /* [slots][workers]: events + 1; 0: empty */
    int slots, count, limit;
    hazard fault;
    bool complete;
} states;

static bool seen(states *x) {
    int W = x->m.o->s->n_workers;
    uint64_t hash = 1469598103934665603u;
    for (int w = 0; w < W; w++) hash = (hash ^ (uint64_t)x->m.events[w]) * 1099511628211u;
    for (int slot = (int)(hash % (uint64_t)x->slots);; slot = (slot + 1) % x->slots) {
        int *key = x->keys + (size_t)slot * (size_t)W;
        if (!key[0]) {
            for (int w = 0; w < W; w++) key[w] = x->m.events[w] + 1;
            x->count++;
            return false;
        }
        bool same = true;
        for (int w = 0; w < W; w++) same = same && key[w] == x->m.events[w] + 1;
        if (same) return true;
    }
}

static void visit(states *x) {
    int W = x->m.o->s->n_workers;
    bool any = false, through = true;
    if (x->fault != HAZARD_NONE || seen(x)) return;
    if (x->count >= x->limit) {
        x->complete = false;
        return;
    }
    for (int w = 0; w < W && x->fault == HAZARD_NONE; w++) x->fault = state_fault(&x->m, x->mem, w);
    for (int w = 0; w < W && x->fault == HAZARD_NONE; w++) {
        through = through && instance_of(&x->m, w) < 0;
        if (!possible(&x->m, w)) continue;
        any = true;
        int arrive = running(&x->m, w) ? order_instr(x->m.o, instance_of(&x->m, w))->arrive : -1;
        happen(&x->m, w);
        visit(x);
        x->m.events[w]--;
        if (arrive >= 0) x->m.value[arrive]--;
    }
    if (!any && !through && x->fault == HAZARD_NONE) x->fault = HAZARD_DEADLOCK;
}

hazard machine_all(const memory *mem, int limit, bool *complete) {
    states x = {.mem = mem, .slots = 2 * limit + 1, .limit = limit, .complete = true};
    start(&x.m, mem->o);
    x.keys = calloc((size_t)x.slots * (size_t)mem->o->s->n_workers, sizeof *x.keys);
    if (!x.keys) abort();
    visit(&x);
    *complete = x.complete;
    stop(&x.m);
    free(x.keys);
    return x.fault;
}
