/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a product, without measuring. */
#ifndef TW_KERNELS_GEMM_ESTIMATE_H
#define TW_KERNELS_GEMM_ESTIMATE_H

#include "device/cuda/cuda.h"
#include "kernels/demand.h"
#include "kernels/gemm/gemm.h"

/* Counts what a configuration asks of a device, in clocks and microseconds. False: it is not legal. */
bool tw_gemm_demand(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info, tw_demand *out);

/* Gets the constants of a device from kernels/gemm/rates.def. A device that has none there gets those of another one,
   with the memory's rate in proportion to what its driver says. */
void tw_gemm_rates(const tw_cuda_info *info, tw_rates *out);

/* Estimates the microseconds of a configuration by both. 1e30: it is not legal. Good for ranking only. */
double tw_gemm_estimate(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info);

/* Computes a lower bound of every kernel's time in microseconds: the matrices' bytes over the memory's bandwidth, or
   the operations over the rate of the units that may do them. `bytes_bound` (may be NULL) says which is larger. */
double tw_gemm_floor(const tw_gemm_problem *p, const tw_cuda_info *info, bool *bytes_bound);

#endif
