/* SPDX-License-Identifier: Apache-2.0 */
#include "model/quantize.h"

#include "base/dtype.h"

#include <float.h>
#include <math.h>

/* Adding and taking away 1.5 * 2^23 rounds a small float to an integer, ties to even, and leaves that integer in the
   low bits between the two. Sums are kept in lanes because floats may not be reassociated, and the loops would not
   be vectorised. */
#define ROUNDER 12582912.0f
enum { LANES = 8 };

static inline float clean(float x) {
    x = x == x ? x : 0.0f;
    x = x > FLT_MAX ? FLT_MAX : x;
    return x < -FLT_MAX ? -FLT_MAX : x;
}

/* The bits of the largest magnitude: they order as the magnitudes do, infinities and NaN above all. */
static uint32_t largest_bits(const float *x, int64_t n) {
    int32_t m[LANES] = {0}, best = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            int32_t u = (int32_t)(tw_f32_bits(x[i + j]) & 0x7fffffffu);
            m[j] = u > m[j] ? u : m[j];
        }
    for (; i < n; i++) {
        int32_t u = (int32_t)(tw_f32_bits(x[i]) & 0x7fffffffu);
        best = u > best ? u : best;
    }
    for (int j = 0; j < LANES; j++) best = m[j] > best ? m[j] : best;
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

static inline float value(const float *x, int64_t i, float unit, bool odd) { return (odd ? clean(x[i]) : x[i]) * unit; }

static inline float nearest(float t) {
    t = t < -8.0f ? -8.0f : t;
    t = t > 7.0f ? 7.0f : t;
    return (t + ROUNDER) - ROUNDER;
}

/* With q = round(y * inverse): *qy = sum of q y, *qq = sum of q q. The best scale for this q is qy / qq, and the
   squared error with it is the sum of y y less qy^2 / qq. */
static inline __attribute__((always_inline)) void correlate_as(const span *g, float inverse, bool odd, float *qy,
                                                               float *qq) {
    float a[LANES] = {0}, b[LANES] = {0};
    const float *x = g->x;
    float unit = g->unit;
    int64_t i = 0;
    for (; i + LANES <= g->n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float y = value(x, i + j, unit, odd), t = nearest(y * inverse);
            a[j] += t * y;
            b[j] += t * t;
        }
    for (int j = 0; i < g->n; i++, j++) {
        float y = value(x, i, unit, odd), t = nearest(y * inverse);
        a[j] += t * y;
        b[j] += t * t;
    }
    *qy = *qq = 0;
    for (int j = 0; j < LANES; j++) {
        *qy += a[j];
        *qq += b[j];
    }
}

static void correlate(const span *g, float inverse, float *qy, float *qq) {
    if (g->odd)
        correlate_as(g, inverse, true, qy, qq);
    else
        correlate_as(g, inverse, false, qy, qq);
}

/* The squared error of rounding with `scale`, taken element by element: this decides. */
static inline __attribute__((always_inline)) float residual_as(const span *g, float scale, bool odd) {
    float e[LANES] = {0}, inverse = 1.0f / scale, sum = 0;
    const float *x = g->x;
    float unit = g->unit;
    int64_t i = 0;
    for (; i + LANES <= g->n; i += LANES)
        for (int j = 0; j < LANES; j++) {
            float y = value(x, i + j, unit, odd), d = y - scale * nearest(y * inverse);
            e[j] += d * d;
        }
    for (int j = 0; i < g->n; i++, j++) {
        float y = value(x, i, unit, odd), d = y - scale * nearest(y * inverse);
        e[j] += d * d;
    }
    for (int j = 0; j < LANES; j++) sum += e[j];
    return sum;
}

static float residual(const span *g, float scale) {
    return g->odd ? residual_as(g, scale, true) : residual_as(g, scale, false);
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
static const float ends[] = {-9.6f, -9.0f, -8.5f, -8.0f, -7.6f, -7.2f, -6.8f, -6.4f, 8.4f, 7.9f, 7.4f, 7.0f, 6.6f, 6.2f};
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
    float inverse = 1.0f / *scale, unit = g.unit;
    if (g.odd)
        for (int64_t i = 0; i < n; i++) q[i] = (int8_t)nearest(value(x, i, unit, true) * inverse);
    else
        for (int64_t i = 0; i < n; i++) q[i] = (int8_t)nearest(value(x, i, unit, false) * inverse);
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
