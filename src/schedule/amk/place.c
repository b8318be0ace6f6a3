/* SPDX-License-Identifier: Apache-2.0 */
/* Assigns tasks to workers. Tasks that name an SM are its queue, in the order of the list. The others may run anywhere,
   whenever their waits allow, so being on one worker must not order them. A worker takes such a task only if everything
   it has so far comes before that task by waits alone. That needs as many workers as tasks run at once, not as there
   are tasks.

   Tasks are visited in an order in which they could run. Each counter has a vector clock of what all of its producers
   come after. A wait for fewer than all of them orders nothing. Tasks that can never run are dealt out so that the
   deadlock remains and its cycle is seen: the members of one cycle have separate workers. */
#include "schedule/amk/ir.h"

#include <stdlib.h>
#include <string.h>

enum { CYCLE_WORKERS = 64 };

/* More clock entries than this are rejected: they would take more than 256 MB. */
static const int64_t MAX_ENTRIES = INT64_C(1) << 26;

typedef struct clock_row {
    uint32_t *at;
    int width;
} clock_row;

typedef struct place {
    const tw_amk *p;
    amk_placing *out;
    int *missing;        /* [task]: waits that are not met, plus 1 while its queue has an earlier task. */
    int *arrivals;       /* [counter]: arrivals to come. */
    int *first, *waiter; /* [counter + 1]: where its tasks begin in `waiter`, the tasks that wait. */
    int *queue, *next;   /* [task]: the worker of its SM, and the next task of that queue. */
    clock_row *counter;  /* [counter] */
    clock_row *worker;   /* [worker]: for queues, what the next task comes after. */
    uint32_t *length;    /* [worker] */
    clock_row clock;     /* Clock of the current task: what it comes after. */
    int n_queues, room;  /* `room`: entries of `worker` and `length`. */
    int64_t entries;
    bool failed, too_wide;
} place;

static bool widen(place *k, clock_row *row, int width) {
    if (row->width >= width) return true;
    int to = row->width + row->width / 2;
    if (to < width) to = (width + 15) / 16 * 16;
    k->entries += to - row->width;
    k->too_wide = k->too_wide || k->entries > MAX_ENTRIES;
    uint32_t *at = k->too_wide ? NULL : realloc(row->at, (size_t)to * sizeof *at);
    if (!at) {
        k->failed = true;
        return false;
    }
    memset(at + row->width, 0, (size_t)(to - row->width) * sizeof *at);
    *row = (clock_row){at, to};
    return true;
}

static void join(place *k, clock_row *into, const clock_row *from) {
    int n = from->width < k->out->n_workers ? from->width : k->out->n_workers;
    if (!n || !widen(k, into, n)) return;
    for (int i = 0; i < n; i++) into->at[i] = into->at[i] > from->at[i] ? into->at[i] : from->at[i];
}

static int add_worker(place *k) {
    if (k->out->n_workers == k->room) {
        int room = k->room < 16 ? 16 : k->room * 2;
        clock_row *w = realloc(k->worker, (size_t)room * sizeof *w);
        if (w) k->worker = w;
        uint32_t *n = realloc(k->length, (size_t)room * sizeof *n);
        if (n) k->length = n;
        if (!w || !n) {
            k->failed = true;
            return 0;
        }
        memset(w + k->room, 0, (size_t)(room - k->room) * sizeof *w);
        memset(n + k->room, 0, (size_t)(room - k->room) * sizeof *n);
        k->room = room;
    }
    return k->out->n_workers++;
}

static bool waits_for_all(const tw_amk *p, const tw_wait *w) {
    return w->threshold == p->counters[w->counter].producers;
}

/* ---- queues of SMs ---- */

typedef struct bound {
    int64_t sm;
    int task;
} bound;

static int by_sm(const void *a, const void *b) {
    const bound *x = a, *y = b;
    if (x->sm != y->sm) return x->sm < y->sm ? -1 : 1;
    return x->task < y->task ? -1 : x->task > y->task;
}

