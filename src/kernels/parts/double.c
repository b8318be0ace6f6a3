/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/parts/double.h"

enum { FRACTION = 52 /* Bits. */, BIAS = 1023 };

/* ln 2 as a sum of two numbers. LN2_HIGH has few bits, so that its product with an exponent is exact. */
static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;

/* Computes 2^n. n is an i64 between the least and the largest exponent of normal numbers. */
static tw_val power_of_two(tw_builder *b, tw_val n) {
    return tw_bitcast(b, TW_T_f64, tw_shl(b, tw_add_imm(b, n, BIAS), FRACTION));
}

/* Evaluates a polynomial. coefficients[0] belongs to the highest power. */
static tw_val polynomial(tw_builder *b, tw_val x, const double *coefficients, int n) {
    tw_val y = tw_f64(b, coefficients[0]);
    for (int i = 1; i < n; i++) y = tw_fma(b, y, x, tw_f64(b, coefficients[i]));
    return y;
}

/* e^x = 2^n e^r, where n is the integer nearest to x / ln 2. 2^n is multiplied in two factors, since it may overflow by
   itself. */
tw_val tw_part_exp_f64(tw_builder *b, tw_val x) {
    enum { TERMS = 14 };
    const double most = 712, least = -750; /* Beyond them e^x is infinite, or 0. */
    double coefficients[TERMS];
    double factorial = 1;
    for (int i = 0; i < TERMS; i++) {
        if (i) factorial *= i;
        coefficients[TERMS - 1 - i] = 1 / factorial;
    }
    tw_val within = tw_min(b, tw_max(b, x, tw_f64(b, least)), tw_f64(b, most));
    tw_val n = tw_unary(b, TW_OP_rint_f64, tw_mul(b, within, tw_f64(b, 1.4426950408889634)));
    tw_val r = tw_fma(b, n, tw_f64(b, -LN2_LOW), tw_fma(b, n, tw_f64(b, -LN2_HIGH), within));
    tw_val p = polynomial(b, r, coefficients, TERMS), whole = tw_unary(b, TW_OP_cvt_s64_f64, n);
    tw_val half = tw_binary(b, TW_OP_shr_s64, whole, tw_i32(b, 1));
    tw_val y = tw_mul(b, tw_mul(b, p, power_of_two(b, half)), power_of_two(b, tw_sub(b, whole, half)));
    return tw_select(b, tw_ne(b, x, x), x, y);
}

/* ln x = e ln 2 + ln m, where x = 2^e m and m is within a root of 2 of 1. ln m is twice the series of the inverse
   hyperbolic tangent of s = (m - 1) / (m + 1). */
tw_val tw_part_log_f64(tw_builder *b, tw_val x) {
    enum { TERMS = 11 };
    double coefficients[TERMS];
    for (int i = 0; i < TERMS; i++) coefficients[TERMS - 1 - i] = 2.0 / (2 * i + 1);
    /* Subnormal numbers are multiplied by 2^54 first. */
    tw_val small = tw_lt(b, x, tw_f64(b, 0x1p-1022)), zero = tw_f64(b, 0);
    tw_val bits = tw_bitcast(b, TW_T_i64, tw_select(b, small, tw_mul(b, x, tw_f64(b, 0x1p54)), x));
    /* m lies between the root of 1/2 and that of 2. */
    const int64_t root = 0x3fe6a09e667f3bcd;
    tw_val off = tw_sub(b, bits, tw_i64(b, root)), e = tw_binary(b, TW_OP_shr_s64, off, tw_i32(b, FRACTION));
    tw_val m = tw_bitcast(b, TW_T_f64, tw_sub(b, bits, tw_shl(b, e, FRACTION)));
    e = tw_sub(b, e, tw_select(b, small, tw_i64(b, 54), tw_i64(b, 0)));
    tw_val one = tw_f64(b, 1), exponent = tw_unary(b, TW_OP_cvt_f64_s64, e);
    tw_val s = tw_binary(b, TW_OP_div_f64, tw_sub(b, m, one), tw_add(b, m, one));
    tw_val low =
        tw_fma(b, exponent, tw_f64(b, LN2_LOW), tw_mul(b, s, polynomial(b, tw_mul(b, s, s), coefficients, TERMS)));
    tw_val y = tw_fma(b, exponent, tw_f64(b, LN2_HIGH), low), none = tw_const(b, TW_T_f64, 0x7ff8000000000000);
    tw_val infinity = tw_const(b, TW_T_f64, 0x7ff0000000000000);
    y = tw_select(b, tw_lt(b, x, infinity), y, x); /* Of NaN, too. */
    y = tw_select(b, tw_eq(b, x, zero), tw_unary(b, TW_OP_neg_f64, infinity), y);
    return tw_select(b, tw_lt(b, x, zero), none, y);
}
