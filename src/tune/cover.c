/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/cover.h"

#include "base/diag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double WORST = -7;  /* Least logarithm of a share. */
static const double GAIN = 1e-3; /* Least increase of the mean logarithm by a pick. */

typedef struct covering {
    const tw_family *f;
    const tw_trial_list *trials;
    int *first;    /* [macro]: number of the macro choice's first configuration. */
    tw_choice *of; /* [configuration]: macro and micro choice of the configuration. */
    double *worth; /* [trial]: logarithm of the least time of the trial's problem divided by the trial's time. */
    int *problem;  /* [trial]: number of the trial's problem. */
    double *best;  /* [problem]: largest worth of this round's picks. */
    double *gain;  /* [configuration]: increase of the sum of `best` if the configuration were picked. */
    bool *picked;  /* [configuration]: true if it was picked in any round. */
    int n;         /* Number of configurations. */
    int problems;  /* Number of problems. */
} covering;

static int config_of(const covering *c, int trial) {
    const tw_trial *t = &c->trials->at[trial];
    return c->first[t->macro] + t->micro;
}

static void prepare(covering *c) {
    for (int m = 0; m < c->f->n_macros; m++) {
        c->first[m] = c->n;
        for (int i = 0; i < c->f->macros[m].n_micros; i++) c->of[c->n++] = (tw_choice){m, i};
    }
    double least;
    for (int i = 0, end; i < c->trials->n; i = end, c->problems++) {
        end = tw_trials_end(c->trials, i, tw_trials_by_problem, &least);
        for (int k = i; k < end; k++) {
            c->worth[k] = fmax(log(least / c->trials->at[k].time), WORST);
            c->problem[k] = c->problems;
        }
    }
}

/* Finds the configuration of the largest gain. -1: no gain is large enough. */
static int find_next(covering *c) {
    int found = -1;
    memset(c->gain, 0, (size_t)c->n * sizeof *c->gain);
    for (int i = 0; i < c->trials->n; i++) c->gain[config_of(c, i)] += fmax(c->worth[i] - c->best[c->problem[i]], 0);
    for (int i = 0; i < c->n; i++)
        if (!c->picked[i] && c->gain[i] > GAIN * c->problems && (found < 0 || c->gain[i] > c->gain[found])) found = i;
    return found;
}

static void pick(covering *c, int config) {
    c->picked[config] = true;
    for (int i = 0; i < c->trials->n; i++)
        if (config_of(c, i) == config) c->best[c->problem[i]] = fmax(c->best[c->problem[i]], c->worth[i]);
}

static void begin_round(covering *c) {
    for (int p = 0; p < c->problems; p++) c->best[p] = WORST;
}

static int cover(covering *c, int most, tw_choice *out) {
    int n = 0;
    bool fresh = true; /* True: this round has no pick. */
    prepare(c);
    begin_round(c);
    while (n < most) {
        const int next = find_next(c);
        if (next < 0 && fresh) break;
        fresh = next < 0;
        if (fresh) {
            begin_round(c);
            continue;
        }
        pick(c, next);
        out[n++] = c->of[next];
    }
    return n;
}

tw_status tw_cover(const tw_family *f, const tw_trial_list *trials, int most, tw_choice *out, int *n, tw_diag *diag) {
    size_t configs = 1;
    const size_t room = (size_t)trials->n + 1;
    for (int m = 0; m < f->n_macros; m++) configs += (size_t)f->macros[m].n_micros;
    covering c = {.f = f,
                  .trials = trials,
                  .first = calloc((size_t)f->n_macros + 1, sizeof *c.first),
                  .of = calloc(configs, sizeof *c.of),
                  .worth = calloc(room, sizeof *c.worth),
                  .problem = calloc(room, sizeof *c.problem),
                  .best = calloc(room, sizeof *c.best),
                  .gain = calloc(configs, sizeof *c.gain),
                  .picked = calloc(configs, sizeof *c.picked)};
    const bool good = c.first && c.of && c.worth && c.problem && c.best && c.gain && c.picked;
    *n = good ? cover(&c, most, out) : 0;
    free(c.first);
    free(c.of);
    free(c.worth);
    free(c.problem);
    free(c.best);
    free(c.gain);
    free(c.picked);
    return good ? TW_OK : tw_fail_memory(diag);
}

static bool is_vendor(const tw_family *f, int macro) {
    return f->macros[macro].properties & TW_MACRO_VENDOR;
}

tw_status tw_cover_stored(const tw_family *f, tw_store *s, int most, tw_choice **out, int *n, tw_diag *diag) {
    tw_trials t;
    size_t vendors = 0;
    *n = 0;
    for (int m = 0; m < f->n_macros; m++) vendors += is_vendor(f, m) ? (size_t)f->macros[m].n_micros : 0;
    *out = calloc((size_t)most + vendors + 1, sizeof **out);
    if (!*out) return tw_fail_memory(diag);
    tw_status st = tw_trials_read(&t, f, s, NULL, diag);
    if (st != TW_OK) return st;
    if (!t.screens.n) st = tw_fail(diag, TW_ERR_USAGE, "the store has no screened problems of %s", f->name);
    if (st == TW_OK) st = tw_cover(f, &t.screens, most, *out, n, diag);
    tw_trials_free(&t);
    for (int m = 0; m < f->n_macros && st == TW_OK; m++)
        for (int i = 0; is_vendor(f, m) && i < f->macros[m].n_micros; i++) (*out)[(*n)++] = (tw_choice){m, i};
    return st;
}
