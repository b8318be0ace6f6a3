/* SPDX-License-Identifier: Apache-2.0 */
/* The static check. Counters only grow and a wait names all of a counter's arrivals, so the set of instructions that
   can ever run does not depend on the interleaving: one greedy walk over two consecutive steps finds every deadlock,
   and the vector clocks it computes are the happens-before order of every interleaving. Along the walk, a shadow of
   every buffer (shadow.c) sees each access once. */
#include "schedule/check.h"
#include "base/diag.h"
#include "schedule/effects.h"
#include "schedule/report.h"
#include "schedule/shadow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_checked {
    tw_schedule *schedule;
};

typedef struct check {
    const tw_schedule *s;
    tw_report *report;
    tw_arena arena;
    tw_access_list effects;
    int64_t *arrivals; /* [counter], a step */
    bool failed;       /* out of memory */
} check;

static const char *where_of(const check *c, char out[96], int worker, int64_t index) {
    const tw_worker *w = &c->s->workers[worker];
    tw_op_info info;
    tw_op_describe(w->list[index % w->count].op, &info);
    snprintf(out, 96, "workers[%d][%lld] %s", worker, (long long)(index % w->count), info.name);
    return out;
}

/* ---- structure: references, arity, kinds ---- */

static bool operands_ok(check *c, const char *where, const tw_instr *in) {
    tw_op_info info;
    tw_op_describe(in->op, &info);
    bool ok = true;
    for (int i = 0; i < TW_MAX_OPERANDS; i++) {
        int b = in->operand[i];
        const tw_operand_info *o = &info.operands[i];
        if (i >= info.n_operands ? b >= 0 : b < 0 && !o->optional) {
            tw_report_add(c->report, "arity", where, "operand %s is missing", i < info.n_operands ? o->name : "(none)");
            ok = false;
        } else if (b >= c->s->n_buffers) {
            tw_report_add(c->report, "reference", where, "operand %s names buffer %d of %d", o->name, b,
                          c->s->n_buffers);
            ok = false;
        } else if (b >= 0 && c->s->buffers[b].kind != o->kind) {
            bool writes = o->access != 'r';
            tw_buffer_kind k = c->s->buffers[b].kind;
            tw_report_add(c->report, writes && k == TW_BUFFER_WEIGHT ? "read-only" : "kind", where,
                          "operand %s must be of kind %s, but %s is of kind %s", o->name, tw_buffer_kind_name(o->kind),
                          c->s->buffers[b].name, tw_buffer_kind_name(k));
            ok = false;
        }
    }
    return ok;
}

static bool waits_ok(check *c, const char *where, const tw_instr *in) {
    bool ok = true;
    if (in->arrive < -1 || in->arrive >= c->s->n_counters) {
        tw_report_add(c->report, "reference", where, "arrives at counter %d of %d", in->arrive, c->s->n_counters);
        ok = false;
    }
    for (int i = 0; i < in->n_waits; i++)
        if (in->waits[i].counter < 0 || in->waits[i].counter >= c->s->n_counters) {
            tw_report_add(c->report, "reference", where, "waits for counter %d of %d", in->waits[i].counter,
                          c->s->n_counters);
            ok = false;
        }
    return ok;
}

static bool bounds_ok(check *c, const char *where, const tw_access *a) {
    const tw_buffer *b = &c->s->buffers[a->buffer];
    const int64_t extent[3] = {b->shape[0], b->kind == TW_BUFFER_KV ? c->s->tokens : b->shape[1],
                               tw_buffer_row_bytes(b)};
    for (int i = 0; i < 3; i++) {
        bool past = i == 1 && b->kind == TW_BUFFER_KV && !a->write;
        if ((a->lo[i] >= 0 || past) && a->hi[i] <= extent[i]) continue;
        tw_report_add(c->report, "bounds", where, "%s %s: %lld..%lld in dimension %d, which has %lld",
                      a->write ? "writes" : "reads", b->name, (long long)a->lo[i], (long long)a->hi[i], i,
                      (long long)extent[i]);
        return false;
    }
    return true;
}

