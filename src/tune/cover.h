/* SPDX-License-Identifier: Apache-2.0 */
/* A few configurations that are, together, near the fastest everywhere. */
#ifndef TW_TUNE_COVER_H
#define TW_TUNE_COVER_H

#include "tune/trials.h"

/* A configuration of a family. */
typedef struct tw_choice {
    int macro, micro;
} tw_choice;

/* Picks at most `most` configurations of those that were tried. Each one is that which most improves the mean, over the
   problems, of the logarithm of the fastest time over the least time of the picked ones. When no configuration improves
   it by a thousandth, picking begins anew among the others, so that problems have several good choices. `trials` are in
   the order of tw_trials_by_problem. *n is the number of configurations in out[], which has room for `most`. */
tw_status tw_cover(const tw_family *f, const tw_trial_list *trials, int most, tw_choice *out, int *n, tw_diag *diag);

#endif
