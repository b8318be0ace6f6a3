/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions between the stored element types and float. */
#ifndef TW_BASE_DTYPE_H
#define TW_BASE_DTYPE_H

#include "tilewright/base.h"

#include <string.h>

static inline float tw_bits_f32(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t tw_f32_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline float tw_bf16_to_f32(uint16_t h) {
    return tw_bits_f32((uint32_t)h << 16);
}

/* Round to nearest, ties to even; NaN stays NaN. */
static inline uint16_t tw_f32_to_bf16(float f) {
    uint32_t u = tw_f32_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u);
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

float tw_f16_to_f32(uint16_t h);
uint16_t tw_f32_to_f16(float f); /* to nearest even, with subnormals and infinities */

/* e4m3: a sign, four bits of exponent (bias 7), three of fraction; no infinities, and 0x7f and 0xff are NaN. */
float tw_e4m3_to_f32(uint8_t x);
/* Rounds to nearest even. Magnitudes that round to more than 448 become 448, and NaN stays NaN. */
uint8_t tw_f32_to_e4m3(float f);

/* n elements of a stored float type (f32, f16, bf16) to float, and back. `src` needs no alignment. */
void tw_to_f32(tw_dtype t, const void *src, float *dst, size_t n);
void tw_from_f32(tw_dtype t, const float *src, void *dst, size_t n);

#endif