static bool instr_ok(check *c, int worker, int i) {
    const tw_instr *in = &c->s->workers[worker].list[i];
    char where[96];
    tw_diag d;
    where_of(c, where, worker, i);
    bool ok = operands_ok(c, where, in);
    ok = waits_ok(c, where, in) && ok;
    if (!ok) return false;
    tw_status st = tw_instr_effects(c->s, in, &c->effects, &d);
    if (st == TW_ERR_MEMORY) c->failed = true;
    if (st != TW_OK) {
        if (!c->failed) tw_report_add(c->report, "shape", where, "%s", d.message);
        return false;
    }
    for (int a = 0; a < c->effects.count; a++) ok = bounds_ok(c, where, &c->effects.item[a]) && ok;
    bool first = worker == 0 && i == 0, last = worker == 0 && i == c->s->workers[0].count - 1;
    if ((in->op == TW_OP_INPUT) != first || (in->op == TW_OP_OUTPUT) != last) {
        tw_report_add(c->report, "structure", where,
                      "input is the first instruction of worker 0 and output its last, and they are nowhere else");
        ok = false;
    }
    return ok;
}

/* Counters: initial zero, and every wait for exactly the arrivals of a step. Fewer would let a wait pass with any first
   few of several producers; more would never come. */
static bool counters_ok(check *c) {
    const tw_schedule *s = c->s;
    bool ok = true;
    char where[96];
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].arrive >= 0) c->arrivals[s->workers[w].list[i].arrive]++;
    for (int i = 0; i < s->n_counters; i++)
        if (s->counters[i].init != 0) {
            snprintf(where, sizeof where, "counter %.80s", s->counters[i].name);
            tw_report_add(c->report, "counter init", where,
                          "starts at %lld: waits would pass before their producers ran",
                          (long long)s->counters[i].init);
            ok = false;
        }
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            for (int k = 0; k < s->workers[w].list[i].n_waits; k++) {
                tw_wait wait = s->workers[w].list[i].waits[k];
                int64_t n = c->arrivals[wait.counter];
                if (wait.threshold == n && n > 0) continue;
                tw_report_add(c->report, wait.threshold > n || n == 0 ? "deadlock" : "partial join",
                              where_of(c, where, w, i), "waits for %lld arrivals at %s, which gets %lld a step%s",
                              (long long)wait.threshold, s->counters[wait.counter].name, (long long)n,
                              wait.threshold < n ? ": it may pass before all producers ran" : "");
                ok = false;
            }
    return ok;
}

static bool structure_ok(check *c) {
    const tw_schedule *s = c->s;
    bool ok = true;
    c->arrivals = tw_arena_array(&c->arena, (size_t)s->n_counters + 1, sizeof *c->arrivals);
    if (!c->arrivals) return !(c->failed = true);
    if (!s->workers[0].count) {
        tw_report_add(c->report, "structure", "workers[0]", "has no instructions: input and output belong there");
        return false;
    }
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count && !c->failed; i++) ok = instr_ok(c, w, i) && ok;
    return !c->failed && ok && counters_ok(c);
}

/* ---- order: the walk over two steps ---- */

typedef struct walk {
    check *c;
    tw_shadow *shadow;
    int64_t *next;        /* [worker]: instructions done, over both steps */
    uint32_t *clock;      /* [worker][worker]: what each worker's next instruction comes after */
    uint32_t *joined;     /* [counter][worker]: what all arrivals so far come after */
    uint32_t *first_step; /* [counter][worker]: last arrival of the first step, index + 1 */
    int64_t *count;       /* [counter]: arrivals so far */
} walk;

enum { STEPS = 2 };

static bool wait_met(const walk *k, const tw_instr *in, int64_t step) {
    for (int i = 0; i < in->n_waits; i++)
        if (k->count[in->waits[i].counter] < in->waits[i].threshold * (step + 1)) return false;
    return true;
}

