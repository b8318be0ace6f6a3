/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that multiplies in double precision where the matrices are, as a reference for products that a processor
   would take too long for. It is as simple as can be, and made of nothing that it judges. */
#ifndef TW_TUNE_GEMM_REFER_H
#define TW_TUNE_GEMM_REFER_H

#include "ir/ir.h"

enum { TW_GEMM_REFER_THREADS = 128, TW_GEMM_REFER_ROWS = 4 /* Rows that a thread computes. */ };

/* C = A B^T of matrices without gaps: A is m x k, B is n x k, both of `type`, f16 or bf16; k is a multiple of 8. C is
   rounded to `type` by whoever is judged. A thread computes a column of TW_GEMM_REFER_ROWS rows: the grid is
   ceil(n / TW_GEMM_REFER_THREADS) by ceil(m / TW_GEMM_REFER_ROWS).
   Parameters: a, b, want (m x n f64), tolerance (m x n f32: |C - want| is below it, as kernels/gemm/reference.c has
   it), and m, n, k (i32). NULL: out of memory. */
tw_kernel *tw_gemm_refer_build(tw_type type, int sm);

#endif
