/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"

#include <math.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const struct {
    const char *name;
    size_t bits;
} dtypes[TW_DTYPE_COUNT] = {
    [TW_F32] = {"f32", 32}, [TW_F16] = {"f16", 16}, [TW_BF16] = {"bf16", 16},
    [TW_I32] = {"i32", 32}, [TW_I8] = {"i8", 8},    [TW_I4] = {"i4", 4},
};

const char *tw_dtype_name(tw_dtype t) {
    return (unsigned)t < TW_DTYPE_COUNT ? dtypes[t].name : "?";
}

size_t tw_dtype_bits(tw_dtype t) {
    return (unsigned)t < TW_DTYPE_COUNT ? dtypes[t].bits : 0;
}

bool tw_dtype_from_name(const char *s, tw_dtype *t) {
    for (int i = 0; i < TW_DTYPE_COUNT; i++)
        if (!strcmp(s, dtypes[i].name)) {
            *t = (tw_dtype)i;
            return true;
        }
    return false;
}

float tw_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;
    if (e == 31) return tw_bits_f32(sign | 0x7f800000u | (m << 13));
    if (e) return tw_bits_f32(sign | ((e + 112) << 23) | (m << 13));
    /* subnormal: m * 2^-24, exact in float */
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

/* Without branches, so that compilers make it one of many elements. */
static inline uint16_t narrow(float f) {
    const uint32_t u = tw_f32_bits(f), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
    const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
    /* Below 2^-14: adding 0.5 aligns the float's last bit with 2^-24, so the addition itself rounds to even. */
    const uint32_t small = tw_f32_bits(tw_bits_f32(a) + 0.5f) - 0x3f000000u;
    uint32_t h = a < 0x38800000u ? small : normal;
    h = a >= 0x477ff000u ? 0x7c00u : h; /* Rounds to 65536 or beyond. */
    h = a > 0x7f800000u ? 0x7e00u : h;
    return (uint16_t)(sign | h);
}

uint16_t tw_f32_to_f16(float f) {
    return narrow(f);
}

float tw_e4m3_to_f32(uint8_t x) {
    /* An f32 has its exponent and fraction in the same order, but a fraction of 23 bits instead of 3, and an exponent
       with a bias of 127 instead of 7. Exponent 0, of subnormal numbers, counts units of 2^-9. */
    const uint32_t low = x & 0x7f;
    float y = low >= 8 ? tw_bits_f32((low << 20) + (120u << 23)) : (float)low * 0x1p-9f;
    if ((x & 0x7f) == 0x7f) y = NAN;
    return x & 0x80 ? -y : y;
}

uint8_t tw_f32_to_e4m3(float f) {
    const uint8_t sign = (uint8_t)(tw_f32_bits(f) >> 24 & 0x80);
    const float a = fabsf(f);
    if (a != a) return 0x7f;
    if (a >= 448) return (uint8_t)(sign | 0x7e);
    /* Numbers of one exponent are whole multiples of a step, and those below 2^-6 have the step of 2^-6. */
    int exponent = -5;
    if (a >= 0x1p-6f) frexpf(a, &exponent);
    const int steps = (int)rintf(ldexpf(a, 4 - exponent));
    /* Sixteen steps carry into the exponent, as eight of the smallest exponent do. */
    return (uint8_t)(sign | (steps + ((exponent + 5) << 3)));
}

void tw_to_f32(tw_dtype t, const void *src, float *dst, size_t n) {
    const unsigned char *p = src;
    if (t == TW_F32) {
        if (n) memcpy(dst, src, n * sizeof *dst);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, p + 2 * i, 2);
        dst[i] = t == TW_BF16 ? tw_bf16_to_f32(h) : tw_f16_to_f32(h);
    }
}

#if defined(__x86_64__)
/* Converts eights of elements by the processor's instruction, and returns how many elements that were. It stops at
   NaNs, whose bits are not ours to lose. */
__attribute__((target("avx,f16c"))) static size_t narrow_eights(const float *src, unsigned char *dst, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m256 x = _mm256_loadu_ps(src + i);
        if (_mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q))) return i;
        _mm_storeu_si128((__m128i *)(void *)(dst + 2 * i), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
    return i;
}

static size_t narrow_many(const float *src, unsigned char *dst, size_t n) {
    return __builtin_cpu_supports("avx2") ? narrow_eights(src, dst, n) : 0; /* All of these have f16c, too. */
}
#else
static size_t narrow_many(const float *src, unsigned char *dst, size_t n) {
    return (void)src, (void)dst, n * 0;
}
#endif

void tw_from_f32(tw_dtype t, const float *src, void *dst, size_t n) {
    unsigned char *p = dst;
    if (t == TW_F32) {
        if (n) memcpy(dst, src, n * sizeof *src);
        return;
    }
    for (size_t i = 0; i < n && t == TW_BF16; i++) {
        const uint16_t h = tw_f32_to_bf16(src[i]);
        memcpy(p + 2 * i, &h, 2);
    }
    for (size_t i = t == TW_BF16 ? n : narrow_many(src, p, n); i < n; i++) {
        const uint16_t h = narrow(src[i]);
        memcpy(p + 2 * i, &h, 2);
    }
}
