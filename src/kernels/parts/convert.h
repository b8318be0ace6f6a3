/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between types in memory and types in registers. `pair` is TW_T_f16x2 or TW_T_bf16x2. */
#ifndef TW_KERNELS_PARTS_CONVERT_H
#define TW_KERNELS_PARTS_CONVERT_H

#include "ir/builder.h"

/* Widens a loaded element of type `t`: f16 and bf16 to f32, i8 to i32 with its sign. Other types stay. */
tw_val tw_part_widen(tw_builder *b, tw_type t, tw_val x);

/* Rounds two f32 to a pair. x becomes the lower half. */
tw_val tw_part_pair(tw_builder *b, tw_type pair, tw_val x, tw_val y);
/* Converts one half of a pair to f32, exactly. `second` is 0 for the lower half and 1 for the upper. `x` is a pair, or
   an i32 with its bits. */
tw_val tw_part_half(tw_builder *b, tw_type pair, tw_val x, int second);
/* Converts byte `i` of an i32, an e4m3 that is no NaN, to f32, exactly. */
tw_val tw_part_e4m3(tw_builder *b, tw_val x, int i);
/* Converts the four e4m3 of an i32, which are no NaNs, to two pairs: those in bytes 0 and 2, and those in bytes 1
   and 3. A bf16 is exact, and an f16 the exact value divided by TW_PART_E4M3_F16. */
enum { TW_PART_E4M3_F16 = 256 };
void tw_part_e4m3_pairs(tw_builder *b, tw_type pair, tw_val x, tw_val out[2]);
/* Splits an f32, given as an i32 with its bits, into high + low. *high (i32) is rounded to tf32. *low (f32) is exact,
   and of either sign. An infinity, and what rounds to one, become a NaN. */
void tw_part_split_tf32(tw_builder *b, tw_val x, tw_val *high, tw_val *low);
/* Splits two f32 into the sum of two pairs. *high holds the rounded values, *low the rounded remainders. */
void tw_part_split(tw_builder *b, tw_type pair, tw_val x, tw_val y, tw_val *high, tw_val *low);

#endif