static void find_queues(place *k, tw_arena *arena) {
    const tw_amk *p = k->p;
    bound *list = tw_arena_array(arena, (size_t)p->n_tasks + 1, sizeof *list);
    size_t n = 0;
    if (!list) return;
    for (int i = 0; i < p->n_tasks; i++) {
        k->queue[i] = k->next[i] = -1;
        if (p->tasks[i].pinned) list[n++] = (bound){p->tasks[i].sm, i};
    }
    qsort(list, n, sizeof *list, by_sm);
    for (size_t i = 0; i < n && !k->failed; i++) {
        bool same = i && list[i - 1].sm == list[i].sm;
        k->queue[list[i].task] = same ? k->queue[list[i - 1].task] : add_worker(k);
        if (!same) continue;
        k->next[list[i - 1].task] = list[i].task;
        k->missing[list[i].task]++;
    }
    k->n_queues = k->out->n_workers;
}

/* ---- the walk ---- */

static void find_waiters(place *k, tw_arena *arena) {
    const tw_amk *p = k->p;
    size_t n = 0;
    for (int i = 0; i < p->n_tasks; i++) n += (size_t)p->tasks[i].n_waits;
    k->waiter = tw_arena_array(arena, n + 1, sizeof *k->waiter);
    if (arena->failed) return;
    for (int i = 0; i < p->n_counters; i++) k->arrivals[i] = p->counters[i].producers;
    for (int i = 0; i < p->n_tasks; i++)
        for (int w = 0; w < p->tasks[i].n_waits; w++) k->first[p->tasks[i].waits[w].counter + 1]++;
    for (int i = 0; i < p->n_counters; i++) k->first[i + 1] += k->first[i];
    for (int i = p->n_tasks - 1; i >= 0; i--)
        for (int w = 0; w < p->tasks[i].n_waits; w++) {
            int c = p->tasks[i].waits[w].counter;
            k->missing[i] += k->arrivals[c] > 0;
            k->waiter[--k->first[c + 1]] = i;
        }
    /* Filling moved each bound to its start. first[c + 1] is where counter c's list begins. */
    memmove(k->first, k->first + 1, (size_t)p->n_counters * sizeof *k->first);
    k->first[p->n_counters] = (int)n;
}

static int choose_worker(place *k, int task) {
    if (k->queue[task] >= 0) return k->queue[task];
    int known = k->clock.width < k->out->n_workers ? k->clock.width : k->out->n_workers;
    for (int w = k->n_queues; w < known; w++)
        if (k->clock.at[w] == k->length[w]) return w;
    return add_worker(k);
}

static void run(place *k, int task) {
    const tw_amk *p = k->p;
    const amk_task *t = &p->tasks[task];
    memset(k->clock.at, 0, (size_t)k->clock.width * sizeof *k->clock.at);
    for (int i = 0; i < t->n_waits; i++)
        if (waits_for_all(p, &t->waits[i])) join(k, &k->clock, &k->counter[t->waits[i].counter]);
    if (k->queue[task] >= 0) join(k, &k->clock, &k->worker[k->queue[task]]);
    int w = choose_worker(k, task);
    if (k->failed || !widen(k, &k->clock, k->out->n_workers)) return;
    k->out->worker[task] = w;
    k->clock.at[w] = ++k->length[w];
    join(k, &k->counter[t->out_counter], &k->clock);
    if (k->queue[task] >= 0) join(k, &k->worker[w], &k->clock);
}

static void walk(place *k) {
    const tw_amk *p = k->p;
    int *order = k->out->order, ready = 0, done = 0;
    for (int i = 0; i < p->n_tasks; i++)
        if (!k->missing[i]) order[ready++] = i;
    for (; done < ready && !k->failed; done++) {
        int task = order[done], c = p->tasks[task].out_counter, next = k->next[task];
        run(k, task);
        if (next >= 0 && !--k->missing[next]) order[ready++] = next;
        if (--k->arrivals[c]) continue;
        for (int i = k->first[c]; i < k->first[c + 1]; i++)
            if (!--k->missing[k->waiter[i]]) order[ready++] = k->waiter[i];
    }
    k->out->n_runnable = done;
}

