/* SPDX-License-Identifier: Apache-2.0 */
/* Trials are the measurements of a family by campaigns, as a store has them. */
#ifndef TW_TUNE_TRIALS_H
#define TW_TUNE_TRIALS_H

#include "tune/family.h"
#include "tune/store.h"

/* Phases of a campaign whose measurements are trials (tune/campaign.h). */
#define TW_TRIALS_SCREENS "screen"
#define TW_TRIALS_SPREAD  "spread"
#define TW_TRIALS_POINTS  "points"
#define TW_TRIALS_EXACT   "exact"

/* Writes the key of a campaign's measurement: "campaign|phase|problem|configuration". */
void tw_trials_key(char *out, size_t size, const char *campaign, const char *phase, const char *problem,
                   const char *config);
/* Tells whether a key belongs to a phase of a campaign. `key` NULL: false. `campaign` NULL: any campaign. */
bool tw_trials_key_is(const char *key, const char *campaign, const char *phase);

/* A measurement of a problem in a configuration of the family. */
typedef struct tw_trial {
    int64_t problem[TW_SELECT_AXES];
    int macro, micro;
    double time; /* Time by tw_family_time in the family's unit, above 0. */
} tw_trial;

typedef struct tw_trial_list {
    tw_trial *at;
    int n;
    int room; /* Capacity in trials. */
} tw_trial_list;

typedef struct tw_trials {
    tw_trial_list screens; /* Trials of screening, in the order of tw_trials_by_problem. */
    tw_trial_list spread;  /* Trials of spread problems, in the order of tw_trials_by_problem. */
    tw_trial_list points;  /* Trials of points, in the store's order. */
    tw_trial_list exact;   /* Trials of problems that are wanted by name, in the order of tw_trials_by_problem. */
    /* Screened configurations that did not run or were wrong, in the store's order. Their time is 0. */
    tw_trial_list refused;
    int64_t wrong; /* Number of measurements left out: their result was wrong, or they did not run. */
    /* Number of measurements left out: the family does not have their problem, configuration or unit. */
    int64_t unknown;
} tw_trials;

/* Reads the trials of a campaign of the family on its device. `campaign` NULL: any campaign. The caller frees *out. */
tw_status tw_trials_read(tw_trials *out, const tw_family *f, tw_store *s, const char *campaign, tw_diag *diag);
void tw_trials_free(tw_trials *t);

/* Compares the problems of two trials, for qsort. */
int tw_trials_by_problem(const void *a, const void *b);
/* Returns the end of the run of trials that compare equal to trial `first`. *least is the least time of the run. */
int tw_trials_end(const tw_trial_list *l, int first, int (*by)(const void *a, const void *b), double *least);

#endif
