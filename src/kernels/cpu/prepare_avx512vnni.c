/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

/* Finds the largest magnitude as bits. Compared as integers, infinities and NaN are the largest. */
static uint32_t top_bits(const float *x, int64_t n) {
    __m512i top = _mm512_castps_si512(_mm512_set1_ps(0x1p-100f));
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 m = n - i >= 16 ? 0xffff : (__mmask16)((1u << (n - i)) - 1);
        top = _mm512_max_epu32(top, _mm512_castps_si512(_mm512_abs_ps(_mm512_maskz_loadu_ps(m, x + i))));
    }
    return _mm512_reduce_max_epu32(top);
}

typedef struct sums {
    __m512i high, rest;
} sums;

/* Computes q / 256, rounded to nearest, so that the rest is a signed byte. */
static inline __m512i upper(__m512i q) {
    return _mm512_srai_epi32(_mm512_add_epi32(q, _mm512_set1_epi32(128)), 8);
}

/* Splits 16 columns into 4 x (4 high, 4 middle, 4 low bytes), and adds them to the sums. `columns` of them are
   stored. */
static void split(__m512 x, __m512 inverse, char *out, int64_t columns, sums *s) {
    __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(x, inverse)), middle = upper(q), high = upper(middle);
    uint32_t h[4], m[4], l[4];
    s->high = _mm512_add_epi32(s->high, high);
    s->rest = _mm512_add_epi32(s->rest, _mm512_sub_epi32(q, _mm512_slli_epi32(high, 16)));
    _mm_storeu_si128((__m128i *)(void *)h, _mm512_cvtepi32_epi8(high));
    _mm_storeu_si128((__m128i *)(void *)m, _mm512_cvtepi32_epi8(middle));
    _mm_storeu_si128((__m128i *)(void *)l, _mm512_cvtepi32_epi8(q));
    for (int64_t i = 0; i < columns / 4; i++, out += 12) {
        memcpy(out, &h[i], 4);
        memcpy(out + 4, &m[i], 4);
        memcpy(out + 8, &l[i], 4);
    }
}

void tw_prepare_fixed_avx512vnni(tw_panel_format f, const float *x, int64_t cols, void *out) {
    tw_prepared p = tw_prepared_at(f, cols, out);
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    int32_t offset = f.dtype == TW_I8 ? 128 : 8;
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t n = cols - k < block ? cols - k : block, end = padded - k < block ? padded - k : block;
        uint32_t bits = top_bits(x + k, n);
        float top, inverse = 0;
        memcpy(&top, &bits, 4);
        bool finite = bits < 0x7f800000u;
        if (finite) inverse = (float)TW_FIXED_MAX / top;
        p.scales[b] = finite ? top / (float)TW_FIXED_MAX : NAN;
        sums s = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        for (int64_t i = 0; i < end; i += 16) {
            int64_t left = n - i, stored = end - i < 16 ? end - i : 16;
            __mmask16 m = left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0;
            __m512 v = finite ? _mm512_maskz_loadu_ps(m, x + k + i) : _mm512_setzero_ps();
            split(v, _mm512_set1_ps(inverse), (char *)p.values + 3 * (k + i), stored, &s);
        }
        p.bias[2 * b] = -offset * _mm512_reduce_add_epi32(s.high);
        p.bias[2 * b + 1] = -offset * _mm512_reduce_add_epi32(s.rest);
    }
}
