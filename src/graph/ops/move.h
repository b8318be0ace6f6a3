/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move elements, whatever these are. */
#ifndef TW_GRAPH_OPS_MOVE_H
#define TW_GRAPH_OPS_MOVE_H

#include "graph/ops/op.h"

/* reshape.c: extents change, and elements stay in order. */
tw_op_shape tw_shape_shape, tw_size_shape, tw_reshape_shape, tw_flatten_shape, tw_squeeze_shape, tw_unsqueeze_shape,
    tw_constant_shape, tw_constant_of_shape_shape, tw_range_shape;
tw_op_compute tw_shape_compute, tw_size_compute, tw_constant_compute, tw_constant_of_shape_compute, tw_range_compute;
/* move.c */
tw_op_shape tw_transpose_shape, tw_concat_shape, tw_split_shape, tw_slice_shape, tw_expand_shape, tw_tile_shape,
    tw_pad_shape, tw_trilu_shape;
tw_op_compute tw_transpose_compute, tw_concat_compute, tw_split_compute, tw_slice_compute, tw_expand_compute,
    tw_tile_compute, tw_pad_compute, tw_trilu_compute;
/* index.c: places are operands. */
tw_op_shape tw_gather_shape, tw_gather_elements_shape, tw_gather_nd_shape, tw_scatter_elements_shape,
    tw_scatter_nd_shape, tw_one_hot_shape, tw_eye_like_shape, tw_cum_sum_shape;
tw_op_compute tw_gather_compute, tw_gather_elements_compute, tw_gather_nd_compute, tw_scatter_elements_compute,
    tw_scatter_nd_compute, tw_one_hot_compute, tw_eye_like_compute, tw_cum_sum_compute;

typedef enum tw_pad_mode { TW_PAD_CONSTANT, TW_PAD_REFLECT, TW_PAD_EDGE, TW_PAD_WRAP, TW_PAD_MODES } tw_pad_mode;
/* The mode of a Pad. TW_PAD_MODES: it has another name. */
tw_pad_mode tw_pad_mode_of(const tw_node *n);
/* Returns the index, along a dimension of n elements, of the element that stands at index i once the dimension is
   padded. Pads below 0 take elements away first, and what is left is padded. -1: the pad's value stands there. */
int64_t tw_pad_source(int64_t i, int64_t n, int64_t before, int64_t behind, tw_pad_mode mode);

/* Refuses elements that are not whole bytes. */
tw_status tw_call_whole_bytes(const tw_call *c, const tw_array *a);
static inline size_t tw_element_bytes(const tw_array *a) {
    return (size_t)tw_element_bits(a->type) / 8;
}

#endif
