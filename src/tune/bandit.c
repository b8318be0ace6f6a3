/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/bandit.h"

#include "base/arena.h"
#include "base/diag.h"

#include <math.h>
#include <string.h>

static const double MUTATED = 0.1;    /* Chance of each parameter to be replaced. */
static const double CROSSED = 0.9;    /* Chance of each parameter to be taken from the moved member. */
static const double DIFFERENCE = 0.5; /* Factor of the difference of two members. */

/* A proposal that was measured. */
typedef struct event {
    tw_bandit_technique by;
    bool best; /* It was faster than all before. */
} event;

typedef struct searching {
    const tw_bandit_options *o;
    int n, params;
    double *at;    /* [n][params]: parameters of the list, each from 0 to 1. */
    double *time;  /* [n]: time of a measured configuration. 0: it did not run. Negative: it was not measured. */
    event *events; /* [measurements] */
    int *members;  /* [population]: indices of the configurations of differential evolution. */
    int n_members, member;
    double *aim; /* [params]: the proposed parameters. */
    tw_random random;
    tw_bandit_result *out;
} searching;

const char *tw_bandit_name(tw_bandit_technique t) {
    static const char *const names[] = {"random", "mutate", "climb", "evolve"};
    return names[t];
}

tw_bandit_options tw_bandit_defaults(void) {
    return (tw_bandit_options){.measurements = 30, .window = 500, .exploration = 0.05, .population = 30, .seed = 1};
}

static const double *at(const searching *s, int i) {
    return s->at + (size_t)i * (size_t)s->params;
}

static int any(searching *s) {
    return (int)tw_random_below(&s->random, (uint64_t)s->n);
}

/* ---- techniques */

/* Each replaced parameter is that of a random configuration, so that values come as often as they are listed. */
static void mutate(searching *s) {
    const int one = (int)tw_random_below(&s->random, (uint64_t)s->params);
    memcpy(s->aim, at(s, s->out->best), (size_t)s->params * sizeof *s->aim);
    for (int p = 0; p < s->params; p++)
        if (p == one || tw_random_unit(&s->random) < MUTATED) s->aim[p] = at(s, any(s))[p];
}

static void climb(searching *s) {
    const int p = (int)tw_random_below(&s->random, (uint64_t)s->params);
    const bool up = tw_random_below(&s->random, 2);
    memcpy(s->aim, at(s, s->out->best), (size_t)s->params * sizeof *s->aim);
    const double from = s->aim[p];
    double next = from;
    for (int i = 0; i < s->n; i++) {
        const double x = at(s, i)[p];
        if ((up ? x > from : x < from) && (next == from || fabs(x - from) < fabs(next - from))) next = x;
    }
    s->aim[p] = next;
}

static void evolve(searching *s) {
    const double *of[3];
    for (int i = 0; i < 3; i++) of[i] = at(s, s->members[tw_random_below(&s->random, (uint64_t)s->n_members)]);
    const int one = (int)tw_random_below(&s->random, (uint64_t)s->params);
    s->member = (int)tw_random_below(&s->random, (uint64_t)s->n_members);
    memcpy(s->aim, at(s, s->members[s->member]), (size_t)s->params * sizeof *s->aim);
    for (int p = 0; p < s->params; p++)
        if (p == one || tw_random_unit(&s->random) < CROSSED) s->aim[p] = of[0][p] + DIFFERENCE * (of[1][p] - of[2][p]);
}

/* Returns the configuration nearest to the aim that was not measured. -1: all were. */
static int nearest(const searching *s) {
    int best = -1;
    double least = (double)INFINITY;
    for (int i = 0; i < s->n; i++) {
        double sum = 0;
        for (int p = 0; p < s->params && s->time[i] < 0; p++) sum += pow(at(s, i)[p] - s->aim[p], 2);
        if (s->time[i] < 0 && sum < least) {
            least = sum;
            best = i;
        }
    }
    return best;
}

/* Returns what a technique proposes. Without a best configuration, and until the population is full, evolution draws.
 */
static int propose(searching *s, tw_bandit_technique by) {
    const bool draws =
        by == TW_BANDIT_RANDOM || s->out->best < 0 || (by == TW_BANDIT_EVOLVE && s->n_members < s->o->population);
    s->member = -1;
    if (draws)
        memcpy(s->aim, at(s, any(s)), (size_t)s->params * sizeof *s->aim);
    else if (by == TW_BANDIT_MUTATE)
        mutate(s);
    else if (by == TW_BANDIT_CLIMB)
        climb(s);
    else
        evolve(s);
    return nearest(s);
}

