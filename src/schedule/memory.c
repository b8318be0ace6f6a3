/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that an access comes after every earlier access that it conflicts with. Accesses before those are ordered too,
   since they were checked against them. So the last read and the last write of every worker are enough for each box,
   and an access is only compared with the boxes that overlap its own. */
#include "schedule/memory.h"

#include "schedule/clock.h"
#include "schedule/coverage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last access of each worker, index + 1: a list while there are few workers, otherwise an entry for each. */
typedef struct marks {
    int32_t *at;
    int *worker; /* NULL: `at` has an entry for each worker. */
    int count;
} marks;

/* The state of a box. Caches count rows from the step's position, which differs from step to step, so each step has its
   own marks. */
typedef struct state {
    marks write[2], read[2];
    int64_t count;    /* Writes in the first step. */
    int32_t *need;    /* For a box that overlaps many: the last write of each worker to any of them. */
    bool stale;       /* `need` is out of date. */
    bool unknown;     /* `seen` is not known. */
    tw_coverage seen; /* How often the box's bytes were written. */
} state;

/* A buffer whose memory others share. */
typedef struct tenant {
    const int *other; /* Buffers that share a byte of its memory. */
    int n_other;
    int32_t *at;  /* [worker]: the last access to the buffer, index + 1. */
    int *cleared; /* [worker]: in how many steps its accesses were found to come after those to others. */
    int gone;     /* The buffer that was accessed after this one in the first step, + 1. */
} tenant;

struct tw_memory {
    const tw_flow *f;
    tenant *tenant; /* [buffer] */
    tw_report *report;
    tw_boxes boxes; /* The arena of the boxes has all memory of the check. */
    state *state;
    tw_cover *room; /* Scratch for as many boxes as one box overlaps. */
    tw_race races[4];
    int n_races;
};

/* Tells whether a box has so many overlaps that one look at `need` is quicker than a look at each. */
static bool has_need(const tw_memory *m, const tw_box *b) {
    return b->n_near > 8 && b->n_near > m->f->n_workers / 8;
}

static bool is_cache(const tw_memory *m, const tw_box *b) {
    return m->f->buffers[b->buffer].kind == TW_FLOW_CACHE;
}

/* ---- opening ---- */

static void make_marks(tw_memory *m, marks *k, int workers) {
    int n = m->f->n_workers;
    if (!workers) return;
    if (workers > n / 8 && workers > 1) {
        k->at = tw_arena_array(&m->boxes.arena, (size_t)n, sizeof *k->at);
    } else {
        k->at = tw_arena_array(&m->boxes.arena, (size_t)workers, sizeof *k->at);
        k->worker = tw_arena_array(&m->boxes.arena, (size_t)workers, sizeof *k->worker);
    }
}

/* Makes the boxes' states. How many workers read and write a box decides how its marks are kept. */
static bool make_states(tw_memory *m) {
    const tw_flow *f = m->f;
    size_t n = (size_t)m->boxes.count + 1;
    int(*workers)[2] = calloc(2 * n, sizeof *workers), (*last)[2] = workers ? workers + n : NULL, most = 0;
    m->state = tw_arena_array(&m->boxes.arena, n, sizeof *m->state);
    bool ok = workers && m->state;
    for (int w = 0; w < f->n_workers && ok; w++)
        for (int t = f->first[w]; t < f->first[w + 1]; t++)
            for (int a = f->tasks[t].first_access, end = a + f->tasks[t].n_accesses; a < end; a++) {
                int b = m->boxes.of[a], write = f->accesses[a].write;
                if (b < 0 || last[b][write] == w + 1) continue;
                last[b][write] = w + 1;
                workers[b][write]++;
            }
    for (int b = 0; b < m->boxes.count && ok; b++) {
        state *s = &m->state[b];
        const tw_box *box = &m->boxes.box[b];
        for (int step = 0; step <= is_cache(m, box); step++) {
            make_marks(m, &s->read[step], workers[b][0]);
            make_marks(m, &s->write[step], workers[b][1]);
        }
        if (has_need(m, box)) s->need = tw_arena_array(&m->boxes.arena, (size_t)f->n_workers, sizeof *s->need);
        s->stale = s->unknown = true;
        if (box->n_near > most) most = box->n_near;
    }
    m->room = tw_arena_array(&m->boxes.arena, (size_t)most + 1, sizeof *m->room);
    free(workers);
    return ok && !m->boxes.arena.failed;
}

