/* SPDX-License-Identifier: Apache-2.0 */
/* Constant matrices of 16 bits whose rows are multiplied by gains, and whose columns are given a mean of 0. */
#ifndef TW_GRAPH_PROGRAM_SCALE_H
#define TW_GRAPH_PROGRAM_SCALE_H

#include "tilewright/base.h"

typedef struct tw_scaling {
    tw_dtype type; /* TW_F16 or TW_BF16. */
    int64_t k, n;
    bool trans;         /* Matrices are stored n x k. Otherwise k x n. */
    const float *gain;  /* Factors of the k rows. */
    const double *beta; /* Other factors of the rows. NULL: nobody wants them. */
    double *means; /* Becomes the n means of the columns, which are subtracted. NULL: they stay as they are. Elements
                      are then rounded so that columns keep a mean of 0, about a quarter of them not to the nearest
                      number. */
    double *shift; /* The n sums of the rows times beta, not times gains, are added to it. Goes with beta. */
} tw_scaling;

/* Elements may be aligned to nothing, and `to` may be `from`. False: an element leaves the type's range, or is none,
   or elements are so small that f16 has few of their bits. */
bool tw_scale_rows(const tw_scaling *s, const void *from, void *to);

#endif
