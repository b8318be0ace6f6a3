/* SPDX-License-Identifier: Apache-2.0 */
/* Random matrices of a problem, their product in double precision, and the error that a correct kernel may have. */
#ifndef TW_KERNELS_GEMM_REFERENCE_H
#define TW_KERNELS_GEMM_REFERENCE_H

#include "emu/emu.h"
#include "kernels/gemm/gemm.h"

/* Elements are in [-1, 1], or any 8-bit integers. Gaps between rows hold NaNs. */
typedef struct tw_gemm_data {
    tw_gemm_problem problem; /* The completed problem. */
    /* Matrices by tw_gemm_buffer, C as before the launch. NULL: the problem lacks the matrix. */
    void *of[TW_GEMM_MATRICES];
    size_t bytes[TW_GEMM_MATRICES]; /* Bytes of the matrices. */
    double *want;                   /* [cells]: the result, in C's order without gaps. */
    float *tolerance;               /* [cells]: |C - want| must be below it. */
    float *twice;                   /* [cells]: the same of a C that is also rounded before its epilogue. */
    bool *written;                  /* [rows of C]: the product writes the row. NULL: it writes all. */
    int64_t cells;                  /* Number of elements of C. */
    uint64_t seed;                  /* What the matrices were drawn from. */
} tw_gemm_data;

/* Draws the ends of a problem's groups. Each row falls into group i with a chance proportional to (i + 1) to the power
   of -skew. 0: all groups are alike. */
void tw_gemm_ends_draw(const tw_gemm_problem *p, uint64_t seed, double skew, int32_t *ends);

/* Draws buffer TW_GEMM_ROW_SUMS. */
void tw_gemm_sums_draw(const tw_gemm_problem *p, uint64_t seed, float *out);

tw_status tw_gemm_data_make(tw_gemm_data *d, const tw_gemm_problem *p, uint64_t seed, tw_diag *diag);
void tw_gemm_data_free(tw_gemm_data *d);

/* Counts the wrong cells of `c`, which has the layout of C. NaN is always wrong. *worst (may be NULL) is the largest
   error divided by its tolerance, and *first (may be NULL) the index of the first wrong cell. */
int64_t tw_gemm_data_compare(const tw_gemm_data *d, const void *c, double *worst, int64_t *first);

/* Counts the wrong sums of squares of rows of `c`, which has the layout of C. */
int64_t tw_gemm_data_squares(const tw_gemm_data *d, const void *c, const tw_gemm_squares *of, const float *squares);

/* Counts the elements of buffer TW_GEMM_SCALED that are not those of `c`, which has the layout of C, times gains. */
int64_t tw_gemm_data_scaled(const tw_gemm_data *d, const float *c, const uint16_t *scaled);

/* Counts elements in C's gaps, between rows and between products and in rows of no group, that differ from `before`.
   -1: memory lacks. */
int64_t tw_gemm_data_gaps(const tw_gemm_data *d, const void *now, const void *before);

/* Runs the kernel of a configuration in the emulator, twice if blocks share tiles. TW_OK: nothing was found, cells
   are right, gaps were not written, and counters and an atomic split's workspace are zero again. TW_ERR_MISMATCH names
   the first wrong cell. TW_ERR_REJECTED names what was found. *report (may be NULL) is the last launch's report. */
tw_status tw_gemm_emulate(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, uint64_t seed,
                          tw_emu_report *report, tw_diag *diag);
/* Does what tw_gemm_emulate does, with a kernel that was built for the configuration and verified. */
tw_status tw_gemm_emulate_kernel(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, const tw_kernel *k,
                                 uint64_t seed, tw_emu_report *report, tw_diag *diag);

#endif
