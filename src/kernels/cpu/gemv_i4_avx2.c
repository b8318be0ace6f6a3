/* SPDX-License-Identifier: Apache-2.0 */
/* gemv on int4 without vpdpbusd. Nibbles are small enough for vpmaddubsw, whose 16-bit sums of two products hold 32
   columns (8 * 2 * 15 * 128 < 32768). This is half again as fast as widening nibbles to 16 bits. x is laid out as for
   vpdpbusd: three signed bytes a column. */
#include "kernels/cpu/variants.h"

#include "device/cpu/unroll.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { ROWS = TW_PANEL_ROWS, TERMS = 3, STEP = 4 * TERMS /* Bytes of x for four columns. */, SHORT = 32, AHEAD = 8192 };

/* ---- x ---- */

/* Computes q / 256, rounded to nearest, so that the rest is a signed byte. */
static inline __m256i upper(__m256i q) {
    return _mm256_srai_epi32(_mm256_add_epi32(q, _mm256_set1_epi32(128)), 8);
}

/* Stores the low bytes of eight integers: columns 0 to 3, and columns 4 to 7 STEP bytes further. */
static inline void store_bytes(__m256i q, char *out) {
    const __m256i bytes = _mm256_set1_epi32(0x0c080400);
    __m256i low = _mm256_shuffle_epi8(q, bytes);
    int32_t first = _mm256_extract_epi32(low, 0), second = _mm256_extract_epi32(low, 4);
    memcpy(out, &first, 4);
    memcpy(out + STEP, &second, 4);
}

static int32_t total(__m256i v) {
    int32_t lanes[8], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)lanes, v);
    for (int l = 0; l < 8; l++) sum += lanes[l];
    return sum;
}

static float largest(const float *x, int64_t n, bool *finite) {
    uint32_t top = 0x0d800000u; /* 2^-100 */
    for (int64_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, 4);
        u &= 0x7fffffffu;
        top = u > top ? u : top;
    }
    float value;
    memcpy(&value, &top, 4);
    *finite = top < 0x7f800000u;
    return value;
}

/* Splits n columns into bytes, padded with zeros to a multiple of 8, and computes the biases. */
static void split(const float *x, int64_t n, int64_t padded, float inverse, char *out, int32_t *bias) {
    __m256i highs = _mm256_setzero_si256(), rests = highs;
    for (int64_t i = 0; i < padded; i += 8, out += 2 * STEP) {
        float tail[8] = {0};
        const float *from = x + i;
        if (n - i < 8) {
            if (n > i) memcpy(tail, x + i, (size_t)(n - i) * sizeof *x);
            from = tail;
        }
        __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from), _mm256_set1_ps(inverse)));
        __m256i middle = upper(q), high = upper(middle);
        store_bytes(high, out);
        store_bytes(middle, out + 4);
        store_bytes(q, out + 8);
        highs = _mm256_add_epi32(highs, high);
        rests = _mm256_add_epi32(rests, _mm256_sub_epi32(q, _mm256_slli_epi32(high, 16)));
    }
    bias[0] = -8 * total(highs);
    bias[1] = -8 * total(rests);
}

void tw_prepare_i4_avx2(tw_panel_format f, const float *x, int64_t cols, void *out) {
    tw_prepared p = tw_prepared_at(f, cols, out);
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t n = cols - k < block ? cols - k : block, end = padded - k < block ? padded - k : block;
        bool finite;
        float top = largest(x + k, n, &finite);
        p.scales[b] = finite ? top / (float)TW_FIXED_MAX : NAN;
        split(x + k, finite ? n : 0, end, finite ? (float)TW_FIXED_MAX / top : 0, (char *)p.values + TERMS * k,
              &p.bias[2 * b]);
    }
}

/* ---- the product ---- */

static inline __m256i load(const char *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Adds four columns of rows 0 to 7 and 8 to 15, times each term of x. */
static inline void step(__m256i acc[TERMS][2], __m256i w0, __m256i w1, const char *x) {
    TW_UNROLL for (int t = 0; t < TERMS; t++) {
        int32_t bytes;
        memcpy(&bytes, x + 4 * t, 4);
        __m256i v = _mm256_set1_epi32(bytes);
        acc[t][0] = _mm256_add_epi16(acc[t][0], _mm256_maddubs_epi16(w0, v));
        acc[t][1] = _mm256_add_epi16(acc[t][1], _mm256_maddubs_epi16(w1, v));
    }
}

/* Adds the products of at most 32 columns to the sums of the high terms and of the rest. */
static inline void short_block(const char *w, const char *x, int64_t n, __m256i high[2], __m256i rest[2]) {
    const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
    __m256i acc[TERMS][2];
    TW_UNROLL for (int t = 0; t < TERMS; t++) acc[t][0] = acc[t][1] = _mm256_setzero_si256();
    for (int64_t k = 0; k < n; k += 8, w += 64, x += 2 * STEP) {
        __m256i a = load(w), b = load(w + 32);
        _mm_prefetch(w + AHEAD, _MM_HINT_T0);
        step(acc, _mm256_and_si256(a, nibble), _mm256_and_si256(b, nibble), x);
        step(acc, _mm256_and_si256(_mm256_srli_epi16(a, 4), nibble), _mm256_and_si256(_mm256_srli_epi16(b, 4), nibble),
             x + STEP);
    }
    TW_UNROLL for (int h = 0; h < 2; h++) {
        __m256i middle = _mm256_slli_epi32(_mm256_madd_epi16(acc[1][h], ones), 8);
        high[h] = _mm256_add_epi32(high[h], _mm256_madd_epi16(acc[0][h], ones));
        rest[h] = _mm256_add_epi32(rest[h], _mm256_add_epi32(middle, _mm256_madd_epi16(acc[2][h], ones)));
    }
}

static void one_panel(tw_panel_format f, int64_t cols, const char *panel, const tw_prepared *x, float *y) {
    const char *data = panel + tw_panel_scale_bytes(f, cols), *values = x->values;
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t n = padded - k < block ? padded - k : block, g = f.group ? b * ROWS : 0;
        __m256i high[2], rest[2];
        high[0] = high[1] = _mm256_set1_epi32(x->bias[2 * b]);
        rest[0] = rest[1] = _mm256_set1_epi32(x->bias[2 * b + 1]);
        for (int64_t c = 0; c < n; c += SHORT)
            short_block(data + (k + c) * 8, values + TERMS * (k + c), n - c < SHORT ? n - c : SHORT, high, rest);
        TW_UNROLL for (int h = 0; h < 2; h++) {
            __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(panel + 2 * (g + 8 * h)));
            __m256 scale = _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(x->scales[b]));
            __m256 dot =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(high[h]), _mm256_set1_ps(65536), _mm256_cvtepi32_ps(rest[h]));
            sum[h] = _mm256_fmadd_ps(dot, scale, sum[h]);
        }
    }
    _mm256_storeu_ps(y, sum[0]);
    _mm256_storeu_ps(y + 8, sum[1]);
}

void tw_gemv_i4_avx2(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x, float *y) {
    const char *panel = panels;
    tw_prepared p = tw_prepared_at(f, cols, x);
    for (int64_t i = 0; i < n_panels; i++, panel += tw_panel_bytes(f, cols))
        one_panel(f, cols, panel, &p, y + i * ROWS);
}