static bool shares(const tw_flow *f, int a, int b) {
    const tw_flow_buffer *x = &f->buffers[a], *y = &f->buffers[b];
    return a != b && x->at < y->below && y->at < x->below && x->at < x->below && y->at < y->below;
}

/* Finds which buffers share memory. */
static bool make_tenants(tw_memory *m) {
    const tw_flow *f = m->f;
    tw_arena *arena = &m->boxes.arena;
    m->tenant = tw_arena_array(arena, (size_t)f->n_buffers + 1, sizeof *m->tenant);
    for (int b = 0; b < f->n_buffers && !arena->failed; b++) {
        tenant *t = &m->tenant[b];
        for (int o = 0; o < f->n_buffers; o++) t->n_other += shares(f, b, o);
        if (!t->n_other) continue;
        int *other = tw_arena_array(arena, (size_t)t->n_other, sizeof *other), n = 0;
        t->at = tw_arena_array(arena, (size_t)f->n_workers, sizeof *t->at);
        t->cleared = tw_arena_array(arena, (size_t)f->n_workers, sizeof *t->cleared);
        for (int o = 0; o < f->n_buffers && other; o++)
            if (shares(f, b, o)) other[n++] = o;
        t->other = other;
    }
    return !arena->failed;
}

tw_status tw_memory_open(tw_memory **out, const tw_flow *f, tw_report *report) {
    tw_memory *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return TW_ERR_MEMORY;
    m->f = f;
    m->report = report;
    if (tw_boxes_find(&m->boxes, f) == TW_OK && make_states(m) && make_tenants(m)) {
        *out = m;
        return TW_OK;
    }
    tw_memory_close(m);
    return TW_ERR_MEMORY;
}

void tw_memory_close(tw_memory *m) {
    if (!m) return;
    tw_boxes_free(&m->boxes);
    free(m);
}

/* ---- accesses ---- */

typedef struct party {
    tw_memory *m;
    const tw_access *a;
    int worker;
    int64_t index;
    const int32_t *clock;
    bool told; /* The access has a finding, and needs no other. */
} party;

static void name_task(const tw_flow *f, char *out, size_t size, int worker, int64_t index) {
    char name[96];
    int n = f->first[worker + 1] - f->first[worker];
    f->name_task(f->context, f->first[worker] + (int)(index % n), name);
    snprintf(out, size, "%s%s", name, index >= n ? " (next step)" : "");
}

static void box_text(const tw_memory *m, const tw_access *a, char out[256]) {
    bool past = m->f->buffers[a->buffer].kind == TW_FLOW_CACHE && a->lo[1] == TW_KV_PAST;
    char from[24];
    snprintf(from, sizeof from, "%lld", (long long)a->lo[1]);
    snprintf(out, 256, "%.120s [%lld..%lld, %s..%lld, bytes %lld..%lld]", m->f->buffers[a->buffer].name,
             (long long)a->lo[0], (long long)a->hi[0], past ? "past" : from, (long long)a->hi[1], (long long)a->lo[2],
             (long long)a->hi[2]);
}

static void race(party *p, int other, int32_t at, bool wrote) {
    char me[128], them[128], box[256];
    if (p->told) return;
    p->told = true;
    name_task(p->m->f, me, sizeof me, p->worker, p->index);
    name_task(p->m->f, them, sizeof them, other, (int64_t)at - 1);
    box_text(p->m, p->a, box);
    if (p->m->n_races < (int)(sizeof p->m->races / sizeof *p->m->races))
        p->m->races[p->m->n_races++] = (tw_race){p->m->report->count, {other, p->worker}, {(int64_t)at - 1, p->index}};
    tw_report_add(p->m->report, "race", me, "%s %s, which %s %s; nothing orders them", p->a->write ? "writes" : "reads",
                  box, them, wrote ? "writes" : "reads");
}

static bool any_late(const marks *k, const int32_t *clock, int workers) {
    if (!k->worker) return k->at && tw_clock_exceeds(k->at, clock, workers);
    for (int i = 0; i < k->count; i++)
        if (k->at[i] > clock[k->worker[i]]) return true;
    return false;
}

/* Checks that all marked accesses come before this one. */
static inline void check_marks(party *p, const marks *k, bool wrote) {
    int n = p->m->f->n_workers;
    if (!any_late(k, p->clock, n)) return;
    for (int i = 0; i < (k->worker ? k->count : n); i++) {
        int w = k->worker ? k->worker[i] : i;
        if (k->at[i] > p->clock[w]) race(p, w, k->at[i], wrote);
    }
}