static void join(uint32_t *into, const uint32_t *from, int n) {
    for (int i = 0; i < n; i++) into[i] = into[i] > from[i] ? into[i] : from[i];
}

/* An arrival of the second step must come after every arrival of the first at the same counter; otherwise a wait of the
   first step could count it. */
static void check_steps_apart(walk *k, int w, int64_t index, int counter) {
    const check *c = k->c;
    int n = c->s->n_workers;
    char where[96], other[96];
    bool second = index >= c->s->workers[w].count;
    for (int v = 0; v < n; v++) {
        uint32_t last = k->first_step[(size_t)counter * n + v];
        if (!second || k->clock[(size_t)w * n + v] >= last) continue;
        tw_report_add(c->report, "steps overlap", where_of(c, where, w, index),
                      "may arrive at %s for the next step before %s arrives there for this one",
                      c->s->counters[counter].name, where_of(c, other, v, last - 1));
        return;
    }
    if (second && k->count[counter] < c->arrivals[counter])
        tw_report_add(c->report, "steps overlap", where_of(c, where, w, index),
                      "may arrive at %s for the next step before all arrivals of this one",
                      c->s->counters[counter].name);
}

static void arrive(walk *k, int w, int64_t index, int counter) {
    int n = k->c->s->n_workers;
    check_steps_apart(k, w, index, counter);
    if (index < k->c->s->workers[w].count) k->first_step[(size_t)counter * n + w] = (uint32_t)index + 1;
    join(&k->joined[(size_t)counter * n], &k->clock[(size_t)w * n], n);
    k->count[counter]++;
}

/* The step ends with output: everything must come before it, since the machine's step data change after it. */
static void check_all_joined(walk *k, int64_t index) {
    const tw_schedule *s = k->c->s;
    char where[96], other[96];
    for (int v = 1; v < s->n_workers && index < s->workers[0].count; v++)
        if (s->workers[v].count && k->clock[v] < (uint32_t)s->workers[v].count) {
            tw_report_add(k->c->report, "not joined", where_of(k->c, where, 0, index),
                          "the step may end before %s has run", where_of(k->c, other, v, s->workers[v].count - 1));
            return;
        }
}

static void step_instr(walk *k, int w) {
    check *c = k->c;
    const tw_worker *worker = &c->s->workers[w];
    int n = c->s->n_workers;
    int64_t index = k->next[w]++;
    const tw_instr *in = &worker->list[index % worker->count];
    uint32_t *clock = &k->clock[(size_t)w * n];
    for (int i = 0; i < in->n_waits; i++) join(clock, &k->joined[(size_t)in->waits[i].counter * n], n);
    clock[w] = (uint32_t)index + 1;
    if (tw_instr_effects(c->s, in, &c->effects, NULL) != TW_OK) {
        c->failed = true;
        return;
    }
    for (int a = 0; a < c->effects.count; a++)
        tw_shadow_access(k->shadow, &c->effects.item[a], w, index, index >= worker->count, clock);
    if (in->op == TW_OP_OUTPUT) check_all_joined(k, index);
    if (in->arrive >= 0) arrive(k, w, index, in->arrive);
}

/* Everybody who still has something to do waits. Follows "waits for a counter, which lacks the arrival of" from the
   first stuck worker until a worker comes up again. */
