/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

static uint32_t top_bits(const float *x, int64_t n) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i top = _mm256_castps_si256(_mm256_set1_ps(0x1p-100f));
    uint32_t lanes[8], best = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        top = _mm256_max_epu32(top, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)), magnitude));
    _mm256_storeu_si256((__m256i *)(void *)lanes, top);
    for (int l = 0; l < 8; l++)
        if (lanes[l] > best) best = lanes[l];
    for (; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, 4);
        if ((u & 0x7fffffffu) > best) best = u & 0x7fffffffu;
    }
    return best;
}

static int32_t total(__m256i v) {
    int32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, v);
    for (int l = 0; l < 8; l++) sum += lanes[l];
    return sum;
}

/* Quantises n columns, padded with zeros to a multiple of 8, and sums their upper and lower parts. */
static void quantise(const float *x, int64_t n, int64_t padded, float inverse, int16_t *q, int32_t sums[2]) {
    __m256i uppers = _mm256_setzero_si256(), lowers = uppers;
    for (int64_t i = 0; i < padded; i += 8) {
        float tail[8] = {0};
        const float *from = x + i;
        if (n - i < 8) {
            if (n > i) memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
            from = tail;
        }
        __m256i v = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from), _mm256_set1_ps(inverse)));
        /* v = 256 upper + lower, with a signed lower part. Adding 128 rounds the upper part to nearest. */
        __m256i upper = _mm256_srai_epi32(_mm256_add_epi32(v, _mm256_set1_epi32(128)), 8);
        __m256i lower = _mm256_sub_epi32(v, _mm256_slli_epi32(upper, 8));
        uppers = _mm256_add_epi32(uppers, upper);
        lowers = _mm256_add_epi32(lowers, lower);
        /* packs works in 128-bit halves: upper 0..3, lower 0..3 | upper 4..7, lower 4..7 */
        _mm256_storeu_si256((__m256i *)(void *)(q + 2 * i), _mm256_packs_epi32(upper, lower));
    }
    sums[0] = total(uppers);
    sums[1] = total(lowers);
}

void tw_prepare_i8_avx2(tw_panel_format f, const float *x, int64_t cols, void *out) {
    tw_prepared p = tw_prepared_at(f, cols, out);
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t n = cols - k < block ? cols - k : block, end = padded - k < block ? padded - k : block;
        uint32_t bits = top_bits(x + k, n);
        bool finite = bits < 0x7f800000u;
        float top;
        memcpy(&top, &bits, 4);
        p.scales[b] = finite ? top / (float)TW_FIXED_MAX : NAN;
        int32_t sums[2];
        quantise(x + k, finite ? n : 0, end, finite ? (float)TW_FIXED_MAX / top : 0, (int16_t *)p.values + 2 * k, sums);
        p.bias[2 * b] = -128 * sums[0];
        p.bias[2 * b + 1] = -128 * sums[1];
    }
}
