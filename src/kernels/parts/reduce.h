/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions across the lanes of a warp. All lanes take part. */
#ifndef TW_KERNELS_PARTS_REDUCE_H
#define TW_KERNELS_PARTS_REDUCE_H

#include "ir/builder.h"

/* Reduces over groups of lanes, and gives every lane its group's result. `from` and `below` are powers of two. Lanes of
   a group differ in the bits from `from` up to, not including, `below` of their number: (1, 32) is the whole warp, (1,
   4) four neighbours, (4, 32) every fourth lane. A sum has the same bits in all lanes of its group and in every run. */
tw_val tw_part_warp_sum(tw_builder *b, tw_val x, int from, int below);
tw_val tw_part_warp_max(tw_builder *b, tw_val x, int from, int below);
tw_val tw_part_warp_min(tw_builder *b, tw_val x, int from, int below);
tw_val tw_part_warp_product(tw_builder *b, tw_val x, int from, int below);

#endif
