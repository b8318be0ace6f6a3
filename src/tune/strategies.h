/* SPDX-License-Identifier: Apache-2.0 */
/* The strategies that an evaluation compares (tune/evaluate.h): an artefact's choices, and those of the forms of the
   model by waves. */
#ifndef TW_TUNE_STRATEGIES_H
#define TW_TUNE_STRATEGIES_H

#include "tune/evaluate.h"
#include "tune/train.h"

/* A model as a strategy. */
typedef struct tw_strategy_model {
    const tw_family *f;
    tw_wave_model *m;
} tw_strategy_model;

typedef struct tw_strategies {
    tw_selector *selector;                   /* The artefact. NULL: none. */
    tw_selector *other;                      /* Another artefact. NULL: none. */
    tw_strategy_model models[TW_WAVE_FORMS]; /* The fitted models by waves, indexed by tw_wave_form. */
    /* "select" and, without vendors, "select-own" if there is an artefact; "other" and "other-own" if there is another;
       then the forms' names. Forms that know no vendor are compared with the own oracle. */
    tw_strategy list[4 + TW_WAVE_FORMS];
    int n; /* Number of elements of `list`. */
} tw_strategies;

/* Opens artefacts, and fits the forms to the measurements of a campaign. `artefact` or `other` NULL: there is none.
   `campaign` NULL: any campaign. Without points in the store there are no forms. The caller closes *s, also after a
   failure; *s must not move until then. */
tw_status tw_strategies_open(tw_strategies *s, const tw_family *f, tw_store *store, const char *artefact,
                             const char *other, const char *campaign, tw_diag *diag);
void tw_strategies_close(tw_strategies *s);

#endif
