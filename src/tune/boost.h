/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient-boosted regression trees. XGBoost (Chen and Guestrin, KDD 2016) trains them; it is opened at run time.
   Prediction uses an array of nodes and needs no library. */
#ifndef TW_TUNE_BOOST_H
#define TW_TUNE_BOOST_H

#include "tune/features.h"

typedef struct tw_boost_options {
    int trees, depth;    /* Number of trees, and the most splits from a tree's root to a leaf. */
    double rate;         /* Learning rate: each tree's leaves are multiplied by it. */
    double subsample;    /* Share of the rows that each tree learns from. */
    int threads;         /* Number of threads. 0: every core. */
    uint64_t seed;       /* Seed of the rows of each tree. */
    const char *xgboost; /* Path of XGBoost's shared library. NULL: its usual names are tried. */
} tw_boost_options;

typedef struct tw_boost tw_boost;

/* Trains trees on the rows that are not held. The caller frees *out. TW_ERR_UNSUPPORTED: there is no XGBoost. */
tw_status tw_boost_fit(tw_boost **out, const tw_table *t, const tw_boost_options *o, tw_diag *diag);
void tw_boost_free(tw_boost *b); /* NULL is fine. */

/* Predicts y for n rows. */
void tw_boost_predict(const tw_boost *b, const float *x, int n, float *y);

int64_t tw_boost_nodes(const tw_boost *b); /* Number of nodes of all trees. */
int64_t tw_boost_bytes(const tw_boost *b); /* Size of the nodes and of the trees' list. */

/* Reads trees from XGBoost's JSON, `size` bytes. `columns` is the number of columns of rows. The caller frees *out.
   TW_ERR_FORMAT: the text is no such model, or its nodes form no trees. */
tw_status tw_boost_read(tw_boost **out, const char *json, size_t size, int columns, tw_diag *diag);

#endif
