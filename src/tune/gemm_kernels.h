/* SPDX-License-Identifier: Apache-2.0 */
/* Our kernels of many configurations and problems, each compiled once. Problems of equal variants share kernels, so
   that a campaign over hundreds of problems compiles a few for each configuration. */
#ifndef TW_TUNE_GEMM_KERNELS_H
#define TW_TUNE_GEMM_KERNELS_H

#include "ptx/load.h"
#include "tune/gemm_rig.h"

typedef struct tw_gemm_kernels tw_gemm_kernels;

/* The caller frees it before it closes the device. */
tw_status tw_gemm_kernels_make(tw_gemm_kernels **out, tw_cuda *c, tw_diag *diag);
void tw_gemm_kernels_free(tw_gemm_kernels *k); /* NULL is fine. */

/* Compiles, by all cores together, the kernels of n configurations for a problem that are not there yet. A
   configuration that is not legal or does not compile says so in tw_gemm_kernels_load. */
tw_status tw_gemm_kernels_prepare(tw_gemm_kernels *k, const tw_gemm_problem *p, const tw_gemm_config *configs, int n,
                                  tw_diag *diag);

/* Loads a kernel that was prepared, on the rig of its problem. The caller unloads it. */
tw_status tw_gemm_kernels_load(tw_gemm_kernels *k, tw_gemm_rig *rig, const tw_gemm_problem *p, const tw_gemm_config *c,
                               tw_gemm_own *own, tw_diag *diag);

#endif
