/* SPDX-License-Identifier: Apache-2.0 */
/* What a product must come to: fresh random matrices, and the result in double precision with the error that a right
   kernel may have. */
#ifndef TW_KERNELS_GEMM_REFERENCE_H
#define TW_KERNELS_GEMM_REFERENCE_H

#include "emu/emu.h"
#include "kernels/gemm/gemm.h"

/* Matrices as the kernel takes them: elements in [-1, 1], or any 8-bit integer. Gaps between rows hold NaNs. */
typedef struct tw_gemm_data {
    tw_gemm_problem problem;                 /* completed */
    void *a, *b, *c, *bias, *mul, *residual; /* c: before; the last three NULL where the epilogue has none */
    size_t bytes_a, bytes_b, bytes_c, bytes_bias, bytes_mul; /* of residual as of mul; both as c */
    double *want;                                            /* C's cells in order, without gaps */
    float *tolerance;                                        /* |C - want| must stay below */
    int64_t cells;
} tw_gemm_data;

tw_status tw_gemm_data_make(tw_gemm_data *d, const tw_gemm_problem *p, uint64_t seed, tw_diag *diag);
void tw_gemm_data_free(tw_gemm_data *d);

/* Cells of `c` (laid out as d->c) that are wrong; NaN always is. `worst` (may be NULL) gets the largest error over its
   tolerance, `first` the index of the first wrong cell. */
int64_t tw_gemm_data_compare(const tw_gemm_data *d, const void *c, double *worst, int64_t *first);

/* Elements between C's rows and between its products, which are nobody's to write, that are not what they were. */
int64_t tw_gemm_data_gaps(const tw_gemm_data *d, const void *now, const void *before);

/* One element of a matrix as a number. */
double tw_gemm_element_read(tw_type t, const void *data, int64_t index);

/* Runs the kernel of a configuration in the emulator on this data, twice where it splits k over blocks, and compares.
   TW_OK: no finding, all cells right, nothing written between rows, counters (and an atomic split's workspace) back at
   zero. TW_ERR_MISMATCH names the first wrong cell, TW_ERR_REJECTED holds the emulator's findings. `report` (may be
   NULL) gets the last launch's. */
tw_status tw_gemm_emulate(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, uint64_t seed,
                          tw_emu_report *report, tw_diag *diag);
/* The same with a kernel that was built for the configuration, and verified. */
tw_status tw_gemm_emulate_kernel(const tw_gemm_data *d, const tw_gemm_config *c, const tw_target *t, const tw_kernel *k,
                                 uint64_t seed, tw_emu_report *report, tw_diag *diag);

#endif
