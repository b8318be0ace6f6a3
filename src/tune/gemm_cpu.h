/* SPDX-License-Identifier: Apache-2.0 */
/* The family of products y = x W^T on this processor, timed by tune/cpu_rig.h. The axes are m, n and k; n, the rows of
   W, is a multiple of 16. Times are microseconds. */
#ifndef TW_TUNE_GEMM_CPU_H
#define TW_TUNE_GEMM_CPU_H

#include "kernels/cpu/tiled.h"
#include "tune/family.h"

typedef struct tw_gemm_cpu_options {
    tw_panel_format weights; /* Storage format of W. */
    int threads;             /* Number of threads. 0: all cores. */
    /* True: the family has the choices of a machine (vm/cpu/choice.h), whose threads have equal strips of columns. A
       configuration is "by=own" or names a vendor. False: the family has those of tw_tiled_space. */
    bool strips;
} tw_gemm_cpu_options;

/* Opens the family. The caller closes it. */
tw_status tw_gemm_cpu_open(tw_family *out, const tw_gemm_cpu_options *o, tw_diag *diag);

/* Reads the tiles in which a family of this kind computes a problem by a configuration. TW_ERR_USAGE: the words are no
   configuration. */
tw_status tw_gemm_cpu_tiles(const tw_family *f, const int64_t *problem, const char *words, tw_tiled_config *out,
                            tw_diag *diag);

/* Opens the recorded family of the processor that an environment describes. The family does not measure, and needs no
   instructions of that processor. TW_ERR_FORMAT: the environment is not that of such a family. The caller closes it. */
tw_status tw_gemm_cpu_recorded(tw_family *out, tw_panel_format weights, const char *environment, tw_diag *diag);

#endif