static void mark(marks *k, int worker, int64_t index) {
    if (!k->worker) {
        k->at[worker] = (int32_t)index + 1;
        return;
    }
    int i = 0;
    while (i < k->count && k->worker[i] != worker) i++;
    k->worker[i] = worker;
    k->at[i] = (int32_t)index + 1;
    if (i == k->count) k->count++;
}

static int32_t marked(const marks *k, int worker) {
    if (!k->worker) return k->at[worker];
    for (int i = 0; i < k->count; i++)
        if (k->worker[i] == worker) return k->at[i];
    return 0;
}

static void gather_need(const tw_memory *m, state *s, const tw_box *b) {
    memset(s->need, 0, (size_t)m->f->n_workers * sizeof *s->need);
    for (int i = 0; i < b->n_near; i++) {
        const marks *k = &m->state[b->near[i]].write[0];
        for (int j = 0; k->worker && j < k->count; j++)
            if (k->at[j] > s->need[k->worker[j]]) s->need[k->worker[j]] = k->at[j];
        if (k->at && !k->worker) tw_clock_join(s->need, k->at, m->f->n_workers);
    }
}

/* Checks that a read comes after the first step's writes that it overlaps, and a write after its reads as well. */
static void check_order(party *p, const tw_box *b, state *s) {
    if (s->need && !p->a->write && !is_cache(p->m, b)) {
        if (s->stale) gather_need(p->m, s, b);
        s->stale = false;
        if (!tw_clock_exceeds(s->need, p->clock, p->m->f->n_workers)) return;
    }
    for (int i = 0; i < b->n_near; i++) {
        const state *o = &p->m->state[b->near[i]];
        check_marks(p, &o->write[0], true);
        if (p->a->write) check_marks(p, &o->read[0], false);
    }
}

/* Checks a cache's access against those of the first step, whichever rows they were. */
static void check_across(party *p, const tw_box *b) {
    for (int i = 0; i < b->n_far; i++) {
        const state *o = &p->m->state[b->far[i]];
        check_marks(p, &o->write[0], true);
        if (p->a->write) check_marks(p, &o->read[0], false);
    }
}

static bool covers(const tw_cover *c, const int64_t lo[3], const int64_t hi[3]) {
    for (int d = 0; d < 3; d++)
        if (c->lo[d] > lo[d] || c->hi[d] < hi[d]) return false;
    return true;
}

/* Finds how often the bytes of box b were written that this step must write. In a cache, those are the rows from its
   position on. */
static bool look(tw_memory *m, const tw_box *b, state *s) {
    int64_t lo[3];
    int n = 0;
    memcpy(lo, b->lo, sizeof lo);
    if (is_cache(m, b) && lo[1] < 0) lo[1] = 0;
    s->unknown = false;
    s->seen = (tw_coverage){1, 1};
    if (lo[1] >= b->hi[1]) return true;
    for (int i = 0; i < b->n_near; i++) {
        const tw_box *o = &m->boxes.box[b->near[i]];
        tw_cover *c = &m->room[n];
        if (!m->state[b->near[i]].count) continue;
        n++;
        memcpy(c->lo, o->lo, sizeof c->lo);
        memcpy(c->hi, o->hi, sizeof c->hi);
        c->count = m->state[b->near[i]].count;
    }
    if (n == 1 && covers(&m->room[0], lo, b->hi)) {
        s->seen = (tw_coverage){m->room[0].count, m->room[0].count};
        return true;
    }
    return tw_coverage_of(m->room, n, lo, b->hi, &s->seen);
}

/* Checks that every byte that an access reads was written in this step, and all bytes equally often. A gap in what a
   stage writes leaves old bytes among new ones, and an overlap adds twice. */
static bool check_seen(party *p, const tw_box *b, state *s) {
    char me[128], box[256];
    if (s->unknown && !look(p->m, b, s)) return false;
    tw_coverage c = s->seen;
    if ((c.least > 0 && c.least == c.most) || p->told) return true;
    p->told = true;
    name_task(p->m->f, me, sizeof me, p->worker, p->index);
    box_text(p->m, p->a, box);
    if (!c.least)
        tw_report_add(p->m->report, "undefined read", me, "reads %s, part of which nothing before it has written", box);
    else
        tw_report_add(p->m->report, "coverage", me,
                      "reads %s, parts of which were written %lld times and parts %lld times", box, (long long)c.least,
                      (long long)c.most);
    return true;
}

static bool first_step(party *p, const tw_box *b, state *s) {
    check_order(p, b, s);
    if (!p->a->write && !check_seen(p, b, s)) return false;
    mark(p->a->write ? &s->write[0] : &s->read[0], p->worker, p->index);
    if (!p->a->write) return true;
    s->count++;
    for (int i = 0; i < b->n_near; i++) {
        state *o = &p->m->state[b->near[i]];
        o->stale = o->unknown = true;
    }
    return true;
}

