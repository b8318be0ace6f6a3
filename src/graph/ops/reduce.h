/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_OPS_REDUCE_H
#define TW_GRAPH_OPS_REDUCE_H

#include "graph/ops/op.h"

/* reduce.c: all Reduce operators, ArgMax and ArgMin, Softmax and its kin, TopK. */
tw_op_shape tw_reduce_shape, tw_arg_shape, tw_softmax_shape, tw_top_k_shape;
tw_op_compute tw_reduce_compute, tw_arg_compute, tw_softmax_compute, tw_top_k_compute;
/* product.c */
tw_op_shape tw_matmul_shape, tw_gemm_op_shape, tw_product_shape;
tw_op_compute tw_matmul_compute, tw_gemm_op_compute, tw_product_compute;
/* norm.c */
tw_op_shape tw_layer_norm_shape, tw_rms_norm_shape, tw_group_norm_shape, tw_batch_norm_shape, tw_lp_norm_shape;
tw_op_compute tw_layer_norm_compute, tw_rms_norm_compute, tw_group_norm_compute, tw_batch_norm_compute,
    tw_lp_norm_compute;
/* Statistics of a row that a norm divided. */
typedef struct tw_norm_of {
    double mean; /* 0 where the norm does not subtract it. */
    double inverse;
} tw_norm_of;
/* Norms n numbers in place: less their mean, if `centre`, and divided by the root of `eps` and their mean of squares.
 */
tw_norm_of tw_norm_row(double *row, int64_t n, bool centre, double eps);

/* attention.c. Extents of an array with heads, and where its elements lie. */
typedef struct tw_heads {
    int64_t batch, heads, length, width;
    int64_t of_batch, of_head, of_row; /* Elements from one to the next. */
} tw_heads;
/* Finds them. An array is [batch][head][length][width], or [batch][length][head * width] of n heads. False: it is
   neither. */
bool tw_heads_of(const tw_array *a, int64_t n, tw_heads *out);

/* attention.c, rotary.c */
tw_op_shape tw_attention_op_shape, tw_rotary_shape, tw_tensor_scatter_shape, tw_cache_shape;
tw_op_compute tw_attention_op_compute, tw_rotary_compute, tw_tensor_scatter_compute, tw_cache_compute;
/* Rotates pairs of a head in place by the angles in row `angles` of two arrays, which have `half` of them a row. Pairs
   are neighbours, if `interleaved`, and otherwise `half` apart. */
void tw_rotate_head(double *head, int64_t half, bool interleaved, const tw_array *cosine, const tw_array *sine,
                    int64_t angles);

#endif
