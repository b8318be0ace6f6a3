/* SPDX-License-Identifier: Apache-2.0 */
/* Other models (tune/models.h) as strategies of an evaluation. */
#ifndef TW_TUNE_RIVALS_H
#define TW_TUNE_RIVALS_H

#include "tune/evaluate.h"
#include "tune/models.h"

enum { TW_RIVALS = 4 * TW_MODEL_FORMS, TW_RIVALS_AGAIN = 100 /* Configurations that are measured again. */ };

/* A strategy by a model. */
typedef struct tw_rival {
    char name[24]; /* Name of the strategy. */
    tw_model *m;   /* The fitted model. */
    tw_store *of;  /* The store in which the model's first configurations are looked up. NULL: its first one counts. */
    const tw_family *f;
} tw_rival;

typedef struct tw_rivals {
    tw_rival of[TW_RIVALS];      /* The models, in the order of the names given. */
    tw_strategy list[TW_RIVALS]; /* The strategies that choose by them. */
    int n;                       /* Number of elements of both. */
} tw_rivals;

/* Fits models, given by their names with commas between, each once, to what campaigns of the name `campaign` measured.
   NULL: any campaign. A name with "-again" behind it is of a strategy that chooses the fastest of the TW_RIVALS_AGAIN
   configurations that the model puts first, as an evaluation has measured them before it asks (ISAAC, Tillet and Cox,
   SC 2017, section 6). Such a choice is among all legal configurations. The store must outlive *r, and *r must not
   move. The caller closes it, also after a failure. TW_ERR_USAGE: a name is none of tw_model_name, or there is too
   little to learn from. TW_ERR_UNSUPPORTED: a model needs XGBoost, which is not installed. */
tw_status tw_rivals_open(tw_rivals *r, const tw_family *f, tw_store *store, const char *names, const char *campaign,
                         tw_diag *diag);
void tw_rivals_close(tw_rivals *r);

#endif
