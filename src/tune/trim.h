/* SPDX-License-Identifier: Apache-2.0 */
/* Removes from a model the configurations that are hardly ever chosen, so that its artefact is small and decides fast.
 */
#ifndef TW_TUNE_TRIM_H
#define TW_TUNE_TRIM_H

#include "tune/spline.h"

/* Keeps at most `most` configurations of a model: the cover, by tw_cover_apart, of its predictions for random usual
   problems. */
tw_status tw_spline_trim(tw_spline *s, int most, tw_diag *diag);

/* Makes a model cautious (tw_spline.caution): the times of other configurations than the family's default are predicted
   as longer by so much. Leaves out all but the default if choices gain less than the standard error of what they gain:
   so few or so noisy trials do not tell who is faster. A model without the default stays as it is. */
void tw_spline_doubt(tw_spline *s);

#endif
