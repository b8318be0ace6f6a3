/* SPDX-License-Identifier: Apache-2.0 */
#include "model/quantize.h"

#include "base/dtype.h"

#include <float.h>
#include <math.h>

/* Adding and taking away 1.5 * 2^23 rounds a small float to an integer, ties to even, and leaves that integer in the
   low bits between the two. */
#define ROUNDER 12582912.0f
enum { LANES = 8, CHUNK = 128 };

/* Sums go in lanes by hand, because floats may not be reassociated for a loop's sake; and elements are rounded a chunk
   at a time before they are summed, because a loop that does both is not vectorised. */
typedef float lanes __attribute__((vector_size(16)));

static inline float clean(float x) {
    x = x == x ? x : 0.0f;
    x = x > FLT_MAX ? FLT_MAX : x;
    return x < -FLT_MAX ? -FLT_MAX : x;
}

/* The bits of the largest magnitude: they order as the magnitudes do, infinities and NaN above all. */
static uint32_t largest_bits(const float *x, int64_t n) {
    int32_t best = 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t u = (int32_t)(tw_f32_bits(x[i]) & 0x7fffffffu);
        best = u > best ? u : best;
    }
    return (uint32_t)best;
}

static float largest_clean(const float *x, int64_t n) {
    float best = 0;
    for (int64_t i = 0; i < n; i++) best = fmaxf(best, fabsf(clean(x[i])));
    return best;
}

/* ---- int8 */

static void quantise_i8(const float *x, int64_t n, int8_t *q, float *scale) {
    uint32_t bits = largest_bits(x, n);
    float top = tw_bits_f32(bits);
    if (bits < 0x7f800000u && top > 1e-30f) {
        float inverse = 127.0f / top;
        for (int64_t i = 0; i < n; i++) q[i] = (int8_t)(tw_f32_bits(x[i] * inverse + ROUNDER) & 0xffu);
        *scale = top / 127.0f;
        return;
    }
    double exact = (double)largest_clean(x, n); /* odd rows: with NaN, infinity, or next to nothing in them */
    for (int64_t i = 0; i < n; i++) q[i] = exact > 0 ? (int8_t)rint((double)clean(x[i]) * 127.0 / exact) : 0;
    *scale = (float)(exact / 127.0);
}

/* ---- int4 */

typedef struct span {
    const float *x;
    int64_t n;
    float unit; /* a power of two; times it, the largest magnitude is in [1/2, 1) and no sum overflows */
    bool odd;   /* has NaN or infinity */
} span;

/* Clamped as integers, which order as the floats do: comparing floats may trap, and so is not vectorised. */
static inline float nearest(float t) {
    static const int32_t zero = 0x4b400000; /* the bits of ROUNDER */
    int32_t u = (int32_t)tw_f32_bits(t + ROUNDER);
    u = u < zero - 8 ? zero - 8 : u;
    u = u > zero + 7 ? zero + 7 : u;
    return tw_bits_f32((uint32_t)u) - ROUNDER;
}

/* Up to CHUNK elements from `at` in units of the group, and what they are rounded to; zeros behind the end. */
static void round_chunk(const span *g, int64_t at, float inverse, float *restrict y, float *restrict q) {
    const float *restrict x = g->x + at;
    float unit = g->unit;
    int n = (int)(g->n - at < CHUNK ? g->n - at : CHUNK);
    if (g->odd)
        for (int i = 0; i < n; i++) y[i] = clean(x[i]) * unit;
    else
        for (int i = 0; i < n; i++) y[i] = x[i] * unit;
    for (int i = 0; i < n; i++) q[i] = nearest(y[i] * inverse);
    for (int i = n; i % LANES; i++) y[i] = q[i] = 0;
}

static int lanes_of(const span *g, int64_t at) {
    int64_t n = g->n - at < CHUNK ? g->n - at : CHUNK;
    return (int)((n + LANES - 1) / LANES * LANES);
}

