/* SPDX-License-Identifier: Apache-2.0 */
/* Between the types of memory and those that kernels compute with. `pair` is TW_T_f16x2 or TW_T_bf16x2. */
#ifndef TW_KERNELS_PARTS_CONVERT_H
#define TW_KERNELS_PARTS_CONVERT_H

#include "ir/builder.h"

/* An element of type `t` as it was loaded: f32 for the floats of 16 bits, a sign-extended i32 for i8, itself otherwise.
 */
tw_val tw_part_widen(tw_builder *b, tw_type t, tw_val x);

/* Two f32 rounded to a pair, x the lower half. */
tw_val tw_part_pair(tw_builder *b, tw_type pair, tw_val x, tw_val y);
/* One half of a pair, or of an i32 that holds one, as f32: the lower (second 0) or the upper (1). Exact. */
tw_val tw_part_half(tw_builder *b, tw_type pair, tw_val x, int second);
/* Two f32 as the sum of two pairs: *high holds them rounded, *low what that lost, rounded. */
void tw_part_split(tw_builder *b, tw_type pair, tw_val x, tw_val y, tw_val *high, tw_val *low);

#endif
