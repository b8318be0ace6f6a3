/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, softmaxes and reductions of rows. A row's values x are an expression of operands, as in a map. */
#ifndef TW_KERNELS_ROWS_ROWS_H
#define TW_KERNELS_ROWS_ROWS_H

#include "kernels/pointwise/map.h"

typedef enum tw_rows_of {
    TW_ROWS_layer_norm,  /* (x - mean) / sqrt(variance + eps) * gain + bias */
    TW_ROWS_rms_norm,    /* x / sqrt(mean of squares + eps) * gain + bias */
    TW_ROWS_softmax,     /* e^x / sum of e^x */
    TW_ROWS_log_softmax, /* x - log(sum of e^x) */
    TW_ROWS_sum,         /* This and the following have one element a row. */
    TW_ROWS_mean,
    TW_ROWS_max, /* NaN where an x is. */
    TW_ROWS_min,
    TW_ROWS_prod,
    TW_ROWS_OPS
} tw_rows_of;

const char *tw_rows_name(tw_rows_of of);
static inline bool tw_rows_reduces(tw_rows_of of) {
    return of >= TW_ROWS_sum;
}

typedef struct tw_rows_problem {
    tw_points x; /* Reals or doubles. Doubles can only be reduced. */
    tw_rows_of of;
    float eps;                   /* Of norms. */
    bool has_gain, has_bias;     /* Of norms: without them 1 and 0. */
    tw_point_operand gain, bias; /* Real. They do not gather. Their strides are usually 0 but in the last dimension. */
    tw_point_operand out; /* Of the class of the values. Does not gather. A reduction does not use the stride of the
                             last dimension. */
    bool has_kept;
    tw_point_operand kept; /* Of the class of the values. x is stored here as well. */
    bool early;            /* On a GPU the launch begins, and waits, before the one before it is over. */
} tw_rows_problem;

/* TW_ERR_USAGE: the problem makes no sense. */
tw_status tw_rows_check(const tw_rows_problem *p, tw_diag *diag);

/* Computes rows from .. to - 1. tw_kernels.rows is the fastest such function of a processor. The result may
   lie where an operand does whose strides and type are the same. What is kept may not. */
typedef void tw_rows_fn(const tw_rows_problem *p, const tw_point_data *data, int64_t from, int64_t to);
tw_rows_fn tw_rows_run;

#endif
