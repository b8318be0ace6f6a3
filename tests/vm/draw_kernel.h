/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's draw as a kernel of its own: one block makes of given logits what the head's instructions make of
   theirs, and then runs a step's last instruction on it. For tests with logits that no model would give. */
#ifndef TW_TESTS_DRAW_KERNEL_H
#define TW_TESTS_DRAW_KERNEL_H

#include "vm/cuda/mega.h"

typedef struct draw_shape {
    int sequences, warps, slots, cut_list;
    int64_t vocab;
} draw_shape;

enum {
    DRAW_LOGITS, /* f32[sequences][vocab]: penalised in place */
    DRAW_ROWS,   /* i32[slots][2] */
    DRAW_BEST,   /* (f32, i32)[slots][sequences] */
    DRAW_TOKENS, /* i32[2 * sequences]: of the second half the positions */
    DRAW_OUT,    /* i32[sequences] */
    DRAW_TOKEN,  /* i32[sequences] */
    DRAW_ABORT,  /* i32: 0 */
    DRAW_RULES,
    DRAW_COUNTS,
    DRAW_POS,
    DRAW_MODE,
    DRAW_ARGS
};

tw_mega_plan draw_plan(const draw_shape *s, const tw_target *target);
tw_kernel *draw_kernel(const tw_mega_plan *p); /* NULL: out of memory */

/* Rows of slots, as even as fours allow. rows: [slots][2]. */
void draw_rows(const draw_shape *s, int32_t *rows);

#endif
