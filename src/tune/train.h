/* SPDX-License-Identifier: Apache-2.0 */
/* Training fits a model to a family's measurements and writes it as an artefact (select/artefact.h). */
#ifndef TW_TUNE_TRAIN_H
#define TW_TUNE_TRAIN_H

#include "tune/trials.h"

/* The data of a family's training. */
typedef struct tw_training {
    tw_trials trials;
    tw_wave_sample *samples; /* The trials' points, as samples of the model by waves. */
    int n;                   /* Number of samples. */
} tw_training;

/* Reads the trials of campaign `name` of the family on its device. `name` NULL: any campaign. The caller frees *out. */
tw_status tw_training_read(tw_training *out, const tw_family *f, tw_store *s, const char *name, tw_diag *diag);
void tw_training_free(tw_training *t);

/* Number of first waves that each have a fit. All later waves share one fit, since a few more blocks hardly change
   their time. */
enum { TW_TRAIN_WAVES = 4 };

/* Fits the wave model in a form. The caller frees *out. */
tw_status tw_train_fit(tw_wave_model **out, const tw_family *f, const tw_training *t, tw_wave_form form, tw_diag *diag);
/* Writes the configuration that a model chooses for a problem. False: the model has no choice. */
bool tw_train_choose(const tw_family *f, const tw_wave_model *m, const int64_t *problem, char *out, size_t size);

/* The result of a training. */
typedef struct tw_trained {
    /* Form of the model: "spline", or a form by waves. "none": there is no model. */
    const char *form;
    tw_wave_quality quality; /* Errors of predicted samples. The spline predicts each from the others. */
    int problems;            /* Number of problems on which choices were judged. */
    double share;           /* Geometric mean of the choices' shares of the best speed there. 0: there is no problem. */
    /* What choices gain over the family's default: tw_spline.gain, gain_error and caution. 0: it is not known. */
    double gain, gain_error, caution;
    int64_t wrong, unknown; /* As in tw_trials. */
} tw_trained;

/* Writes the artefact of a model. If problems were spread it is the model of configurations (tune/spline.h); otherwise
   the model by waves (tune/wave.h), in the form that chooses best on the screened problems, which are no samples.
   Problems with exact trials are listed in the artefact, which needs no model then. TW_ERR_USAGE: the store has no
   measurements of the family on this device. */
tw_status tw_train(const tw_family *f, tw_store *s, const char *name, const char *path, tw_trained *out, tw_diag *diag);

/* Returns the name of a form: "wave", "linear" or "step". */
const char *tw_train_form(tw_wave_form form);

#endif
