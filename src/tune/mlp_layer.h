/* SPDX-License-Identifier: Apache-2.0 */
/* A fully connected layer of a network, computed for TW_MLP_ROWS rows at once. Half to two thirds of the values in a
   trained network of rectified linear units are 0, and rows that are alike have zeros in the same units. The next layer
   skips the units that are 0 in all rows of the call. */
#ifndef TW_TUNE_MLP_LAYER_H
#define TW_TUNE_MLP_LAYER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TW_MLP_ROWS = 32, /* Rows of a call. */
    TW_MLP_UNITS = 8, /* Units whose weights are interleaved. */
    TW_MLP_ALIGN = 64 /* Alignment of values and weights in bytes. */
};

typedef struct tw_mlp_layer {
    const float *weights; /* [units / TW_MLP_UNITS][inputs][TW_MLP_UNITS] */
    const float *bias;    /* [units] */
    int inputs;           /* Number of inputs of a row. */
    int units;            /* Number of units, a multiple of TW_MLP_UNITS. */
    bool rectify;         /* True: negative results become 0. */
} tw_mlp_layer;

/* Computes the results y[units][TW_MLP_ROWS] of inputs x[inputs][TW_MLP_ROWS]. live[n] has the indices of the inputs to
   read; the others are taken for 0. Writes to next[units] the indices, ascending, of the units that are not 0 in every
   row, and returns their number. x and y are aligned to TW_MLP_ALIGN. */
typedef int tw_mlp_layer_fn(const tw_mlp_layer *l, const float *x, const int *live, int n, float *y, int *next);
/* The same function in plain C and by an instruction set. */
tw_mlp_layer_fn tw_mlp_layer_c, tw_mlp_layer_avx2, tw_mlp_layer_avx512;

#endif
