/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves out of a model the configurations that are hardly ever chosen, so that its artefact is small and decides
   fast. */
#ifndef TW_TUNE_TRIM_H
#define TW_TUNE_TRIM_H

#include "tune/spline.h"

/* Leaves at most `most` configurations: those that cover the model's own predictions of random usual problems together
   (tw_cover_apart). */
tw_status tw_spline_trim(tw_spline *s, int most, tw_diag *diag);

#endif
