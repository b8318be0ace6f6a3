/* SPDX-License-Identifier: Apache-2.0 */
/* Argmax: the largest of many f32, and its number. Of equals the least number wins, in whatever order they come. */
#ifndef TW_KERNELS_PARTS_ARGMAX_H
#define TW_KERNELS_PARTS_ARGMAX_H

#include "ir/builder.h"

enum { TW_ARGMAX_BYTES = 8 /* A cell in memory: f32 value, i32 number. */ };

typedef struct tw_argmax {
    tw_val value;  /* The largest value so far, f32. */
    tw_val number; /* The number of that value, i32. INT32_MAX: there is none yet. */
} tw_argmax;

/* Makes variables. `least` is below every value that counts. */
tw_argmax tw_argmax_of(tw_builder *b, float least);
/* Updates the maximum with a value, which replaces it if it is larger, or equal and of a lower number. */
void tw_argmax_take(tw_builder *b, const tw_argmax *a, tw_val value, tw_val number);
/* Computes the argmax of a warp's lanes for each of them. */
tw_argmax tw_argmax_warp(tw_builder *b, const tw_argmax *a);
/* Stores to a cell. `to` has the state space and the offset. */
void tw_argmax_store(tw_builder *b, const tw_argmax *a, tw_attrs to, tw_val cell);
/* Updates the maximum with n adjacent cells of shared memory, in order. */
void tw_argmax_take_cells(tw_builder *b, const tw_argmax *a, tw_val cells, int offset, int n);

#endif
