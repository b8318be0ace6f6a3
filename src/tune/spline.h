/* SPDX-License-Identifier: Apache-2.0 */
/* A model of each configuration's time: waves and rounds, corrected over problems. The time is

       (c0 WL + c1 W + c2 L + c3 + c4 xL + c5 x) (1 + r),

   with L rounds, x = G / slots of G blocks, and W = ceil(x) waves; c is not negative. r is a tensor product of linear
   splines over octaves of the axes, smoothed by penalties on its slopes and bends (P-splines: Eilers and Marx,
   Statistical Science 11, 1996). */
#ifndef TW_TUNE_SPLINE_H
#define TW_TUNE_SPLINE_H

#include "select/lattice.h"
#include "tune/trials.h"

enum { TW_SPLINE_TERMS = 6, TW_SPLINE_LEAST = 12 /* The fewest trials that a configuration is modelled from. */ };

/* The model of a configuration. */
typedef struct tw_spline_config {
    int macro, micro;
    double c[TW_SPLINE_TERMS];
    double *r; /* r at each node of the lattice. From -0.9 to 9. */
    int samples;
    double error; /* Relative error that 9 of 10 samples are within, each predicted without itself. */
} tw_spline_config;

typedef struct tw_spline {
    const tw_family *family;
    tw_lattice lattice;
    tw_spline_config *configs;
    int n;
    double smoothing; /* What the penalties are multiplied by: the one of a few that predicts best. */
    /* How samples are predicted, each without itself: relative error in the mean, and the share of the fastest time
       that choices between the configurations have, as a geometric mean over `problems` problems. */
    double error, share;
    double r2; /* The share of the times' variance that these predictions explain. */
    int problems;
} tw_spline;

/* Fits the model to random problems: trials that were spread, and screened ones, which count less since they have a
   sample each. Configurations are those that were spread, or all that were screened if none was. *out is NULL if none
   has enough trials. The caller frees it. */
tw_status tw_spline_fit(tw_spline **out, const tw_family *f, const tw_trials *t, tw_diag *diag);
void tw_spline_free(tw_spline *s); /* NULL is fine. */

/* Predicts the time of configuration i. Infinity: it cannot compute the problem. */
double tw_spline_time(const tw_spline *s, int i, const int64_t *problem);

#endif
