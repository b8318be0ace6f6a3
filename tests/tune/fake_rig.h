/* SPDX-License-Identifier: Apache-2.0 */
/* A rig on a stand-in for the driver, whose kernels do nothing, are all right, and take ten microseconds. */
#ifndef TW_TESTS_KERNELS_FAKE_RIG_H
#define TW_TESTS_KERNELS_FAKE_RIG_H

#include "support/support.h"

#include "device/fake_cuda.h"
#include "tune/gemm_search.h"

#include <stdlib.h>

typedef struct fake_rig {
    tw_cuda *cuda;
    tw_gemm_data data;
    tw_gemm_rig *rig;
} fake_rig;

/* Opens a rig with `sets` sets of buffers. Returns 0, as cmocka wants, or 1 on failure. */
static inline int fake_rig_open(fake_rig *f, const tw_gemm_problem *problem, int sets) {
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    return tw_cuda_open(&f->cuda, 0, &d) != TW_OK || tw_gemm_data_make(&f->data, problem, 1, &d) != TW_OK ||
           tw_gemm_rig_make_sets(&f->rig, f->cuda, &f->data, 1 << 20, sets, &d) != TW_OK;
}

/* Closes the rig. Returns how many of the driver's objects are left, which is an error for cmocka. */
static inline int fake_rig_close(fake_rig *f) {
    tw_gemm_rig_free(f->rig);
    tw_gemm_data_free(&f->data);
    tw_cuda_close(f->cuda);
    return fake_cuda_alive();
}

#endif
