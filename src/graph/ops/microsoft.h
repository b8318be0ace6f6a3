/* SPDX-License-Identifier: Apache-2.0 */
/* Operators of onnxruntime's domain com.microsoft
   (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md). */
#ifndef TW_GRAPH_OPS_MICROSOFT_H
#define TW_GRAPH_OPS_MICROSOFT_H

#include "graph/ops/op.h"

/* microsoft.c */
tw_op_shape tw_skip_norm_shape, tw_ms_rotary_shape, tw_matmul_nbits_shape, tw_fast_gelu_shape;
tw_op_compute tw_skip_norm_compute, tw_ms_rotary_compute, tw_matmul_nbits_compute, tw_fast_gelu_compute;
/* group_query.c */
tw_op_shape tw_group_query_shape;
tw_op_compute tw_group_query_compute;

#endif
