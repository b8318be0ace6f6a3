/* SPDX-License-Identifier: Apache-2.0 */
/* A model of the time of each configuration. The time is

       (c0 WL + c1 W + c2 L + c3 + c4 xL + c5 x + sum over tiled axes k of L (e t_k w + (e f_k + m_k) x / tiles))
       (1 + r + s),

   with L rounds, x = G / slots of G blocks, and W = ceil(x) waves. Tiled axes are those that blocks divide. If an axis
   does not shrink, e is the empty part of the last of its tiles, and w is 1. If it shrinks, e is the size of a tile
   divided by a block's extent, and w is W: eL is what a block does whatever its extent along the axis is, such as
   reading its part of the other operand. L x / tiles is proportional to the size of the operand that the tiles along
   the axis share: m_k counts what memory takes to bring it to the device once. m_k is 0 if the axis shrinks. Each
   coefficient is at least 0.

   r is a tensor product of linear splines over octaves of the axes. Penalties on its first and second differences
   smooth it (P-splines: Eilers and Marx, Statistical Science 11, 1996). s has a linear spline over the fill x / W for
   each of a few numbers of waves, and another that is multiplied by e for each tiled axis that does not shrink
   (select/fill.h). */
#ifndef TW_TUNE_SPLINE_H
#define TW_TUNE_SPLINE_H

#include "select/fill.h"
#include "select/lattice.h"
#include "tune/trials.h"

enum {
    TW_SPLINE_TERMS = 6 + 3 * TW_FILL_AXES,
    TW_SPLINE_LEAST = 12 /* The fewest trials of a modelled configuration. */
};

/* The model of a configuration. */
typedef struct tw_spline_config {
    int macro, micro;
    /* Number of blocks that run at once. The family's number is kept unless another one explains the samples better: a
       multiprocessor may run several blocks, and clusters may leave some multiprocessors empty. */
    int64_t slots;
    double c[TW_SPLINE_TERMS]; /* The six of waves, then t of each tiled axis, f of each, and m of each. */
    double *r;                 /* r at each node of the lattice, from -0.9 to 9, then the TW_FILL_CELLS cells of s. */
    int samples;               /* Number of samples. */
    double error;              /* 90th percentile of the samples' relative errors, each predicted without its sample. */
} tw_spline_config;

typedef struct tw_spline {
    const tw_family *family;
    int tiled[TW_FILL_AXES]; /* Tiled axes: those that blocks divide, counted from 1. 0: none. */
    tw_lattice lattice;
    tw_spline_config *configs;
    int n;
    double smoothing; /* Factor of the penalties: the one of a few that predicts best. */
    /* The quality of predictions, each without its own sample: mean relative error, and the share of the fastest time
       that choices between the configurations have, as a geometric mean over `problems` problems. */
    double error, share;
    double r2; /* The share of the times' variance that these predictions explain. */
    int problems;
    /* By how much of its time another configuration should be predicted to be faster than the family's default, to be
       chosen in its place: of a few the one whose gain is surest. */
    double caution;
    /* What choices with that caution gain: the mean logarithm of the time of the family's default divided by that of
       the choice, and its standard error. The problems are those with a trial of the default. 0 and infinity: there are
       fewer than two of them. */
    double gain, gain_error;
} tw_spline;

/* Fits the model to the trials of screening and spread. Screened trials have a lower weight, since each is one sample.
   The configurations are those of the spread trials, or of the screened ones if there are no spread trials. *out is
   NULL if no configuration has TW_SPLINE_LEAST trials. The caller frees *out. */
tw_status tw_spline_fit(tw_spline **out, const tw_family *f, const tw_trials *t, tw_diag *diag);
void tw_spline_free(tw_spline *s); /* `s` may be NULL. */

/* Predicts the time of configuration i. Infinity: the configuration cannot compute the problem. */
double tw_spline_time(const tw_spline *s, int i, const int64_t *problem);

#endif