static inline lanes load(const float *p) {
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float sum_of(lanes a, lanes b) {
    a += b;
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/* With q = round(y * inverse): *qy = sum of q y, *qq = sum of q q. The best scale for this q is qy / qq, and the
   squared error with it is the sum of y y less qy^2 / qq. */
static void correlate(const span *g, float inverse, float *qy, float *qq) {
    float y[CHUNK], q[CHUNK];
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t at = 0; at < g->n; at += CHUNK) {
        round_chunk(g, at, inverse, y, q);
        for (int i = 0, n = lanes_of(g, at); i < n; i += LANES) {
            lanes q0 = load(q + i), q1 = load(q + i + 4);
            a += q0 * load(y + i);
            b += q1 * load(y + i + 4);
            c += q0 * q0;
            d += q1 * q1;
        }
    }
    *qy = sum_of(a, b);
    *qq = sum_of(c, d);
}

/* The squared error of rounding with `scale`, taken element by element: this decides. */
static float residual(const span *g, float scale) {
    float y[CHUNK], q[CHUNK];
    lanes a = {0}, b = {0};
    for (int64_t at = 0; at < g->n; at += CHUNK) {
        round_chunk(g, at, 1.0f / scale, y, q);
        for (int i = 0, n = lanes_of(g, at); i < n; i += LANES) {
            lanes d0 = load(y + i) - scale * load(q + i), d1 = load(y + i + 4) - scale * load(q + i + 4);
            a += d0 * d0;
            b += d1 * d1;
        }
    }
    return sum_of(a, b);
}

/* The f16 scale next to `scale`, both in units of the group. */
static float storable(const span *g, float scale) {
    float real = scale / g->unit;
    real = real > 65504.0f ? 65504.0f : real < -65504.0f ? -65504.0f : real;
    return tw_f16_to_f32(tw_f32_to_f16(real)) * g->unit;
}

typedef struct choice {
    float scale, error;
} choice;

static void consider(const span *g, choice *best, float scale) {
    scale = storable(g, scale);
    if (scale == 0 || scale == best->scale) return;
    float error = residual(g, scale);
    if (error < best->error) *best = (choice){scale, error};
}

/* Where the largest magnitude is put. At the negative end there is one step more; putting it beyond an end clips it,
   which often costs less than coarser steps for all the others. */
static const float ends[] = {-9.6f, -9.0f, -8.5f, -8.0f, -7.6f, -7.2f, -6.8f,
                             -6.4f, 8.4f,  7.9f,  7.4f,  7.0f,  6.6f,  6.2f};
enum { ENDS = sizeof ends / sizeof *ends };

/* `extreme` is the element of largest magnitude, in units. */
static float search_scale(const span *g, float extreme) {
    choice best = {0, INFINITY};
    consider(g, &best, extreme / -8.0f);
    consider(g, &best, fabsf(extreme) / 7.0f);
    float gain[3] = {-1, -1, -1}, fit[3] = {0}; /* the most promising, best first */
    for (int i = 0; i < ENDS; i++) {
        float qy, qq;
        correlate(g, ends[i] / extreme, &qy, &qq);
        float good = qq > 0 ? qy * qy / qq : 0, scale = qq > 0 ? qy / qq : 0;
        for (int k = 0; k < 3; k++)
            if (good > gain[k]) {
                float t = gain[k];
                gain[k] = good;
                good = t;
                t = fit[k];
                fit[k] = scale;
                scale = t;
            }
    }
    for (int k = 0; k < 3; k++) consider(g, &best, fit[k]);
    for (int round = 0; round < 2 && best.scale != 0; round++) {
        float qy, qq;
        correlate(g, 1.0f / best.scale, &qy, &qq);
        if (qq > 0) consider(g, &best, qy / qq);
    }
    return best.scale;
}

static void quantise_i4(const float *x, int64_t n, int8_t *q, float *scale) {
    uint32_t bits = largest_bits(x, n);
    span g = {.x = x, .n = n, .unit = 1, .odd = bits >= 0x7f800000u};
    float top = g.odd ? largest_clean(x, n) : tw_bits_f32(bits), extreme = 0;
    *scale = 0;
    /* Below this every scale rounds to zero in f16. */
    if (top > 0x1p-23f) {
        int e;
        frexpf(top, &e);
        g.unit = ldexpf(1.0f, -e);
        for (int64_t i = 0; i < n && extreme == 0; i++)
            if (fabsf(clean(x[i])) == top) extreme = clean(x[i]) * g.unit;
        *scale = search_scale(&g, extreme);
    }
    if (*scale == 0) {
        memset(q, 0, (size_t)n);
        return;
    }
    float y[CHUNK], t[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        round_chunk(&g, at, 1.0f / *scale, y, t);
        for (int64_t i = 0; i < CHUNK && at + i < n; i++) q[at + i] = (int8_t)t[i];
    }
    *scale /= g.unit;
}

void tw_quantise_row(tw_dtype t, int group, const float *row, int64_t cols, int8_t *q, float *scales) {
    int64_t step = group > 0 ? group : cols;
    for (int64_t at = 0; at < cols; at += step) {
        int64_t n = cols - at < step ? cols - at : step;
        if (t == TW_I8)
            quantise_i8(row + at, n, q + at, scales++);
        else
            quantise_i4(row + at, n, q + at, scales++);
    }
}

double tw_quantise_error(int group, const float *row, int64_t cols, const int8_t *q, const float *scales) {
    int64_t step = group > 0 ? group : cols;
    double sum = 0;
    for (int64_t i = 0; i < cols; i++) {
        double d = (double)clean(row[i]) - (double)q[i] * (double)scales[i / step];
        sum += d * d;
    }
    return sum;
}
