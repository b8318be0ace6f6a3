/* SPDX-License-Identifier: Apache-2.0 */
/* What is fastest alone need not be fastest in a whole pass: there launches begin early, caches are warm, and blocks of
   a launch lie beside those of the next. So the fastest choices of each problem are compared in whole passes. Each was
   found right when it was measured alone. */
#include "base/clock.h"
#include "base/grow.h"
#include "base/random.h"
#include "base/stats.h"
#include "graph/array.h"
#include "vm/network/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIED = 5, /* Choices of our own kernels beside the fastest alone. */
    SOON = 3,  /* Pairs of samples after which a pass that is clearly slower is given up. */
    LEAST_PAIRS = 13,
    MOST_PAIRS = 25,
    REPLAYS = 3, /* Passes of a sample, unless they are long. */
    ROUNDS = 2,
};
static const double promising = 1.15; /* A choice's time alone, as a multiple of the least. */
static const double foreign = 2; /* The same of a vendor's. Calls of its library may take longer than its kernels. */
static const double least_gain = 0.003; /* Of a pass. What is less is noise. */
static const double hopeless = -0.01;   /* The gain at which a choice is given up. */
static const double long_us = 5000;     /* A pass that is a sample by itself. */
static const double pairs_us = 60000;   /* What comparing two choices may take, if passes are short. */

/* A problem that some steps have. */
typedef struct problem {
    const char *words;                 /* The plan's. */
    double us;                         /* Of all its steps by the plan. */
    int choices[TW_NETWORK_PROMISING]; /* What passes are compared with. */
    int n_choices;
    int first, present; /* The choice that all its steps follow, and followed at first. -1: they follow several. */
    int changes;        /* How often passes had changed when it was settled. */
    bool whole;         /* All its choices were tried. */
} problem;

typedef struct settling {
    tw_cuda_network *n;
    problem *list;
    int count, room;
    bool *of;  /* By step: it has the problem that is settled now. */
    double us; /* Of a pass, when settling began. */
    int replays, pairs;
    double gain; /* The present pass's time divided by the first one's. */
    int changes; /* How often a choice was taken. */
    int64_t began;
} settling;

/* Launches of a network, captured, and the memory that they took. */
typedef struct pass {
    tw_network_launch *launches;
    int n, room;
    tw_cuda_graph *graph;
    tw_network_own own;
    int n_tables;
    int64_t bytes;
} pass;

static pass pass_of(const tw_cuda_network *n) {
    return (pass){n->launches, n->n, n->room, n->graph, n->own, n->n_tables, n->bytes};
}

static const tw_network_choice *choice_of(const tw_cuda_network *n, const tw_network_launch *l) {
    return l->choice ? &n->plan->choices[l->choice - 1] : NULL;
}

/* ---- problems and their choices */

int tw_network_promising(const tw_network_plan *p, const char *words, int out[TW_NETWORK_PROMISING]) {
    int n = 0, own = 0, kept = 0;
    bool settled = false;
    for (int i = tw_network_plan_find(p, words, 0); i >= 0 && n < TW_NETWORK_PROMISING;
         i = tw_network_plan_find(p, words, i + 1)) {
        int at = n++;
        settled |= p->choices[i].settled;
        for (; at > 0 && p->choices[out[at - 1]].us > p->choices[i].us; at--) out[at] = out[at - 1];
        out[at] = i;
    }
    for (int i = 0; i < n; i++) {
        const tw_network_choice *c = &p->choices[out[i]];
        const bool vendor = !strcmp(c->kind, "cublaslt") || !strcmp(c->kind, "cudnn");
        if (c->us > (vendor ? foreign : promising) * p->choices[out[0]].us) continue;
        if (vendor || own++ <= TRIED) out[kept++] = out[i];
    }
    return settled ? 0 : kept;
}

