/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that counts wrong cells where they are, for results too large to fetch each time. */
#ifndef TW_TUNE_GEMM_COMPARE_H
#define TW_TUNE_GEMM_COMPARE_H

#include "ir/ir.h"

enum { TW_GEMM_COMPARE_THREADS = 256 };

/* Parameters: c, want (f64), tolerance (f32), count (one i32, to which wrong cells are added), cells (i64). Any grid in
   x. `type` is C's. NULL: out of memory. */
tw_kernel *tw_gemm_compare_build(tw_type type, int sm);

#endif
