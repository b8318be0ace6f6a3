/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/value.h"

uint32_t tw_bfe_u32(uint32_t a, uint32_t from, uint32_t length) {
    from &= 255;
    length &= 255;
    uint64_t field = from < 32 ? (uint64_t)a >> from : 0;
    return (uint32_t)(length < 32 ? field & ((1ull << length) - 1) : field);
}

uint32_t tw_prmt(uint32_t a, uint32_t b, uint32_t selector) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = selector >> 4 * i & 15;
        uint32_t byte = (uint32_t)(bytes >> 8 * (s & 7)) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

int32_t tw_dp4a_s32(uint32_t a, uint32_t b, int32_t c) {
    uint32_t sum = (uint32_t)c;
    for (int i = 0; i < 4; i++) sum += (uint32_t)((int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i));
    return (int32_t)sum;
}

uint32_t tw_f32_to_tf32(float x) {
    uint32_t u = tw_f32_bits(x);
    if ((u & 0x7f800000u) == 0x7f800000u) return u;
    return (u + 0x1000u) & ~0x1fffu;
}

int64_t tw_f32_to_s64(float x) {
    return x >= 0x1p63f ? INT64_MAX : !(x > -0x1p63f) ? INT64_MIN : (int64_t)x;
}

int64_t tw_f64_to_s64(double x) {
    return x >= 0x1p63 ? INT64_MAX : !(x > -0x1p63) ? INT64_MIN : (int64_t)x;
}

int32_t tw_f32_to_s32(float x) {
    if (isnan(x)) return 0;
    double r = nearbyint((double)x);
    return r <= INT32_MIN ? INT32_MIN : r >= INT32_MAX ? INT32_MAX : (int32_t)r;
}

/* Sums and products of two halves are exact in double, and one rounding from there is exact too. */
static double half(uint16_t h) {
    return (double)tw_f16_to_f32(h);
}

/* A double to the nearest float, but odd when inexact: rounding that again to fewer bits rounds as if once. */
static float to_odd(double x) {
    float f = (float)x;
    if ((double)f == x || isnan(x) || isinf(f)) return f;
    uint32_t u = tw_f32_bits(f);
    if (u & 1) return f;
    bool away = fabs((double)f) > fabs(x);
    return tw_bits_f32(away ? u - 1 : u + 1);
}

/* The same for a sum of two doubles, whose rounding error is known exactly. */
static double sum_to_odd(double x, double y) {
    double s = x + y, v = s - x, error = (x - (s - v)) + (y - v);
    if (error == 0 || isnan(error) || isinf(s)) return s;
    uint64_t u = tw_write_f64(s);
    if (u & 1) return s;
    return tw_read_f64((s > 0) == (error > 0) ? u + 1 : u - 1);
}

uint16_t tw_add_f16(uint16_t a, uint16_t b) {
    return tw_f32_to_f16(to_odd(half(a) + half(b)));
}

uint16_t tw_mul_f16(uint16_t a, uint16_t b) {
    return tw_f32_to_f16(to_odd(half(a) * half(b)));
}

uint16_t tw_fma_f16(uint16_t a, uint16_t b, uint16_t c) {
    return tw_f32_to_f16(to_odd(sum_to_odd(half(a) * half(b), half(c))));
}

uint16_t tw_fma_bf16(uint16_t a, uint16_t b, uint16_t c) {
    double product = (double)tw_bf16_to_f32(a) * (double)tw_bf16_to_f32(b);
    return tw_f32_to_bf16(to_odd(sum_to_odd(product, (double)tw_bf16_to_f32(c))));
}

bool tw_op_evaluate(tw_opcode code, uint64_t x, uint64_t y, uint64_t z, uint64_t *result) {
    switch (code) {
#define tw_c__    int
#define tw_read__ (int)
#define OP(name, r, A, B, C, flags, sm, ptx, value)                                                                    \
    case TW_OP_##name: {                                                                                               \
        const tw_c_##A a = tw_read_##A(x);                                                                             \
        const tw_c_##B b = tw_read_##B(y);                                                                             \
        const tw_c_##C c = tw_read_##C(z);                                                                             \
        (void)a, (void)b, (void)c;                                                                                     \
        *result = tw_write_##r(value);                                                                                 \
        return true;                                                                                                   \
    }
#define MOP(name, results, operands, attrs, flags, sm)
#include "ir/ops.def"
#undef OP
#undef MOP
    default:
        return false;
    }
}
