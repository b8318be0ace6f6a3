/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms of cuBLASLt as candidates of a rig. */
#ifndef TW_TUNE_GEMM_VENDOR_H
#define TW_TUNE_GEMM_VENDOR_H

#include "kernels/vendor/cublaslt.h"
#include "tune/gemm_rig.h"

enum {
    TW_GEMM_VENDOR_ALGORITHMS = 16,      /* The most algorithms that a plan begins with. */
    TW_GEMM_VENDOR_WORKSPACE = 64 << 20, /* The most workspace of an algorithm, in bytes. */
};

/* Describes a product to the library. False: the library does not compute it. */
bool tw_gemm_vendor_problem(const tw_gemm_problem *p, tw_cublaslt_problem *out);

/* Plans a product. *plan is NULL if cuBLASLt cannot compute it, or `vendor` is NULL. The caller frees the plan. */
tw_status tw_gemm_vendor_plan(tw_cublaslt *vendor, const tw_gemm_problem *p, tw_cublaslt_plan **plan, tw_diag *diag);

/* An algorithm of a plan. Number 0 is the library's first choice. */
typedef struct tw_gemm_vendor {
    tw_cublaslt_plan *plan;
    int index;
} tw_gemm_vendor;
/* Returns the algorithm as a candidate. `v` must outlive the candidate. */
tw_gemm_candidate tw_gemm_vendor_candidate(tw_gemm_vendor *v);

#endif
