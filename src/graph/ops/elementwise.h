/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_OPS_ELEMENTWISE_H
#define TW_GRAPH_OPS_ELEMENTWISE_H

#include "graph/ops/op.h"

/* Operators of elementwise.def. */
tw_op_shape tw_unary_shape, tw_binary_shape, tw_compare_shape, tw_logic_shape;
tw_op_compute tw_unary_compute, tw_binary_compute;
/* mixed.c */
tw_op_shape tw_same_shape, tw_activation_shape, tw_test_shape, tw_cast_shape, tw_cast_like_shape, tw_several_shape,
    tw_pair_shape, tw_where_shape, tw_clip_shape, tw_dropout_shape;
tw_op_compute tw_same_compute, tw_activation_compute, tw_test_compute, tw_cast_compute, tw_several_compute,
    tw_pair_compute, tw_where_compute, tw_clip_compute, tw_dropout_compute;

/* Where an array's elements lie that are broadcast to another array's. */
typedef struct tw_places {
    const tw_array *array;
    int64_t strides[TW_ARRAY_RANK];
} tw_places;
void tw_places_of(const tw_array *a, const tw_array *out, tw_places *p);
int64_t tw_place(const tw_places *p, const tw_array *out, const int64_t index[TW_ARRAY_RANK]);

/* Functions of two elements, as reals and as integers. */
typedef struct tw_pairs {
    double (*real)(const void *context, double a, double b);
    int64_t (*whole)(const void *context, int64_t a, int64_t b);
    const void *context;
} tw_pairs;
/* Computes each element of the result from those of both operands, which are broadcast to it. */
tw_status tw_pairs_compute(tw_call *c, bool real, const tw_pairs *of);

#endif
