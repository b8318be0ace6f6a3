/* SPDX-License-Identifier: Apache-2.0 */
/* A linear model of rows of features: a weight for each column, and a constant. */
#ifndef TW_TUNE_LINEAR_H
#define TW_TUNE_LINEAR_H

#include "tune/features.h"

typedef struct tw_linear tw_linear;

/* Fits the weights by least squares to the rows that are not held. Columns count in units of their standard deviation;
   squares of weights cost a little (ridge regression), so that columns that depend on each other share theirs. The
   caller frees *out. TW_ERR_USAGE: there are no rows. */
tw_status tw_linear_fit(tw_linear **out, const tw_table *t, tw_diag *diag);
void tw_linear_free(tw_linear *l); /* NULL is fine. */

/* Predicts y for n rows. */
void tw_linear_predict(const tw_linear *l, const float *x, int n, float *y);

int64_t tw_linear_weights(const tw_linear *l); /* Number of weights, with the constant. */

#endif
