/* SPDX-License-Identifier: Apache-2.0 */
/* Other models (tune/models.h) as strategies of an evaluation. */
#ifndef TW_TUNE_RIVALS_H
#define TW_TUNE_RIVALS_H

#include "tune/evaluate.h"
#include "tune/models.h"

enum {
    TW_RIVALS = 4 * TW_MODEL_FORMS, /* The most strategies: each form with "-own" or not, and "-again" or not. */
    TW_RIVALS_AGAIN = 100           /* Number of first configurations that "-again" chooses among. */
};

/* A strategy by a model. */
typedef struct tw_rival {
    char name[24];   /* Name of the strategy, "mlp-own-again". */
    tw_model *m;     /* The fitted model. */
    tw_store *store; /* The store whose times decide with "-again". */
    const tw_family *f;
} tw_rival;

typedef struct tw_rivals {
    tw_rival of[TW_RIVALS];      /* The models, in the order of the names given. */
    tw_strategy list[TW_RIVALS]; /* The strategies that choose by them. */
    int n;                       /* Number of elements of both. */
} tw_rivals;

/* Fits models to the trials that the store has of a campaign. `campaign` NULL: of all campaigns.
   `names` lists strategies with commas between them, each once. NULL: none. A strategy is a name of tw_model_name, which
   may have two endings, in this order:
   - "-own": configurations of vendors are not chosen.
   - "-again": the model ranks all legal configurations. Of its first TW_RIVALS_AGAIN the one with the least time in the
     store is chosen (ISAAC, Tillet and Cox, SC 2017, section 6). An evaluation measures them before it asks.

   The store must outlive *r, and *r must not move. The caller closes *r, also after a failure. TW_ERR_USAGE: a strategy
   is unknown or listed twice, or there is too little to learn from. TW_ERR_UNSUPPORTED: XGBoost is needed and not
   installed. */
tw_status tw_rivals_open(tw_rivals *r, const tw_family *f, tw_store *store, const char *names, const char *campaign,
                         tw_diag *diag);
void tw_rivals_close(tw_rivals *r);

#endif
