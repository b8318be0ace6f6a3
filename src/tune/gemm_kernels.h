/* SPDX-License-Identifier: Apache-2.0 */
/* Generated kernels of many configurations and problems, each compiled once. Problems of equal variants share kernels,
   so a campaign over hundreds of problems compiles a few kernels for each configuration. */
#ifndef TW_TUNE_GEMM_KERNELS_H
#define TW_TUNE_GEMM_KERNELS_H

#include "ptx/load.h"
#include "tune/gemm_rig.h"

typedef struct tw_gemm_kernels tw_gemm_kernels;

/* Makes an empty set of kernels. The caller frees it before closing the device. */
tw_status tw_gemm_kernels_make(tw_gemm_kernels **out, tw_cuda *c, tw_diag *diag);
void tw_gemm_kernels_free(tw_gemm_kernels *k); /* NULL is fine. */

/* Compiles the kernels of n configurations for a problem on all cores, except those that are compiled already. Errors
   of a configuration are reported by tw_gemm_kernels_load. */
tw_status tw_gemm_kernels_prepare(tw_gemm_kernels *k, const tw_gemm_problem *p, const tw_gemm_config *configs, int n,
                                  tw_diag *diag);

/* Loads a prepared kernel on the rig of its problem. The caller unloads it. TW_ERR_UNSUPPORTED: the configuration is
   not legal. Other errors are the compiler's. */
tw_status tw_gemm_kernels_load(tw_gemm_kernels *k, tw_gemm_rig *rig, const tw_gemm_problem *p, const tw_gemm_config *c,
                               tw_gemm_own *own, tw_diag *diag);

#endif
