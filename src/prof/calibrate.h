/* SPDX-License-Identifier: Apache-2.0 */
/* How long records take on a GPU: measured by kernels with more and with fewer marks, lowered as those of any kernel.
 */
#ifndef TW_PROF_CALIBRATE_H
#define TW_PROF_CALIBRATE_H

#include "device/cuda/cuda.h"
#include "prof/lower.h"

/* What stands between the records of a calibration's kernel. */
typedef enum tw_prof_between {
    TW_PROF_WORK,    /* Products that wait for one another: most issue slots are free, as in most kernels. */
    TW_PROF_NOTHING, /* Records follow one another. */
    TW_PROF_BETWEENS
} tw_prof_between;

enum { TW_PROF_POINTS = 4 };

/* A line through points: clocks of an iteration by its records. */
typedef struct tw_prof_slope {
    double clocks; /* Of a record. */
    double error;  /* The largest distance of a point from the line, in clocks. */
    int records[TW_PROF_POINTS];
    double measured[TW_PROF_POINTS];
} tw_prof_slope;

typedef struct tw_prof_calibration {
    tw_prof_slope of[TW_PROF_BETWEENS];
} tw_prof_calibration;

/* Measures records in shared memory, or with `global` in global memory. */
tw_status tw_prof_calibrate(tw_prof_calibration *out, tw_cuda *c, bool global, tw_diag *diag);

/* The kernel that is measured, before its records are lowered: `marks` of them in each iteration. Parameters: out
   (a float for each thread), x (f32), rounds (i32). The caller frees it. NULL: out of memory. */
tw_kernel *tw_prof_calibration_kernel(int target, tw_prof_between between, int marks);

#endif
