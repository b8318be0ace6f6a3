/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers as expression.def computes with them: wrapping, with a value for every operand. */
#ifndef TW_KERNELS_POINTWISE_WHOLE_H
#define TW_KERNELS_POINTWISE_WHOLE_H

#include <stdint.h>

#define wrap(op)    (int64_t)((uint64_t)a op(uint64_t) b)
#define negative(a) (int64_t)(0 - (uint64_t)(a))

/* A quotient by 0 is 0, and the least number by -1 itself. */
static inline int64_t whole_div(int64_t a, int64_t b) {
    return b == 0 ? 0 : b == -1 ? negative(a) : a / b;
}

static inline int64_t whole_rem(int64_t a, int64_t b) {
    return b == 0 || b == -1 ? 0 : a % b;
}

static inline int64_t whole_mod(int64_t a, int64_t b) {
    const int64_t r = whole_rem(a, b);
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t whole_divu(int64_t a, int64_t b) {
    return b == 0 ? 0 : (int64_t)((uint64_t)a / (uint64_t)b);
}

static inline int64_t whole_remu(int64_t a, int64_t b) {
    return b == 0 ? 0 : (int64_t)((uint64_t)a % (uint64_t)b);
}

/* An integer power. With a negative exponent it is 0, but for bases of 1 and -1. */
static inline int64_t whole_pow(int64_t a, int64_t b) {
    uint64_t power = 1, by = (uint64_t)a;
    if (b < 0) return a != 1 && a != -1 ? 0 : b & 1 ? a : 1;
    for (; b; b >>= 1, by *= by)
        if (b & 1) power *= by;
    return (int64_t)power;
}

/* Shifts by less than 0, or by more than there are bits, leave nothing. */
static inline int64_t whole_shl(int64_t a, int64_t b) {
    return (uint64_t)b < 64 ? (int64_t)((uint64_t)a << b) : 0;
}

static inline int64_t whole_shr(int64_t a, int64_t b) {
    return (uint64_t)b < 64 ? (int64_t)((uint64_t)a >> b) : 0;
}

static inline int64_t real_to_whole(double a) {
    return a != a ? 0 : a >= 0x1p63 ? INT64_MAX : a <= -0x1p63 ? INT64_MIN : (int64_t)a;
}

#endif
