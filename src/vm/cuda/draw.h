/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a draw (vm/sample.h) as operations of a kernel: each function builds what its namesake there computes,
   bit by bit. */
#ifndef TW_VM_CUDA_DRAW_H
#define TW_VM_CUDA_DRAW_H

#include "ir/builder.h"
#include "vm/sample.h"

typedef struct tw_draw_key {
    tw_val first, second;
} tw_draw_key;

tw_draw_key tw_draw_key_of(tw_builder *b, const tw_val seed[2], tw_val position);
/* z * scale + noise */
tw_val tw_draw_score(tw_builder *b, tw_draw_key key, tw_val scale, tw_val z, tw_val id);
tw_val tw_draw_distance(tw_builder *b, tw_val scale, tw_val largest, tw_val z);
tw_val tw_draw_mass(tw_builder *b, tw_val distance);
tw_val tw_draw_ordered(tw_builder *b, tw_val z);
tw_val tw_draw_unordered(tw_builder *b, tw_val ordered); /* the inverse of tw_draw_ordered */
/* i64, of tw_draw_ordered of the largest. */
tw_val tw_draw_rank(tw_builder *b, tw_val largest, tw_val z, tw_val id);
tw_val tw_draw_share(tw_builder *b, tw_val sum, tw_val p);
tw_val tw_draw_penalise(tw_builder *b, tw_val repetition, tw_val presence, tw_val frequency, tw_val z, tw_val count);

#endif
