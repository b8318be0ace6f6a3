/* SPDX-License-Identifier: Apache-2.0 */
/* The family of products y = x W^T on this processor, as a rig times them (tune/cpu_rig.h). Axes are m, n and k; n, the
   rows of W, is a multiple of 16. Times are microseconds. */
#ifndef TW_TUNE_GEMM_CPU_H
#define TW_TUNE_GEMM_CPU_H

#include "kernels/cpu/panel.h"
#include "tune/family.h"

typedef struct tw_gemm_cpu_options {
    tw_panel_format weights; /* How W is stored. */
    int threads;             /* 0: all cores. */
} tw_gemm_cpu_options;

/* The caller closes the family. */
tw_status tw_gemm_cpu_open(tw_family *out, const tw_gemm_cpu_options *o, tw_diag *diag);

/* Opens the family of a processor whose measurements a store has, by their environment. It measures nothing, and needs
   no instructions of that processor. TW_ERR_FORMAT: the environment is none of such a family. The caller closes it. */
tw_status tw_gemm_cpu_recorded(tw_family *out, tw_panel_format weights, const char *environment, tw_diag *diag);

#endif
