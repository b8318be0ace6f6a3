/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of expression.def in f32, without branches, so that loops over them become vectors. Included by each
   pointwise_*.c, which is compiled for its instruction set. */
#ifndef TW_KERNELS_CPU_POINTWISE_SINGLE_H
#define TW_KERNELS_CPU_POINTWISE_SINGLE_H

#include "base/dtype.h"
#include "device/cpu/unroll.h"

#include <math.h>

static inline float p_fma(float a, float b, float c) {
#ifdef __FMA__
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

#define P_POLYNOMIAL(sum, x, c)                                                                                        \
    float sum = c[sizeof c / sizeof *c - 1];                                                                           \
    TW_UNROLL for (int i_ = (int)(sizeof c / sizeof *c) - 2; i_ >= 0; i_--) sum = p_fma(sum, x, c[i_])

/* The nearest whole number, of numbers within 2^22. Unlike rintf it needs no instruction that old processors lack. */
static inline float p_nearest(float x) {
    const float far = 0x1.8p23f;
    return x + far - far;
}

/* 2^n, n whole and within the normal numbers. */
static inline float p_exp2_whole(int32_t n) {
    return tw_bits_f32((uint32_t)(n + 127) << 23);
}

/* Relative error below 2e-7. The polynomial is that of vector_exp.h. */
static inline float p_exp(float x) {
    static const float c[] = {1.0f, 1.0f, 0.5f, 0.166664138f, 0.0416663513f, 0.00837529451f, 0.0013941318f};
    const float least = x < -110 ? -110 : x, inside = least > 89 ? 89 : least, n = p_nearest(inside * 1.44269504f);
    /* ln 2 in two parts, the first short enough that n times it is exact. */
    const float r = p_fma(n, -1.42860677e-6f, p_fma(n, -0.693145752f, inside));
    const int32_t whole = (int32_t)(n == n ? n : 0), half = whole >> 1;
    P_POLYNOMIAL(p, r, c);
    /* In two steps, so that results below the normal numbers are reached. */
    return p * p_exp2_whole(half) * p_exp2_whole(whole - half);
}

/* The logarithm of the fraction is that of Cephes, x - x^2 / 2 + x^3 P(x). Relative error below 2e-7. */
static inline float p_log(float x) {
    static const float c[] = {3.3333331174e-1f,  -2.4999993993e-1f, 2.0000714765e-1f,
                              -1.6668057665e-1f, 1.4249322787e-1f,  -1.2420140846e-1f,
                              1.1676998740e-1f,  -1.1514610310e-1f, 7.0376836292e-2f};
    const float scaled = x < 0x1p-126f ? x * 0x1p25f : x;
    const uint32_t bits = tw_f32_bits(scaled), from = 0x3f3504f3; /* sqrt(1 / 2) */
    const int32_t exponent = (int32_t)(bits - from) >> 23;
    const float f = tw_bits_f32(bits - ((uint32_t)exponent << 23)) - 1;
    const float e = (float)exponent - (x < 0x1p-126f ? 25 : 0), square = f * f;
    P_POLYNOMIAL(p, f, c);
    float y = p_fma(f * square, p, -2.12194440e-4f * e);
    y = p_fma(square, -0.5f, y) + f;
    y = p_fma(e, 0.693359375f, y);
    y = x == 0 ? -INFINITY : x == INFINITY ? x : y;
    return x < 0 || x != x ? NAN : y;
}

/* u = 1 + x is rounded; log(u) is corrected by x / (u - 1). */
static inline float p_log1p(float x) {
    const float u = 1 + x, y = p_log(u);
    return u == 1 ? x : u < INFINITY ? y * (x / (u - 1)) : y;
}

/* tanh x = 1 - 2 / (1 + e^2x), which cancels near 0: a series takes its place there. */
static inline float p_tanh(float x) {
    static const float c[] = {1, -0.333333333f, 0.133333333f, -0.0539682540f, 0.0218694885f, -0.00886323553f};
    const float square = x * x, far = 1 - 2 / (1 + p_exp(2 * x));
    P_POLYNOMIAL(near, square, c);
    return fabsf(x) < 0.3f ? x * near : far;
}

/* The normal distribution's tail at t >= 0: see gelu_one in elementwise_vector.h. */
static inline float p_tail(float t) {
    static const float c[] = {0.0997493863f,  0.0994603336f, 0.0958103463f, 0.0705069825f,  0.0912895203f,
                              0.00353999576f, 0.0400592238f, 0.0425292663f, -0.0587550178f, 0.0158099663f};
    const float inside = t > 20 ? 20 : t, half = 0.5f * inside, h = half * inside, lost = p_fma(half, inside, -h);
    const float u = 1 / p_fma(inside, 0.25f, 1), e = p_exp(-h);
    P_POLYNOMIAL(p, u, c);
    return p * u * p_fma(-e, lost, e);
}

static inline float p_gelu_erf(float x) {
    const float tail = p_tail(fabsf(x));
    return x * (x < 0 ? tail : 1 - tail);
}

static inline float p_erf(float x) {
    static const float c[] = {1.128379167f,   -0.376126389f,  0.112837917f,
                              -0.0268661706f, 0.00522397763f, -0.000854832702f};
    const float square = x * x, far = 1 - 2 * p_tail(fabsf(x) * 1.41421356f);
    P_POLYNOMIAL(near, square, c);
    return fabsf(x) < 0.5f ? x * near : x < 0 ? -far : far;
}

/* x / 2 (1 + tanh u) = x / (1 + e^-2u). */
static inline float p_gelu(float x) {
    return x / (1 + p_exp(x * -1.5957691216f * p_fma(x * x, 0.044715f, 1)));
}

/* As tw_part_sine does it: within 2e-7 for |x| up to 1e5. */
static inline float p_sine(float x, int32_t quarters) {
    static const float sine[] = {1, -0.166666667f, 0.00833333333f, -0.000198412698f, 2.75573192e-6f},
                       cosine[] = {1, -0.5f, 0.0416666667f, -0.00138888889f, 2.48015873e-5f};
    const float n = p_nearest(x * 0.636619772f);
    const float r = p_fma(n, -7.54978995e-8f, p_fma(n, -4.837512969970703125e-4f, p_fma(n, -1.5703125f, x)));
    const float square = r * r;
    const int32_t turn = (int32_t)(fabsf(n) < 1e9f ? n : 0) + quarters; /* No number, and beyond: none is right. */
    P_POLYNOMIAL(even, square, sine);
    P_POLYNOMIAL(odd, square, cosine);
    const float y = turn & 1 ? odd : r * even;
    return turn & 2 ? -y : y;
}

static inline float p_sin(float x) {
    return p_sine(x, 0);
}

static inline float p_cos(float x) {
    return p_sine(x, 1);
}

/* Of a negative number there are only whole powers, and the odd ones are negative. */
static inline float p_pow(float x, float y) {
    const float size = y == 0 || fabsf(x) == 1 ? 1 : p_exp(y * p_log(fabsf(x))), half = 0.5f * y;
    const float whole = floorf(half) != half ? -size : size, of_negative = floorf(y) != y ? NAN : whole;
    return x < 0 ? of_negative : size;
}

static inline float p_f16(float x) {
    return tw_f16_to_f32(tw_f32_to_f16(x));
}

static inline float p_bf16(float x) {
    return tw_bf16_to_f32(tw_f32_to_bf16(x));
}

#define p_fmod  fmodf
#define p_fabs  fabsf
#define p_sqrt  sqrtf
#define p_floor floorf
#define p_ceil  ceilf
#define p_rint  rintf

#endif