/* Adds a launch's time to its problem's. False: there is no memory. */
static bool add(settling *s, const tw_network_choice *c) {
    int i = 0;
    while (i < s->count && strcmp(s->list[i].words, c->problem) != 0) i++;
    if (i == s->count) {
        problem x = {.words = c->problem, .changes = -1};
        x.n_choices = tw_network_promising(s->n->plan, c->problem, x.choices);
        if (x.n_choices < 2) return true;
        problem *grown = tw_grow(s->list, s->count, &s->room, 16, sizeof *grown);
        if (!grown) return false;
        s->list = grown;
        s->list[s->count++] = x;
    }
    s->list[i].us += c->us;
    return true;
}

static int longest_first(const void *a, const void *b) {
    const double x = ((const problem *)a)->us, y = ((const problem *)b)->us;
    return (x < y) - (x > y);
}

static bool list_problems(settling *s) {
    for (int i = 0; i < s->n->n; i++) {
        const tw_network_choice *c = choice_of(s->n, &s->n->launches[i]);
        if (c && !s->n->launches[i].epilogue && !add(s, c)) return false;
    }
    if (s->count) qsort(s->list, (size_t)s->count, sizeof *s->list, longest_first);
    return s->count;
}

/* Notes the steps that read sums of rows from those that are noted: how many there are depends on the tiles. */
static void note_readers(settling *s) {
    const tw_program *p = s->n->p;
    for (int from = 0; from < p->n_steps; from++)
        for (int i = from + 1; i < p->n_steps && s->of[from]; i++)
            if (!s->of[i] && tw_network_takes_sums(&p->steps[i], &p->steps[from])) s->of[i] = true;
}

/* Notes which steps have a problem. Returns the choice that all of them follow, or -1: they follow several. */
static int note_steps(settling *s, const char *words) {
    int common = -2;
    memset(s->of, 0, (size_t)s->n->p->n_steps * sizeof *s->of);
    for (int i = 0; i < s->n->n; i++) {
        const tw_network_launch *l = &s->n->launches[i];
        const tw_network_choice *c = choice_of(s->n, l);
        if (!c || strcmp(c->problem, words) != 0) continue;
        s->of[l->step] = true;
        common = common == -2 || common == l->choice - 1 ? l->choice - 1 : -1;
    }
    note_readers(s);
    return common;
}

/* ---- passes */

/* Closes what a pass has of its own: launches of the steps that are settled now. */
static void discard(const settling *s, const pass *p) {
    tw_cuda_graph_free(p->graph);
    for (int i = 0; i < p->n; i++)
        if (s->of[p->launches[i].step]) tw_network_close_launch(&p->launches[i]);
    free(p->launches);
}

static void restore(settling *s, const pass *old) {
    tw_cuda_network *n = s->n;
    const pass failed = pass_of(n);
    discard(s, &failed);
    while (n->n_tables > old->n_tables) tw_gpu_release(n->gpu, n->tables[--n->n_tables]);
    n->launches = old->launches;
    n->n = old->n;
    n->room = old->room;
    n->graph = old->graph;
    n->own = old->own;
    n->bytes = old->bytes;
}

/* Takes over launches of other steps, and makes those of the problem's by the plan. */
static tw_status make_launches(settling *s, const pass *old) {
    tw_cuda_network *n = s->n;
    tw_status st = TW_OK;
    n->launches = NULL;
    n->n = n->room = 0;
    n->graph = NULL;
    for (int i = 0; i < old->n && st == TW_OK; i++) {
        const tw_network_launch *l = &old->launches[i];
        if (s->of[l->step]) {
            if (i == 0 || old->launches[i - 1].step != l->step) st = tw_network_add_step(n, l->step, NULL);
            continue;
        }
        tw_network_launch *grown = tw_grow(n->launches, n->n, &n->room, 64, sizeof *grown);
        if (!grown) return TW_ERR_MEMORY;
        n->launches = grown;
        n->launches[n->n++] = *l;
    }
    if (st == TW_OK) st = tw_network_alloc_workspace(n, NULL);
    for (int i = 0; i < n->n && st == TW_OK; i++)
        if (s->of[n->launches[i].step]) st = tw_network_bind(n, &n->launches[i], NULL);
    return st;
}

/* Runs a pass, and captures it. */
static tw_status capture(tw_cuda_network *n) {
    tw_status st = tw_network_launch_all(n, NULL);
    if (st == TW_OK) st = tw_gpu_wait(n->gpu, NULL);
    return st == TW_OK ? tw_network_capture(n, &n->graph, NULL) : st;
}

