/* SPDX-License-Identifier: Apache-2.0 */
/* A cover is a small set of configurations that has one near the fastest for each problem. */
#ifndef TW_TUNE_COVER_H
#define TW_TUNE_COVER_H

#include "tune/trials.h"

/* A configuration of a family. */
typedef struct tw_choice {
    int macro, micro;
} tw_choice;

/* Picks at most `most` configurations of the trials, greedily. The share of a problem is its least time divided by the
   least time of the picked configurations. Each pick is the configuration that most increases the mean logarithm of the
   shares. If no configuration increases it by `gain`, a new round begins in which the earlier picks do not count, so
   that problems get several good choices. `trials` are in the order of tw_trials_by_problem. out[] has room for `most`;
   *n is the number of picks. */
tw_status tw_cover(const tw_family *f, const tw_trial_list *trials, double gain, int most, tw_choice *out, int *n,
                   tw_diag *diag);
/* Values of `gain`. */
#define TW_COVER_SAMPLES     1e-3 /* For measured times. Smaller gains are noise. */
#define TW_COVER_PREDICTIONS 1e-4 /* For predicted times. */

/* Picks at most `most` configurations: a cover of own configurations, and a cover of vendors' configurations.
   - If the trials have only own configurations, all picks are own. If they have only vendors', all picks are vendors'.
   - Otherwise two thirds of `most` are for vendors. They are an eighth if vendors are slow: if the fastest
   configuration of the vendors takes more than 1.25 times the time of the fastest own one, as a geometric mean over
   problems.
   - What vendors have no configurations for is for own ones.
   - The family's default is always picked if it is an own configuration and has a trial.
   - Places of a library's ranking (tw_family.ranking) are not picked. The first place is picked if the vendors have no
     other configuration. */
tw_status tw_cover_apart(const tw_family *f, const tw_trial_list *trials, double gain, int most, tw_choice *out, int *n,
                         tw_diag *diag);

/* Picks the configurations among which the fastest of all and the fastest own one are looked for: a cover of `most` own
   configurations, a cover of half as many of vendors' ones, and all places of a library's ranking. The caller frees
   *out. */
tw_status tw_cover_both(const tw_family *f, const tw_trial_list *trials, int most, tw_choice **out, int *n,
                        tw_diag *diag);

/* What configurations lose on screened problems. */
typedef struct tw_cover_loss {
    /* Number of problems that count: those screened in every configuration that can compute them and ran on any
     * problem. */
    int problems;
    /* The least time of the configurations divided by the least time of all, as a geometric mean over the problems,
       less 1. */
    double all;
    double own; /* The same with own configurations alone. */
} tw_cover_loss;
/* Computes the loss of n configurations. On a problem where none of them ran, the ratio of times counts as e^7. */
tw_status tw_cover_lose(const tw_family *f, const tw_trials *t, const tw_choice *of, int n, tw_cover_loss *out,
                        tw_diag *diag);

#endif