/* Checks an access of the second step. Within the step everything is as in the first. Between the steps, a worker's
   first access to a box stands for those that follow it. */
static void second_step(party *p, const tw_box *b, state *s, int done) {
    bool cache = is_cache(p->m, b);
    marks *mine = p->a->write ? &s->write[cache] : &s->read[cache];
    if (marked(mine, p->worker) > done) return;
    if (cache)
        check_across(p, b);
    else
        check_order(p, b, s);
    mark(mine, p->worker, p->index);
}

/* Checks that an access comes after all accesses to buffers that share the buffer's memory, of which none follows in
   this step. Then no run has two of them live at once. */
static void check_tenant(party *p, int step) {
    tw_memory *m = p->m;
    tenant *t = &m->tenant[p->a->buffer];
    const char *name = m->f->buffers[p->a->buffer].name;
    char me[128], them[128];
    if (!t->n_other) return;
    t->at[p->worker] = (int32_t)p->index + 1;
    if (t->gone && !step) {
        name_task(m->f, me, sizeof me, p->worker, p->index);
        tw_report_add(m->report, "memory reuse", me, "%s %s, whose memory %s has taken",
                      p->a->write ? "writes" : "reads", name, m->f->buffers[t->gone - 1].name);
        return;
    }
    if (t->cleared[p->worker] > step) return;
    t->cleared[p->worker] = step + 1;
    for (int i = 0; i < t->n_other; i++) {
        tenant *o = &m->tenant[t->other[i]];
        const char *other = m->f->buffers[t->other[i]].name;
        for (int w = 0; w < m->f->n_workers; w++) {
            if (o->at[w]) o->gone = p->a->buffer + 1;
            /* An instruction's own accesses have no order. */
            if (o->at[w] <= (w == p->worker ? (int32_t)p->index : p->clock[w])) continue;
            name_task(m->f, me, sizeof me, p->worker, p->index);
            name_task(m->f, them, sizeof them, w, (int64_t)o->at[w] - 1);
            tw_report_add(m->report, "memory reuse", me,
                          "%s %s, whose memory %s still has: nothing orders %s before it",
                          p->a->write ? "writes" : "reads", name, other, them);
            return;
        }
    }
}

bool tw_memory_task(tw_memory *m, int worker, int64_t index, int step, const int32_t *clock) {
    const tw_flow *f = m->f;
    int n = f->first[worker + 1] - f->first[worker];
    const tw_flow_task *t = &f->tasks[f->first[worker] + index % n];
    for (int i = t->first_access; i < t->first_access + t->n_accesses; i++) {
        if (m->boxes.of[i] < 0) continue;
        check_tenant(&(party){m, &f->accesses[i], worker, index, clock, false}, step);
        const tw_box *b = &m->boxes.box[m->boxes.of[i]];
        state *s = &m->state[m->boxes.of[i]];
        party p = {m, &f->accesses[i], worker, index, clock, false};
        if (step)
            second_step(&p, b, s, n);
        else if (!first_step(&p, b, s))
            return false;
    }
    return true;
}

int tw_memory_races(const tw_memory *m, const tw_race **out) {
    *out = m->races;
    return m->n_races;
}

bool tw_memory_finish(tw_memory *m) {
    const int64_t zero[3] = {0, 0, 0};
    tw_cover *c = malloc(((size_t)m->boxes.count + 1) * sizeof *c);
    bool ok = c != NULL;
    for (int b = 0, from = 0; b < m->f->n_buffers && ok; b++) {
        const tw_flow_buffer *buffer = &m->f->buffers[b];
        tw_coverage seen;
        int n = 0;
        for (; from < m->boxes.count && m->boxes.box[from].buffer == b; from++) {
            memcpy(c[n].lo, m->boxes.box[from].lo, sizeof c->lo);
            memcpy(c[n].hi, m->boxes.box[from].hi, sizeof c->hi);
            c[n++].count = m->state[from].count;
        }
        if (buffer->kind != TW_FLOW_OUTPUT || buffer->extent[0] < 1 || buffer->extent[1] < 1 || buffer->extent[2] < 1)
            continue;
        ok = tw_coverage_of(c, n, zero, buffer->extent, &seen);
        if (ok && !seen.least)
            tw_report_add(m->report, "coverage", buffer->name, "part of this output is never written");
    }
    free(c);
    return ok;
}
