/* SPDX-License-Identifier: Apache-2.0 */
/* Where a task needs what another worker's task has written, it waits for a counter at which that task alone arrives.
   Of each worker it waits for the last such task, unless what it has waited for before came after that. */
#include "base/diag.h"
#include "schedule/clock.h"
#include "vm/network/deal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A box that a task has written. */
typedef struct written {
    tw_access box;
    int worker, index;
} written;

typedef struct writers {
    written *item;
    int count, room;
} writers;

typedef struct state {
    tw_ranges *r;
    int workers;
    tw_access_list boxes;
    writers *writers;    /* [buffer] */
    tw_network_use *use; /* [buffer] */
    int32_t **clocks;    /* [worker][task * workers + other]: how many of the other's tasks come before the task. */
    int32_t *need;       /* [worker]: how many of its tasks must come before the task at hand. */
    tw_arena arena;
} state;

static bool meet(const tw_access *x, const tw_access *y) {
    for (int d = 1; d < 3; d++)
        if (x->lo[d] >= y->hi[d] || y->lo[d] >= x->hi[d]) return false;
    return true;
}

static void need_task(state *s, int worker, int index) {
    if (s->need[worker] < index + 1) s->need[worker] = index + 1;
}

/* What the boxes of a task need. */
static void find_need(state *s) {
    memset(s->need, 0, (size_t)s->workers * sizeof *s->need);
    for (int i = 0; i < s->boxes.count; i++) {
        const tw_access *a = &s->boxes.item[i];
        const writers *w = &s->writers[a->buffer];
        for (int k = 0; k < w->count; k++)
            if (meet(a, &w->item[k].box)) need_task(s, w->item[k].worker, w->item[k].index);
    }
}

static bool add_writer(state *s, const tw_access *box, tw_network_place at) {
    writers *w = &s->writers[box->buffer];
    if (w->count == w->room) {
        int room = w->room ? 2 * w->room : 8;
        written *p = tw_arena_array(&s->arena, (size_t)room, sizeof *p);
        if (!p) return false;
        if (w->count) memcpy(p, w->item, (size_t)w->count * sizeof *p);
        w->item = p;
        w->room = room;
    }
    w->item[w->count++] = (written){*box, at.worker, at.index};
    return true;
}

static tw_range_task *task_at(const state *s, int worker, int index) {
    return &s->r->workers[worker].list[index];
}

static int32_t *clock_of(const state *s, int worker, int index) {
    return &s->clocks[worker][(size_t)index * (size_t)s->workers];
}

/* Lets a task wait for another worker's task. */
static void wait_for(state *s, tw_network_place at, int worker) {
    const int index = s->need[worker] - 1;
    tw_range_task *other = task_at(s, worker, index);
    if (other->arrive < 0) {
        char name[64];
        snprintf(name, sizeof name, "%d.%d", worker, index);
        other->arrive = tw_ranges_add_counter(s->r, name);
    }
    tw_ranges_add_wait(s->r, task_at(s, at.worker, at.index), other->arrive, 1);
    tw_clock_join(clock_of(s, at.worker, at.index), clock_of(s, worker, index), s->workers);
}

/* Notes that a task accesses a buffer. */
static void note_use(state *s, tw_network_use *u, tw_network_place at, const int32_t *clock) {
    const bool first = !u->last;
    if (first) {
        u->last = tw_arena_array(&s->arena, (size_t)s->workers, sizeof *u->last);
        u->before = tw_arena_array(&s->arena, (size_t)s->workers, sizeof *u->before);
    }
    if (!u->last || !u->before) return;
    for (int w = 0; w < s->workers && !u->last[at.worker]; w++) {
        /* A task's own accesses have no order. */
        const int32_t before = w == at.worker ? at.index : clock[w];
        if (first || before < u->before[w]) u->before[w] = before;
    }
    u->last[at.worker] = at.index + 1;
}

static tw_status add_waits(state *s, tw_network_place at, tw_diag *diag) {
    int32_t *clock = clock_of(s, at.worker, at.index);
    s->boxes.count = 0;
    tw_status st = tw_ranges_effects(s->r, task_at(s, at.worker, at.index), &s->boxes, diag);
    if (st != TW_OK) return st;
    find_need(s);
    if (at.index) memcpy(clock, clock_of(s, at.worker, at.index - 1), (size_t)s->workers * sizeof *clock);
    clock[at.worker] = at.index + 1;
    for (int w = 0; w < s->workers; w++)
        if (w != at.worker && s->need[w] > clock[w]) wait_for(s, at, w);
    for (int i = 0; i < s->boxes.count; i++) {
        const tw_access *a = &s->boxes.item[i];
        note_use(s, &s->use[a->buffer], at, clock);
        if (a->write && !add_writer(s, a, at)) return tw_fail_memory(diag);
    }
    return s->r->arena.failed || s->arena.failed ? tw_fail_memory(diag) : TW_OK;
}

tw_status tw_network_waits(tw_ranges *r, const tw_network_place *order, int n, tw_diag *diag) {
    const size_t W = (size_t)r->n_workers, B = (size_t)r->n_buffers + 1;
    state s = {.r = r, .workers = r->n_workers};
    s.writers = tw_arena_array(&s.arena, B, sizeof *s.writers);
    s.use = tw_arena_array(&s.arena, B, sizeof *s.use);
    s.need = tw_arena_array(&s.arena, W, sizeof *s.need);
    s.clocks = tw_arena_array(&s.arena, W, sizeof *s.clocks);
    for (size_t w = 0; w < W && s.clocks; w++)
        s.clocks[w] = tw_arena_array(&s.arena, ((size_t)r->workers[w].count + 1) * W, sizeof *s.clocks[w]);
    tw_status st = s.arena.failed ? tw_fail_memory(diag) : TW_OK;
    for (int i = 0; i < n && st == TW_OK; i++) st = add_waits(&s, order[i], diag);
    if (st == TW_OK) st = tw_network_reuse(r, s.use, diag);
    tw_access_list_free(&s.boxes);
    tw_arena_free(&s.arena);
    return st;
}