/* Returns how many of n pairs may be lost. Of passes that are alike, 2 of 1000 lose no more. */
static int may_lose(int n) {
    return (int)((n - 3 * sqrt(n)) / 2);
}

/* Times passes in turn, since the clock of a device drifts. *gain: what the second saves of the first. */
static tw_status compare(const settling *s, tw_cuda_graph *first, tw_cuda_graph *second, bool *better, double *gain) {
    tw_cuda_graph *const graphs[] = {first, second};
    double gains[MOST_PAIRS], some[SOON];
    int lost = 0;
    double unused;
    *better = false;
    const tw_status warm = tw_cuda_graph_time(s->n->gpu->cuda, second, 1, &unused, NULL);
    if (warm != TW_OK) return warm;
    for (int i = 0; i < s->pairs; i++) {
        double us[2] = {0};
        for (int k = 0; k < 2; k++) {
            const int which = (i + k) % 2;
            const tw_status st = tw_cuda_graph_time(s->n->gpu->cuda, graphs[which], s->replays, &us[which], NULL);
            if (st != TW_OK) return st;
        }
        gains[i] = us[0] > 0 ? 1 - us[1] / us[0] : 0;
        lost += gains[i] <= 0;
        if (lost > may_lose(s->pairs)) {
            *gain = tw_stats_of(gains, (size_t)i + 1).median;
            return TW_OK;
        }
        if (i + 1 != SOON) continue;
        memcpy(some, gains, sizeof some);
        *gain = tw_stats_of(some, SOON).median;
        if (*gain < hopeless) return TW_OK;
    }
    *gain = tw_stats_of(gains, (size_t)s->pairs).median;
    *better = *gain > least_gain;
    return TW_OK;
}

static bool follows(const settling *s, int choice) {
    for (int i = 0; i < s->n->n; i++)
        if (s->of[s->n->launches[i].step] && s->n->launches[i].choice == choice + 1) return true;
    return false;
}

/* Tries a choice, which the plan settles meanwhile. True: a pass is faster with it, and has it from now on. *gain: what
   it saves of a pass, roughly. */
static bool try_choice(settling *s, int choice, double *gain) {
    tw_cuda_network *n = s->n;
    const pass old = pass_of(n);
    bool better = false;
    *gain = 0;
    tw_status st = make_launches(s, &old);
    if (st == TW_OK && follows(s, choice)) {
        st = capture(n);
        n->plan->settled.tried++;
        if (st == TW_OK) st = compare(s, old.graph, n->graph, &better, gain);
    }
    if (st == TW_OK && better) {
        s->gain *= 1 - *gain;
        discard(s, &old);
    } else {
        restore(s, &old);
    }
    tw_network_close_unused(n);
    return better;
}

/* ---- settling */

static double since(int64_t began) {
    return (double)(tw_now_ns() - began) * 1e-9;
}

/* Tells whether there is time for comparing one more choice. */
static bool has_time(const settling *s) {
    const double limit = s->n->options.seconds, one = 2e-6 * s->pairs * s->replays * s->us;
    return limit <= 0 || limit - s->n->searching.spent - since(s->began) > one;
}

/* Fills an input with reals around 0 and integers of 1, which all tables have, and which hide nothing as a mask. */
static tw_status fill(const tw_cuda_network *n, int buffer) {
    const tw_view *v = NULL;
    for (int i = 0; i < n->p->n_steps && !v; i++)
        for (int k = 0; k < n->p->steps[i].n_in && !v; k++)
            if (n->p->steps[i].in[k].buffer == buffer) v = &n->p->steps[i].in[k];
    const int64_t bytes = n->p->buffers[buffer].bytes;
    if (!v || !bytes) return TW_OK;
    void *data = calloc(1, (size_t)bytes);
    if (!data) return TW_ERR_MEMORY;
    tw_random r = tw_random_seed((uint64_t)buffer);
    const bool real = tw_element_kind(v->type) == TW_KIND_real;
    const int64_t count = bytes * 8 / tw_element_bits(v->type), one = 1;
    for (int64_t i = 0; i < count; i++) {
        const double x = 2 * tw_random_unit(&r) - 1;
        if (real)
            tw_array_set_reals(v->type, data, i, 1, &x);
        else
            tw_array_set_integers(v->type, data, i, 1, &one);
    }
    const tw_status st = tw_gpu_upload(n->gpu, n->at[buffer], data, (size_t)bytes, NULL);
    free(data);
    return st;
}

