/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embeddings as configs describe them. */
#ifndef TW_MODEL_ROPE_H
#define TW_MODEL_ROPE_H

#include "model/model.h"

typedef enum tw_rope_type {
    TW_ROPE_TYPE_DEFAULT,
    TW_ROPE_TYPE_LINEAR,
    TW_ROPE_TYPE_DYNAMIC,
    TW_ROPE_TYPE_LLAMA3,
    TW_ROPE_TYPE_YARN,
    TW_ROPE_TYPE_LONG
} tw_rope_type;

typedef struct tw_rope_spec {
    tw_rope_type type;
    int64_t dims; /* rotated elements of a head, even */
    double theta;
    double factor;
    double low_freq, high_freq;    /* llama3 */
    double beta_fast, beta_slow;   /* yarn */
    double attention_factor;       /* yarn, longrope: cosines and sines are multiplied by it; below 0: it follows from
                                      `factor` */
    double mscale, mscale_all_dim; /* yarn; 0: not given */
    bool truncate;                 /* yarn */
    int64_t original_max;          /* llama3, yarn, dynamic, longrope */
    float *short_factor;           /* longrope: what each frequency is divided by up to original_max; dims/2 */
    float *long_factor;            /* longrope: the same beyond original_max */
} tw_rope_spec;

/* Fills `r`, with the table in the arena. The arithmetic is that of transformers, in float where that is in float:
   at position 100000 a last bit of difference in a frequency is a hundredth of a radian. False when the arena has
   failed. */
bool tw_rope_init(tw_rope *r, tw_arena *arena, const tw_rope_spec *spec);

/* Fills `r` with a rope of the same shape that does not turn: cosines are 1, sines 0. */
bool tw_rope_init_still(tw_rope *r, tw_arena *arena, int64_t dims);

#endif
