/* SPDX-License-Identifier: Apache-2.0 */
/* Removes from a model the configurations that are hardly ever chosen, so that its artefact is small and decides fast.
 */
#ifndef TW_TUNE_TRIM_H
#define TW_TUNE_TRIM_H

#include "tune/spline.h"

/* Keeps at most `most` configurations of a model: the cover, by tw_cover_apart, of its predictions for random usual
   problems. */
tw_status tw_spline_trim(tw_spline *s, int most, tw_diag *diag);

#endif
