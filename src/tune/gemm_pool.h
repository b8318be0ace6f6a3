/* SPDX-License-Identifier: Apache-2.0 */
/* Random elements on a device, of which problems take their matrices, and their products in double precision there. A
   problem is then opened in milliseconds, whatever its size. */
#ifndef TW_TUNE_GEMM_POOL_H
#define TW_TUNE_GEMM_POOL_H

#include "device/cuda/cuda.h"
#include "kernels/gemm/gemm.h"

typedef struct tw_gemm_pool tw_gemm_pool;

/* Makes a pool of `bytes` of a type, TW_GEMM_F16 or TW_GEMM_BF16. Elements are in [-1, 1). The caller frees it before
   it closes the device. */
tw_status tw_gemm_pool_make(tw_gemm_pool **out, tw_cuda *c, tw_gemm_type type, size_t bytes, uint64_t seed,
                            tw_diag *diag);
void tw_gemm_pool_free(tw_gemm_pool *p); /* NULL is fine. */

/* Returns TW_OK if the pool has matrices for a completed problem: A is m x k, B is n x k (trans_b), without gaps, k is
   a multiple of 8, C of the pool's type is the plain product. TW_ERR_UNSUPPORTED otherwise. */
tw_status tw_gemm_pool_covers(const tw_gemm_pool *p, const tw_gemm_problem *problem, tw_diag *diag);

/* Places the A and B of set `set`. Sets are apart as long as the pool has room for them. */
void tw_gemm_pool_place(const tw_gemm_pool *p, const tw_gemm_problem *problem, int set, uint64_t *a, uint64_t *b);

/* Computes the product of A and B, and how far a correct kernel may be off: m x n f64, and m x n f32. */
tw_status tw_gemm_pool_refer(tw_gemm_pool *p, const tw_gemm_problem *problem, uint64_t a, uint64_t b, uint64_t want,
                             uint64_t tolerance, tw_diag *diag);

#endif
