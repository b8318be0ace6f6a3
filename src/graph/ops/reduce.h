/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_OPS_REDUCE_H
#define TW_GRAPH_OPS_REDUCE_H

#include "graph/ops/op.h"

/* reduce.c: all Reduce operators, ArgMax and ArgMin, Softmax and its kin, TopK. */
tw_op_shape tw_reduce_shape, tw_arg_shape, tw_softmax_shape, tw_top_k_shape;
tw_op_compute tw_reduce_compute, tw_arg_compute, tw_softmax_compute, tw_top_k_compute;
/* product.c */
tw_op_shape tw_matmul_shape, tw_gemm_op_shape;
tw_op_compute tw_matmul_compute, tw_gemm_op_compute;
/* norm.c */
tw_op_shape tw_layer_norm_shape, tw_rms_norm_shape, tw_group_norm_shape, tw_batch_norm_shape, tw_lp_norm_shape;
tw_op_compute tw_layer_norm_compute, tw_rms_norm_compute, tw_group_norm_compute, tw_batch_norm_compute,
    tw_lp_norm_compute;
/* attention.c, rotary.c */
tw_op_shape tw_attention_op_shape, tw_rotary_shape, tw_tensor_scatter_shape;
tw_op_compute tw_attention_op_compute, tw_rotary_compute, tw_tensor_scatter_compute;

#endif
