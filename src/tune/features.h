/* SPDX-License-Identifier: Apache-2.0 */
/* Features are a problem and a configuration of a family as a row of numbers, from which models learn. A row has: the
   parameters of the configuration; the axes of the problem and its operations; G, L, waves; the used parts of the last
   wave and of the tiles. Sizes are logarithms to base 2, as ISAAC takes them (Tillet and Cox, SC 2017, section 5.2). */
#ifndef TW_TUNE_FEATURES_H
#define TW_TUNE_FEATURES_H

#include "tune/trials.h"

typedef struct tw_features {
    const tw_family *family;
    bool logarithms;  /* False: sizes are plain numbers. */
    int columns;      /* Numbers in a row. */
    int params;       /* Number of first columns, which depend on the configuration alone. */
    int configs;      /* Number of configurations of the family. */
    const int *first; /* [macro]: index of the macro choice's first configuration. Its micro choices follow. */
    const float *of;  /* [configs][params]: the first columns of each configuration's rows. */
} tw_features;

/* Lists the features of a family. A parameter that is the same in all configurations has no column. A parameter that is
   no number has a column for each of its words, which is 1 where the word is given. The caller frees *out. */
tw_status tw_features_make(tw_features **out, const tw_family *f, bool logarithms, tw_diag *diag);
void tw_features_free(tw_features *x); /* NULL is fine. */

/* Writes the row of a problem and a configuration. False: the macro choice cannot compute the problem. */
bool tw_features_row(const tw_features *x, const int64_t *problem, int macro, int micro, float *row);

/* Rows, and the values that models learn to predict from them. */
typedef struct tw_table {
    int n, columns; /* Number of rows, and of numbers in a row. */
    float *x;       /* [n][columns] */
    float *y;       /* [n]: natural logarithm of time per operation, in the family's unit. */
    bool *held;     /* [n]: the row is not learned from. It decides when learning stops. */
} tw_table;

/* Writes the rows of trials, n_lists lists of them. `held` is the share of the problems, drawn by the seed, whose rows
   are held. The caller frees *out. */
tw_status tw_table_make(tw_table *out, const tw_features *x, const tw_trial_list *const *lists, int n_lists,
                        double held, uint64_t seed, tw_diag *diag);
void tw_table_free(tw_table *t);

#endif
