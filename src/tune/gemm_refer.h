/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that computes a product on the GPU in double precision: the reference where a processor would take too long.
   It is kept simple, and shares nothing with the kernels that it judges but the conversions of elements. */
#ifndef TW_TUNE_GEMM_REFER_H
#define TW_TUNE_GEMM_REFER_H

#include "kernels/gemm/gemm.h"

enum { TW_GEMM_REFER_THREADS = 128, TW_GEMM_REFER_ROWS = 4 /* Rows of C that a thread computes. */ };

/* Builds the reference kernel of a product for problems of p's type, trans_b, narrow, scales, scale_sums,
   scale_columns, bias, activation, mul, residual, gated, centred and norm_residual, with sums or without. C has the
   type's usual `out`. A is m x k. B is n x k with trans_b, which a narrow B and 8-bit elements need, and otherwise k x
   n. Both have the type's elements without gaps, unless B is narrow, but the rows of a B that is k x n may have gaps.
   The type is one that tw_gemm_pool_has, and rows have whole 16 bytes. A thread computes TW_GEMM_REFER_ROWS rows of a
   column of C, which has `columns` of them: n, or half of it if it is gated. The grid is ceil(columns /
   TW_GEMM_REFER_THREADS) by ceil(m / TW_GEMM_REFER_ROWS). Parameters: a, b, want (m x columns f64), tolerance (m x
   columns f32, the largest correct |C - want| for C rounded to the type's usual `out`; kernels/gemm/reference.c has the
   formula), m, n, k (i32), promote (i32, tw_gemm_problem.promote), scales, scale_columns, ldb (i32, read where B is k x
   n), bias (columns), mul, residual (m x columns), twice (m x columns f32, the tolerance of a C that is also rounded
   before its epilogue; written if tw_gemm_refer_rounds_twice), residual_gains (columns), sums (tw_gemm_problem.sums x
   `apart`, f32 or pairs), parts (i32, how many of a row), apart (i32, from a part to the next), eps (f32). NULL: out of
   memory. */
tw_kernel *tw_gemm_refer_build(const tw_gemm_problem *p, int sm);

/* Tells whether a C may be rounded before its epilogue, too: there is one. */
bool tw_gemm_refer_rounds_twice(const tw_gemm_problem *p);

#endif
