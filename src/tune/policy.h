/* SPDX-License-Identifier: Apache-2.0 */
/* Policies choose configurations from problems alone, without predicting times: by the nearest problem, or by a
   decision tree over the axes. */
#ifndef TW_TUNE_POLICY_H
#define TW_TUNE_POLICY_H

#include "tune/features.h"

typedef struct tw_policy_options {
    bool tree;    /* True: a decision tree. False: the nearest problem by logarithms of the axes. */
    int depth;    /* The most splits from the root to a leaf. */
    int to_split; /* The fewest problems of a node that is split. */
    int leaf;     /* The fewest problems of a leaf. */
} tw_policy_options;

typedef struct tw_policy tw_policy;

/* Learns from trials, n_lists lists of them, each in the order of tw_trials_by_problem. The loss of a configuration on
   a problem is the logarithm of its time divided by the fastest one's; of one that was not measured there it is that of
   half the speed. A tree's splits have the least sum of losses, if each leaf takes the configuration with the least sum
   of its problems. Only configurations with allowed[i] count; the index is of tw_features. NULL allows all. The caller
   frees *out. TW_ERR_USAGE: there are no trials. */
tw_status tw_policy_fit(tw_policy **out, const tw_features *x, const tw_trial_list *const *lists, int n_lists,
                        const bool *allowed, const tw_policy_options *o, tw_diag *diag);
void tw_policy_free(tw_policy *p); /* NULL is fine. */

/* Returns the mean loss of each configuration, [configs], for a problem. The policy owns the array. */
const float *tw_policy_losses(const tw_policy *p, const int64_t *problem);

int tw_policy_leaves(const tw_policy *p);    /* Number of leaves of the tree. Without a tree: number of problems. */
int64_t tw_policy_bytes(const tw_policy *p); /* Size of what a decision reads. */

#endif
