/* SPDX-License-Identifier: Apache-2.0 */
/* A layer of a network of rectified linear units for TW_MLP_ROWS rows at once. After rectifying, half to two thirds of
   a trained network's values are 0, and rows that differ in little have many of their zeros in the same units: a unit
   that is 0 in all rows is left out of the next layer. */
#ifndef TW_TUNE_MLP_LAYER_H
#define TW_TUNE_MLP_LAYER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TW_MLP_ROWS = 32, /* Rows of a call. */
    TW_MLP_UNITS = 8, /* Units whose weights lie together. */
    TW_MLP_ALIGN = 64 /* Alignment of values and weights in bytes. */
};

typedef struct tw_mlp_layer {
    const float *weights; /* [units / TW_MLP_UNITS][inputs][TW_MLP_UNITS] */
    const float *bias;    /* [units] */
    int inputs, units;    /* `units` is a multiple of TW_MLP_UNITS. */
    bool rectify;         /* True: negative results become 0. */
} tw_mlp_layer;

/* Computes y[units][TW_MLP_ROWS] from x[inputs][TW_MLP_ROWS], of which the `n` inputs listed in `live` count. Lists the
   units with a result that is not 0 in `next`, in ascending order, and returns their number. */
typedef int tw_mlp_layer_fn(const tw_mlp_layer *l, const float *x, const int *live, int n, float *y, int *next);
/* Variants by the instruction set in their name. */
tw_mlp_layer_fn tw_mlp_layer_c, tw_mlp_layer_avx2, tw_mlp_layer_avx512;

#endif
