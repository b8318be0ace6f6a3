/* SPDX-License-Identifier: Apache-2.0 */
/* Weights have up to 10^9 elements and more: loops are plain, so that compilers make them ones of several elements, and
   run over what stays in the nearest cache. */
#include "graph/program/scale.h"

#include "base/dtype.h"

#include <math.h>

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

static double size_of(const float *x, int64_t n) {
    double lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lanes[k] += (double)fabsf(x[i + k]);
    for (; i < n; i++) lanes[0] += (double)fabsf(x[i]);
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

/* Neighbouring elements of a row of the stored matrix. */
typedef struct run {
    int64_t row, column; /* Place of the first element. */
    int64_t n;           /* Number of elements. */
    float *off;   /* The sum of rounding errors of each column so far. Only of matrices that are not transposed. */
    double *size; /* The sum of the elements' absolute values so far. */
} run;

/* Loads a run, and multiplies it by gains. */
static void load_run(const tw_scaling *s, const run *r, const unsigned char *from, float *x) {
    const float *gain = s->gain + (s->trans ? r->column : r->row);
    widen(s->type, from, x, r->n);
    if (s->trans)
        for (int64_t i = 0; i < r->n; i++) x[i] *= gain[i];
    else
        for (int64_t i = 0; i < r->n; i++) x[i] *= *gain;
}

static bool sum_run(const tw_scaling *s, const run *r, const unsigned char *from, unsigned char *to) {
    float x[RUN];
    (void)to;
    load_run(s, r, from, x);
    if (s->trans)
        s->means[r->row] += sum_of(x, r->n) / (double)s->k;
    else
        add(s->means + r->column, x, 1 / (double)s->k, r->n);
    return true;
}

static void subtract(const tw_scaling *s, const run *r, float *x) {
    const double *mean = s->means + (s->trans ? r->row : r->column);
    if (s->trans)
        for (int64_t i = 0; i < r->n; i++) x[i] -= (float)*mean;
    else
        for (int64_t i = 0; i < r->n; i++) x[i] -= (float)mean[i];
}

/* Rounds n elements, the next ones of n sums. What rounding takes from a sum is given to an element behind, once it is
   half of what elements of that size differ by, and no more than a few times as much: the least change that keeps the
   sum. */
static void round_sums(tw_dtype t, float *off, const float *x, unsigned char *to, int64_t n) {
    enum { MOST = 4 };
    const float step = t == TW_F16 ? 0x1p-10f : 0x1p-7f;
    float rounded[RUN], given[RUN];
    tw_from_f32(t, x, to, (size_t)n);
    widen(t, to, rounded, n);
    for (int64_t i = 0; i < n; i++) {
        const float then = fabsf(off[i] + (x[i] - rounded[i])), apart = fabsf(x[i]) * step;
        given[i] = then > apart / 2 && then < MOST * apart ? x[i] + off[i] : x[i];
    }
    tw_from_f32(t, given, to, (size_t)n);
    widen(t, to, rounded, n);
    for (int64_t i = 0; i < n; i++) off[i] += x[i] - rounded[i];
}

/* Rounds a run whose columns have a mean of 0, so that they keep it: a row's mean, which may be far from 0, is
   multiplied by what they are off it. */
static void round_run(const tw_scaling *s, const run *r, const float *x, unsigned char *to) {
    float off[LANES] = {0};
    if (!s->trans) {
        round_sums(s->type, r->off, x, to, r->n);
        return;
    }
    for (int64_t i = 0; i < r->n; i += LANES)
        round_sums(s->type, off, x + i, to + 2 * i, r->n - i < LANES ? r->n - i : LANES);
}

static bool scale_run(const tw_scaling *s, const run *r, const unsigned char *from, unsigned char *to) {
    float x[RUN];
    if (s->beta) {
        widen(s->type, from, x, r->n);
        if (s->trans)
            s->shift[r->row] += dot(x, s->beta + r->column, r->n);
        else
            add(s->shift + r->column, x, s->beta[r->row], r->n);
    }
    load_run(s, r, from, x);
    if (s->means) {
        subtract(s, r, x);
        round_run(s, r, x, to);
    } else {
        tw_from_f32(s->type, x, to, (size_t)r->n);
    }
    *r->size += size_of(x, r->n);
    return !beyond(to, r->n, s->type == TW_F16 ? 0x7c00 : 0x7f80);
}

typedef bool visit(const tw_scaling *s, const run *r, const unsigned char *from, unsigned char *to);

/* Calls a function for all runs, those of the same columns one after another. *size: the sum of the elements'
   sizes, if they are scaled. */
static bool walk(const tw_scaling *s, visit *each, const unsigned char *from, unsigned char *to, double *size) {
    const int64_t rows = s->trans ? s->n : s->k, columns = s->trans ? s->k : s->n;
    bool good = true;
    for (int64_t c = 0; c < columns && good; c += RUN) {
        float off[RUN] = {0};
        for (int64_t r = 0; r < rows && good; r++) {
            const run of = {r, c, columns - c < RUN ? columns - c : RUN, off, size};
            const int64_t at = 2 * (r * columns + c);
            good = each(s, &of, from + at, to + at);
        }
    }
    return good;
}

bool tw_scale_rows(const tw_scaling *s, const void *from, void *to) {
    const double few = 0x1p-16; /* Numbers of f16 around it have 8 bits, and some 4 times the usual errors. */
    double size = 0;
    if (s->means) walk(s, sum_run, from, to, &size);
    if (!walk(s, scale_run, from, to, &size)) return false;
    return s->type != TW_F16 || size == 0 || size >= few * (double)s->k * (double)s->n;
}
