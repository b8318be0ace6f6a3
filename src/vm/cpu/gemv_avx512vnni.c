/* SPDX-License-Identifier: Apache-2.0 */
/* gemv on integer formats: x is 65536 high + 256 middle + low in signed bytes, so three vpdpbusd do 64 products with
   unsigned weights. What the offset of the weights adds is taken off by the block's biases, where the sums start:
   before they become floats, so that nothing cancels. */
#include "vm/cpu/variants.h"

#include "device/cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

/* Bytes to fetch ahead. int4 is read in shorter turns between one scale and the next. */
enum { ROWS = TW_PANEL_ROWS, AHEAD_I8 = 8192, AHEAD_I4 = 12288 };

static inline __m512i broadcast(const char *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

enum { STEP = 12 /* bytes of x for four columns */ };

typedef struct sums {
    __m512i high, middle, low;
} sums;

static inline sums start(int32_t high, int32_t low) {
    return (sums){_mm512_set1_epi32(high), _mm512_setzero_si512(), _mm512_set1_epi32(low)};
}

/* `x` points at the high bytes of four columns, their middle and low bytes after them. */
static inline void step(sums *s, __m512i w, const char *x) {
    s->high = _mm512_dpbusd_epi32(s->high, w, broadcast(x));
    s->middle = _mm512_dpbusd_epi32(s->middle, w, broadcast(x + 4));
    s->low = _mm512_dpbusd_epi32(s->low, w, broadcast(x + 8));
}

static inline __m512 finish(const sums *a, const sums *b) {
    __m512i high = _mm512_add_epi32(a->high, b->high), low = _mm512_add_epi32(a->low, b->low);
    low = _mm512_add_epi32(low, _mm512_slli_epi32(_mm512_add_epi32(a->middle, b->middle), 8));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_set1_ps(65536), _mm512_cvtepi32_ps(low));
}

/* `steps` 64-byte steps of weights, two at a time in int8; as many lines are fetched from `ahead` on. */
static inline __m512 dots_i8(const char *w, const char *ahead, const char *x, int64_t steps, const int32_t *bias) {
    sums a = start(bias[0], bias[1]), b = start(0, 0);
    for (int64_t i = 0; i < steps; i += 2, w += 128, ahead += 128, x += 2 * STEP) {
        _mm_prefetch(ahead, _MM_HINT_T0);
        _mm_prefetch(ahead + 64, _MM_HINT_T0);
        step(&a, _mm512_loadu_si512(w), x);
        step(&b, _mm512_loadu_si512(w + 64), x + STEP);
    }
    return finish(&a, &b);
}

static inline __m512 dots_i4(const char *w, const char *ahead, const char *x, int64_t steps, const int32_t *bias) {
    const __m512i nibble = _mm512_set1_epi8(15);
    sums a = start(bias[0], bias[1]), b = start(0, 0);
    for (int64_t i = 0; i < steps; i++, w += 64, ahead += 64, x += 2 * STEP) {
        __m512i both = _mm512_loadu_si512(w);
        _mm_prefetch(ahead, _MM_HINT_T0);
        step(&a, _mm512_and_si512(both, nibble), x);
        step(&b, _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble), x + STEP);
    }
    return finish(&a, &b);
}

static inline __attribute__((always_inline)) void panel_blocks(tw_dtype t, int64_t block, int64_t cols, bool grouped,
                                                               const char *panel, const char *data,
                                                               const tw_prepared *x, float *y) {
    const int64_t column = t == TW_I8 ? 16 : 8; /* bytes of weights */
    const char *values = x->values;
    /* Scales lie before the weights of a panel: what is fetched ahead passes over the next panel's in even steps, so
       that no weights after them are skipped. */
    const char *ahead = panel + (t == TW_I8 ? AHEAD_I8 : AHEAD_I4);
    const int64_t scales = !grouped ? 0 : ROWS * (t == TW_I8 ? 4 : 2);
    __m512 acc = _mm512_setzero_ps(), scale = _mm512_set1_ps(1);
    for (int64_t b = 0, k = 0; k < cols; b++, k += block) {
        int64_t n = cols - k < block ? cols - k : block;
        __m512 dot = t == TW_I8 ? dots_i8(data + k * column, ahead, values + 3 * k, n / 4, &x->bias[2 * b])
                                : dots_i4(data + k * column, ahead, values + 3 * k, n / 8, &x->bias[2 * b]);
        ahead += n * column;
        if (scales) _mm_prefetch(ahead, _MM_HINT_T0);
        ahead += scales;
        if (grouped)
            scale = t == TW_I8
                        ? _mm512_loadu_ps(panel + b * ROWS * 4)
                        : _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(panel + b * ROWS * 2)));
        acc = _mm512_fmadd_ps(dot, _mm512_mul_ps(scale, _mm512_set1_ps(x->scales[b])), acc);
    }
    if (!grouped)
        acc =
            _mm512_mul_ps(acc, t == TW_I8 ? _mm512_loadu_ps(panel)
                                          : _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)panel)));
    _mm512_storeu_ps(y, acc);
}

/* The block's length as a constant, so that its loop unrolls. */
static void one_panel(tw_panel_format f, int64_t cols, const char *panel, const tw_prepared *x, float *y) {
    const char *data = panel + tw_panel_scale_bytes(f, cols);
    int64_t padded = tw_panel_cols(f, cols);
    if (f.dtype == TW_I8 && f.group == 32)
        panel_blocks(TW_I8, 32, padded, true, panel, data, x, y);
    else if (f.dtype == TW_I4 && f.group == 32)
        panel_blocks(TW_I4, 32, padded, true, panel, data, x, y);
    else if (f.dtype == TW_I8)
        panel_blocks(TW_I8, tw_block_of(f), padded, f.group > 0, panel, data, x, y);
    else
        panel_blocks(TW_I4, tw_block_of(f), padded, f.group > 0, panel, data, x, y);
}

void tw_gemv_fixed_avx512vnni(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x,
                              float *y) {
    const char *panel = panels;
    tw_prepared p = tw_prepared_at(f, cols, x);
    for (int64_t i = 0; i < n_panels; i++, panel += tw_panel_bytes(f, cols))
        one_panel(f, cols, panel, &p, y + i * ROWS);
}
