/* SPDX-License-Identifier: Apache-2.0 */
/* Weight-only quantisation: symmetric integers with a scale a group. */
#ifndef TW_MODEL_QUANTIZE_H
#define TW_MODEL_QUANTIZE_H

#include "tilewright/base.h"

/* Quantises one row: column c becomes q[c] * scales[c / group], where `group` 0 means the whole row; the last group
   may be short. TW_I8: q in [-127, 127], scales float. TW_I4: q in [-8, 7], one to a byte, and scales are values that
   f16 holds exactly; they may be negative, so that -8 serves the largest magnitude whatever its sign. Scales minimise
   the squared error (a search, then least squares) for TW_I4; for TW_I8, where that gains next to nothing, they are
   the largest magnitude over 127. Groups of zeros have scale 0. NaN counts as 0, infinity as the largest float.
   `q` has cols elements, `scales` one for each group. */
void tw_quantise_row(tw_dtype t, int group, const float *row, int64_t cols, int8_t *q, float *scales);

/* The sum of (row - q * scale)^2 that tw_quantise_row left. */
double tw_quantise_error(int group, const float *row, int64_t cols, const int8_t *q, const float *scales);

#endif
