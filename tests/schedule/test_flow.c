/* SPDX-License-Identifier: Apache-2.0 */
/* Random small flows, against the definition: three steps as a graph, every pair of accesses looked at. Here nothing
   chains one step to the next but what the draw happens to order, so the rules between steps stand on their own. */
#include "support/support.h"

#include "base/clock.h"
#include "base/random.h"
#include "schedule/flow.h"

#include <stdio.h>
#include <string.h>

enum { WORKERS = 3, LENGTH = 4, TASKS = WORKERS * LENGTH, COUNTERS = 4, STEPS = 3, NODES = STEPS * TASKS, BYTES = 4 };
enum { FRESH, CACHE, TENANT /* Now and then in memory of FRESH. */, BUFFERS };

typedef struct drawn {
    tw_flow f;
    tw_flow_buffer buffers[BUFFERS];
    int first[WORKERS + 1];
    tw_flow_task tasks[TASKS];
    tw_access accesses[2 * TASKS];
    tw_wait waits[2 * TASKS];
} drawn;

static void name_task(const void *context, int task, char out[96]) {
    (void)context;
    snprintf(out, 96, "task %d", task);
}
static const char *name_counter(const void *context, int counter) {
    (void)context, (void)counter;
    return "counter";
}

static int below(tw_random *r, int n) {
    return (int)tw_random_below(r, (uint64_t)n);
}

/* Mostly sound: a ring of counters that workers arrive at and wait for, with something left out now and then. */
static void draw(drawn *d, tw_random *r) {
    int arrivals[COUNTERS] = {0}, tasks = 0, accesses = 0, waits = 0, workers = 1 + below(r, WORKERS);
    memset(d, 0, sizeof *d);
    d->buffers[FRESH] = (tw_flow_buffer){.name = "fresh", .kind = TW_FLOW_FRESH, .extent = {1, 1, BYTES}};
    const bool shared = below(r, 2);
    d->buffers[TENANT] = (tw_flow_buffer){.name = "tenant", .kind = TW_FLOW_FRESH, .extent = {1, 1, BYTES}};
    if (shared) {
        d->buffers[FRESH].below = BYTES;
        d->buffers[TENANT].at = below(r, 2) * BYTES / 2;
        d->buffers[TENANT].below = d->buffers[TENANT].at + BYTES;
    }
    d->buffers[CACHE] = (tw_flow_buffer){.name = "cache", .kind = TW_FLOW_CACHE, .extent = {1, 8, BYTES}};
    for (int w = 0; w < workers; w++) {
        d->first[w] = tasks;
        for (int i = 0, n = 1 + below(r, LENGTH); i < n; i++) {
            tw_flow_task *t = &d->tasks[tasks++];
            t->first_access = accesses;
            t->n_accesses = below(r, 3);
            for (int a = 0; a < t->n_accesses; a++) {
                tw_access *x = &d->accesses[accesses++];
                int lo = below(r, 2) * 2, buffer = below(r, 5) ? below(r, 2) : TENANT, write = below(r, 2);
                *x = (tw_access){buffer, write, {0, 0, lo}, {1, 1, lo + 2}};
                if (below(r, 3) == 0) x->lo[2] = 0, x->hi[2] = BYTES;
                if (buffer == CACHE && !write) x->lo[1] = below(r, 2) ? TW_KV_PAST : -1, x->hi[1] = below(r, 2);
            }
            t->arrive = below(r, COUNTERS + 1) - 1;
            if (t->arrive >= 0) arrivals[t->arrive]++;
        }
    }
    d->first[workers] = tasks;
    for (int t = 0; t < tasks; t++) {
        d->tasks[t].first_wait = waits;
        for (int c = 0; c < COUNTERS && d->tasks[t].n_waits < 2; c++)
            if (arrivals[c] && below(r, 3) == 0) {
                d->waits[waits++] = (tw_wait){c, arrivals[c]};
                d->tasks[t].n_waits++;
            }
    }
    d->f = (tw_flow){.buffers = d->buffers,
                     .n_buffers = BUFFERS,
                     .n_workers = workers,
                     .first = d->first,
                     .tasks = d->tasks,
                     .accesses = d->accesses,
                     .n_accesses = accesses,
                     .waits = d->waits,
                     .n_counters = COUNTERS,
                     .repeats = below(r, 4) > 0,
                     .last = d->first[1] - 1,
                     .name_task = name_task,
                     .name_counter = name_counter};
}

