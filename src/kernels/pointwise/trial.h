/* SPDX-License-Identifier: Apache-2.0 */
/* Random data for a problem, in memory exactly as long as its operands' places, and the comparison of two results. */
#ifndef TW_KERNELS_POINTWISE_TRIAL_H
#define TW_KERNELS_POINTWISE_TRIAL_H

#include "kernels/pointwise/launch.h"
#include "kernels/pointwise/shape.h"

typedef struct tw_point_memory {
    const tw_point_buffer *f;
    tw_point_span span;
    size_t bytes;
    unsigned char *host;
} tw_point_memory;

typedef struct tw_point_trial {
    const tw_points *p;
    tw_point_memory of[TW_POINT_BUFFERS];
    int n;
    tw_point_data data; /* Where all of this lies. */
} tw_point_trial;

/* Allocates the buffers, and fills those that are read: reals between -2 and 2, integers of two digits, and gathered
   places of which some are not there. What is written gets bytes of 0xff. The caller frees it, after a failure too. */
tw_status tw_point_trial_make(tw_point_trial *t, const tw_points *p, const tw_point_buffers *all, uint64_t seed,
                              tw_diag *diag);
void tw_point_trial_free(tw_point_trial *t);

/* TW_ERR_MISMATCH: an element of a written buffer is not what it is in `want`, which has the same buffers. `error` is
   what may be off, relative to a value and absolutely, beside the rounding of both. */
tw_status tw_point_trial_compare(const tw_point_trial *got, const tw_point_trial *want, double error, tw_diag *diag);

#endif
