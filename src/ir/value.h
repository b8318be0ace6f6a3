/* SPDX-License-Identifier: Apache-2.0 */
/* The C views of IR types that ops.def computes with, and the arithmetic that C has no operator for. Used by constant
   folding and by the emulator. */
#ifndef TW_IR_VALUE_H
#define TW_IR_VALUE_H

#include "base/dtype.h"
#include "ir/ir.h"

#include <math.h>

/* View -> C type and IR type. */
typedef bool tw_c_pred;
typedef uint16_t tw_c_u16, tw_c_f16, tw_c_bf16;
typedef int16_t tw_c_s16;
typedef uint32_t tw_c_u32, tw_c_f16x2, tw_c_bf16x2;
typedef int32_t tw_c_s32;
typedef uint64_t tw_c_u64;
typedef int64_t tw_c_s64;
typedef float tw_c_f32;
typedef double tw_c_f64;
enum {
    TW_VIEW__ = TW_T_none,
    TW_VIEW_pred = TW_T_pred,
    TW_VIEW_u16 = TW_T_i16,
    TW_VIEW_s16 = TW_T_i16,
    TW_VIEW_f16 = TW_T_f16,
    TW_VIEW_bf16 = TW_T_bf16,
    TW_VIEW_u32 = TW_T_i32,
    TW_VIEW_s32 = TW_T_i32,
    TW_VIEW_f16x2 = TW_T_f16x2,
    TW_VIEW_bf16x2 = TW_T_bf16x2,
    TW_VIEW_u64 = TW_T_i64,
    TW_VIEW_s64 = TW_T_i64,
    TW_VIEW_f32 = TW_T_f32,
    TW_VIEW_f64 = TW_T_f64
};

/* A register's 64 bits as a C view, and back; narrower values are zero-extended. */
#define TW_READ(view, bits) (tw_read_##view(bits))
#define TW_WRITE(view, x)   (tw_write_##view(x))
#define TW_INTEGER_VIEW(view)                                                                                          \
    static inline tw_c_##view tw_read_##view(uint64_t bits) {                                                          \
        return (tw_c_##view)bits;                                                                                      \
    }                                                                                                                  \
    static inline tw_c_##view tw_read_##view(uint64_t bits) /* again, for the semicolon */
