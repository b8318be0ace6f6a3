/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of random elements on a device. Problems use parts of it as their matrices, and their reference products are
   computed on the device, so that opening a problem of any size takes milliseconds. */
#ifndef TW_TUNE_GEMM_POOL_H
#define TW_TUNE_GEMM_POOL_H

#include "device/cuda/cuda.h"
#include "kernels/gemm/gemm.h"

typedef struct tw_gemm_pool tw_gemm_pool;

/* Tells whether products of a type have a reference on the device: f16, bf16, e4m3, f32 and tf32x3. */
bool tw_gemm_pool_has(tw_gemm_type type);

/* Makes a pool of `bytes` bytes. `type` has a reference on the device. Elements are in [-1, 1). The caller frees the
   pool before closing the device. */
tw_status tw_gemm_pool_make(tw_gemm_pool **out, tw_cuda *c, tw_gemm_type type, size_t bytes, uint64_t seed,
                            tw_diag *diag);
void tw_gemm_pool_free(tw_gemm_pool *p); /* NULL is fine. */

/* Returns the bytes that a pool must have for a completed problem. */
size_t tw_gemm_pool_need(const tw_gemm_problem *problem);

/* Returns TW_OK if the pool serves a completed problem of the pool's type and its usual C: a product, a batch without
   sets, or groups. A is m x k. B is n x k, or k x n unless it is narrow or e4m3. Rows of A have whole 16 bytes.
   Matrices have no gaps, but there may be some between the rows of a single B that is k x n, and of a single C without
   mul and residual. A narrow B may have scales of columns. Any other product may be gated. There may be an activation,
   and where C has the elements of A also bias, mul and residual. Groups have ends, and their rows are neither gathered
   nor scattered. TW_ERR_UNSUPPORTED otherwise. */
tw_status tw_gemm_pool_covers(const tw_gemm_pool *p, const tw_gemm_problem *problem, tw_diag *diag);

/* Sets the addresses of A, B, the scales of a narrow B, bias, mul and residual of set `set`. All elements are in
   [-1, 1). Sets overlap only if the pool is too small for all of them. */
void tw_gemm_pool_place(const tw_gemm_pool *p, const tw_gemm_problem *problem, int set, tw_gemm_buffers *out);

/* Returns the addresses of C of sets 0 to n - 1 of a problem, which the pool owns. The next call may return the same
   ones, or free their memory. All lie in one block, which problems share, so that their times are comparable: with an
   allocation for each output, the time of a kernel varied by up to 6 % from one allocation to the next (H200). */
tw_status tw_gemm_pool_outputs(tw_gemm_pool *p, const tw_gemm_problem *problem, int n, uint64_t *c, tw_diag *diag);

/* Computes the problem's C (f64, without gaps) on the device, the largest error of a correct kernel (f32, likewise),
   and that of a C that is also rounded before its epilogue, if tw_gemm_refer_rounds_twice. */
tw_status tw_gemm_pool_refer(tw_gemm_pool *p, const tw_gemm_problem *problem, const tw_gemm_buffers *from,
                             uint64_t want, uint64_t tolerance, uint64_t twice, tw_diag *diag);

#endif
