/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/cover.h"

#include "base/diag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double WORST = -7; /* Least logarithm of a share. A smaller one counts as this. */

typedef struct covering {
    const tw_family *f;
    const tw_trial_list *trials;
    int *first;    /* [macro]: number of the macro choice's first configuration. */
    tw_choice *of; /* [configuration]: macro and micro choice of the configuration. */
    double *worth; /* [trial]: logarithm of the least time of the trial's problem divided by the trial's time. */
    int *problem;  /* [trial]: number of the trial's problem. */
    double *best;  /* [problem]: largest worth of this round's picks. */
    double *gain;  /* [configuration]: increase of the sum of `best` by picking the configuration. */
    bool *picked;  /* [configuration]: true if it was picked in any round. */
    int n;         /* Number of configurations. */
    int problems;  /* Number of problems. */
    double least;  /* Least increase of the mean logarithm by a pick. */
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
        if (!c->picked[i] && c->gain[i] > c->least * c->problems && (found < 0 || c->gain[i] > c->gain[found]))
            found = i;
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

tw_status tw_cover(const tw_family *f, const tw_trial_list *trials, double gain, int most, tw_choice *out, int *n,
                   tw_diag *diag) {
    const size_t configs = (size_t)tw_family_configs(f) + 1, room = (size_t)trials->n + 1;
    covering c = {.f = f,
                  .trials = trials,
                  .least = gain,
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

/* ---- covers of two kinds */

/* Adds a cover of vendors' configurations, or with `vendor` false of the others. Places of a library's ranking are left
   out. */
static tw_status cover_some(const tw_family *f, const tw_trial_list *trials, double gain, bool vendor, int most,
                            tw_choice *out, int *n, tw_diag *diag) {
    tw_trial_list some = {.at = malloc(((size_t)trials->n + 1) * sizeof *some.at)};
    if (!some.at) return tw_fail_memory(diag);
    for (int i = 0; i < trials->n; i++)
        if (tw_family_is_vendor(f, trials->at[i].macro) == vendor && trials->at[i].macro + 1 != f->ranking)
            some.at[some.n++] = trials->at[i];
    int picks;
    const tw_status st = tw_cover(f, &some, gain, most, out + *n, &picks, diag);
    if (st == TW_OK) *n += picks;
    free(some.at);
    return st;
}

/* Tells whether the family's default is an own configuration that has a trial. */
static bool has_default(const tw_family *f, const tw_trial_list *trials) {
    if (tw_family_is_vendor(f, f->macro)) return false;
    for (int i = 0; i < trials->n; i++)
        if (trials->at[i].macro == f->macro && trials->at[i].micro == f->micro) return true;
    return false;
}

/* Replaces the last of n picks by the family's default, unless it is picked. */
static void put_default(const tw_family *f, tw_choice *out, int n) {
    for (int i = 0; i < n; i++)
        if (out[i].macro == f->macro && out[i].micro == f->micro) return;
    out[n - 1] = (tw_choice){f->macro, f->micro};
}

/* The kinds of configurations that trials are of. */
typedef struct kinds {
    bool own;     /* True: own configurations have trials. */
    bool vendors; /* True: configurations of vendors, without a library's ranking, have trials. */
    bool ranked;  /* True: places of a library's ranking have trials. */
    bool slow;    /* True: vendors, without a library's ranking, are slower than own configurations by SLOW. */
} kinds;

static kinds find_kinds(const tw_family *f, const tw_trial_list *trials) {
    static const double SLOW = 1.25; /* Ratio of the least times, as a geometric mean over problems. */
    kinds k = {false};
    double all, lag = 0; /* Sum of the logarithms of the ratios. */
    int both = 0;        /* Number of problems with a ratio: with trials of both kinds. */
    for (int i = 0, end; i < trials->n; i = end) {
        double least[2] = {(double)INFINITY, (double)INFINITY}; /* [vendor] */
        end = tw_trials_end(trials, i, tw_trials_by_problem, &all);
        for (int j = i; j < end; j++) {
            const tw_trial *t = &trials->at[j];
            const bool vendor = tw_family_is_vendor(f, t->macro), ranked = t->macro + 1 == f->ranking;
            *(ranked ? &k.ranked : vendor ? &k.vendors : &k.own) = true;
            if (!ranked) least[vendor] = fmin(least[vendor], t->time);
        }
        if (!isfinite(least[0]) || !isfinite(least[1])) continue;
        lag += log(least[1] / least[0]);
        both++;
    }
    k.slow = both && lag > log(SLOW) * both;
    return k;
}

/* Returns how many of `most` picks may be vendors'. Libraries have an algorithm for almost each size of tiles, and each
   is the fastest of some problems: vendors' covers need twice as many picks as own ones to lose as little. */
static int share_of_vendors(const kinds *k, int most) {
    if (!k->vendors && !k->ranked) return 0;
    if (!k->own) return most;
    return k->slow ? (most + 7) / 8 : 2 * most / 3;
}

tw_status tw_cover_apart(const tw_family *f, const tw_trial_list *trials, double gain, int most, tw_choice *out, int *n,
                         tw_diag *diag) {
    const kinds k = find_kinds(f, trials);
    const int share = share_of_vendors(&k, most);
    int vendors = 0;
    tw_choice *theirs = calloc((size_t)share + 1, sizeof *theirs);
    *n = 0;
    if (!theirs) return tw_fail_memory(diag);
    if (k.ranked && !k.vendors && share) theirs[vendors++] = (tw_choice){f->ranking - 1, 0};
    tw_status st = cover_some(f, trials, gain, true, share, theirs, &vendors, diag);
    if (st == TW_OK) st = cover_some(f, trials, gain, false, most - vendors, out, n, diag);
    if (st == TW_OK) {
        if (*n && has_default(f, trials)) put_default(f, out, *n);
        memcpy(out + *n, theirs, (size_t)vendors * sizeof *theirs);
        *n += vendors;
    }
    free(theirs);
    return st;
}

tw_status tw_cover_both(const tw_family *f, const tw_trial_list *trials, int most, tw_choice **out, int *n,
                        tw_diag *diag) {
    const int ranks = f->ranking ? f->macros[f->ranking - 1].n_micros : 0;
    *n = 0;
    *out = calloc((size_t)most + (size_t)most / 2 + (size_t)ranks + 1, sizeof **out);
    tw_status st = *out ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) st = cover_some(f, trials, TW_COVER_SAMPLES, false, most, *out, n, diag);
    if (st == TW_OK) st = cover_some(f, trials, TW_COVER_SAMPLES, true, most / 2, *out, n, diag);
    for (int i = 0; i < ranks && st == TW_OK; i++) (*out)[(*n)++] = (tw_choice){f->ranking - 1, i};
    if (st == TW_OK) return TW_OK;
    free(*out);
    *out = NULL;
    return st;
}

/* ---- losses */

typedef struct losing {
    const tw_family *f;
    int *first;        /* [macro]: number of the macro choice's first configuration. */
    int n;             /* Number of configurations. */
    bool *screened;    /* [configuration]: true if it ran on any screened problem. */
    bool *seen;        /* [configuration]: true if it was screened on the current problem, whether it ran or not. */
    bool *kept;        /* [configuration]: true if it is one of those whose loss is computed. */
    tw_cover_loss sum; /* The number of problems so far, and sums of the logarithms of 1 plus their losses. */
    int own;           /* Number of problems so far on which an own configuration ran. */
} losing;

static int number_of(const losing *l, const tw_trial *t) {
    return l->first[t->macro] + t->micro;
}

/* Tells whether the current problem was screened in every configuration that can compute it and ran on any problem. */
static bool is_full(const losing *l, const int64_t *problem) {
    for (int m = 0; m < l->f->n_macros; m++) {
        if (!tw_family_divide(l->f, m, problem).grid) continue;
        for (int i = l->first[m]; i < l->first[m] + l->f->macros[m].n_micros; i++)
            if (l->screened[i] && !l->seen[i]) return false;
    }
    return true;
}

/* Adds the loss on a problem. `at` are its n trials. */
static void add_losses(losing *l, const tw_trial *at, int n, const tw_trial_list *refused) {
    /* [own][kept]: the least time. own 0: of all configurations, 1: of own ones. kept 0: of all these, 1: of those that
       are kept. */
    double least[2][2];
    for (int i = 0; i < 4; i++) least[i / 2][i % 2] = (double)INFINITY;
    memset(l->seen, 0, (size_t)l->n * sizeof *l->seen);
    for (int i = 0; i < n; i++) l->seen[number_of(l, &at[i])] = true;
    for (int i = 0; i < refused->n; i++)
        if (!tw_trials_by_problem(&refused->at[i], at)) l->seen[number_of(l, &refused->at[i])] = true;
    if (!is_full(l, at->problem)) return;
    for (int i = 0; i < n; i++)
        for (int own = 0; own <= !tw_family_is_vendor(l->f, at[i].macro); own++)
            for (int kept = 0; kept <= l->kept[number_of(l, &at[i])]; kept++)
                least[own][kept] = fmin(least[own][kept], at[i].time);
    l->sum.problems++;
    l->sum.all += fmin(log(least[0][1] / least[0][0]), -WORST);
    if (!isfinite(least[1][0])) return;
    l->own++;
    l->sum.own += fmin(log(least[1][1] / least[1][0]), -WORST);
}

static void lose(losing *l, const tw_trials *t, const tw_choice *of, int n) {
    double least;
    for (int m = 0; m < l->f->n_macros; m++) {
        l->first[m] = l->n;
        l->n += l->f->macros[m].n_micros;
    }
    for (int i = 0; i < n; i++) l->kept[l->first[of[i].macro] + of[i].micro] = true;
    for (int i = 0; i < t->screens.n; i++) l->screened[number_of(l, &t->screens.at[i])] = true;
    for (int i = 0, end; i < t->screens.n; i = end) {
        end = tw_trials_end(&t->screens, i, tw_trials_by_problem, &least);
        add_losses(l, &t->screens.at[i], end - i, &t->refused);
    }
}

tw_status tw_cover_lose(const tw_family *f, const tw_trials *t, const tw_choice *of, int n, tw_cover_loss *out,
                        tw_diag *diag) {
    const size_t configs = (size_t)tw_family_configs(f) + 1;
    losing l = {.f = f,
                .first = calloc((size_t)f->n_macros + 1, sizeof *l.first),
                .screened = calloc(configs, sizeof *l.screened),
                .seen = calloc(configs, sizeof *l.seen),
                .kept = calloc(configs, sizeof *l.kept)};
    const bool good = l.first && l.screened && l.seen && l.kept;
    if (good) lose(&l, t, of, n);
    *out = (tw_cover_loss){.problems = l.sum.problems};
    if (l.sum.problems) out->all = exp(l.sum.all / l.sum.problems) - 1;
    if (l.own) out->own = exp(l.sum.own / l.own) - 1;
    free(l.first);
    free(l.screened);
    free(l.seen);
    free(l.kept);
    return good ? TW_OK : tw_fail_memory(diag);
}
