/* SPDX-License-Identifier: Apache-2.0 */
/* The family of products y = x W^T on this processor, timed by tune/cpu_rig.h. The axes are m, n and k; n, the rows of
   W, is a multiple of 16. Times are microseconds. */
#ifndef TW_TUNE_GEMM_CPU_H
#define TW_TUNE_GEMM_CPU_H

#include "kernels/cpu/panel.h"
#include "tune/family.h"

typedef struct tw_gemm_cpu_options {
    tw_panel_format weights; /* Storage format of W. */
    int threads;             /* Number of threads. 0: all cores. */
} tw_gemm_cpu_options;

/* Opens the family. The caller closes it. */
tw_status tw_gemm_cpu_open(tw_family *out, const tw_gemm_cpu_options *o, tw_diag *diag);

#endif
