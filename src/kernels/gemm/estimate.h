/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions of a product's time that measure nothing. */
#ifndef TW_KERNELS_GEMM_ESTIMATE_H
#define TW_KERNELS_GEMM_ESTIMATE_H

#include "device/cuda/cuda.h"
#include "kernels/demand.h"
#include "kernels/gemm/gemm.h"

/* Counts what a configuration asks of a device. The unit of time is the microsecond. False: the configuration is not
   legal for the problem and the device. */
bool tw_gemm_demand(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info, tw_demand *out);

/* Gets a device's constants, for microseconds, from its row of kernels/gemm/rates.def. A device without a row gets the
   first row, with `memory` multiplied by the ratio of the two devices' bandwidths; if the driver does not tell the
   bandwidth, `memory` stays as in the row. */
void tw_gemm_rates(const tw_cuda_info *info, tw_rates *out);

/* Estimates the microseconds of a configuration from its demand and the device's constants. 1e30: the configuration is
   not legal. The estimate is good for ranking only. */
double tw_gemm_estimate(const tw_gemm_problem *p, const tw_gemm_config *c, const tw_cuda_info *info);

/* Counts the bytes of the matrices, each once; of groups' B those that even routing is expected to use; of gathered
   rows of A as many as A has. A matrix that all products of a batch share counts once in all; C counts twice if it is
   read, too. */
double tw_gemm_bytes(const tw_gemm_problem *p);

/* Computes a lower bound of every kernel's time in microseconds: the matrices' bytes over the memory's bandwidth, or
   the operations over the rate of the units that may do them, whichever takes longer. *bytes_bound (may be NULL)
   becomes true if that is the bytes. All rows of a product with ends count as rows of some group. Groups with counts
   may have no rows, so that their bound is 0. */
double tw_gemm_floor(const tw_gemm_problem *p, const tw_cuda_info *info, bool *bytes_bound);

#endif
