/* SPDX-License-Identifier: Apache-2.0 */
/* Template: norms, activations and sums, compiled once for each vector_*.h included before it. */
#include "kernels/cpu/variants.h"
#include "kernels/cpu/vector_exp.h"

#include <math.h>

/* Sums of squares run in double: the squares of values beyond 1e19 leave float's range, their root mean square does
   not. Two sums, for the two halves of a vector. */
static double sum_squares(const float *x, int64_t n, double mean) {
    vd low = v_dzero(), high = v_dzero(), m = v_dset(mean);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf v = v_load(x + i);
        vd a = v_dsub(v_low(v), m), b = v_dsub(v_high(v), m);
        low = v_dfma(a, a, low);
        high = v_dfma(b, b, high);
    }
    double sum = v_dsum(v_dadd(low, high));
    for (; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static double sum_all(const float *x, int64_t n) {
    vd low = v_dzero(), high = v_dzero();
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = v_load_part(x + i, n - i);
        low = v_dadd(low, v_low(v));
        high = v_dadd(high, v_high(v));
    }
    return v_dsum(v_dadd(low, high));
}

/* (x - mean) * inverse, rounded once. */
static inline vf centre(vf x, double mean, double inverse) {
    vd m = v_dset(mean), s = v_dset(inverse);
    return v_join(v_dmul(v_dsub(v_low(x), m), s), v_dmul(v_dsub(v_high(x), m), s));
}

static void norm_rms(const float *x, const float *w, float eps, int64_t n, float *y) {
    double inverse = 1 / sqrt(sum_squares(x, n, 0) / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = centre(v_load_part(x + i, n - i), 0, inverse);
        v_store_part(y + i, n - i, v_mul(v, v_load_part(w + i, n - i)));
    }
}

static void norm_layer(const float *x, const float *w, const float *b, float eps, int64_t n, float *y) {
    double mean = sum_all(x, n) / (double)n, inverse = 1 / sqrt(sum_squares(x, n, mean) / (double)n + (double)eps);
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = centre(v_load_part(x + i, n - i), mean, inverse);
        v_store_part(y + i, n - i, v_add(v_mul(v, v_load_part(w + i, n - i)), v_load_part(b + i, n - i)));
    }
}

static void silu_mul(const float *gate, const float *up, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf g = v_load_part(gate + i, n - i), u = v_load_part(up + i, n - i);
        vf s = v_div(g, v_add(v_set(1), v_exp(v_sub(v_zero(), g))));
        v_store_part(y + i, n - i, v_mul(s, u));
    }
}

/* The normal distribution's tail at t >= 0 is e^(-t^2 / 2) u P(u), u = 1 / (1 + t / 4): the Chebyshev interpolant of
   degree 9 up to t = 14.6, where float ends (relative error 2.0e-8). The lower tail is that tail itself, so nothing
   cancels there; the rounding of t^2 is put back, for it would be amplified by the exponential. */
static inline vf gelu_one(vf x) {
    static const float c[] = {0.0997493863f,  0.0994603336f, 0.0958103463f, 0.0705069825f,  0.0912895203f,
                              0.00353999576f, 0.0400592238f, 0.0425292663f, -0.0587550178f, 0.0158099663f};
    vf t = v_min(v_set(20.0f), v_abs(x)), half = v_mul(v_set(0.5f), t);
    vf h = v_mul(half, t), lost = v_fma(half, t, v_sub(v_zero(), h));
    vf u = v_div(v_set(1), v_fma(t, v_set(0.25f), v_set(1)));
    vf p = v_set(c[9]);
    TW_UNROLL for (int i = 8; i >= 0; i--) p = v_fma(p, u, v_set(c[i]));
    vf e = v_exp(v_sub(v_zero(), h));
    vf tail = v_mul(v_mul(p, u), v_fnma(e, lost, e));
    return v_mul(x, v_select(v_less(x, v_zero()), tail, v_sub(v_set(1), tail)));
}

static void gelu(const float *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i += LANES) v_store_part(y + i, n - i, gelu_one(v_load_part(x + i, n - i)));
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)), which does not cancel for negative u. */
static void gelu_tanh(const float *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = v_load_part(x + i, n - i);
        vf u = v_mul(v_mul(v, v_set(-1.5957691216f)), v_fma(v_mul(v, v), v_set(0.044715f), v_set(1)));
        v_store_part(y + i, n - i, v_div(v, v_add(v_set(1), v_exp(u))));
    }
}

static void add(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += LANES)
        v_store_part(y + i, n - i, v_add(v_load_part(y + i, n - i), v_load_part(x + i, n - i)));
}

static void axpy(float *y, const float *x, float a, int64_t n) {
    vf s = v_set(a);
    for (int64_t i = 0; i < n; i += LANES)
        v_store_part(y + i, n - i, v_fma(s, v_load_part(x + i, n - i), v_load_part(y + i, n - i)));
}

static float soften(float *x, float scale, const float *bias, int64_t n) {
    vf top = v_set(-INFINITY), sum = v_zero(), by = v_set(scale);
    for (int64_t i = 0; i < n; i += LANES) {
        vf v = v_load_part(x + i, n - i);
        v = bias ? v_fma(v, by, v_load_part(bias + i, n - i)) : v_mul(v, by);
        v_store_part(x + i, n - i, v);
        if (i + LANES <= n) top = v_max(v, top);
    }
    float largest = v_largest(top);
    for (int64_t i = n - n % LANES; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    /* Of scores that are all -inf, -inf less -inf would be NaN. */
    const vf shift = v_set(largest == -INFINITY ? 0 : largest);
    for (int64_t i = 0; i < n; i += LANES) {
        const vf e = v_exp(v_sub(v_load_part(x + i, n - i), shift));
        v_store_part(x + i, n - i, e);
        /* Lanes behind the last are not exponentials of anything. */
        sum = v_add(sum, i + LANES <= n ? e : v_load_part(x + i, n - i));
    }
    return v_sum(sum);
}

/* First the largest value, in lanes that a NaN never enters, then where it first is. */
static int64_t argmax(const float *x, int64_t n) {
    vf top = v_set(-INFINITY);
    float largest = -INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) top = v_max(v_load(x + i), top);
    largest = v_largest(top);
    for (; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (i = 0; i + LANES <= n; i += LANES) {
        uint32_t found = v_equal_bits(v_load(x + i), v_set(largest));
        if (found) return i + __builtin_ctz(found);
    }
    for (; i < n; i++)
        if (x[i] == largest) return i;
    return 0;
}

void VARIANT(tw_elementwise)(tw_kernels *k) {
    k->norm_rms = norm_rms;
    k->norm_layer = norm_layer;
    k->silu_mul = silu_mul;
    k->gelu = gelu;
    k->gelu_tanh = gelu_tanh;
    k->add = add;
    k->axpy = axpy;
    k->soften = soften;
    k->argmax = argmax;
}
