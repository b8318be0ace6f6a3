/* SPDX-License-Identifier: Apache-2.0 */
/* A model of a kernel's time by waves (WaveTune, arXiv 2604.10187, sections 3.3 and 4). A kernel runs G blocks, each of
   L rounds of its loop, and so many blocks at once as the device has slots. The slots are filled ceil(G / slots) times:
   these are its waves. Within a wave the time is nearly a GL + b G + c L + d, and each wave has coefficients of its
   own. Macro parameters decide G and L. Micro parameters are chosen once for all G of a wave and an L, an anchor. */
#ifndef TW_TUNE_WAVE_H
#define TW_TUNE_WAVE_H

#include "base/random.h"
#include "tilewright/base.h"

/* ---- where to measure */

typedef struct tw_wave_grid {
    int64_t slots;  /* Blocks that the device runs at once, at least 1. */
    int waves;      /* W: the number of waves to measure, at least 1. */
    int parts;      /* I: the parts of each wave, from 1 to `slots`. Each part has a point. */
    double longest; /* The largest ratio of a grid's longer side to its shorter one. 0: 1.1, as in the paper. */
    int64_t heads;  /* Number of columns of blocks, such as attention heads. 0: any number of columns. */
    int64_t groups; /* Number of equal rectangles, rows times columns of blocks, that a grid consists of. 0: 1. */
    int64_t most_rows, most_columns; /* The most rows and columns of blocks. 0: any number. */
} tw_wave_grid;

typedef struct tw_wave_point {
    int wave;        /* The wave's number, from 1. */
    int64_t grid;    /* G, the product of rows, columns and tw_wave_grid.groups. */
    int64_t rows;    /* Rows of blocks. Not above `columns`, unless heads or limits make it so. */
    int64_t columns; /* Columns of blocks. */
} tw_wave_point;

/* Finds the grid to measure in a part of a wave, both counted from 0. Without heads it is the largest one whose sides
   have at most the ratio `longest`; if no grid of the part has, it is the one whose sides differ least. With heads it
   is the largest one with so many columns. False: no grid of the part divides into the heads, groups and limits. */
bool tw_wave_point_at(const tw_wave_grid *g, int wave, int part, tw_wave_point *point);
/* Finds the points of all parts that have one. Writes at most waves * parts points, smallest first. Returns their
   number. */
int tw_wave_points(const tw_wave_grid *g, tw_wave_point *points);

/* ---- the model */

typedef struct tw_wave_sample {
    int macro;    /* Index of the macro choice, from 0. */
    int micro;    /* Index of the micro choice, from 0. */
    int64_t grid; /* G, the number of blocks, at least 1. */
    double loops; /* L, the rounds of a block's loop, above 0. Not whole where blocks at edges are smaller. */
    double time;  /* The measured time in any unit, above 0. */
} tw_wave_sample;

/* Forms of the model. The paper compares the full form with two ablations (section 5.5). */
typedef enum tw_wave_form {
    TW_WAVE_FULL,   /* A fit for each wave. */
    TW_WAVE_LINEAR, /* One fit for all waves. */
    /* Within a wave G does not matter, and beyond the last one the number of waves stands for it. The paper's also
       leaves out L. */
    TW_WAVE_STEP,
    TW_WAVE_FORMS /* Number of forms. */
} tw_wave_form;

typedef struct tw_wave_options {
    tw_wave_form form;
    int waves;     /* The last wave whose samples count. 0: all samples count. */
    int last;      /* The number of last waves that extrapolation is fitted to. 0: 10, as in the paper. */
    int alone;     /* Waves after this one share a fit. 0: each wave with samples has its own. */
    bool absolute; /* True: errors count as they are, as in the paper. False: relative to the time. */
} tw_wave_options;

typedef struct tw_wave_model tw_wave_model;

/* Fits a model of `macros` choices of macro parameters, of which choice i has slots[i] slots. A choice without samples
   is never selected. For each wave and L the micro choice is shared: of those measured at the most grids, the one
   nearest to the fastest in the mean. Nothing that is passed in is needed later. TW_ERR_USAGE: a number is out of
   range. TW_ERR_MEMORY. The caller frees the model. */
tw_status tw_wave_fit(tw_wave_model **out, const tw_wave_sample *samples, int n, const int64_t *slots, int macros,
                      const tw_wave_options *o, tw_diag *diag);
void tw_wave_free(tw_wave_model *m); /* NULL is fine. */

/* A view of a fit. */
typedef struct tw_wave_fit_view {
    int64_t wave; /* The fit's wave, from 1. */
    bool beyond;  /* True: the fit is for all waves after the others'. */
    /* Coefficients of GL, G, L and 1. With TW_WAVE_STEP the number of waves takes the place of G. */
    const double *c;
    int anchors;          /* Number of anchors. 0: there are no samples. */
    const double *rounds; /* L of each anchor, ascending. */
    const int *micros;    /* Micro choice of each anchor. */
} tw_wave_fit_view;
/* Returns the number of a macro choice's fits, at least 1: those of single waves, ascending, then the one of all later
   waves. */
int tw_wave_fits(const tw_wave_model *m, int macro);
/* Returns a view of fit i. The model owns its lists. */
tw_wave_fit_view tw_wave_fit_at(const tw_wave_model *m, int macro, int i);

/* Predicts the time of G blocks, at least 1, of L rounds. A wave without samples is taken for the next one that has
   some. Infinity: there are no samples of this macro choice, or the fit is not above 0 there. */
double tw_wave_time(const tw_wave_model *m, int macro, int64_t grid, double loops);
/* Returns the micro choice of the nearest anchor, the lower one of two. -1: there are no samples. */
int tw_wave_micro(const tw_wave_model *m, int macro, int64_t grid, double loops);

/* A problem as one macro choice divides it. */
typedef struct tw_wave_division {
    int64_t grid; /* G. 0: the choice cannot compute the problem. */
    double loops; /* L. */
} tw_wave_division;
typedef struct tw_wave_choice {
    int macro;   /* Index of the macro choice. -1: nothing can be chosen. */
    int micro;   /* Index of the micro choice. -1: nothing can be chosen. */
    double time; /* The predicted time. Infinity: nothing can be chosen. */
} tw_wave_choice;

/* Chooses the macro parameters of least predicted time, and their micro parameters. `divisions` has one for each macro
   choice. Allocates nothing. */
tw_wave_choice tw_wave_select(const tw_wave_model *m, const tw_wave_division *divisions);

/* How well a model predicts samples, of which those count whose micro parameters it would choose. */
typedef struct tw_wave_quality {
    int n;        /* Samples that count and have a prediction. */
    int without;  /* Samples that count and have none. */
    double r2;    /* The share of the times' variance that is explained. 1: all of it. 0 if the times do not differ. */
    double mean;  /* Mean relative error. */
    double worst; /* Largest relative error. */
} tw_wave_quality;
tw_wave_quality tw_wave_judge(const tw_wave_model *m, const tw_wave_sample *samples, int n);

/* ---- why waves fade (section 3.2) */

/* Simulates `blocks` blocks on `slots` slots, each of which takes the next block as soon as it is free. A block's time
   is normally distributed; one below 0 counts as 0. *time is when the last block ends. TW_ERR_MEMORY. */
tw_status tw_wave_simulate(int64_t slots, int64_t blocks, double mean, double deviation, tw_random *random,
                           double *time, tw_diag *diag);

#endif
