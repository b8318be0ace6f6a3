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
#define TW_COVER_SAMPLES     1e-3 /* For measured times. Their noise makes smaller gains. */
#define TW_COVER_PREDICTIONS 1e-4 /* For predicted times, which have no noise. */

/* Picks a cover of own configurations and one of vendors' ones, so that choices without vendors are covered, too. Half
   of `most` are vendors', or an eighth if their fastest ones take more than 1.25 times the time of the fastest own ones
   (geometric mean over problems). If the trials are all of one kind, so are all picks. The family's default is picked
   if it is an own configuration of the trials, so that it may be chosen. No place of a library's ranking
   (tw_family.ranking) is picked, since no model can learn their times. The first place is, if the vendors have nothing
   else. */
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
