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
   shares. If no configuration increases it by 0.001, a new round begins in which the earlier picks do not count, so
   that problems get several good choices. `trials` are in the order of tw_trials_by_problem. out[] has room for `most`;
   *n is the number of picks. */
tw_status tw_cover(const tw_family *f, const tw_trial_list *trials, int most, tw_choice *out, int *n, tw_diag *diag);

/* Lists the configurations among which oracles are looked for if all would be too many: at most `most` that cover the
   problems that campaigns of the store screened, then those of vendors. The caller frees *out, also after a failure.
   TW_ERR_USAGE: the store has no screened problems. */
tw_status tw_cover_stored(const tw_family *f, tw_store *s, int most, tw_choice **out, int *n, tw_diag *diag);

#endif