/* ---- the definition ---- */

typedef struct graph {
    const tw_flow *f;
    int steps, tasks;
    bool before[NODES][NODES]; /* [step * tasks + task] */
} graph;

static int worker_of(const tw_flow *f, int task) {
    int w = 0;
    while (task >= f->first[w + 1]) w++;
    return w;
}

static void make_graph(graph *g, const tw_flow *f) {
    int n = f->first[f->n_workers];
    *g = (graph){.f = f, .steps = f->repeats ? STEPS : 1, .tasks = n};
    int nodes = g->steps * n;
    for (int a = 0; a < nodes; a++)
        for (int b = 0; b < nodes; b++) {
            int ta = a % n, tb = b % n, sa = a / n, sb = b / n;
            bool ordered = worker_of(f, ta) == worker_of(f, tb) && (sa < sb || (sa == sb && ta < tb));
            for (int i = 0; i < f->tasks[tb].n_waits && f->tasks[ta].arrive >= 0; i++)
                ordered = ordered || (f->waits[f->tasks[tb].first_wait + i].counter == f->tasks[ta].arrive && sa <= sb);
            g->before[a][b] = ordered;
        }
    for (int k = 0; k < nodes; k++)
        for (int a = 0; a < nodes; a++)
            for (int b = 0; b < nodes; b++) g->before[a][b] |= g->before[a][k] && g->before[k][b];
}

static bool conflict(const graph *g, const tw_access *x, const tw_access *y, bool same_step) {
    if (x->buffer != y->buffer || (!x->write && !y->write)) return false;
    for (int d = 0; d < 3; d++) {
        bool any_row = d == 1 && g->f->buffers[x->buffer].kind == TW_FLOW_CACHE && !same_step;
        if (!any_row && (x->lo[d] >= y->hi[d] || y->lo[d] >= x->hi[d])) return false;
    }
    return true;
}

static bool ordered(const graph *g, int a, int b) {
    return a == b || g->before[a][b] || g->before[b][a];
}

static bool races(const graph *g) {
    int n = g->tasks;
    for (int a = 0; a < g->steps * n; a++)
        for (int b = a + 1; b < g->steps * n; b++) {
            const tw_flow_task *x = &g->f->tasks[a % n], *y = &g->f->tasks[b % n];
            for (int i = 0; i < x->n_accesses; i++)
                for (int j = 0; j < y->n_accesses; j++)
                    if (conflict(g, &g->f->accesses[x->first_access + i], &g->f->accesses[y->first_access + j],
                                 a / n == b / n) &&
                        !ordered(g, a, b))
                        return true;
        }
    return false;
}

/* Tells whether buffers that share memory are live at once in some run: in a step all accesses to one come before all
   those to the other, and all of a step before all of the next. */
static bool shares_badly(const graph *g) {
    int n = g->tasks, direction[STEPS] = {0};
    if (!g->f->buffers[FRESH].below) return false;
    for (int a = 0; a < g->steps * n; a++)
        for (int b = 0; b < g->steps * n; b++) {
            const tw_flow_task *x = &g->f->tasks[a % n], *y = &g->f->tasks[b % n];
            for (int i = 0; i < x->n_accesses; i++)
                for (int j = 0; j < y->n_accesses; j++) {
                    if (g->f->accesses[x->first_access + i].buffer != FRESH ||
                        g->f->accesses[y->first_access + j].buffer != TENANT)
                        continue;
                    int now = g->before[a][b] ? 1 : g->before[b][a] ? -1 : 0;
                    if (!now) return true;
                    if (a / n != b / n) continue;
                    if (direction[a / n] == -now) return true;
                    direction[a / n] = now;
                }
        }
    return false;
}

