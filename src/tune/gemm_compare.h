/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that counts wrong cells, and finds the worst one, on the device: results may be too large to fetch. */
#ifndef TW_TUNE_GEMM_COMPARE_H
#define TW_TUNE_GEMM_COMPARE_H

#include "ir/ir.h"

enum { TW_GEMM_COMPARE_THREADS = 256 };

/* Parameters: c, want (f64), tolerance (f32), verdict, elements, columns, pitch (i64). Any grid in x. `type` is C's, of
   which the first `elements` are compared: rows of `columns` cells that begin `pitch` elements apart. Those between
   rows must have the bytes 0xff; want and tolerance have none. The verdict has two words. The number of wrong elements
   is added to the first (i32). The second (f32, not negative) is raised to the largest error over its tolerance. NULL:
   out of memory. */
tw_kernel *tw_gemm_compare_build(tw_type type, int sm);

/* Builds the kernel that counts wrong sums of squares of C's rows, and with `means` of their cells (tw_gemm_squares).
   Parameters: c, sums, verdict (i32: the number of wrong sums is added to it), m, n (i32: C's extents), pitch (i64:
   elements from a row to the next), columns, parts (i32: tw_gemm_squares). The grid is ceil(m /
   TW_GEMM_COMPARE_THREADS) by ceil(n / columns). NULL: out of memory. */
tw_kernel *tw_gemm_compare_sums_build(tw_type type, bool means, int sm);

#endif
