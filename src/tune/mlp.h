/* SPDX-License-Identifier: Apache-2.0 */
/* A multi-layer perceptron, ISAAC's model of performance (Tillet and Cox, SC 2017, section 5): fully connected layers
   of rectified linear units and a linear output. It is trained by Adam (Kingma and Ba, ICLR 2015) on squared errors. */
#ifndef TW_TUNE_MLP_H
#define TW_TUNE_MLP_H

#include "tune/features.h"

enum { TW_MLP_LAYERS = 12 /* The most hidden layers. */ };

typedef struct tw_mlp_options {
    int layers[TW_MLP_LAYERS]; /* Number of units of each hidden layer. */
    int n_layers;              /* Number of hidden layers. */
    int epochs;                /* The most passes over the rows. */
    int patience;              /* Passes without a better error on held rows after which training stops. 0: none. */
    int batch;                 /* Number of rows of a step. */
    double rate;               /* Adam's step size at the start. It falls to 0 along a half cosine. */
    uint64_t seed;             /* Seed of the first weights and of the rows' order. */
} tw_mlp_options;

typedef struct tw_mlp tw_mlp;

/* Trains a network on the rows that are not held. If rows are held, the result is the network of the pass with the
   least squared error on them. The same rows, options, processor and number of BLAS threads give the same network. The
   caller frees *out. TW_ERR_USAGE: the options are out of range, or there are no rows. */
tw_status tw_mlp_fit(tw_mlp **out, const tw_table *t, const tw_mlp_options *o, tw_diag *diag);
void tw_mlp_free(tw_mlp *m); /* NULL is fine. */

/* Predicts y for n rows. Rows are predicted in groups of TW_MLP_ROWS, faster if the rows of a group are alike. Uses
   memory of the network, so only one thread at a time may predict. */
void tw_mlp_predict(tw_mlp *m, const float *x, int n, float *y);
/* Restricts later predictions to the instruction sets in `isa`, a mask of TW_CPU_... bits. Predictions by different
   instruction sets differ by rounding. */
void tw_mlp_limit(tw_mlp *m, uint32_t isa);

int64_t tw_mlp_weights(const tw_mlp *m); /* Number of weights and biases. */
double tw_mlp_error(const tw_mlp *m);    /* Mean squared error on held rows. 0: no rows were held. */
int tw_mlp_epochs(const tw_mlp *m);      /* Number of passes that were made. */

#endif
