/* SPDX-License-Identifier: Apache-2.0 */
/* The fastest configuration of one problem: a model ranks all legal ones, and the first are measured (ISAAC, Tillet and
   Cox, SC 2017, section 6, where they are 100). */
#ifndef TW_TUNE_AGAIN_H
#define TW_TUNE_AGAIN_H

#include "tune/campaign.h"
#include "tune/models.h"

/* Phases of a campaign: random configurations where there is nothing to learn from, and the first ones, once each. */
#define TW_AGAIN_DRAW "draw"
#define TW_AGAIN_TRY  "try"

typedef struct tw_again_options {
    const char *name;   /* Campaign of the measurements, with which their keys begin. */
    tw_model_form form; /* The model that ranks. */
    int k;              /* Number of configurations to measure. 0: all legal ones, which no model ranks. */
    /* Configurations of the problem that are drawn and measured first where the store has nothing to learn from. */
    int first;
    double seconds;                     /* Seconds after which no measurement begins. 0: no limit. */
    uint64_t seed;                      /* Seed of the draws. */
    bool (*interrupted)(void *context); /* Returns true to end the run. May be NULL. */
    void *context;                      /* Passed to `interrupted`. */
} tw_again_options;

typedef struct tw_again_result {
    int legal;                    /* Configurations that can compute the problem. */
    int learned;                  /* Trials that the model learned from. 0: no model. */
    int rank;                     /* Place of `config` in the model's order, from 1. 0: no model. */
    char config[TW_FAMILY_WORDS]; /* The fastest. "": none was measured. */
    double time;                  /* Its time, in the family's unit. */
    char second[TW_FAMILY_WORDS]; /* The second fastest. "": none. */
    double second_time;
    double learn_seconds;          /* Seconds of drawing and learning. */
    double seconds;                /* Seconds of it all. */
    tw_campaign_progress progress; /* Counts of measurements. `cut`: a limit or an interruption ended them. */
} tw_again_result;

/* Ranks and measures the configurations of a problem. The store's trials of screening and of spread are what the model
   learns from. The TW_AGAIN_LAST fastest are measured again in turn, as trials of TW_TRIALS_EXACT, so that an artefact
   that is trained afterwards lists the problem. Nothing that the store has is measured again. TW_ERR_UNSUPPORTED: the
   family is recorded. */
enum { TW_AGAIN_LAST = 5 };
tw_status tw_again(const tw_family *f, tw_store *s, const int64_t *problem, const tw_again_options *o,
                   tw_again_result *out, tw_diag *diag);

#endif
