/* SPDX-License-Identifier: Apache-2.0 */
/* Other models (tune/models.h) as strategies of an evaluation. */
#ifndef TW_TUNE_RIVALS_H
#define TW_TUNE_RIVALS_H

#include "tune/evaluate.h"
#include "tune/models.h"

typedef struct tw_rivals {
    tw_model *of[TW_MODEL_FORMS];     /* The fitted models, indexed by tw_model_form. NULL: not asked for. */
    tw_strategy list[TW_MODEL_FORMS]; /* The strategies that choose by the models, in the order of the names given. */
    int n;                            /* Number of strategies in `list`. */
} tw_rivals;

/* Fits models, given by their names with commas between, each once, to what campaigns of the name `campaign` measured.
   NULL: any campaign. The caller closes it, also after a failure. TW_ERR_USAGE: a name is none of tw_model_name, or
   there is too little to learn from. TW_ERR_UNSUPPORTED: a model needs XGBoost, which is not installed. */
tw_status tw_rivals_open(tw_rivals *r, const tw_family *f, tw_store *store, const char *names, const char *campaign,
                         tw_diag *diag);
void tw_rivals_close(tw_rivals *r);

#endif