static void report_deadlock(walk *k) {
    const tw_schedule *s = k->c->s;
    char text[900] = "", where[96], first[96];
    size_t used = 0;
    bool *seen = tw_arena_array(&k->c->arena, (size_t)s->n_workers, sizeof *seen);
    int w = 0;
    while (w < s->n_workers - 1 && k->next[w] >= STEPS * (int64_t)s->workers[w].count) w++;
    where_of(k->c, first, w, k->next[w]);
    while (seen && !seen[w]) {
        seen[w] = true;
        int64_t at = k->next[w], step = at / s->workers[w].count;
        const tw_instr *in = &s->workers[w].list[at % s->workers[w].count];
        int counter = -1, from = -1;
        for (int i = 0; i < in->n_waits && counter < 0; i++)
            if (k->count[in->waits[i].counter] < in->waits[i].threshold * (step + 1)) counter = in->waits[i].counter;
        for (int v = 0; v < s->n_workers && from < 0; v++)
            for (int64_t i = k->next[v]; i < (step + 1) * s->workers[v].count; i++)
                if (s->workers[v].list[i % s->workers[v].count].arrive == counter) from = v;
        if (counter < 0 || from < 0) break;
        int m = snprintf(text + used, sizeof text - used, "%s%s waits for %s", used ? "; " : "",
                         where_of(k->c, where, w, at), s->counters[counter].name);
        used = (size_t)m < sizeof text - used ? used + (size_t)m : sizeof text - 1;
        w = from;
    }
    tw_report_add(k->c->report, "deadlock", first, "no worker can go on: %s", text);
}

static void walk_steps(walk *k) {
    const tw_schedule *s = k->c->s;
    for (bool moved = true; moved && !k->c->failed;) {
        moved = false;
        for (int w = 0; w < s->n_workers; w++)
            for (int64_t n = s->workers[w].count; k->next[w] < STEPS * n && !k->c->failed;) {
                if (!wait_met(k, &s->workers[w].list[k->next[w] % n], k->next[w] / n)) break;
                step_instr(k, w);
                moved = true;
            }
    }
    for (int w = 0; w < s->n_workers; w++)
        if (k->next[w] < STEPS * (int64_t)s->workers[w].count && !k->c->failed) {
            report_deadlock(k);
            return;
        }
}

static void check_order(check *c) {
    size_t W = (size_t)c->s->n_workers, C = (size_t)c->s->n_counters + 1;
    walk k = {.c = c};
    k.next = tw_arena_array(&c->arena, W, sizeof *k.next);
    k.clock = tw_arena_array(&c->arena, W * W, sizeof *k.clock);
    k.joined = tw_arena_array(&c->arena, C * W, sizeof *k.joined);
    k.first_step = tw_arena_array(&c->arena, C * W, sizeof *k.first_step);
    k.count = tw_arena_array(&c->arena, C, sizeof *k.count);
    if (c->arena.failed || tw_shadow_open(&k.shadow, c->s, c->report) != TW_OK) {
        c->failed = true;
        return;
    }
    if (tw_shadow_feasible(k.shadow)) {
        walk_steps(&k);
        if (!c->failed) tw_shadow_finish(k.shadow);
    }
    tw_shadow_close(k.shadow);
}

tw_status tw_schedule_examine(const tw_schedule *s, tw_report *report, tw_diag *diag) {
    check c = {.s = s, .report = report};
    if (structure_ok(&c) && !c.failed) check_order(&c);
    tw_arena_free(&c.arena);
    tw_access_list_free(&c.effects);
    if (c.failed) return tw_fail_memory(diag);
    if (!report->count && !report->cut) return TW_OK;
    const tw_finding *f = report->count ? report->findings : NULL;
    return tw_fail(diag, TW_ERR_REJECTED, "the schedule is unsafe: %s: %s: %s", f ? f->where : "", f ? f->rule : "",
                   f ? f->text : "");
}

tw_status tw_schedule_check(tw_checked **out, tw_schedule **s, tw_report *report, tw_diag *diag) {
    tw_report own;
    tw_report *r = report ? report : &own;
    *out = NULL;
    if (tw_report_start(r) != TW_OK) return tw_fail_memory(diag);
    tw_status st = tw_schedule_examine(*s, r, diag);
    if (st == TW_OK) {
        *out = malloc(sizeof **out);
        if (!*out) st = tw_fail_memory(diag);
    }
    if (st == TW_OK) {
        (*out)->schedule = *s;
        *s = NULL;
    }
    if (!report) tw_report_free(&own);
    return st;
}

void tw_checked_free(tw_checked *c) {
    if (!c) return;
    tw_schedule_free(c->schedule);
    free(c);
}

const tw_schedule *tw_checked_schedule(const tw_checked *c) {
    return c->schedule;
}
