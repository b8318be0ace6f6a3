/* SPDX-License-Identifier: Apache-2.0 */
/* gemv on int8 without vpdpbusd. Weights are widened to 16 bits, and vpmaddwd makes exact sums in 32 bits. */
#include "kernels/cpu/variants.h"

#include "device/cpu/unroll.h"

#include <immintrin.h>

enum { ROWS = TW_PANEL_ROWS, QUADS = 4, /* Quads of rows. */ AHEAD = 8192 };

static inline __m256i broadcast(const int16_t *q) {
    return _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)(const void *)q));
}

typedef struct sums {
    __m256i upper[QUADS], lower[QUADS];
} sums;

/* Adds four columns of 16 rows: 64 unsigned bytes, 16 for each four rows. `q` has upper parts, then lower ones. */
static inline void step(sums *s, const __m128i w[QUADS], const int16_t *q) {
    __m256i u = broadcast(q), l = broadcast(q + 4);
    TW_UNROLL for (int i = 0; i < QUADS; i++) {
        __m256i wide = _mm256_cvtepu8_epi16(w[i]);
        s->upper[i] = _mm256_add_epi32(s->upper[i], _mm256_madd_epi16(wide, u));
        s->lower[i] = _mm256_add_epi32(s->lower[i], _mm256_madd_epi16(wide, l));
    }
}

static inline __m128i load(const char *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline void dots(sums *s, const char *w, const int16_t *q, int64_t n) {
    for (int64_t k = 0; k < n; k += 4, w += 64) {
        __m128i bytes[QUADS];
        _mm_prefetch(w + AHEAD, _MM_HINT_T0);
        TW_UNROLL for (int i = 0; i < QUADS; i++) bytes[i] = load(w + 16 * i);
        step(s, bytes, q + 2 * k);
    }
}

/* acc[i] has rows 4 i to 4 i + 3 as two partial sums each. `out` gets rows 0 to 7 and 8 to 15. */
static inline void join(const __m256i acc[QUADS], int32_t bias, __m256 out[2]) {
    TW_UNROLL for (int h = 0; h < 2; h++) {
        __m256i pair = _mm256_hadd_epi32(acc[2 * h], acc[2 * h + 1]);
        /* hadd works in 128-bit halves: rows 0 1 4 5 | 2 3 6 7 */
        pair = _mm256_permute4x64_epi64(pair, _MM_SHUFFLE(3, 1, 2, 0));
        out[h] = _mm256_cvtepi32_ps(_mm256_add_epi32(pair, _mm256_set1_epi32(bias)));
    }
}

static void one_panel(tw_panel_format f, int64_t cols, const char *panel, const tw_prepared *x, float *y) {
    const float *scales = (const float *)(const void *)panel;
    const char *data = panel + tw_panel_scale_bytes(f, cols);
    int64_t padded = tw_panel_cols(f, cols), block = tw_block_of(f);
    __m256 y0 = _mm256_setzero_ps(), y1 = y0, dot[2], low[2];
    for (int64_t b = 0, k = 0; k < padded; b++, k += block) {
        int64_t n = padded - k < block ? padded - k : block, g = f.group ? b * ROWS : 0;
        const int16_t *q = (const int16_t *)x->values + 2 * k;
        sums sum = {0};
        dots(&sum, data + k * ROWS, q, n);
        join(sum.upper, x->bias[2 * b], dot);
        join(sum.lower, x->bias[2 * b + 1], low);
        TW_UNROLL for (int h = 0; h < 2; h++) dot[h] = _mm256_fmadd_ps(dot[h], _mm256_set1_ps(256), low[h]);
        __m256 s = _mm256_set1_ps(x->scales[b]);
        y0 = _mm256_fmadd_ps(dot[0], _mm256_mul_ps(s, _mm256_loadu_ps(scales + g)), y0);
        y1 = _mm256_fmadd_ps(dot[1], _mm256_mul_ps(s, _mm256_loadu_ps(scales + g + 8)), y1);
    }
    _mm256_storeu_ps(y, y0);
    _mm256_storeu_ps(y + 8, y1);
}

void tw_gemv_i8_avx2(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x, float *y) {
    const char *panel = panels;
    tw_prepared p = tw_prepared_at(f, cols, x);
    for (int64_t i = 0; i < n_panels; i++, panel += tw_panel_bytes(f, cols))
        one_panel(f, cols, panel, &p, y + i * ROWS);
}
