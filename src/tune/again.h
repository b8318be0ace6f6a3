/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest configuration for one problem: a model ranks all legal configurations by predicted time, and those that
   it ranks first are measured (ISAAC, Tillet and Cox, SC 2017, section 6, which measures 100). */
#ifndef TW_TUNE_AGAIN_H
#define TW_TUNE_AGAIN_H

#include "tune/campaign.h"
#include "tune/models.h"

/* Phases of the campaign's measurements (tune/trials.h), each with one sample. */
#define TW_AGAIN_DRAW "draw" /* Random configurations, measured where the store has nothing to learn from. */
#define TW_AGAIN_TRY  "try"  /* The configurations that the model ranks first. */

typedef struct tw_again_options {
    const char *name;                   /* Name of the campaign that the measurements belong to. */
    tw_model_form form;                 /* The model that ranks. */
    int k;                              /* Number of configurations to measure. 0: all legal ones, without a model. */
    int first;                          /* Number of configurations of phase TW_AGAIN_DRAW. */
    double seconds;                     /* Seconds after which no measurement begins. 0: no limit. */
    uint64_t seed;                      /* Seed of the draws. */
    bool (*interrupted)(void *context); /* Returns true to end the run. May be NULL. */
    void *context;                      /* Passed to `interrupted`. */
} tw_again_options;

typedef struct tw_again_result {
    int legal;                     /* Number of configurations that can compute the problem. */
    int learned;                   /* Number of trials that the model learned from. 0: no model. */
    int rank;                      /* Place of `config` in the model's order, from 1. 0: no model. */
    char config[TW_FAMILY_WORDS];  /* The fastest configuration. "": none was measured. */
    double time;                   /* Time of `config` in the family's unit. 0: none was measured. */
    char second[TW_FAMILY_WORDS];  /* The second fastest configuration. "": fewer than two were measured. */
    double second_time;            /* Time of `second`. 0: fewer than two were measured. */
    double learn_seconds;          /* Seconds until the model had ranked. 0: no model. */
    double seconds;                /* Seconds of the whole run. */
    tw_campaign_progress progress; /* Counts of measurements. `cut`: a limit or an interruption ended them. */
} tw_again_result;

enum { TW_AGAIN_LAST = 5 /* Number of configurations whose times decide. */ };
/* Ranks and measures the configurations of a problem. The model learns from all trials of screening and of spread in
   the store (tune/trials.h). The TW_AGAIN_LAST fastest configurations are measured again, several times and in turn, in
   phase TW_TRIALS_EXACT; so an artefact that is trained afterwards lists the problem. What the store has of the
   campaign is not measured again. TW_ERR_UNSUPPORTED: the family is recorded. */
tw_status tw_again(const tw_family *f, tw_store *s, const int64_t *problem, const tw_again_options *o,
                   tw_again_result *out, tw_diag *diag);

#endif
