/* SPDX-License-Identifier: Apache-2.0 */
/* A search without a model: several techniques propose configurations, and a bandit gives the next measurement to the
   technique that found new best ones lately. It is the search of OpenTuner (Ansel et al., PACT 2014), over a list of
   configurations that are known to be legal. */
#ifndef TW_TUNE_BANDIT_H
#define TW_TUNE_BANDIT_H

#include "tune/cover.h"
#include "tune/features.h"

typedef enum tw_bandit_technique {
    TW_BANDIT_RANDOM, /* Any configuration. */
    TW_BANDIT_MUTATE, /* The best one, each parameter with a tenth's chance replaced by another one's. */
    TW_BANDIT_CLIMB,  /* The best one, with one parameter at the next larger or smaller value. */
    TW_BANDIT_EVOLVE, /* Differential evolution: a member of the population, moved by the difference of two others. */
    TW_BANDIT_TECHNIQUES
} tw_bandit_technique;

/* Returns the name of a technique, "random". */
const char *tw_bandit_name(tw_bandit_technique t);

typedef struct tw_bandit_options {
    int measurements;   /* The most configurations to measure. */
    int window;         /* Number of last proposals by which techniques are judged. */
    double exploration; /* Weight of trying techniques that proposed little. */
    int population;     /* Members of differential evolution. */
    uint64_t seed;
} tw_bandit_options;

/* Returns OpenTuner's constants: a window of 500, exploration 0.05, a population of 30. 30 measurements. */
tw_bandit_options tw_bandit_defaults(void);

/* Returns the time of configuration `i` of the list. 0: it did not run, or was wrong. */
typedef double tw_bandit_time(void *context, int i);

typedef struct tw_bandit_result {
    int best;                       /* Index of the fastest configuration. -1: none ran. */
    double time;                    /* Its time. 0: none ran. */
    int measured;                   /* Number of configurations that were measured, each once. */
    int uses[TW_BANDIT_TECHNIQUES]; /* Number of proposals of each technique. */
} tw_bandit_result;

/* Searches the n configurations of a list. What a technique proposes is a vector of parameters (tw_features.of); the
   nearest configuration that was not measured yet is measured. */
tw_status tw_bandit_search(tw_bandit_result *out, const tw_features *x, const tw_choice *list, int n,
                           const tw_bandit_options *o, tw_bandit_time *time, void *context, tw_diag *diag);

#endif
