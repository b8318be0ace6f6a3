/* SPDX-License-Identifier: Apache-2.0 */
/* Small generated kernels of every structure, that faults are planted in. */
#ifndef TW_TEST_GEMM_SPECIMEN_H
#define TW_TEST_GEMM_SPECIMEN_H

#include "kernels/gemm/generate.h"

enum { VARIANTS = 5 };

/* What one has. */
enum {
    PIPE = 1, /* asynchronous copies over several stages */
    ONE = 2,  /* one stage, through registers */
    TENSOR = 4,
    KL = 8,
    LAST = 16,
    SERIAL = 32,
    ATOMIC = 64,
    RAGGED_M = 128,
    RAGGED_N = 256,
    RAGGED_K = 512,
    BIAS = 1024,
    BATCH = 2048,
    VECTORS = 4096, /* 16 bytes at once wherever there is a choice */
    F32 = 8192,
    CLUSTER = 16384,
    TWO = 32768, /* two stages, through registers */
};

typedef struct gemm_specimen {
    tw_gemm_problem problem;
    tw_gemm_config config;
    const tw_target *target;
    tw_gemm_plan plan;
    int count;    /* stages that a block walks */
    bool whole_k; /* no bounds along k: copies are dealt out among the sums */
} gemm_specimen;

/* Of each kind VARIANTS: types, layouts, depths of the pipeline and targets in turn. */
gemm_specimen gemm_specimen_make(int has, int variant);

#endif
