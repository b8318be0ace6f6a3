/* SPDX-License-Identifier: Apache-2.0 */
/* The order of tasks. Counters only grow, and a wait names all of a counter's arrivals. Therefore the set of tasks that
   can ever run does not depend on the interleaving. One greedy walk finds every deadlock, and its vector clocks are the
   happens-before order of every interleaving. Along the walk, memory.c sees each access once. If steps follow each
   other without a barrier, the walk covers two. */
#include "schedule/flow.h"

#include "schedule/clock.h"
#include "schedule/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const tw_flow *f;
    tw_report *report;
    tw_memory *memory;
    int steps;
    int64_t *arrivals;    /* [counter]: arrivals of a step. */
    int64_t *next;        /* [worker]: tasks done, over all steps. */
    int32_t *clock;       /* [worker][worker]: what each worker's next task comes after. */
    int32_t *joined;      /* [counter][worker]: what all arrivals so far come after. */
    int32_t *first_step;  /* [counter][worker]: last arrival of the first step, index + 1. */
    int64_t *count;       /* [counter]: arrivals so far. */
    const tw_race *races; /* Only in the second walk, which notes the clocks of the races' tasks. */
    int n_races;
    int32_t *taken; /* [race][2][worker] */
    tw_arena arena;
} walk;

static int length(const tw_flow *f, int w) {
    return f->first[w + 1] - f->first[w];
}

static const tw_flow_task *task_at(const tw_flow *f, int w, int64_t index) {
    return &f->tasks[f->first[w] + index % length(f, w)];
}

static const char *where_of(const tw_flow *f, char out[96], int w, int64_t index) {
    f->name_task(f->context, f->first[w] + (int)(index % length(f, w)), out);
    return out;
}

static const char *counter_name(const tw_flow *f, int counter) {
    return f->name_counter(f->context, counter);
}

/* Checks that every wait is for exactly the arrivals of a step. A wait for fewer would pass with any first few of
   several producers. More would never come. */
static bool joins_ok(walk *k) {
    const tw_flow *f = k->f;
    bool ok = true;
    char where[96];
    for (int t = 0; t < f->first[f->n_workers]; t++)
        if (f->tasks[t].arrive >= 0) k->arrivals[f->tasks[t].arrive]++;
    for (int t = 0; t < f->first[f->n_workers]; t++)
        for (int i = 0; i < f->tasks[t].n_waits; i++) {
            tw_wait wait = f->waits[f->tasks[t].first_wait + i];
            int64_t n = k->arrivals[wait.counter];
            if (wait.threshold == n && n > 0) continue;
            f->name_task(f->context, t, where);
            tw_report_add(k->report, wait.threshold > n || n == 0 ? "deadlock" : "partial join", where,
                          "waits for %lld arrivals at %s, which gets %lld a step%s", (long long)wait.threshold,
                          counter_name(f, wait.counter), (long long)n,
                          wait.threshold < n ? ": it may pass before all producers ran" : "");
            ok = false;
        }
    return ok;
}

static bool wait_met(const walk *k, const tw_flow_task *t, int64_t step) {
    for (int i = 0; i < t->n_waits; i++) {
        tw_wait w = k->f->waits[t->first_wait + i];
        if (k->count[w.counter] < w.threshold * (step + 1)) return false;
    }
    return true;
}

/* Checks that an arrival of the second step comes after every arrival of the first step at the same counter. Otherwise
   a wait of the first step could count it. */
static void check_steps_apart(walk *k, int w, int64_t index, int counter) {
    const tw_flow *f = k->f;
    int n = f->n_workers;
    char where[96], other[96];
    const int32_t *last = &k->first_step[(size_t)counter * n], *clock = &k->clock[(size_t)w * n];
    if (index < length(f, w)) return;
    for (int v = 0; v < n && tw_clock_exceeds(last, clock, n); v++) {
        if (clock[v] >= last[v]) continue;
        tw_report_add(k->report, "steps overlap", where_of(f, where, w, index),
                      "may arrive at %s for the next step before %s arrives there for this one",
                      counter_name(f, counter), where_of(f, other, v, last[v] - 1));
        return;
    }
}

