/* SPDX-License-Identifier: Apache-2.0 */
/* The space of configurations (tw_gemm_config) of a matrix product. */
#ifndef TW_KERNELS_GEMM_SPACE_H
#define TW_KERNELS_GEMM_SPACE_H

#include "kernels/gemm/estimate.h"
#include "space/space.h"

/* What tw_gemm_space checks configurations against. */
typedef struct tw_gemm_space_context {
    const tw_gemm_problem *problem; /* The product, completed. */
    const tw_target *target;        /* The target that the kernel is for. */
    const tw_cuda_info *device;     /* The device of estimates. NULL: none are needed. */
} tw_gemm_space_context;

/* The space of tw_gemm_config. Its parameters are those of space.def. Estimates are in microseconds. */
extern const tw_space tw_gemm_space;

/* Writes the `keep` of tw_space_draw: the values of `c`, in which -1 means free. `c` NULL: all are free. Returns
 * `keep`. */
const int64_t *tw_gemm_space_keep(const tw_gemm_config *c, int64_t keep[TW_SPACE_PARAMS]);

#endif
