/* SPDX-License-Identifier: Apache-2.0 */
/* Problems that were measured by name, as an artefact lists them: the fastest configuration and the second. */
#ifndef TW_TUNE_EXACT_H
#define TW_TUNE_EXACT_H

#include "base/arena.h"
#include "tune/trials.h"

/* Adds the problems of the exact trials to an artefact of the family. Configurations that the artefact lacks become
   macro choices without fits. `a` may have no macro choices: it gets the family's, without fits. */
tw_status tw_exact_add(tw_artefact *a, tw_arena *arena, const tw_family *f, const tw_trial_list *exact, tw_diag *diag);

#endif