static void arrive(walk *k, int w, int64_t index, int counter) {
    int n = k->f->n_workers;
    if (k->memory) check_steps_apart(k, w, index, counter);
    if (index < length(k->f, w)) k->first_step[(size_t)counter * n + w] = (int32_t)index + 1;
    tw_clock_join(&k->joined[(size_t)counter * n], &k->clock[(size_t)w * n], n);
    k->count[counter]++;
}

/* Checks that all tasks of a step come before the task that ends it, since the step's data may change after that
   task. */
static void check_all_joined(walk *k, int w, int64_t index) {
    const tw_flow *f = k->f;
    char where[96], other[96];
    if (f->first[w] + index != f->last) return;
    for (int v = 0; v < f->n_workers; v++)
        if (v != w && length(f, v) && k->clock[(size_t)w * f->n_workers + v] < (int32_t)length(f, v)) {
            tw_report_add(k->report, "not joined", where_of(f, where, w, index), "the step may end before %s has run",
                          where_of(f, other, v, length(f, v) - 1));
            return;
        }
}

static bool do_task(walk *k, int w) {
    const tw_flow *f = k->f;
    int n = f->n_workers;
    int64_t index = k->next[w]++;
    const tw_flow_task *t = task_at(f, w, index);
    int32_t *clock = &k->clock[(size_t)w * n];
    for (int i = 0; i < t->n_waits; i++)
        tw_clock_join(clock, &k->joined[(size_t)f->waits[t->first_wait + i].counter * n], n);
    clock[w] = (int32_t)index + 1;
    if (k->memory && !tw_memory_task(k->memory, w, index, index >= length(f, w), clock)) return false;
    if (k->memory && f->repeats) check_all_joined(k, w, index);
    if (t->arrive >= 0) arrive(k, w, index, t->arrive);
    for (int r = 0; r < 2 * k->n_races; r++)
        if (k->races[r / 2].worker[r % 2] == w && k->races[r / 2].index[r % 2] == index)
            memcpy(&k->taken[(size_t)r * n], clock, (size_t)n * sizeof *clock);
    return true;
}

/* Reports a deadlock: all workers that are not done wait. The cycle is found by following "waits for a counter, which
   lacks the arrival of" from the first stuck worker until a worker comes up again. */
static void report_deadlock(walk *k) {
    const tw_flow *f = k->f;
    char text[900] = "", where[96], first[96];
    size_t used = 0;
    bool *seen = tw_arena_array(&k->arena, (size_t)f->n_workers, sizeof *seen);
    /* The walk can only stop in the first step, since the second is the same. */
    int w = 0;
    while (w < f->n_workers - 1 && k->next[w] >= length(f, w)) w++;
    where_of(f, first, w, k->next[w]);
    while (seen && !seen[w]) {
        seen[w] = true;
        int64_t at = k->next[w], step = at / length(f, w);
        const tw_flow_task *t = task_at(f, w, at);
        int counter = -1, from = -1;
        for (int i = 0; i < t->n_waits && counter < 0; i++) {
            tw_wait wait = f->waits[t->first_wait + i];
            if (k->count[wait.counter] < wait.threshold * (step + 1)) counter = wait.counter;
        }
        for (int v = 0; v < f->n_workers && from < 0; v++)
            for (int64_t i = k->next[v]; i < (step + 1) * length(f, v) && from < 0; i++)
                if (task_at(f, v, i)->arrive == counter) from = v;
        if (counter < 0 || from < 0) break;
        int m = snprintf(text + used, sizeof text - used, "%s%s waits for %s", used ? "; " : "",
                         where_of(f, where, w, at), counter_name(f, counter));
        used = (size_t)m < sizeof text - used ? used + (size_t)m : sizeof text - 1;
        w = from;
    }
    tw_report_add(k->report, "deadlock", first, "no worker can go on: %s", text);
}

/* Walks each step as far as it goes. Nothing in a step waits for the next one. */
static bool walk_steps(walk *k) {
    const tw_flow *f = k->f;
    bool stuck = false;
    for (int step = 0; step < k->steps && !stuck; step++) {
        for (bool moved = true; moved;) {
            moved = false;
            for (int w = 0; w < f->n_workers; w++)
                for (int64_t end = (int64_t)(step + 1) * length(f, w); k->next[w] < end;) {
                    if (!wait_met(k, task_at(f, w, k->next[w]), step)) break;
                    if (!do_task(k, w)) return false;
                    moved = true;
                }
        }
        for (int w = 0; w < f->n_workers; w++) stuck = stuck || k->next[w] < (int64_t)(step + 1) * length(f, w);
    }
    return true;
}

