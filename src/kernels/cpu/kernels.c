/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses variants: the first one whose needs the mask covers. */
#include "kernels/cpu/kernels.h"

#include "kernels/cpu/variants.h"

#include <string.h>

#define BIT(t) (1u << (t))
enum {
    FLOATS = BIT(TW_F32) | BIT(TW_F16) | BIT(TW_BF16),
    INTEGERS = BIT(TW_I8) | BIT(TW_I4),
    AVX2 = TW_CPU_AVX2,
    AVX512 = AVX2 | TW_CPU_AVX512,
    VNNI = AVX512 | TW_CPU_AVX512VNNI,
    AMX = VNNI | TW_CPU_AVX512BF16 | TW_CPU_AMX,
};

/* Activations are floats of 24 bits: three bytes, or two words (each of which takes twice a byte's room). Two
   terms of bf16 have 16 to 17 of them, and three have all. */
#define ON_FLOATS                                                                                                      \
    { TW_CPU_UNIT_F32, 1 }
#define THREE_DIGITS                                                                                                   \
    { TW_CPU_UNIT_I8, 3 }
#define TWO_WORDS                                                                                                      \
    { TW_CPU_UNIT_I8, 4 }
#define TWO_TERMS                                                                                                      \
    { TW_CPU_UNIT_AMX_BF16, TW_AMX_TERMS }
#define SIX_PRODUCTS                                                                                                   \
    { TW_CPU_UNIT_AMX_BF16, TW_SPLIT_PASSES }

static const struct gemv {
    uint32_t needs, dtypes;
    const char *name;
    tw_prepared_bytes_fn *prepared_bytes;
    tw_prepare_fn *prepare;
    tw_gemv_fn *gemv;
    tw_kernel_unit unit;
} gemvs[] = {
    {AVX512, FLOATS, "avx512", tw_prepared_bytes_float, tw_prepare_float, tw_gemv_float_avx512, ON_FLOATS},
    {AVX2, FLOATS, "avx2", tw_prepared_bytes_float, tw_prepare_float, tw_gemv_float_avx2, ON_FLOATS},
    {0, FLOATS, "c", tw_prepared_bytes_float, tw_prepare_float, tw_gemv_float_c, ON_FLOATS},
    {VNNI, INTEGERS, "avx512vnni", tw_prepared_bytes_fixed, tw_prepare_fixed_avx512vnni, tw_gemv_fixed_avx512vnni,
     THREE_DIGITS},
    {AVX2, BIT(TW_I8), "avx2", tw_prepared_bytes_fixed, tw_prepare_i8_avx2, tw_gemv_i8_avx2, TWO_WORDS},
    {AVX2, BIT(TW_I4), "avx2", tw_prepared_bytes_fixed, tw_prepare_i4_avx2, tw_gemv_i4_avx2, THREE_DIGITS},
    {0, INTEGERS, "c", tw_prepared_bytes_fixed, tw_prepare_fixed_c, tw_gemv_fixed_c, ON_FLOATS},
};

static const struct gemm {
    uint32_t needs, dtypes;
    const char *name;
    tw_gemm_fn *gemm;
    tw_gemm_scratch_fn *scratch;
    tw_kernel_unit unit;
    tw_gemm_packed_fn *packed;
    int packed_rows;
} gemms[] = {
    {AMX, BIT(TW_BF16) | INTEGERS, "amx", tw_gemm_amx, tw_gemm_scratch_amx, TWO_TERMS, tw_gemm_packed_amx, TW_AMX_ROWS},
    {AMX, BIT(TW_F32), "amx", tw_gemm_split_amx, tw_gemm_scratch_split_amx, SIX_PRODUCTS, tw_gemm_packed_split_amx,
     TW_SPLIT_ROWS},
    {AVX512, FLOATS | INTEGERS, "avx512", tw_gemm_avx512, tw_gemm_scratch_avx512, ON_FLOATS, NULL, 0},
    {AVX2, FLOATS | INTEGERS, "avx2", tw_gemm_avx2, tw_gemm_scratch_avx2, ON_FLOATS, NULL, 0},
    {0, FLOATS | INTEGERS, "c", tw_gemm_c, tw_gemm_scratch_c, ON_FLOATS, NULL, 0},
};

static const struct attention {
    uint32_t needs;
    const char *name;
    tw_attention_fn *attention;
    tw_attention_scratch_fn *scratch;
} attentions[] = {
    {AMX, "amx", tw_attention_amx, tw_attention_scratch_amx},
    {AVX512, "avx512", tw_attention_avx512, tw_attention_scratch_avx512},
    {AVX2, "avx2", tw_attention_avx2, tw_attention_scratch_avx2},
    {0, "c", tw_attention_c, tw_attention_scratch_c},
};

static const struct elementwise {
    uint32_t needs;
    void (*fill)(tw_kernels *);
    tw_map_fn *map;
    tw_rows_fn *rows;
} elementwises[] = {
    {AVX512, tw_elementwise_avx512, tw_map_run_avx512, tw_rows_run_avx512},
    {AVX2, tw_elementwise_avx2, tw_map_run_avx2, tw_rows_run_avx2},
    {0, tw_elementwise_c, tw_map_run_c, tw_rows_run_c},
};

static bool within(uint32_t needs, uint32_t isa) {
    return (needs & isa) == needs;
}

static void choose_products(tw_kernels *k, int t) {
    const struct gemv *v = gemvs;
    const struct gemm *m = gemms;
    while (!within(v->needs, k->isa) || !(v->dtypes & BIT(t))) v++;
    while (!within(m->needs, k->isa) || !(m->dtypes & BIT(t))) m++;
    k->prepared_bytes[t] = v->prepared_bytes;
    k->prepare[t] = v->prepare;
    k->gemv[t] = v->gemv;
    k->gemv_name[t] = v->name;
    k->gemv_unit[t] = v->unit;
    k->gemm[t] = m->gemm;
    k->gemm_scratch[t] = m->scratch;
    k->gemm_name[t] = m->name;
    k->gemm_unit[t] = m->unit;
    k->gemm_packed[t] = m->packed;
    k->packed_rows[t] = m->packed_rows;
    if (!m->packed) return;
    k->gemm_pack = tw_gemm_pack_amx;
    k->gemm_pack_bytes = tw_gemm_pack_bytes_amx;
    k->gemm_packed_scratch = tw_gemm_packed_scratch_amx;
}

void tw_kernels_choose_products(tw_kernels *k, uint32_t isa) {
    memset(k, 0, sizeof *k);
    k->isa = isa;
    for (int t = 0; t < TW_DTYPE_COUNT; t++)
        if (BIT(t) & (FLOATS | INTEGERS)) choose_products(k, t);
    k->split = within(AMX, isa) ? &tw_split_amx : NULL;
}

void tw_kernels_choose(tw_kernels *k, uint32_t isa) {
    tw_kernels_choose_products(k, isa);
    const struct attention *a = attentions;
    while (!within(a->needs, isa)) a++;
    k->attention = a->attention;
    k->attention_name = a->name;
    k->attention_scratch = a->scratch;
    const struct elementwise *e = elementwises;
    while (!within(e->needs, isa)) e++;
    e->fill(k);
    k->map = e->map;
    k->rows = e->rows;
}
