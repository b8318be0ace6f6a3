/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/orders.h"

#include "base/random.h"

#include <math.h>

enum {
    MOST_TRACKS = 16,
    ITERATIONS = 256, /* Iterations that are simulated, */
    FILL = 32,        /* and those of them that do not count, since tracks begin together. */
    STEPS = 9,        /* The most steps of an iteration. */
    SEED = 1
};
/* Work differs by so much from iteration to iteration, so that tracks do not stay in step by chance. */
#define SPREAD 0.05

typedef enum step_kind { WORK, ISSUE_FIRST, ISSUE_SECOND, WAIT_FIRST, WAIT_SECOND, TAKE, PASS, END } step_kind;

typedef struct step {
    step_kind kind;
    double time; /* Of WORK. */
} step;

typedef struct track {
    double now;     /* Time after the steps so far. */
    double done[2]; /* When the latest products end. */
    double begin;   /* Time after the iterations that do not count. */
    int at;         /* The next step. */
    int iterations; /* Iterations so far. */
} track;

typedef struct machine {
    step steps[STEPS + 1];
    double product[2]; /* Times of both products. */
    track tracks[MOST_TRACKS];
    int n;
    int turn;      /* The track that may issue next. */
    double passed; /* When the turn was passed to it. */
    double free;   /* When tensor cores have ended all products that were issued. */
    tw_random random;
} machine;

/* Lists the steps of an iteration. */
static void list_steps(machine *m, const tw_orders_times *x, tw_orders_order order) {
    const step load = {WORK, x->loads}, take = {order.turns ? TAKE : WORK, 0}, pass = {order.turns ? PASS : WORK, 0};
    const step work = {WORK, x->work}, rest = {WORK, x->rest + x->other}, first = {ISSUE_FIRST, 0};
    const step second = {ISSUE_SECOND, 0}, end = {END, 0}, seen_first = {WAIT_FIRST, 0}, seen_second = {WAIT_SECOND, 0};
    const step overlapped[] = {load, take, first, second, pass, seen_first, work, seen_second, rest, end};
    const step in_order[] = {load, second, seen_second, take, first, pass, seen_first, work, rest, end};
    for (int i = 0; i <= STEPS; i++) m->steps[i] = order.overlapped ? overlapped[i] : in_order[i];
}

static void issue(machine *m, track *t, int which) {
    t->done[which] = fmax(t->now, m->free) + m->product[which];
    m->free = t->done[which];
}

static void end_iteration(track *t) {
    t->at = 0;
    if (++t->iterations == FILL) t->begin = t->now;
}

/* Takes a track's next step. */
static void go(machine *m, int i) {
    track *t = &m->tracks[i];
    const step s = m->steps[t->at++];
    switch (s.kind) {
    case WORK:
        t->now += s.time * (1 + SPREAD * (2 * tw_random_unit(&m->random) - 1));
        break;
    case ISSUE_FIRST:
    case ISSUE_SECOND:
        issue(m, t, s.kind == ISSUE_SECOND);
        break;
    case WAIT_FIRST:
    case WAIT_SECOND:
        t->now = fmax(t->now, t->done[s.kind == WAIT_SECOND]);
        break;
    case TAKE:
        t->now = fmax(t->now, m->passed);
        break;
    case PASS:
        m->turn = (m->turn + 1) % m->n;
        m->passed = t->now;
        break;
    case END:
        end_iteration(t);
    }
}

/* Finds the track that is behind all others of those whose next step is possible. */
static int next_track(const machine *m) {
    int best = -1;
    for (int i = 0; i < m->n; i++) {
        if (m->steps[m->tracks[i].at].kind == TAKE && m->turn != i) continue;
        if (best < 0 || m->tracks[i].now < m->tracks[best].now) best = i;
    }
    return best;
}

double tw_orders_iteration(const tw_orders_times *x, tw_orders_order order) {
    machine m = {.product = {x->first, x->second}, .n = x->tracks, .random = tw_random_seed(SEED)};
    if (m.n < 1) m.n = 1;
    if (m.n > MOST_TRACKS) m.n = MOST_TRACKS;
    if (m.n == 1) order.turns = false;
    list_steps(&m, x, order);
    for (;;) {
        const int i = next_track(&m);
        go(&m, i);
        const track *t = &m.tracks[i];
        if (t->iterations == ITERATIONS) return (t->now - t->begin) / (ITERATIONS - FILL);
    }
}

double tw_orders_ratio(const tw_orders_times *x, tw_orders_order order) {
    const double before = tw_orders_iteration(x, x->order), after = tw_orders_iteration(x, order);
    return before > 0 ? 1 + x->share * (after / before - 1) : 1;
}