static bool finish(walk *k) {
    const tw_flow *f = k->f;
    for (int w = 0; w < f->n_workers; w++)
        if (k->next[w] < k->steps * (int64_t)length(f, w)) {
            report_deadlock(k);
            return true;
        }
    return tw_memory_finish(k->memory);
}

static bool make_walk(walk *k) {
    size_t W = (size_t)k->f->n_workers, C = (size_t)k->f->n_counters + 1;
    k->steps = k->f->repeats ? 2 : 1;
    k->next = tw_arena_array(&k->arena, W, sizeof *k->next);
    k->clock = tw_arena_array(&k->arena, W * W, sizeof *k->clock);
    k->joined = tw_arena_array(&k->arena, C * W, sizeof *k->joined);
    k->first_step = tw_arena_array(&k->arena, C * W, sizeof *k->first_step);
    k->count = tw_arena_array(&k->arena, C, sizeof *k->count);
    return !k->arena.failed;
}

/* ---- explaining ---- */

/* Says what of the other's worker comes before a task, and that the other task is not among it. */
static int explain_side(const walk *k, const tw_race *r, int side, const int32_t *clock, char *out, size_t size) {
    char me[96], them[96], last[96] = "nothing";
    int other = r->worker[!side];
    int64_t before = clock[other];
    if (before > 0) where_of(k->f, last, other, before - 1);
    return snprintf(out, size, "%s comes after %s of that worker, not after %s. ",
                    where_of(k->f, me, r->worker[side], r->index[side]), last,
                    where_of(k->f, them, other, r->index[!side]));
}

/* Describes a run that reaches the race: what comes before either task, and nothing else. Then either may go first. */
static void explain_race(const walk *k, const tw_race *r, const int32_t *first, const int32_t *second) {
    char text[1000];
    size_t used = 0;
    int n = k->f->n_workers;
    used += (size_t)explain_side(k, r, 1, second, text, sizeof text);
    used += (size_t)explain_side(k, r, 0, first, text + used, sizeof text - used);
    int64_t total = 0;
    used += (size_t)snprintf(text + used, sizeof text - used, "Shortest run:");
    for (int w = 0; w < n; w++) {
        int64_t done = first[w] > second[w] ? first[w] : second[w];
        done -= (w == r->worker[0]) || (w == r->worker[1]); /* The two tasks are still to come. */
        total += done;
        if (done > 0 && used < sizeof text - 160)
            used += (size_t)snprintf(text + used, sizeof text - used, " workers[%d] does %lld,", w, (long long)done);
    }
    snprintf(text + used, sizeof text - used, " %lld instructions in all; then both may run at once", (long long)total);
    tw_report_say_how(k->report, r->finding, text);
}

static bool explain(const walk *first) {
    walk k = {.f = first->f, .report = first->report};
    size_t n = (size_t)k.f->n_workers;
    k.n_races = tw_memory_races(first->memory, &k.races);
    if (!k.n_races) return true;
    k.taken = tw_arena_array(&k.arena, 2 * n * (size_t)k.n_races, sizeof *k.taken);
    bool ok = k.taken && make_walk(&k) && walk_steps(&k);
    for (int r = 0; r < k.n_races && ok; r++)
        explain_race(&k, &k.races[r], &k.taken[2 * n * (size_t)r], &k.taken[2 * n * (size_t)r + n]);
    tw_arena_free(&k.arena);
    return ok;
}

tw_status tw_flow_check(const tw_flow *f, tw_report *report) {
    walk k = {.f = f, .report = report};
    k.arrivals = tw_arena_array(&k.arena, (size_t)f->n_counters + 1, sizeof *k.arrivals);
    bool ok = make_walk(&k);
    if (ok && joins_ok(&k)) {
        ok = tw_memory_open(&k.memory, f, report) == TW_OK && walk_steps(&k) && finish(&k) && explain(&k);
        tw_memory_close(k.memory);
    }
    tw_arena_free(&k.arena);
    return ok ? TW_OK : TW_ERR_MEMORY;
}
