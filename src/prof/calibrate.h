/* SPDX-License-Identifier: Apache-2.0 */
/* How long a record takes on a GPU: measured by a kernel with more and with fewer marks in its loop, lowered as those of
   any kernel. */
#ifndef TW_PROF_CALIBRATE_H
#define TW_PROF_CALIBRATE_H

#include "device/cuda/cuda.h"
#include "prof/lower.h"

enum { TW_PROF_CALIBRATION_POINTS = 4 };

typedef struct tw_prof_calibration {
    double clocks; /* Of a record: the slope of the points below. */
    double error;  /* The largest distance of a point from the line, in clocks of a record. */
    int records[TW_PROF_CALIBRATION_POINTS];      /* Marks in an iteration. */
    double measured[TW_PROF_CALIBRATION_POINTS];  /* Clocks of an iteration. */
} tw_prof_calibration;

/* Measures records in shared memory, or with `global` in global memory. */
tw_status tw_prof_calibrate(tw_prof_calibration *out, tw_cuda *c, bool global, tw_diag *diag);

/* The kernel that is measured, before its records are lowered: `marks` of them in each of TW_PROF_CALIBRATION_ROUNDS
   iterations. The caller frees it. NULL: out of memory. */
enum { TW_PROF_CALIBRATION_ROUNDS = 256 };
tw_kernel *tw_prof_calibration_kernel(int target, int marks);

#endif