/* ---- the bandit */

/* Returns the technique with the largest sum of credit and exploration. The credit is the area under the curve of its
   new best ones over its proposals in the window, later ones counting more. Ties are drawn. */
static tw_bandit_technique pick(searching *s) {
    const int all = s->out->measured, from = all > s->o->window ? all - s->o->window : 0;
    int tied = 0;
    double most = -1;
    tw_bandit_technique of = TW_BANDIT_RANDOM;
    for (int t = 0; t < TW_BANDIT_TECHNIQUES; t++) {
        double area = 0;
        int uses = 0;
        for (int i = from; i < all; i++)
            if (s->events[i].by == (tw_bandit_technique)t) {
                uses++;
                area += s->events[i].best ? uses : 0;
            }
        const double worth =
            !uses ? (double)INFINITY
                  : area / (0.5 * uses * (uses + 1)) + s->o->exploration * sqrt(2 * log2((double)(all - from)) / uses);
        tied = worth > most ? 1 : worth == most ? tied + 1 : tied;
        if (worth < most || (tied > 1 && tw_random_below(&s->random, (uint64_t)tied))) continue;
        most = worth;
        of = (tw_bandit_technique)t;
    }
    return of;
}

/* Adds a measured configuration to the population, or replaces the member that it came from if it is faster. */
static void take_member(searching *s, tw_bandit_technique by, int i) {
    if (by != TW_BANDIT_EVOLVE || !(s->time[i] > 0)) return;
    if (s->member < 0 && s->n_members < s->o->population) s->members[s->n_members++] = i;
    if (s->member >= 0 && s->time[i] < s->time[s->members[s->member]]) s->members[s->member] = i;
}

static void run(searching *s, tw_bandit_time *time, void *context) {
    tw_bandit_result *r = s->out;
    while (r->measured < s->o->measurements) {
        const tw_bandit_technique by = pick(s);
        const int i = propose(s, by);
        if (i < 0) return;
        s->time[i] = fmax(time(context, i), 0);
        const bool best = s->time[i] > 0 && (r->best < 0 || s->time[i] < r->time);
        if (best) {
            r->best = i;
            r->time = s->time[i];
        }
        take_member(s, by, i);
        r->uses[by]++;
        s->events[r->measured++] = (event){by, best};
    }
}

/* Copies the parameters of the list, and scales each to 0 to 1. */
static void place(searching *s, const tw_features *x, const tw_choice *list) {
    for (int p = 0; p < s->params; p++) {
        double least = (double)INFINITY, most = -(double)INFINITY;
        for (int i = 0; i < s->n; i++) {
            const size_t config = (size_t)(x->first[list[i].macro] + list[i].micro);
            const double value = (double)x->of[config * (size_t)x->params + (size_t)p];
            s->at[(size_t)i * (size_t)s->params + (size_t)p] = value;
            least = fmin(least, value);
            most = fmax(most, value);
        }
        for (int i = 0; i < s->n; i++) {
            double *value = &s->at[(size_t)i * (size_t)s->params + (size_t)p];
            *value = most > least ? (*value - least) / (most - least) : 0;
        }
    }
}

tw_status tw_bandit_search(tw_bandit_result *out, const tw_features *x, const tw_choice *list, int n,
                           const tw_bandit_options *o, tw_bandit_time *time, void *context, tw_diag *diag) {
    tw_arena arena = {0};
    *out = (tw_bandit_result){.best = -1};
    if (n < 1 || o->measurements < 1 || o->window < 1 || o->population < 3 || x->params < 1)
        return tw_fail(diag, TW_ERR_USAGE, "there is nothing to search");
    searching s = {.o = o, .n = n, .params = x->params, .random = tw_random_seed(o->seed), .out = out};
    s.at = tw_arena_array(&arena, (size_t)n * (size_t)s.params, sizeof *s.at);
    s.time = tw_arena_array(&arena, (size_t)n, sizeof *s.time);
    s.events = tw_arena_array(&arena, (size_t)o->measurements, sizeof *s.events);
    s.members = tw_arena_array(&arena, (size_t)o->population, sizeof *s.members);
    s.aim = tw_arena_array(&arena, (size_t)s.params, sizeof *s.aim);
    const bool good = !arena.failed;
    if (good) {
        for (int i = 0; i < n; i++) s.time[i] = -1;
        place(&s, x, list);
        run(&s, time, context);
    }
    tw_arena_free(&arena);
    return good ? TW_OK : tw_fail_memory(diag);
}
