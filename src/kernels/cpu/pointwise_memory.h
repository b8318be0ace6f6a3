/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of elements between memory and blocks. */
#ifndef TW_KERNELS_CPU_POINTWISE_MEMORY_H
#define TW_KERNELS_CPU_POINTWISE_MEMORY_H

#include "base/dtype.h"
#include "kernels/pointwise/expression.h"

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static void load_f16(const uint16_t *p, int64_t step, int n, float *to) {
    int i = 0;
#ifdef __F16C__
    if (step == 1)
        for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + i))));
#endif
    for (; i < n; i++) to[i] = tw_f16_to_f32(p[i * step]);
}

static void store_f16(uint16_t *p, int64_t step, int n, const float *from) {
    int i = 0;
#ifdef __F16C__
    if (step == 1)
        for (; i + 8 <= n; i += 8)
            _mm_storeu_si128((__m128i *)(p + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) p[i * step] = tw_f32_to_f16(from[i]);
}

/* A loop over elements of `type`; one of neighbours apart becomes vectors. */
#define P_LOAD(type, to_type, value)                                                                                   \
    {                                                                                                                  \
        const type *p = from;                                                                                          \
        to_type *o = to;                                                                                               \
        if (step == 1) {                                                                                               \
            _Pragma("omp simd") for (int i = 0; i < n; i++) {                                                          \
                const type a = p[i];                                                                                   \
                o[i] = value;                                                                                          \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int i = 0; i < n; i++) {                                                                              \
                const type a = p[i * step];                                                                            \
                o[i] = value;                                                                                          \
            }                                                                                                          \
        }                                                                                                              \
        break;                                                                                                         \
    }

static void fill_first(tw_class c, int n, void *to) {
    if (c == TW_CLASS_real)
        for (int i = 1; i < n; i++) ((float *)to)[i] = ((float *)to)[0];
    else if (c == TW_CLASS_integer)
        for (int i = 1; i < n; i++) ((int64_t *)to)[i] = ((int64_t *)to)[0];
    else
        memset(to, ((uint8_t *)to)[0], (size_t)n);
}

/* Loads n elements that are `step` apart. */
static void load_run(tw_memory_type t, const void *from, int64_t step, int n, void *to) {
    if (step == 0 && n > 1) {
        load_run(t, from, 1, 1, to);
        fill_first(tw_memory_class(t), n, to);
        return;
    }
    switch (t) {
    case TW_M_f32:
        P_LOAD(float, float, a)
    case TW_M_f16:
        load_f16(from, step, n, to);
        break;
    case TW_M_bf16:
        P_LOAD(uint16_t, float, tw_bits_f32((uint32_t)a << 16))
    case TW_M_i64:
    case TW_M_u64:
        P_LOAD(int64_t, int64_t, a)
    case TW_M_i32:
        P_LOAD(int32_t, int64_t, a)
    case TW_M_i16:
        P_LOAD(int16_t, int64_t, a)
    case TW_M_i8:
        P_LOAD(int8_t, int64_t, a)
    case TW_M_u32:
        P_LOAD(uint32_t, int64_t, a)
    case TW_M_u16:
        P_LOAD(uint16_t, int64_t, a)
    case TW_M_u8:
        P_LOAD(uint8_t, int64_t, a)
    default:
        P_LOAD(uint8_t, uint8_t, a != 0)
    }
}

/* The value of what is not there: NaN, 0 or false. */
static void fill_missing(tw_class c, int n, void *to) {
    if (c == TW_CLASS_real)
        for (int i = 0; i < n; i++) ((float *)to)[i] = NAN;
    else
        memset(to, 0, (size_t)n * (c == TW_CLASS_integer ? sizeof(int64_t) : 1));
}

#define P_STORE(type, from_type, value)                                                                                \
    {                                                                                                                  \
        const from_type *p = from;                                                                                     \
        type *o = to;                                                                                                  \
        if (step == 1) {                                                                                               \
            _Pragma("omp simd") for (int i = 0; i < n; i++) {                                                          \
                const from_type a = p[i];                                                                              \
                o[i] = (type)(value);                                                                                  \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int i = 0; i < n; i++) {                                                                              \
                const from_type a = p[i];                                                                              \
                o[i * step] = (type)(value);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
        break;                                                                                                         \
    }

static void store_run(tw_memory_type t, void *to, int64_t step, int n, const void *from) {
    switch (t) {
    case TW_M_f32:
        P_STORE(float, float, a)
    case TW_M_f16:
        store_f16(to, step, n, from);
        break;
    case TW_M_bf16:
        P_STORE(uint16_t, float, tw_f32_to_bf16(a))
    case TW_M_i64:
    case TW_M_u64:
        P_STORE(int64_t, int64_t, a)
    case TW_M_i32:
    case TW_M_u32:
        P_STORE(uint32_t, int64_t, a)
    case TW_M_i16:
    case TW_M_u16:
        P_STORE(uint16_t, int64_t, a)
    case TW_M_bool:
        P_STORE(uint8_t, uint8_t, a)
    default:
        P_STORE(uint8_t, int64_t, a)
    }
}

#endif
