/* SPDX-License-Identifier: Apache-2.0 */
/* A shortlist tells which configurations may be the fastest of a problem. It goes by models of the screened trials
   (tune/spline.h), so that the others need not be measured there. */
#ifndef TW_TUNE_SHORTLIST_H
#define TW_TUNE_SHORTLIST_H

#include "tune/cover.h"

typedef struct tw_shortlist tw_shortlist;

/* Fits models of n configurations to the screened trials. Configurations with too few trials have none. The family and
   the choices must outlive the list. The caller frees *out. */
tw_status tw_shortlist_make(tw_shortlist **out, const tw_family *f, const tw_trial_list *screens,
                            const tw_choice *choices, int n, tw_diag *diag);
void tw_shortlist_free(tw_shortlist *l); /* NULL is fine. */

/* Sets keep[i] for each of the n configurations. One without a model is kept. One with a model is kept if its time may
   be within a tenth of the least time, given the errors of both models. Own configurations are compared with own ones,
   vendors' with all. One that cannot compute the problem is not kept. */
void tw_shortlist_pick(const tw_shortlist *l, const int64_t *problem, bool *keep);

#endif