TW_INTEGER_VIEW(u16);
TW_INTEGER_VIEW(s16);
TW_INTEGER_VIEW(f16);
TW_INTEGER_VIEW(bf16);
TW_INTEGER_VIEW(u32);
TW_INTEGER_VIEW(s32);
TW_INTEGER_VIEW(f16x2);
TW_INTEGER_VIEW(bf16x2);
TW_INTEGER_VIEW(u64);
TW_INTEGER_VIEW(s64);
static inline bool tw_read_pred(uint64_t bits) {
    return bits & 1;
}
static inline float tw_read_f32(uint64_t bits) {
    return tw_bits_f32((uint32_t)bits);
}
static inline double tw_read_f64(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}
static inline uint64_t tw_write_pred(bool x) {
    return x;
}
static inline uint64_t tw_write_u16(uint16_t x) {
    return x;
}
static inline uint64_t tw_write_s16(int16_t x) {
    return (uint16_t)x;
}
static inline uint64_t tw_write_f16(uint16_t x) {
    return x;
}
static inline uint64_t tw_write_bf16(uint16_t x) {
    return x;
}
static inline uint64_t tw_write_u32(uint32_t x) {
    return x;
}
static inline uint64_t tw_write_s32(int32_t x) {
    return (uint32_t)x;
}
static inline uint64_t tw_write_f16x2(uint32_t x) {
    return x;
}
static inline uint64_t tw_write_bf16x2(uint32_t x) {
    return x;
}
static inline uint64_t tw_write_u64(uint64_t x) {
    return x;
}
static inline uint64_t tw_write_s64(int64_t x) {
    return (uint64_t)x;
}
static inline uint64_t tw_write_f32(float x) {
    return tw_f32_bits(x);
}
static inline uint64_t tw_write_f64(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

/* Division as PTX leaves it open: by zero gives all ones, and the overflowing quotient wraps. */
static inline int32_t tw_div_s32(int32_t a, int32_t b) {
    return b == 0 ? -1 : a == INT32_MIN && b == -1 ? a : a / b;
}
static inline int32_t tw_rem_s32(int32_t a, int32_t b) {
    return b == 0 ? a : b == -1 ? 0 : a % b;
}
static inline int64_t tw_div_s64(int64_t a, int64_t b) {
    return b == 0 ? -1 : a == INT64_MIN && b == -1 ? a : a / b;
}
static inline int64_t tw_rem_s64(int64_t a, int64_t b) {
    return b == 0 ? a : b == -1 ? 0 : a % b;
}
/* The other one of a NaN, and -0 below +0, which C leaves open; without branches, so that loops become vectors. Equal
   numbers have the same bits, or are zeros. */
static inline float tw_min_f32(float a, float b) {
    float least = a == b ? tw_bits_f32(tw_f32_bits(a) | tw_f32_bits(b)) : a < b ? a : b;
    return b != b ? a : least;
}
static inline float tw_max_f32(float a, float b) {
    float most = a == b ? tw_bits_f32(tw_f32_bits(a) & tw_f32_bits(b)) : a > b ? a : b;
    return b != b ? a : most;
}
/* The device's logarithm has an absolute error of up to 2^-22 between 1/2 and 2. Steps of this size show what relies
   on a smaller one. Numbers below the normal ones are zeros to it. */
static inline float tw_log2_approx_f32(float a) {
    if (fabsf(a) < 0x1p-126f) return -INFINITY;
    const float y = log2f(a);
    return a > 0.5f && a < 2 ? rintf(y * 0x1p22f) * 0x1p-22f : y;
}
static inline double tw_min_f64(double a, double b) {
    double least = a == b ? tw_read_f64(tw_write_f64(a) | tw_write_f64(b)) : a < b ? a : b;
    return b != b ? a : least;
}
static inline double tw_max_f64(double a, double b) {
    double most = a == b ? tw_read_f64(tw_write_f64(a) & tw_write_f64(b)) : a > b ? a : b;
    return b != b ? a : most;
}
uint32_t tw_bfe_u32(uint32_t a, uint32_t from, uint32_t length);
uint32_t tw_prmt(uint32_t a, uint32_t b, uint32_t selector);
int32_t tw_dp4a_s32(uint32_t a, uint32_t b, int32_t c);
uint32_t tw_f32_to_tf32(float x); /* 10 bits of fraction, ties away from zero */
int32_t tw_f32_to_s32(float x);   /* to nearest even, saturating, NaN to 0 */
int64_t tw_f32_to_s64(float x);   /* towards zero, saturating, NaN to the least number */
int64_t tw_f64_to_s64(double x);  /* the same */
uint16_t tw_add_f16(uint16_t a, uint16_t b);
uint16_t tw_mul_f16(uint16_t a, uint16_t b);
uint16_t tw_fma_f16(uint16_t a, uint16_t b, uint16_t c); /* rounded once */
uint16_t tw_fma_bf16(uint16_t a, uint16_t b, uint16_t c);
#define TW_PAIRWISE(f, a, b)                                                                                           \
    ((uint32_t)f((uint16_t)(a), (uint16_t)(b)) | (uint32_t)f((uint16_t)((a) >> 16), (uint16_t)((b) >> 16)) << 16)
#define TW_PAIRWISE3(f, a, b, c)                                                                                       \
    ((uint32_t)f((uint16_t)(a), (uint16_t)(b), (uint16_t)(c)) |                                                        \
     (uint32_t)f((uint16_t)((a) >> 16), (uint16_t)((b) >> 16), (uint16_t)((c) >> 16)) << 16)

/* The value of a scalar operation on constants; false for an operation that is not one. */
bool tw_op_evaluate(tw_opcode code, uint64_t a, uint64_t b, uint64_t c, uint64_t *result);

#endif
