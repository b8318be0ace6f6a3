/* SPDX-License-Identifier: Apache-2.0 */
/* Weights have up to 10^9 elements and more: loops are plain, so that compilers make them ones of several elements, and
   run over what stays in the nearest cache. */
#include "graph/program/scale.h"

#include "base/dtype.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { RUN = 1024, LANES = 8 };

#if defined(__x86_64__)
/* Converts eights of elements by the processor's instruction, and returns how many elements that were. */
__attribute__((target("avx,f16c"))) static int64_t widen_eights(const unsigned char *from, float *to, int64_t n) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + 2 * i))));
    return i;
}

static int64_t widen_many(const unsigned char *from, float *to, int64_t n) {
    return __builtin_cpu_supports("avx2") ? widen_eights(from, to, n) : 0; /* All of these have f16c, too. */
}
#else
static int64_t widen_many(const unsigned char *from, float *to, int64_t n) {
    return (void)from, (void)to, n * 0;
}
#endif

static void widen(tw_dtype t, const unsigned char *from, float *to, int64_t n) {
    const int64_t done = t == TW_F16 ? widen_many(from, to, n) : 0;
    tw_to_f32(t, from + 2 * done, to + done, (size_t)(n - done));
}

/* Tells whether all bits of an exponent are set: of infinities, and of what is no number. */
static bool beyond(const unsigned char *x, int64_t n, unsigned exponent) {
    unsigned any = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, x + 2 * i, sizeof h);
        any |= (h & exponent) == exponent;
    }
    return any;
}

static void add(double *to, const float *x, double factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] += factor * (double)x[i];
}

static double total(const double lanes[LANES]) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static double sum_of(const float *x, int64_t n) {
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += (double)x[i + k];
    for (; i < n; i++) lanes[0] += (double)x[i];
    return total(lanes);
}

static double dot(const float *x, const double *by, int64_t n) {
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += by[i + k] * (double)x[i + k];
    for (; i < n; i++) lanes[0] += by[i] * (double)x[i];
    return total(lanes);
}

/* Columns `column` to column + n - 1 of a row as stored. */
static void scale_run(const tw_scaling *s, int64_t row, int64_t column, int64_t n, const unsigned char *from,
                      unsigned char *to) {
    float x[RUN];
    widen(s->type, from, x, n);
    if (s->beta && s->trans) s->shift[row] += dot(x, s->beta + column, n);
    if (s->beta && !s->trans) add(s->shift + column, x, s->beta[row], n);
    const float *gain = s->gain + (s->trans ? column : row);
    if (s->trans)
        for (int64_t i = 0; i < n; i++) x[i] *= gain[i];
    else
        for (int64_t i = 0; i < n; i++) x[i] *= *gain;
    tw_from_f32(s->type, x, to, (size_t)n);
    if (!s->sums) return;
    widen(s->type, to, x, n);
    if (s->trans)
        s->sums[row] += sum_of(x, n);
    else
        add(s->sums + column, x, 1, n);
}

bool tw_scale_rows(const tw_scaling *s, const void *from, void *to) {
    const int64_t rows = s->trans ? s->n : s->k, columns = s->trans ? s->k : s->n;
    const unsigned exponent = s->type == TW_F16 ? 0x7c00 : 0x7f80;
    bool good = true;
    for (int64_t c = 0; c < columns && good; c += RUN) {
        const int64_t n = columns - c < RUN ? columns - c : RUN;
        for (int64_t r = 0; r < rows && good; r++) {
            const int64_t at = 2 * (r * columns + c);
            scale_run(s, r, c, n, (const unsigned char *)from + at, (unsigned char *)to + at);
            good = !beyond((const unsigned char *)to + at, n, exponent);
        }
    }
    return good;
}
