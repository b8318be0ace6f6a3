/* SPDX-License-Identifier: Apache-2.0 */
#include "soundness/order.h"

#include <stdlib.h>
#include <string.h>

static void *room(void *old, int *have, int want, size_t size) {
    if (want <= *have) return old;
    *have = 2 * want + 1;
    void *p = realloc(old, (size_t)*have * size);
    if (!p) abort(); /* a test program: nothing to save */
    return p;
}

static void set_instances(order *o, const tw_schedule *s, int steps) {
    int W = s->n_workers, total = 0, have;
    for (int w = 0; w < W; w++) total += s->workers[w].count * steps;
    o->s = s;
    o->steps = steps;
    o->total = total;
    have = o->rooms[0];
    o->first = room(o->first, &have, W + 1, sizeof *o->first);
    o->at = room(o->at, &o->rooms[0], W + 1, sizeof *o->at);
    have = o->rooms[1];
    o->worker = room(o->worker, &have, total, sizeof *o->worker);
    o->run = room(o->run, &o->rooms[1], total, sizeof *o->run);
    o->reach = room(o->reach, &o->rooms[2], total * W, sizeof *o->reach);
    o->value = room(o->value, &o->rooms[3], s->n_counters + 1, sizeof *o->value);
    for (int w = 0, next = 0; w <= W; w++) {
        o->first[w] = next;
        for (int i = 0; w < W && i < s->workers[w].count * steps; i++) o->worker[next++] = w;
    }
}

static void restart(order *o) {
    memset(o->at, 0, (size_t)o->s->n_workers * sizeof *o->at);
    for (int c = 0; c < o->s->n_counters; c++) o->value[c] = o->s->counters[c].init;
    o->ran = 0;
}

bool order_wait_met(tw_wait wait, int64_t value, int step) {
    int64_t target;
    if (__builtin_mul_overflow(wait.threshold, (int64_t)step + 1, &target)) return wait.threshold < 0;
    return value >= target;
}

/* Runs worker w's next instance if it may begin. */
static bool advance(order *o, int w) {
    const tw_worker *list = &o->s->workers[w];
    if (o->at[w] == list->count * o->steps) return false;
    const tw_instr *in = &list->list[o->at[w] % list->count];
    int step = o->at[w] / list->count;
    for (int i = 0; i < in->n_waits; i++)
        if (!order_wait_met(in->waits[i], o->value[in->waits[i].counter], step)) return false;
    if (in->arrive >= 0) o->value[in->arrive]++;
    o->run[o->ran++] = o->first[w] + o->at[w]++;
    return true;
}

/* Everybody but `held` as far as they come. */
static void saturate(order *o, int held) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < o->s->n_workers; w++)
            while (w != held && advance(o, w)) moved = true;
    }
}

bool order_run(order *o, const tw_schedule *s, int steps) {
    set_instances(o, s, steps);
    restart(o);
    saturate(o, -1);
    return o->ran == o->total;
}

void order_reach(order *o) {
    int W = o->s->n_workers, total = o->total;
    for (int u = 0; u < W; u++) {
        /* What can run without a worker's next instruction grows as it goes on: each walk continues the last. */
        restart(o);
        for (int a = o->first[u]; a < o->first[u + 1]; a++) {
            saturate(o, u);
            memcpy(&o->reach[(size_t)a * (size_t)W], o->at, (size_t)W * sizeof *o->at);
            advance(o, u);
        }
    }
    restart(o);
    saturate(o, -1);
    if (o->ran != total) abort(); /* order_run said otherwise */
}

const tw_instr *order_instr(const order *o, int instance) {
    const tw_worker *w = &o->s->workers[o->worker[instance]];
    return &w->list[(instance - o->first[o->worker[instance]]) % w->count];
}

int order_step(const order *o, int instance) {
    int w = o->worker[instance];
    return (instance - o->first[w]) / o->s->workers[w].count;
}

bool order_concurrent(const order *o, int a, int b) {
    int W = o->s->n_workers, u = o->worker[a], v = o->worker[b];
    return b - o->first[v] < o->reach[(size_t)a * (size_t)W + (size_t)v] &&
           a - o->first[u] < o->reach[(size_t)b * (size_t)W + (size_t)u];
}

void order_free(order *o) {
    free(o->first);
    free(o->worker);
    free(o->run);
    free(o->reach);
    free(o->at);
    free(o->value);
    *o = (order){0};
}
