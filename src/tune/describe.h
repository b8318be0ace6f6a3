/* SPDX-License-Identifier: Apache-2.0 */
/* Writes models into artefacts (select/artefact.h). */
#ifndef TW_TUNE_DESCRIBE_H
#define TW_TUNE_DESCRIBE_H

#include "base/arena.h"
#include "tune/spline.h"
#include "tune/train.h"

/* Returns the artefact of a family without macro choices, lattice or default. Its texts are the family's. */
tw_artefact tw_describe_family(const tw_family *f);

/* Adds the macro choices of a family, with the fits of its model by waves. The arena owns the added parts. */
tw_status tw_describe_waves(tw_artefact *a, tw_arena *arena, const tw_family *f, const tw_training *t,
                            const tw_wave_model *m, tw_wave_form form, tw_diag *diag);

/* Adds a macro choice for each configuration of a model, with its corrections, and the family's default. The arena
   and the model own the added parts. */
tw_status tw_describe_spline(tw_artefact *a, tw_arena *arena, const tw_spline *s, tw_diag *diag);

#endif
