/* SPDX-License-Identifier: Apache-2.0 */
/* Online softmax (arXiv 1805.02867): sums of values, weighted by the softmax of scores that come one after another. A
   score that is larger than all before it becomes the maximum, and the sums so far are multiplied by the old maximum's
   weight. A score is an exponent of 2, so the caller multiplies a softmax's exponents of e by TW_SOFTMAX_LOG2E. The
   caller keeps the sums of values. */
#ifndef TW_KERNELS_PARTS_SOFTMAX_H
#define TW_KERNELS_PARTS_SOFTMAX_H

#include "ir/builder.h"

/* The score of a position that does not exist, and the maximum of no scores. It is finite, so that differences of
   scores are numbers. */
#define TW_SOFTMAX_LOWEST (-1e30f)
#define TW_SOFTMAX_LOG2E  1.4426950408889634f /* log2(e) */

/* The state of an online softmax, as IR variables of f32. A score's weight is 2^(score - max). */
typedef struct tw_softmax {
    tw_val max; /* The largest score so far. */
    tw_val sum; /* The sum of the weights of the scores so far. */
} tw_softmax;

/* Makes the variables, for no scores yet. */
tw_softmax tw_softmax_of(tw_builder *b);
/* Forgets all scores. */
void tw_softmax_reset(tw_builder *b, const tw_softmax *s);
/* Computes the weight of a score: 2^(score - max). */
tw_val tw_softmax_weight(tw_builder *b, tw_val score, tw_val max);
/* Raises the maximum to `max`, which is at least what it was, and multiplies the sum by the old maximum's weight.
   Returns that weight, by which the caller multiplies its sums of values. */
tw_val tw_softmax_raise(tw_builder *b, const tw_softmax *s, tw_val max);
/* Takes one score, if `there` holds, and returns its weight. *keep gets what tw_softmax_raise returns. */
tw_val tw_softmax_take(tw_builder *b, const tw_softmax *s, tw_val score, tw_val there, tw_val *keep);

#endif
