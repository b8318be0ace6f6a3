/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/variants.h"

#include <math.h>

/* Sums are doubles. Squares of values beyond 1e19 leave the range of f32, and their root mean square does not. */
static void norm_rms(const float *x, const float *w, float eps, int64_t n, float *y) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    double inverse = 1 / sqrt(sum / (double)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = (float)(x[i] * inverse) * w[i];
}

static void norm_layer(const float *x, const float *w, const float *b, float eps, int64_t n, float *y) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    double mean = sum / (double)n;
    for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    double inverse = 1 / sqrt(square / (double)n + eps);
    for (int64_t i = 0; i < n; i++) y[i] = (float)((x[i] - mean) * inverse) * w[i] + b[i];
}

static void silu_mul(const float *gate, const float *up, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

static void gelu(const float *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * erfcf(-x[i] * 0.70710678f);
}

/* 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)), which does not cancel for negative u. */
static void gelu_tanh(const float *x, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) {
        float u = 0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1 + expf(-2 * u));
    }
}

static void add(float *y, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

static void axpy(float *y, const float *x, float a, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
}

static float soften(float *x, float scale, const float *bias, int64_t n) {
    float largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        x[i] = x[i] * scale + (bias ? bias[i] : 0);
        largest = x[i] > largest ? x[i] : largest;
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = expf(x[i] - (largest == -INFINITY ? 0 : largest));
        sum += x[i];
    }
    return sum;
}

static int64_t argmax(const float *x, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
    return best < 0 ? 0 : best;
}

void tw_elementwise_c(tw_kernels *k) {
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
