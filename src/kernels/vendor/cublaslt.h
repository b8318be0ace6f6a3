/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's matrix products, the peer and a candidate: cuBLASLt, opened at run time with our own declarations. The
   library is $TILEWRIGHT_LIBCUBLASLT where that is set, else the newest libcublasLt.so found. */
#ifndef TW_KERNELS_VENDOR_CUBLASLT_H
#define TW_KERNELS_VENDOR_CUBLASLT_H

#include "device/cuda/cuda.h"

typedef struct tw_cublaslt tw_cublaslt;
typedef struct tw_cublaslt_plan tw_cublaslt_plan;

/* What is multiplied, how it is summed, and what comes out. */
typedef enum tw_cublaslt_type {
    TW_CUBLASLT_F32,  /* IEEE f32 throughout: no TF32 */
    TW_CUBLASLT_TF32, /* f32 in memory, rounded to TF32 for the tensor cores */
    TW_CUBLASLT_F16,  /* summed in f32 */
    TW_CUBLASLT_BF16, /* summed in f32 */
    TW_CUBLASLT_F64,
    /* Summed in f32, C in bf16. The library wants trans_a, no trans_b, and rows of whole 16 bytes. */
    TW_CUBLASLT_E4M3,
    TW_CUBLASLT_S8, /* summed in i32, C in i32; the library wants trans_a, no trans_b, and multiples of 4 */
    TW_CUBLASLT_TYPES
} tw_cublaslt_type;

/* Scales of f32 that the library multiplies by, of E4M3. */
typedef enum tw_cublaslt_scales {
    TW_CUBLASLT_UNSCALED,
    TW_CUBLASLT_OUTER, /* A vector of m for op(A)'s rows, and one of n for op(B)'s columns. */
    /* Of op(A) one for each 128 x 128 elements, those along k side by side, ceil(k / 128) being a multiple of 4. Of
       op(B) one for each column and 128 elements along k, those of columns side by side. */
    TW_CUBLASLT_BLOCKS,
    TW_CUBLASLT_SCALES
} tw_cublaslt_scales;

/* C = alpha op(A) op(B) + beta C, column-major as in BLAS: op(A) is m x k, op(B) k x n, C m x n; leading dimensions and
   strides in elements. A row-major product is the same with A and B, m and n swapped. */
typedef struct tw_cublaslt_problem {
    tw_cublaslt_type type;
    int64_t m, n, k;
    bool trans_a, trans_b;
    bool c_f32; /* F16, BF16 and E4M3: C in f32 instead */
    int64_t lda, ldb, ldc;
    int batch; /* 0 or 1: one product, and no strides */
    int64_t stride_a, stride_b, stride_c;
    double alpha, beta;
    tw_cublaslt_scales scales; /* E4M3: the scales that tw_cublaslt_scale gives. */
    bool fast_sums; /* E4M3: tensor cores add up all of k. Otherwise their sums are promoted to f32 now and then. */
} tw_cublaslt_problem;

/* TW_ERR_UNSUPPORTED with the reason where the library is missing or does not start. Uses the device until closed. */
tw_status tw_cublaslt_open(tw_cublaslt **out, tw_cuda *c, tw_diag *diag);
void tw_cublaslt_close(tw_cublaslt *lt);
void tw_cublaslt_version(const tw_cublaslt *lt, char *out, size_t size); /* "13.1.0" */

/* The name of the file that would be opened, for reports; NULL when there is none. */
const char *tw_cublaslt_find(void);

/* An algorithm as the library describes it. Equal attributes are the same algorithm, for every problem that it fits. */
typedef struct tw_cublaslt_algorithm {
    uint32_t id;        /* The kernels' number. */
    uint32_t tile;      /* The library's number of a tile's sides. Its numbers differ from version to version. */
    uint32_t split;     /* Parts of k that are summed apart. 1: k is not split. */
    uint32_t reduction; /* How the parts are summed. 0: there is nothing to sum. */
    uint32_t swizzle;   /* Order of the tiles. */
    uint32_t custom;    /* Choices of the kernels' own. */
    uint32_t stages;    /* The library's number of stages in shared memory. */
    uint32_t inner;     /* The library's number of the tensor cores' shape. At most 65535. */
    uint32_t cluster;   /* The library's number of a cluster's shape. At most 65535. */
} tw_cublaslt_algorithm;

/* What the library says of an algorithm that computes a problem. */
typedef struct tw_cublaslt_check {
    size_t workspace; /* Bytes of workspace that it needs. */
    double waves;     /* Tiles of the product divided by the tiles that the device computes at once. Splits of k do not
                         count. */
} tw_cublaslt_check;

/* Describes up to `most` algorithms that need at most `workspace` bytes, the heuristic's first choice first. *n becomes
   their number. No memory of the device is taken. TW_ERR_UNSUPPORTED as for tw_cublaslt_plan_make. */
tw_status tw_cublaslt_propose(tw_cublaslt *lt, const tw_cublaslt_problem *p, int most, size_t workspace,
                              tw_cublaslt_algorithm *out, int *n, tw_diag *diag);

/* Checks whether an algorithm computes a problem. No memory of the device is taken. TW_ERR_UNSUPPORTED: it does not. */
tw_status tw_cublaslt_fits(tw_cublaslt *lt, const tw_cublaslt_problem *p, const tw_cublaslt_algorithm *a,
                           tw_cublaslt_check *out, tw_diag *diag);

/* Up to `most` algorithms, the heuristic's first choice first, and one workspace of at most `workspace` bytes for them.
   TW_ERR_UNSUPPORTED where the library has none for this problem, or the environment makes it compute otherwise
   (NVIDIA_TF32_OVERRIDE=1 for f32). */
tw_status tw_cublaslt_plan_make(tw_cublaslt *lt, const tw_cublaslt_problem *p, int most, size_t workspace,
                                tw_cublaslt_plan **out, tw_diag *diag);
void tw_cublaslt_plan_free(tw_cublaslt_plan *p);
int tw_cublaslt_algorithms(const tw_cublaslt_plan *p);
size_t tw_cublaslt_workspace(const tw_cublaslt_plan *p, int i);

/* Describes algorithm `i` of a plan. TW_ERR_USAGE: there is no such one. */
tw_status tw_cublaslt_describe(const tw_cublaslt_plan *p, int i, tw_cublaslt_algorithm *out, tw_diag *diag);

/* Adds an algorithm to a plan, unless the plan has it, and stores its number in *i. The plan's workspace grows as
   needed. What was enqueued or captured before stays valid until the plan is freed. TW_ERR_UNSUPPORTED: the algorithm
   does not compute the problem, or needs more workspace than the plan may have. */
tw_status tw_cublaslt_plan_add(tw_cublaslt_plan *p, const tw_cublaslt_algorithm *a, int *i, tw_diag *diag);

/* Sets the addresses of the scales of A and B for products from now on. The plan's problem has scales. */
tw_status tw_cublaslt_scale(tw_cublaslt_plan *p, uint64_t a, uint64_t b, tw_diag *diag);

/* Enqueues the product by algorithm `i` on `stream` (NULL: the device's own); addresses are the device's. */
tw_status tw_cublaslt_run(tw_cublaslt_plan *p, int i, uint64_t a, uint64_t b, uint64_t c, void *stream, tw_diag *diag);

#endif
