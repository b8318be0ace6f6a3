/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of every kernel, by the instruction set in its name. Contracts are those of kernels.h. */
#ifndef TW_KERNELS_CPU_VARIANTS_H
#define TW_KERNELS_CPU_VARIANTS_H

#include "kernels/cpu/kernels.h"

/* Integer formats: x as 24-bit fixed point, a scale per block of columns: as exact as float, where 16 bits moved logits
   by a third of what a comparison with float arithmetic allows. A block is the group, or TW_BLOCK columns when a row
   has one scale: over 128 columns the sums of each part still fit 32 bits. All variants share the size, at most 4 bytes
   a column, and each has an order of its own for the values:
   - c: 32-bit integers;
   - i8 of avx2: per 4 columns, 4 upper and 4 lower 16-bit integers, value = 256 upper + lower, lower a signed byte;
   - vnni, and i4 of avx2: per 4 columns, 4 high, 4 middle, 4 low signed bytes, value = 65536 high + 256 middle + low.
   Then the scales, a float a block: value * scale = x. Then, but for c, two int32 a block: the sums of the upper parts
   and of what is below them, times -128 (i8) or -8 (i4). */
/* The largest value leaves room for the float product that finds it to round up: the high part must stay below 128. */
enum { TW_BLOCK = 128, TW_FIXED_MAX = 127 * 65536 };
static inline int64_t tw_block_of(tw_panel_format f) {
    return f.group ? f.group : TW_BLOCK;
}
static inline int64_t tw_block_count(tw_panel_format f, int64_t cols) {
    return (tw_panel_cols(f, cols) + tw_block_of(f) - 1) / tw_block_of(f);
}

typedef struct tw_prepared {
    void *values;
    float *scales;
    int32_t *bias;
} tw_prepared;
/* Takes a prepared x apart; it is only written through by the prepare functions. */
tw_prepared tw_prepared_at(tw_panel_format f, int64_t cols, const void *x);

tw_prepared_bytes_fn tw_prepared_bytes_float, tw_prepared_bytes_fixed;
tw_prepare_fn tw_prepare_float, tw_prepare_fixed_c, tw_prepare_i8_avx2, tw_prepare_i4_avx2, tw_prepare_fixed_avx512vnni;

tw_gemv_fn tw_gemv_float_c, tw_gemv_float_avx2, tw_gemv_float_avx512;
tw_gemv_fn tw_gemv_fixed_c, tw_gemv_i8_avx2, tw_gemv_i4_avx2, tw_gemv_fixed_avx512vnni;
tw_gemm_fn tw_gemm_c, tw_gemm_avx2, tw_gemm_avx512, tw_gemm_amx, tw_gemm_split_amx;
tw_gemm_scratch_fn tw_gemm_scratch_c, tw_gemm_scratch_avx2, tw_gemm_scratch_avx512, tw_gemm_scratch_amx,
    tw_gemm_scratch_split_amx;
/* Terms of bf16 of an activation whose precision is kept. */
enum { TW_AMX_TERMS = 2, TW_AMX_ROWS = 8 /* Rows of x from which on such products are faster than others. */ };
tw_gemm_pack_fn tw_gemm_pack_amx;
tw_gemm_pack_bytes_fn tw_gemm_pack_bytes_amx;
tw_gemm_packed_fn tw_gemm_packed_amx, tw_gemm_packed_split_amx;
tw_gemm_packed_scratch_fn tw_gemm_packed_scratch_amx;
tw_attention_fn tw_attention_c, tw_attention_avx2, tw_attention_avx512, tw_attention_amx;
tw_attention_scratch_fn tw_attention_scratch_c, tw_attention_scratch_avx2, tw_attention_scratch_avx512,
    tw_attention_scratch_amx;
tw_map_fn tw_map_run_c, tw_map_run_avx2, tw_map_run_avx512;
tw_rows_fn tw_rows_run_c, tw_rows_run_avx2, tw_rows_run_avx512;
/* Norms, activations, sums, argmax. */
void tw_elementwise_c(tw_kernels *k), tw_elementwise_avx2(tw_kernels *k), tw_elementwise_avx512(tw_kernels *k);

#endif
