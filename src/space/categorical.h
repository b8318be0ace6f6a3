/* SPDX-License-Identifier: Apache-2.0 */
/* Draws legal points of a space with few tries (ISAAC, SC 2017, section 4.1). Parameters are taken for independent
   categorical variables, whose probabilities are counted in legal points that were drawn uniformly. A Dirichlet prior
   keeps every value possible. Legal points are not equally likely: a value that is legal more often comes more often.
 */
#ifndef TW_SPACE_CATEGORICAL_H
#define TW_SPACE_CATEGORICAL_H

#include "space/space.h"

enum { TW_CATEGORICAL_ALPHA = 100 /* The paper's count of each value before any was seen. */ };

typedef struct tw_categorical tw_categorical;

/* Makes a sampler that draws uniformly. `alpha`, above 0, is the prior's count of each value. The space must outlive
   the sampler. TW_ERR_USAGE: a parameter has no values to draw. The caller frees the sampler. */
tw_status tw_categorical_make(tw_categorical **out, const tw_space *s, double alpha, tw_diag *diag);
void tw_categorical_free(tw_categorical *x); /* NULL is fine. */

/* Draws points uniformly, and counts the values of those that are legal. `context` is as in tw_space.legal; calls with
   several contexts add up. Given parameters have the values of `config`. Returns the number of legal points. */
int64_t tw_categorical_learn(tw_categorical *x, const void *context, const void *config, int64_t draws,
                             tw_random *random);

/* The probability of the k-th value of parameter i. */
double tw_categorical_probability(const tw_categorical *x, int i, int k);

/* Draws as tw_space_draw does, by the probabilities. Adds the points that were drawn to *drawn, which may be NULL. */
bool tw_categorical_draw(const tw_categorical *x, const void *context, const int64_t *keep, tw_random *random,
                         int tries, void *config, int64_t *drawn);

#endif
