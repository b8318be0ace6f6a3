/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions across the lanes of a warp, which all take part. */
#ifndef TW_KERNELS_PARTS_REDUCE_H
#define TW_KERNELS_PARTS_REDUCE_H

#include "ir/builder.h"

/* The sum, or the largest, over the lanes whose numbers differ in the bits of `from`, 2 * from, ... below `below`, two
   powers of two: (1, 32) is the whole warp, (1, 4) four neighbours. Every lane gets it. A sum is the same in every lane
   and every run. */
tw_val tw_part_warp_sum(tw_builder *b, tw_val x, int from, int below);
tw_val tw_part_warp_max(tw_builder *b, tw_val x, int from, int below);

#endif
