/* SPDX-License-Identifier: Apache-2.0 */
/* The vector that the kernels' templates are written in, 16 lanes of float. vector_avx2.h has the same names. */
#ifndef TW_KERNELS_CPU_VECTOR_AVX512_H
#define TW_KERNELS_CPU_VECTOR_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 16 };
#define TW_TILE_ROWS  12 /* tile_vector.h */
#define VARIANT(name) name##_avx512

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm; /* what a comparison gives */

static inline vf v_zero(void) {
    return _mm512_setzero_ps();
}
static inline vf v_set(float a) {
    return _mm512_set1_ps(a);
}
static inline vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, vf a) {
    _mm512_storeu_ps(p, a);
}
/* the first n lanes */
static inline vm v_first(int64_t n) {
    return (vm)(n >= LANES ? 0xffffu : (1u << n) - 1);
}
/* Lanes beyond n read as zero, and are neither read nor written in memory. */
static inline vf v_load_part(const float *p, int64_t n) {
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
static inline void v_store_part(float *p, int64_t n, vf a) {
    _mm512_mask_storeu_ps(p, v_first(n), a);
}

static inline vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
/* c - a b */
static inline vf v_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}
/* b where either is NaN */
static inline vf v_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf v_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_abs(vf a) {
    return _mm512_abs_ps(a);
}
static inline vf v_select(vm m, vf yes, vf no) {
    return _mm512_mask_blend_ps(m, no, yes);
}
static inline vm v_less(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline uint32_t v_equal_bits(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
/* a 2^n, n whole */
static inline vf v_scale2(vf a, vf n) {
    return _mm512_scalef_ps(a, n);
}

static inline float v_sum(vf a) {
    return _mm512_reduce_add_ps(a);
}
static inline float v_largest(vf a) {
    return _mm512_reduce_max_ps(a);
}
static inline __m256 v_fold(vf a) {
    return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
}

typedef __m512d vd;
static inline vd v_dzero(void) {
    return _mm512_setzero_pd();
}
static inline vd v_dset(double a) {
    return _mm512_set1_pd(a);
}
static inline vd v_low(vf a) {
    return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}
static inline vd v_high(vf a) {
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}
static inline vd v_dadd(vd a, vd b) {
    return _mm512_add_pd(a, b);
}
static inline vd v_dsub(vd a, vd b) {
    return _mm512_sub_pd(a, b);
}
static inline vd v_dmul(vd a, vd b) {
    return _mm512_mul_pd(a, b);
}
static inline vd v_dfma(vd a, vd b, vd c) {
    return _mm512_fmadd_pd(a, b, c);
}
static inline double v_dsum(vd a) {
    return _mm512_reduce_add_pd(a);
}
static inline vf v_join(vd low, vd high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}

static inline vf v_load_f16(const void *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
/* bf16 in pairs: the first or the second of each 32 bits. */
static inline vi v_load_bits(const void *p) {
    return _mm512_loadu_si512(p);
}
static inline vf v_even_bf16(vi a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(a, 16));
}
static inline vf v_odd_bf16(vi a) {
    return _mm512_castsi512_ps(_mm512_and_si512(a, _mm512_set1_epi32((int)0xffff0000u)));
}
/* Bits shift .. of each 32, masked, as float. */
static inline vf v_field(vi a, int shift, int mask) {
    return _mm512_cvtepi32_ps(
        _mm512_and_si512(_mm512_srlv_epi32(a, _mm512_set1_epi32(shift)), _mm512_set1_epi32(mask)));
}

#endif
