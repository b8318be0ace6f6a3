/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a product, without measuring. */
#ifndef TW_KERNELS_GEMM_ESTIMATE_H
#define TW_KERNELS_GEMM_ESTIMATE_H

#include "device/cuda/cuda.h"
#include "kernels/gemm/gemm.h"

/* Estimates the microseconds of a legal configuration. Good for ranking only. `info` is the device's. */
double tw_gemm_estimate(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info);

/* Computes a lower bound of every kernel's time in microseconds: the matrices' bytes over the memory's bandwidth, or
   the operations over the rate of the units that may do them. `bytes_bound` (may be NULL) says which is larger. */
double tw_gemm_floor(const tw_gemm_problem *p, const tw_cuda_info *info, bool *bytes_bound);

#endif
