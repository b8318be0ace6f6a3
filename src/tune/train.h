/* SPDX-License-Identifier: Apache-2.0 */
/* Training: a family's measurements become a model, and the model an artefact (select/artefact.h). */
#ifndef TW_TUNE_TRAIN_H
#define TW_TUNE_TRAIN_H

#include "tune/family.h"
#include "tune/store.h"

/* Measurements of a family as samples of the model by waves. */
typedef struct tw_training {
    tw_wave_sample *samples;
    int n;
    int64_t wrong;   /* Measurements that are left out because their result was wrong, or they did not run. */
    int64_t unknown; /* Measurements that are left out because the family does not have their configuration. */
} tw_training;

/* Reads what campaigns of this name measured of the family on this device. NULL: any campaign. Medians of their samples
   are the times. The caller frees it. */
tw_status tw_training_read(tw_training *out, const tw_family *f, tw_store *s, const char *name, tw_diag *diag);
void tw_training_free(tw_training *t);

/* Fits the model by waves. The caller frees it. */
tw_status tw_train_fit(tw_wave_model **out, const tw_family *f, const tw_training *t, const tw_wave_options *o,
                       tw_diag *diag);

/* Writes the artefact of a family and its model, whose form is not TW_WAVE_STEP. `about` is its text of provenance. */
tw_status tw_train_write(const tw_family *f, const tw_training *t, const tw_wave_model *m, const char *about,
                         const char *path, tw_diag *diag);

#endif
