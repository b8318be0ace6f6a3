/* SPDX-License-Identifier: Apache-2.0 */
/* Products of f32 on units that multiply bf16. A float is the sum of three of bf16, of 8 bits each, and of the nine
   products of such terms the six largest are added up in f32. What is left out is below 2^-26 of a product, less than
   float itself rounds off. An infinity becomes a NaN, as does what rounds to one in bf16; what is below 2^-126 counts
   as 0. */
#ifndef TW_KERNELS_CPU_SPLIT_H
#define TW_KERNELS_CPU_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tw_gemm_sink; /* kernels.h */

enum {
    TW_SPLIT_ROWS = 32,  /* Rows of x from which on such a product is faster than one of f32 alone. */
    TW_SPLIT_PASSES = 6, /* Products of bf16 for one of f32. */
};

typedef struct tw_split_kernels {
    /* Bytes of `rows` packed rows of x, or of 16 rows of W where `rows` is 16. */
    size_t (*bytes)(int64_t rows, int64_t cols);
    /* Packs rows of x, which are `ldx` floats apart. Unless they are `exact` they are rounded to bf16: all but the
       first term are zeros. `out` is 64-byte aligned. */
    void (*pack_x)(const float *x, int64_t ldx, int64_t rows, int64_t cols, bool exact, void *out);
    /* Packs a panel of f32 (panel.h): [cols][16]. */
    void (*pack_w)(const float *panel, int64_t cols, void *out);
    /* y[m][16 p + r] = row r of panel p . x[m], as tw_gemm_fn has it. `scratch` has scratch_bytes. */
    void (*gemm)(const void *panels, int64_t n_panels, int64_t cols, const void *x, int64_t rows, float *y, int64_t ldy,
                 const struct tw_gemm_sink *sink, void *scratch);
    size_t scratch_bytes;
    /* The same of panels of f32. They become terms a block at a time. `scratch` has floats_scratch_bytes. */
    void (*gemm_floats)(const void *panels, int64_t n_panels, int64_t cols, const void *x, int64_t rows, float *y,
                        int64_t ldy, const struct tw_gemm_sink *sink, void *scratch);
    size_t floats_scratch_bytes;
} tw_split_kernels;

extern const tw_split_kernels tw_split_amx;

#endif