/* How often a byte was written before access `i` of task t in one step: by other tasks, or by this one earlier. */
static int written(const graph *g, int t, int i, int buffer, int byte) {
    int count = 0;
    for (int u = 0; u < g->tasks; u++)
        for (int k = 0; k < g->f->tasks[u].n_accesses; k++) {
            const tw_access *x = &g->f->accesses[g->f->tasks[u].first_access + k];
            bool first = u == t ? k < i : g->before[u][t];
            count += first && x->write && x->buffer == buffer && x->lo[2] <= byte && byte < x->hi[2];
        }
    return count;
}

static bool badly_read(const graph *g) {
    for (int t = 0; t < g->tasks; t++)
        for (int i = 0; i < g->f->tasks[t].n_accesses; i++) {
            const tw_access *x = &g->f->accesses[g->f->tasks[t].first_access + i];
            if (x->write || x->hi[1] < 1) continue; /* of a cache: only what lies before this step */
            int want = written(g, t, i, x->buffer, (int)x->lo[2]);
            for (int byte = (int)x->lo[2]; byte < x->hi[2]; byte++)
                if (!want || written(g, t, i, x->buffer, byte) != want) return true;
        }
    return false;
}

static bool deadlocks(const graph *g) {
    for (int a = 0; a < g->steps * g->tasks; a++)
        if (g->before[a][a]) return true;
    return false;
}

/* Arrivals of a step must all come before any of the next at the same counter, or they are taken for each other. */
static bool overlaps(const graph *g) {
    int n = g->tasks;
    for (int a = 0; a < n && g->steps > 1; a++)
        for (int b = 0; b < n; b++)
            if (g->f->tasks[a].arrive >= 0 && g->f->tasks[a].arrive == g->f->tasks[b].arrive && !g->before[a][n + b])
                return true;
    return false;
}

static bool ends_early(const graph *g) {
    for (int a = 0; a < g->tasks && g->f->repeats; a++)
        if (a != g->f->last && !g->before[a][g->f->last]) return true;
    return false;
}

enum { CASES = TEST_SANITIZED ? 40000 : 200000 };

static void the_check_says_what_the_definition_says(void **state) {
    (void)state;
    static graph g;
    uint64_t seed = (uint64_t)tw_now_ns();
    int accepted = 0, repeated = 0;
    for (int i = 0; i < CASES; i++) {
        tw_random r = tw_random_seed(seed + (uint64_t)i);
        drawn d;
        tw_report report;
        draw(&d, &r);
        make_graph(&g, &d.f);
        bool bad = deadlocks(&g) || races(&g) || badly_read(&g) || shares_badly(&g) || overlaps(&g) || ends_early(&g);
        assert_int_equal(tw_report_start(&report), TW_OK);
        assert_int_equal(tw_flow_check(&d.f, &report), TW_OK);
        if (bad != (report.count > 0))
            fail_msg("seed %llu: deadlock %d race %d read %d shared %d overlap %d early %d, but: %s",
                     (unsigned long long)(seed + (uint64_t)i), deadlocks(&g), races(&g), badly_read(&g),
                     shares_badly(&g), overlaps(&g), ends_early(&g),
                     report.count ? report.findings[0].text : "accepted");
        accepted += !bad;
        repeated += !bad && d.f.repeats;
        tw_report_free(&report);
    }
    print_message("%d of %d accepted, %d of them with steps that follow each other\n", accepted, CASES, repeated);
    assert_true(accepted > CASES / 667 && repeated > CASES / 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_check_says_what_the_definition_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
