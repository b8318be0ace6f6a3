/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cpu/loops.h"
#include "device/cpu/unroll.h"

#include <immintrin.h>

static __m256i get(const char *p) {
    return _mm256_load_si256((const __m256i *)(const void *)p);
}

uint64_t tw_cpu_read_avx2(const void *data, size_t bytes, size_t streams, size_t ahead) {
    size_t part = bytes / streams;
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (size_t i = 0; i < part; i += 128)
        for (size_t s = 0; s < streams; s++) {
            const char *p = (const char *)data + s * part + i;
            for (size_t k = 0; ahead && k < 128; k += 64) _mm_prefetch(p + ahead + k, _MM_HINT_T0);
            a = _mm256_or_si256(a, get(p));
            b = _mm256_or_si256(b, get(p + 32));
            c = _mm256_or_si256(c, get(p + 64));
            d = _mm256_or_si256(d, get(p + 96));
        }
    a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    return (uint64_t)_mm256_extract_epi64(a, 0) | (uint64_t)_mm256_extract_epi64(a, 1) |
           (uint64_t)_mm256_extract_epi64(a, 2) | (uint64_t)_mm256_extract_epi64(a, 3);
}

int64_t tw_cpu_fma_avx2(int64_t n, float *sink) {
    enum { CHAINS = 12 };
    __m256 acc[CHAINS], m = _mm256_set1_ps(0.999f);
    float out[8];
    TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_set1_ps((float)i);
    for (int64_t r = 0; r < n; r++) TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_fmadd_ps(acc[i], m, m);
    TW_UNROLL for (int i = 1; i < CHAINS; i++) acc[0] = _mm256_add_ps(acc[0], acc[i]);
    _mm256_storeu_ps(out, acc[0]);
    for (int i = 0; i < 8; i++) *sink += out[i];
    return 2 * 8 * CHAINS;
}

int64_t tw_cpu_i8_avx2(int64_t n, float *sink) {
    /* Every sum has a product of its own, of values that the compiler does not know: equal ones would become one. */
    enum { LEFT = 3, RIGHT = 2, CHAINS = LEFT * RIGHT };
    __m256i acc[CHAINS], left[LEFT], right[RIGHT];
    TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] = _mm256_setzero_si256();
    TW_UNROLL for (int i = 0; i < LEFT; i++) left[i] = _mm256_set1_epi8(1);
    TW_UNROLL for (int i = 0; i < RIGHT; i++) {
        right[i] = _mm256_set1_epi8(1);
        __asm__ volatile("" : "+x"(right[i]));
    }
    for (int64_t r = 0; r < n; r++) {
        TW_UNROLL for (int i = 0; i < LEFT; i++) __asm__ volatile("" : "+x"(left[i]));
        TW_UNROLL for (int i = 0; i < CHAINS; i++) acc[i] =
            _mm256_add_epi16(acc[i], _mm256_maddubs_epi16(left[i / RIGHT], right[i % RIGHT]));
    }
    TW_UNROLL for (int i = 1; i < CHAINS; i++) acc[0] = _mm256_add_epi16(acc[0], acc[i]);
    int16_t out[16];
    _mm256_storeu_si256((__m256i *)(void *)out, acc[0]);
    for (int i = 0; i < 16; i++) *sink += (float)out[i];
    return 2 * 32 * CHAINS;
}
