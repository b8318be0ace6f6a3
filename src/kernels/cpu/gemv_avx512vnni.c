/* SPDX-License-Identifier: Apache-2.0 */
/* gemv on integer formats. x is 65536 high + 256 middle + low in signed bytes, so three vpdpbusd do 64 products with
   unsigned weights. The sums start at the block's biases, which take off what the offset of the weights adds. Nothing
   cancels, since the sums become floats afterwards. */
#include "kernels/cpu/variants.h"

#include "device/cpu/unroll.h"

#include <immintrin.h>
#include <string.h>

/* AHEAD: bytes to prefetch ahead. int4 is read in shorter turns, between one scale and the next. */
enum {
    ROWS = TW_PANEL_ROWS,
    STREAMS = 4, /* Panels that are read side by side. One alone does not use the memory's whole bandwidth. */
    TURN = 32,   /* Columns of each panel in turn, with int8. */
    AHEAD_I8 = 8192,
    AHEAD_I4 = 12288
};

static inline __m512i broadcast(const char *p) {
    int32_t v;
    memcpy(&v, p, 4);
    return _mm512_set1_epi32(v);
}

enum { STEP = 12 /* Bytes of x for four columns. */ };

typedef struct sums {
    __m512i high, middle, low;
} sums;

static inline sums start(int32_t high, int32_t low) {
    return (sums){_mm512_set1_epi32(high), _mm512_setzero_si512(), _mm512_set1_epi32(low)};
}

/* Adds four columns. `x` points at their high bytes, which their middle and low bytes follow. */
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

typedef struct dots {
    sums a, b; /* Sums of every other step. */
} dots;

/* Adds `steps` steps of 64 bytes of weights, two at a time, and prefetches as many lines from `ahead` on. */
static inline void dots_i8(dots *d, const char *w, const char *ahead, const char *x, int64_t steps) {
    for (int64_t i = 0; i < steps; i += 2, w += 128, ahead += 128, x += 2 * STEP) {
        _mm_prefetch(ahead, _MM_HINT_T0);
        _mm_prefetch(ahead + 64, _MM_HINT_T0);
        step(&d->a, _mm512_loadu_si512(w), x);
        step(&d->b, _mm512_loadu_si512(w + 64), x + STEP);
    }
}

/* Computes a whole block, since blocks of int4 are short. */
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

/* Multiplies `streams` panels, `apart` bytes from one another, block by block in turn. */
static inline __attribute__((always_inline)) void panel_blocks(tw_dtype t, int64_t block, int64_t cols, bool grouped,
                                                               int streams, const char *panels, int64_t apart,
                                                               int64_t scale_bytes, const tw_prepared *x, float *y,
                                                               int64_t y_apart) {
    const int64_t column = t == TW_I8 ? 16 : 8; /* Bytes of a column's weights. */
    const char *values = x->values;
    /* Scales precede a panel's weights. Prefetching passes over the next panel's scales in even steps, so that it skips
       no weights after them. */
    int64_t ahead = t == TW_I8 ? AHEAD_I8 : AHEAD_I4;
    const int64_t scales = !grouped ? 0 : ROWS * (t == TW_I8 ? 4 : 2);
    __m512 acc[STREAMS], scale = _mm512_set1_ps(1);
    for (int p = 0; p < streams; p++) acc[p] = _mm512_setzero_ps();
    for (int64_t b = 0, k = 0; k < cols; b++, k += block) {
        int64_t n = cols - k < block ? cols - k : block;
        const __m512 x_scale = _mm512_set1_ps(x->scales[b]);
        __m512 dot[STREAMS];
        if (t == TW_I4) {
            for (int p = 0; p < streams; p++) {
                const char *panel = panels + p * apart;
                dot[p] =
                    dots_i4(panel + scale_bytes + k * column, panel + ahead, values + 3 * k, n / 8, &x->bias[2 * b]);
            }
        } else {
            dots d[STREAMS];
            for (int p = 0; p < streams; p++) d[p] = (dots){start(x->bias[2 * b], x->bias[2 * b + 1]), start(0, 0)};
            /* Turns are short, since a stream that pauses for long is read more slowly. */
            for (int64_t done = 0; done < n; done += TURN) {
                const int64_t now = n - done < TURN ? n - done : TURN;
                for (int p = 0; p < streams; p++) {
                    const char *panel = panels + p * apart;
                    dots_i8(&d[p], panel + scale_bytes + (k + done) * column, panel + ahead + done * column,
                            values + 3 * (k + done), now / 4);
                }
            }
            for (int p = 0; p < streams; p++) dot[p] = finish(&d[p].a, &d[p].b);
        }
        for (int p = 0; p < streams; p++) {
            const char *panel = panels + p * apart;
            if (scales) _mm_prefetch(panel + ahead + n * column, _MM_HINT_T0);
            if (grouped)
                scale =
                    t == TW_I8
                        ? _mm512_loadu_ps(panel + b * ROWS * 4)
                        : _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(panel + b * ROWS * 2)));
            acc[p] = _mm512_fmadd_ps(dot[p], _mm512_mul_ps(scale, x_scale), acc[p]);
        }
        ahead += n * column + scales;
    }
    for (int p = 0; p < streams; p++) {
        const char *panel = panels + p * apart;
        if (!grouped)
            acc[p] = _mm512_mul_ps(
                acc[p], t == TW_I8 ? _mm512_loadu_ps(panel)
                                   : _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)panel)));
        _mm512_storeu_ps(y + p * y_apart, acc[p]);
    }
}

/* Makes the block's length and the number of panels constants, so that their loops unroll. */
static inline __attribute__((always_inline)) void some_panels(tw_panel_format f, int64_t cols, int streams,
                                                              const char *panels, int64_t apart, const tw_prepared *x,
                                                              float *y, int64_t y_apart) {
    const int64_t scale_bytes = (int64_t)tw_panel_scale_bytes(f, cols), padded = tw_panel_cols(f, cols);
    if (f.dtype == TW_I8 && f.group == 32)
        panel_blocks(TW_I8, 32, padded, true, streams, panels, apart, scale_bytes, x, y, y_apart);
    else if (f.dtype == TW_I4 && f.group == 32)
        panel_blocks(TW_I4, 32, padded, true, streams, panels, apart, scale_bytes, x, y, y_apart);
    else if (f.dtype == TW_I8)
        panel_blocks(TW_I8, tw_block_of(f), padded, f.group > 0, streams, panels, apart, scale_bytes, x, y, y_apart);
    else
        panel_blocks(TW_I4, tw_block_of(f), padded, f.group > 0, streams, panels, apart, scale_bytes, x, y, y_apart);
}

void tw_gemv_fixed_avx512vnni(tw_panel_format f, const void *panels, int64_t n_panels, int64_t cols, const void *x,
                              float *y) {
    const char *data = panels;
    const int64_t bytes = (int64_t)tw_panel_bytes(f, cols), each = n_panels / STREAMS;
    tw_prepared p = tw_prepared_at(f, cols, x);
    /* The panels are far apart, so that each is a separate stream for the memory. */
    for (int64_t i = 0; i < each; i++)
        some_panels(f, cols, STREAMS, data + i * bytes, each * bytes, &p, y + i * ROWS, each * ROWS);
    for (int64_t i = each * STREAMS; i < n_panels; i++)
        some_panels(f, cols, 1, data + i * bytes, 0, &p, y + i * ROWS, 0);
}
