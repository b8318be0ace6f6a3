/* SPDX-License-Identifier: Apache-2.0 */
/* A product's configurations (tw_gemm_config) as a space of parameters. */
#ifndef TW_KERNELS_GEMM_SPACE_H
#define TW_KERNELS_GEMM_SPACE_H

#include "kernels/gemm/search.h"
#include "space/space.h"

/* What judges a configuration: the completed problem that it would compute, on a target. */
typedef struct tw_gemm_space_context {
    const tw_gemm_problem *problem;
    const tw_target *target;
    const tw_cuda_info *device; /* Whose time is estimated. NULL where nobody asks for estimates. */
} tw_gemm_space_context;

/* The parameters and values of space.def. Its estimate is in microseconds. */
extern const tw_space tw_gemm_space;

/* What stays in a draw, from a configuration whose free parameters are -1 (NULL: all are). Returns `keep`. */
const int64_t *tw_gemm_space_keep(const tw_gemm_config *c, int64_t keep[TW_SPACE_PARAMS]);

#endif