/* Captures the pass that there is, and finds out how long it takes. */
static tw_status begin(settling *s) {
    tw_cuda_network *n = s->n;
    double samples[LEAST_PAIRS];
    tw_status st = TW_OK;
    for (int i = 0; i < n->p->n_inputs && st == TW_OK; i++) st = fill(n, n->p->inputs[i]);
    if (st == TW_OK) st = capture(n);
    if (st == TW_OK) st = tw_cuda_graph_time(n->gpu->cuda, n->graph, 1, &s->us, NULL);
    if (st != TW_OK) return st;
    s->replays = s->us < long_us ? REPLAYS : 1;
    s->pairs = LEAST_PAIRS;
    if (!has_time(s)) return TW_OK; /* No comparison follows that needs to know better. */
    for (int i = 0; i < LEAST_PAIRS && st == TW_OK; i++)
        st = tw_cuda_graph_time(n->gpu->cuda, n->graph, s->replays, &samples[i], NULL);
    if (st != TW_OK) return st;
    s->us = tw_stats_of(samples, LEAST_PAIRS).median / s->replays;
    const double pairs = pairs_us / (2 * s->replays * s->us + 1);
    s->pairs = pairs > MOST_PAIRS ? MOST_PAIRS : pairs < LEAST_PAIRS ? LEAST_PAIRS : (int)pairs;
    return TW_OK;
}

/* Tries all choices of a problem, as passes are now. Those that are much slower are not tried again. */
static void settle_problem(settling *s, problem *x) {
    tw_network_plan *p = s->n->plan;
    const int common = note_steps(s, x->words);
    if (x->changes < 0) x->first = x->present = common;
    int kept = 0, i = 0;
    for (; i < x->n_choices && has_time(s) && !s->n->arena.failed; i++) {
        const int choice = x->choices[i];
        double gain = 0;
        if (choice != x->present) {
            tw_network_plan_settle(p, x->words, choice);
            const bool better = try_choice(s, choice, &gain);
            if (better) x->present = choice;
            s->changes += better;
        }
        if (gain > hopeless) x->choices[kept++] = choice;
    }
    x->whole |= i == x->n_choices;
    x->n_choices = kept;
    x->changes = s->changes;
    /* What was found faster stays. */
    tw_network_plan_settle(p, x->words, x->whole || x->present != x->first ? x->present : -1);
}

static void settle_all(settling *s) {
    tw_network_plan *p = s->n->plan;
    if (begin(s) != TW_OK) return;
    /* The best for a problem may be another when its neighbours have changed. */
    for (int i = 0; i < ROUNDS * s->count; i++) {
        problem *x = &s->list[i % s->count];
        if (x->changes != s->changes) settle_problem(s, x);
    }
    for (int i = 0; i < s->count; i++) {
        p->settled.changed += s->list[i].present != s->list[i].first;
        p->cut += !s->list[i].whole;
    }
    p->settled.problems += s->count;
    p->settled.before += s->us;
    p->settled.after += s->us * s->gain;
}

void tw_network_settle(tw_cuda_network *n) {
    settling s = {.n = n, .gain = 1, .began = tw_now_ns()};
    s.of = calloc((size_t)n->p->n_steps + 1, sizeof *s.of);
    const bool any = s.of && list_problems(&s);
    if (any && has_time(&s))
        settle_all(&s);
    else if (any)
        n->plan->cut += s.count;
    /* The first run launches one by one, so that a failure is told of its step, and captures again. */
    tw_cuda_graph_free(n->graph);
    n->graph = NULL;
    free(s.of);
    free(s.list);
    n->plan->costs.settle += since(s.began);
    n->plan->seconds += since(s.began);
}
