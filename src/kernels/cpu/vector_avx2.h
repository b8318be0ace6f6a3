/* SPDX-License-Identifier: Apache-2.0 */
/* The vector that the kernels' templates are written in, 8 lanes of float. vector_avx512.h has the same names. */
#ifndef TW_KERNELS_CPU_VECTOR_AVX2_H
#define TW_KERNELS_CPU_VECTOR_AVX2_H

#include <immintrin.h>
#include <stdint.h>

enum { LANES = 8 };
#define TW_TILE_ROWS  6 /* tile_vector.h */
#define VARIANT(name) name##_avx2

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;

static inline vf v_zero(void) {
    return _mm256_setzero_ps();
}
static inline vf v_set(float a) {
    return _mm256_set1_ps(a);
}
static inline vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, vf a) {
    _mm256_storeu_ps(p, a);
}
static inline __m256i v_first(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > LANES ? LANES : (int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf v_load_part(const float *p, int64_t n) {
    return _mm256_maskload_ps(p, v_first(n));
}
static inline void v_store_part(float *p, int64_t n, vf a) {
    _mm256_maskstore_ps(p, v_first(n), a);
}

static inline vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
static inline vf v_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf v_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline vf v_abs(vf a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}
static inline vf v_select(vm m, vf yes, vf no) {
    return _mm256_blendv_ps(no, yes, m);
}
static inline vm v_less(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
static inline uint32_t v_equal_bits(vf a, vf b) {
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}
/* In two steps, so that results below the normal range are reached without an exponent that wraps. */
static inline vf v_scale2(vf a, vf n) {
    __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), bias = _mm256_set1_epi32(127);
    vf x = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf y = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23));
    return _mm256_mul_ps(_mm256_mul_ps(a, x), y);
}

static inline float v_sum(vf a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
}
static inline float v_largest(vf a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
static inline __m256 v_fold(vf a) {
    return a;
}

typedef __m256d vd;
static inline vd v_dzero(void) {
    return _mm256_setzero_pd();
}
static inline vd v_dset(double a) {
    return _mm256_set1_pd(a);
}
static inline vd v_low(vf a) {
    return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}
static inline vd v_high(vf a) {
    return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}
static inline vd v_dadd(vd a, vd b) {
    return _mm256_add_pd(a, b);
}
static inline vd v_dsub(vd a, vd b) {
    return _mm256_sub_pd(a, b);
}
static inline vd v_dmul(vd a, vd b) {
    return _mm256_mul_pd(a, b);
}
static inline vd v_dfma(vd a, vd b, vd c) {
    return _mm256_fmadd_pd(a, b, c);
}
static inline double v_dsum(vd a) {
    __m128d x = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(x, _mm_unpackhi_pd(x, x)));
}
static inline vf v_join(vd low, vd high) {
    return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low));
}

static inline vf v_load_f16(const void *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
static inline vi v_load_bits(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}
static inline vf v_even_bf16(vi a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(a, 16));
}
static inline vf v_odd_bf16(vi a) {
    return _mm256_castsi256_ps(_mm256_and_si256(a, _mm256_set1_epi32((int)0xffff0000u)));
}
static inline vf v_field(vi a, int shift, int mask) {
    return _mm256_cvtepi32_ps(
        _mm256_and_si256(_mm256_srlv_epi32(a, _mm256_set1_epi32(shift)), _mm256_set1_epi32(mask)));
}

#endif