/* ---- what never runs ---- */

/* Finds a task that `task` waits for and that never runs either. */
static int blocker(const place *k, const int *producer, const int *before, int task) {
    const amk_task *t = &k->p->tasks[task];
    for (int i = 0; i < t->n_waits; i++)
        if (k->arrivals[t->waits[i].counter] > 0) return producer[t->waits[i].counter];
    return before[task];
}

static void place_stuck(place *k, tw_arena *arena) {
    const tw_amk *p = k->p;
    int *producer = tw_arena_array(arena, (size_t)p->n_counters + 1, sizeof *producer);
    int *before = tw_arena_array(arena, (size_t)p->n_tasks + 1, sizeof *before);
    char *seen = tw_arena_array(arena, (size_t)p->n_tasks + 1, 1);
    int at = k->out->n_runnable, stuck = -1, rest = -1;
    if (arena->failed || k->failed || at == p->n_tasks) return;
    for (int i = p->n_tasks - 1; i >= 0; i--) {
        if (k->next[i] >= 0) before[k->next[i]] = i;
        if (k->out->worker[i] >= 0) continue;
        producer[p->tasks[i].out_counter] = i;
        stuck = i;
    }
    for (; !seen[stuck]; stuck = blocker(k, producer, before, stuck)) seen[stuck] = 1;
    for (int n = 0; n < CYCLE_WORKERS && seen[stuck] == 1; stuck = blocker(k, producer, before, stuck), n++) {
        seen[stuck] = 2;
        if (k->queue[stuck] < 0) k->out->worker[stuck] = add_worker(k);
    }
    for (int i = 0; i < p->n_tasks && !k->failed; i++) {
        if (k->out->worker[i] >= 0 && seen[i] != 2) continue;
        k->out->order[at++] = i;
        if (k->out->worker[i] >= 0) continue;
        if (k->queue[i] < 0 && rest < 0) rest = add_worker(k);
        k->out->worker[i] = k->queue[i] < 0 ? rest : k->queue[i];
    }
}

tw_status amk_place(const tw_amk *p, tw_arena *arena, amk_placing *out, tw_report *report) {
    place k = {.p = p, .out = out};
    size_t T = (size_t)p->n_tasks + 1, C = (size_t)p->n_counters + 2;
    *out = (amk_placing){tw_arena_array(arena, T, sizeof *out->worker), tw_arena_array(arena, T, sizeof *out->order), 0,
                         0};
    k.missing = tw_arena_array(arena, T, sizeof *k.missing);
    k.queue = tw_arena_array(arena, T, sizeof *k.queue);
    k.next = tw_arena_array(arena, T, sizeof *k.next);
    k.arrivals = tw_arena_array(arena, C, sizeof *k.arrivals);
    k.first = tw_arena_array(arena, C, sizeof *k.first);
    k.counter = tw_arena_array(arena, C, sizeof *k.counter);
    if (arena->failed || !widen(&k, &k.clock, 16)) return TW_ERR_MEMORY;
    for (int i = 0; i < p->n_tasks; i++) out->worker[i] = -1;
    find_waiters(&k, arena);
    if (!arena->failed) find_queues(&k, arena);
    if (!arena->failed && !k.failed) {
        walk(&k);
        place_stuck(&k, arena);
    }
    for (int i = 0; i < p->n_counters; i++) free(k.counter[i].at);
    for (int i = 0; k.worker && i < out->n_workers; i++) free(k.worker[i].at);
    free(k.worker);
    free(k.length);
    free(k.clock.at);
    if (k.too_wide)
        tw_report_add(report, "too fine", "tasks", "more of them may run at once than the check can hold: rejected");
    return (k.failed && !k.too_wide) || arena->failed ? TW_ERR_MEMORY : TW_OK;
}
