/* SPDX-License-Identifier: Apache-2.0 */
/* What scalar operations compute, against definitions written another way. */
#include "support/support.h"

#include "base/random.h"
#include "ir/value.h"

#include <stdio.h>
#include <string.h>

static uint64_t run(tw_opcode code, uint64_t a, uint64_t b, uint64_t c) {
    uint64_t r;
    assert_true(tw_op_evaluate(code, a, b, c, &r));
    return r;
}

static uint64_t f32(float x) {
    return tw_f32_bits(x);
}

/* -- rounding once: every format as a number of fraction bits and an exponent range, computed in long double, which
   holds any product of halves, and any sum of two such within 64 bits of fraction; the rest is decided by the sign of
   what is left over. */

/* Rounds x + rest (|rest| far below the last bit of x, or zero) to a format of `fraction` bits with least exponent
   `least`, to nearest even. */
static long double rounded(long double x, long double rest, int fraction, int least) {
    if (x == 0 || isinf(x) || isnan(x)) return x;
    int e;
    frexpl(x, &e);
    int unit = (e - 1 < least ? least : e - 1) - fraction;
    long double scaled = ldexpl(x, -unit), down = floorl(scaled), half = scaled - down;
    bool up = half > 0.5L || (half == 0.5L && (rest > 0 || (rest == 0 && fmodl(down, 2) != 0)));
    if (half == 0.5L && rest < 0) up = false;
    return ldexpl(down + (up ? 1 : 0), unit);
}

/* a * b + c exactly, as a sum of two long doubles; the operands have few enough bits that the product is exact. */
static void exact_fma(double a, double b, double c, long double *x, long double *rest) {
    long double p = (long double)a * b, s = p + c, v = s - p;
    *rest = (p - (s - v)) + ((long double)c - v);
    *x = s;
}

static uint16_t half_of(long double x, bool bf16) {
    float f = (float)x; /* exact: x has no more bits than a half */
    return bf16 ? tw_f32_to_bf16(f) : tw_f32_to_f16(f);
}

static float wide(uint16_t h, bool bf16) {
    return bf16 ? tw_bf16_to_f32(h) : tw_f16_to_f32(h);
}

static bool is_nan16(uint16_t h, bool bf16) {
    return (h & 0x7fff) > (bf16 ? 0x7f80 : 0x7c00);
}

static void check_fma(uint16_t a, uint16_t b, uint16_t c, bool bf16) {
    uint16_t is = (uint16_t)run(bf16 ? TW_OP_fma_bf16 : TW_OP_fma_f16, a, b, c);
    double x = wide(a, bf16), y = wide(b, bf16), z = wide(c, bf16);
    long double sum, rest;
    exact_fma(x, y, z, &sum, &rest);
    if (isnan(sum) || isinf(sum)) {
        if (isnan(sum) ? !is_nan16(is, bf16) : is != half_of(sum, bf16))
            fail_msg("%04x * %04x + %04x = %04x", a, b, c, is);
        return;
    }
    long double r = rounded(sum, rest, bf16 ? 7 : 10, bf16 ? -126 : -14);
    long double most = bf16 ? 0x1.fep127L : 65504.0L;
    uint16_t want = fabsl(r) > most ? (uint16_t)((r < 0 ? 0x8000 : 0) | (bf16 ? 0x7f80 : 0x7c00)) : half_of(r, bf16);
    if (r == 0) want = (uint16_t)(signbit(sum) ? 0x8000 : 0);
    if (is != want) fail_msg("%04x * %04x + %04x = %04x, not %04x", a, b, c, is, want);
}

static void halves_round_once(void **state) {
    (void)state;
    tw_random r = tw_random_seed(1);
    /* Patterns that are likely to end in ties and at the ends of the range. */
    static const uint16_t hard[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00,
                                    0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x1400, 0x1401};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        for (int i = 0; i < 16 * 16 * 16; i++) check_fma(hard[i & 15], hard[i >> 4 & 15], hard[i >> 8], bf16);
        for (int i = 0; i < 300000; i++) {
            uint64_t u = tw_random_u64(&r);
            uint16_t a = (uint16_t)u, b = (uint16_t)(u >> 16), c = (uint16_t)(u >> 32);
            /* c far below the last bit of the product decides ties alone */
            if (i & 1) c = (uint16_t)((c & 0x83ff) | (u >> 50 & 3) << 10);
            check_fma(a, b, c, bf16);
        }
    }
}

/* Sums and products of two halves: one rounding of what a double holds exactly. */
static void sums_and_products_of_halves(void **state) {
    (void)state;
    tw_random r = tw_random_seed(2);
    for (int i = 0; i < 300000; i++) {
        uint64_t u = tw_random_u64(&r);
        uint16_t a = (uint16_t)u, b = (uint16_t)(u >> 16);
        if (is_nan16(a, false) || is_nan16(b, false)) continue;
        double x = wide(a, false), y = wide(b, false);
        uint16_t sum = (uint16_t)run(TW_OP_add_f16, a, b, 0), product = (uint16_t)run(TW_OP_mul_f16, a, b, 0);
        long double s = rounded((long double)x + y, 0, 10, -14), p = rounded((long double)x * y, 0, 10, -14);
        if (!isnan(s) && wide(sum, false) != (fabsl(s) > 65504 ? (float)copysignl(INFINITY, s) : (float)s))
            fail_msg("%04x + %04x = %04x", a, b, sum);
        if (!isnan(p) && wide(product, false) != (fabsl(p) > 65504 ? (float)copysignl(INFINITY, p) : (float)p))
            fail_msg("%04x * %04x = %04x", a, b, product);
    }
}

static void every_half_converts(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            uint64_t f = run(bf16 ? TW_OP_cvt_f32_bf16 : TW_OP_cvt_f32_f16, h, 0, 0);
            uint64_t back = run(bf16 ? TW_OP_cvt_bf16_f32 : TW_OP_cvt_f16_f32, f, 0, 0);
            if (is_nan16((uint16_t)h, bf16))
                assert_true(is_nan16((uint16_t)back, bf16));
            else
                assert_int_equal(back, h);
        }
    /* Between neighbours: the middle goes to the even one, anything beside it to the nearer. */
    for (uint32_t h = 0; h < 0x7bff; h++) {
        double low = wide((uint16_t)h, false), high = wide((uint16_t)(h + 1), false);
        float middle = (float)((low + high) / 2);
        assert_int_equal(run(TW_OP_cvt_f16_f32, f32(middle), 0, 0), h & 1 ? h + 1 : h);
        assert_int_equal(run(TW_OP_cvt_f16_f32, f32(nextafterf(middle, 0)), 0, 0), h);
        assert_int_equal(run(TW_OP_cvt_f16_f32, f32(nextafterf(middle, INFINITY)), 0, 0), h + 1);
    }
    assert_int_equal(run(TW_OP_cvt_f16_f32, f32(65520.0f), 0, 0), 0x7c00);
    assert_int_equal(run(TW_OP_cvt_f16_f32, f32(65519.0f), 0, 0), 0x7bff);
}

static void pairs_are_two_halves(void **state) {
    (void)state;
    tw_random r = tw_random_seed(3);
    static const struct {
        tw_opcode pair, one;
    } ops[] = {{TW_OP_add_f16x2, TW_OP_add_f16},
               {TW_OP_mul_f16x2, TW_OP_mul_f16},
               {TW_OP_fma_f16x2, TW_OP_fma_f16},
               {TW_OP_fma_bf16x2, TW_OP_fma_bf16}};
    for (int i = 0; i < 20000; i++) {
        uint32_t a = (uint32_t)tw_random_u64(&r), b = (uint32_t)tw_random_u64(&r), c = (uint32_t)tw_random_u64(&r);
        for (int k = 0; k < 4; k++) {
            uint64_t low = run(ops[k].one, a & 0xffff, b & 0xffff, c & 0xffff);
            uint64_t high = run(ops[k].one, a >> 16, b >> 16, c >> 16);
            assert_int_equal(run(ops[k].pair, a, b, c), low | high << 16);
        }
    }
    assert_int_equal(run(TW_OP_cvt_f16x2_f32, f32(1), f32(-2), 0), 0xc0003c00);
    assert_int_equal(run(TW_OP_cvt_bf16x2_f32, f32(1), f32(-2), 0), 0xc0003f80);
    assert_int_equal(run(TW_OP_pack_i32_i16, 0x1234, 0xabcd, 0), 0xabcd1234);
    assert_int_equal(run(TW_OP_high_i16_i32, 0xabcd1234, 0, 0), 0xabcd);
}

static void tf32_rounds_half_away(void **state) {
    (void)state;
    tw_random r = tw_random_seed(4);
    assert_int_equal(run(TW_OP_cvt_tf32_f32, 0x3f801000, 0, 0), 0x3f802000); /* a tie */
    assert_int_equal(run(TW_OP_cvt_tf32_f32, 0xbf801000, 0, 0), 0xbf802000);
    assert_int_equal(run(TW_OP_cvt_tf32_f32, 0x3f800fff, 0, 0), 0x3f800000);
    assert_int_equal(run(TW_OP_cvt_tf32_f32, 0x7f800000, 0, 0), 0x7f800000);
    for (int i = 0; i < 100000; i++) {
        uint32_t u = (uint32_t)tw_random_u64(&r);
        float x = tw_bits_f32(u), y = tw_bits_f32((uint32_t)run(TW_OP_cvt_tf32_f32, u, 0, 0));
        if (!isfinite(x) || fabsf(x) < 0x1p-126f || fabsf(x) > 0x1p127f) continue;
        int e;
        frexp((double)x, &e);
        double scaled = ldexp((double)x, 11 - e);
        assert_true((double)y == ldexp(round(scaled), e - 11)); /* C's round: halves away from zero */
    }
}

static void floats_to_integers(void **state) {
    (void)state;
    static const struct {
        float x;
        int32_t want;
    } cases[] = {{0.5f, 0},
                 {1.5f, 2},
                 {2.5f, 2},
                 {-0.5f, 0},
                 {-1.5f, -2},
                 {2147483648.0f, INT32_MAX},
                 {-3e9f, INT32_MIN},
                 {NAN, 0},
                 {2147483520.0f, 2147483520},
                 {INFINITY, INT32_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal((int32_t)run(TW_OP_cvt_s32_f32, f32(cases[i].x), 0, 0), cases[i].want);
    assert_int_equal(run(TW_OP_cvt_f32_s32, 0xffffffff, 0, 0), f32(-1));
    assert_int_equal(run(TW_OP_cvt_f32_u32, 0xffffffff, 0, 0), f32(4294967296.0f));
}

static void integer_division(void **state) {
    (void)state;
    assert_int_equal(run(TW_OP_div_u32, 7, 0, 0), UINT32_MAX);
    assert_int_equal(run(TW_OP_rem_u32, 7, 0, 0), 7);
    assert_int_equal(run(TW_OP_div_s32, 0x80000000, UINT32_MAX, 0), 0x80000000);
    assert_int_equal(run(TW_OP_rem_s32, 0x80000000, UINT32_MAX, 0), 0);
    assert_int_equal((int32_t)run(TW_OP_div_s32, (uint32_t)-7, 2, 0), -3);
    assert_int_equal((int32_t)run(TW_OP_rem_s32, (uint32_t)-7, 2, 0), -1);
}

static void shifts_clamp(void **state) {
    (void)state;
    assert_int_equal(run(TW_OP_shl_i32, 1, 31, 0), 0x80000000);
    assert_int_equal(run(TW_OP_shl_i32, 1, 32, 0), 0);
    assert_int_equal(run(TW_OP_shr_u32, 0x80000000, 32, 0), 0);
    assert_int_equal(run(TW_OP_shr_s32, 0x80000000, 99, 0), 0xffffffff);
    assert_int_equal(run(TW_OP_shl_i64, 1, 64, 0), 0);
    assert_true(run(TW_OP_shr_u64, 1ull << 63, 63, 0) == 1);
}

static void bits_and_bytes(void **state) {
    (void)state;
    tw_random r = tw_random_seed(5);
    for (int i = 0; i < 20000; i++) {
        uint32_t a = (uint32_t)tw_random_u64(&r), b = (uint32_t)tw_random_u64(&r), s = (uint32_t)tw_random_u64(&r);
        uint32_t from = s & 63, length = s >> 8 & 63, field = 0, bytes = 0;
        for (uint32_t k = 0; k < length && k < 32; k++)
            if (from + k < 32) field |= (a >> (from + k) & 1) << k;
        assert_int_equal(run(TW_OP_bfe_u32, a, from, length), field);
        uint8_t pool[8];
        memcpy(pool, &a, 4);
        memcpy(pool + 4, &b, 4);
        for (int k = 0; k < 4; k++) {
            uint8_t byte = pool[s >> 4 * k & 7];
            if (s >> 4 * k & 8) byte = (uint8_t)((int8_t)byte >> 7);
            bytes |= (uint32_t)byte << 8 * k;
        }
        assert_int_equal(run(TW_OP_prmt_i32, a, b, s), bytes);
        int64_t dot = (int32_t)s;
        for (int k = 0; k < 4; k++) dot += (int64_t)(int8_t)(a >> 8 * k) * (int8_t)(b >> 8 * k);
        assert_int_equal((uint32_t)run(TW_OP_dp4a_s32, a, b, s), (uint32_t)dot);
        assert_int_equal(run(TW_OP_and_xor_i32, a, b, s), (a & b) ^ s);
        assert_int_equal(run(TW_OP_mulhi_u32, a, b, 0), (uint64_t)a * b >> 32);
        assert_int_equal((int32_t)run(TW_OP_sext_i32_i8, a, 0, 0), (int8_t)a);
    }
    assert_int_equal((int32_t)run(TW_OP_sat_s8_s32, (uint32_t)-200, 0, 0), -128);
    assert_int_equal(run(TW_OP_sat_s8_s32, 200, 0, 0), 127);
    assert_int_equal(run(TW_OP_cvt_e4m3_f32, f32(-1.5f), 0, 0), 0xbc);
    assert_int_equal(run(TW_OP_cvt_e4m3_f32, f32(1000), 0, 0), 0x7e);
    assert_int_equal(run(TW_OP_popc_i32, 0xf0f0, 0, 0), 8);
    assert_int_equal(run(TW_OP_clz_i32, 0, 0, 0), 32);
    assert_int_equal(run(TW_OP_clz_i32, 1, 0, 0), 31);
    assert_int_equal(run(TW_OP_abs_s32, 0x80000000, 0, 0), 0x80000000);
}

static void comparisons_with_nan(void **state) {
    (void)state;
    assert_int_equal(run(TW_OP_eq_f32, f32(NAN), f32(NAN), 0), 0);
    assert_int_equal(run(TW_OP_ne_f32, f32(NAN), f32(NAN), 0), 1);
    assert_int_equal(run(TW_OP_lt_f32, f32(NAN), f32(1), 0), 0);
    assert_int_equal(run(TW_OP_min_f32, f32(NAN), f32(1), 0), f32(1));
    assert_int_equal(run(TW_OP_max_f32, f32(1), f32(NAN), 0), f32(1));
    assert_true(isnan(tw_read_f32(run(TW_OP_max_nan_f32, f32(1), f32(NAN), 0))));
    assert_true(isnan(tw_read_f32(run(TW_OP_max_nan_f32, f32(NAN), f32(1), 0))));
    assert_int_equal(run(TW_OP_max_nan_f32, f32(-1), f32(2), 0), f32(2));
}

/* Of two zeros the negative one is the lesser, whichever comes first. */
static void zeros_have_an_order(void **state) {
    (void)state;
    const uint64_t minus32 = f32(-0.0f), minus64 = 1ull << 63;
    for (int i = 0; i < 2; i++) {
        assert_true(run(TW_OP_min_f32, i ? 0 : minus32, i ? minus32 : 0, 0) == minus32);
        assert_true(run(TW_OP_max_f32, i ? 0 : minus32, i ? minus32 : 0, 0) == 0);
        assert_true(run(TW_OP_max_nan_f32, i ? 0 : minus32, i ? minus32 : 0, 0) == 0);
        assert_true(run(TW_OP_min_f64, i ? 0 : minus64, i ? minus64 : 0, 0) == minus64);
        assert_true(run(TW_OP_max_f64, i ? 0 : minus64, i ? minus64 : 0, 0) == 0);
    }
}

/* The table says of itself what holds: what commutes commutes, results fit their type, everything has a name of its
   own. */
static void rows_of_the_table(void **state) {
    (void)state;
    tw_random r = tw_random_seed(6);
    for (int code = 0; code < TW_OPCODES; code++) {
        const tw_op_info *info = tw_op_describe((tw_opcode)code);
        uint64_t x;
        assert_int_equal(tw_opcode_from_name(info->name), code);
        assert_int_equal(tw_op_evaluate((tw_opcode)code, 0, 0, 0, &x), info->scalar);
        if (!info->scalar) continue;
        int bits = tw_type_bits(info->result);
        for (int i = 0; i < 200; i++) {
            uint64_t v[3];
            for (int k = 0; k < 3; k++) {
                int n = k < info->n_operands ? tw_type_bits(info->operand[k]) : 0;
                v[k] = n == 64 ? tw_random_u64(&r) : tw_random_u64(&r) & ((1ull << n) - 1);
            }
            uint64_t y = run((tw_opcode)code, v[0], v[1], v[2]);
            assert_true(bits == 64 || !(y >> bits));
            bool flt = tw_type_is_float(info->result) || tw_type_is_float(info->operand[0]);
            if (info->flags & TW_F_COMMUTES && !flt) /* of two NaN either may come through */
                assert_true(run((tw_opcode)code, v[1], v[0], v[2]) == y);
        }
    }
    assert_int_equal(tw_opcode_from_name("no such"), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_round_once),     cmocka_unit_test(sums_and_products_of_halves),
        cmocka_unit_test(every_half_converts),   cmocka_unit_test(pairs_are_two_halves),
        cmocka_unit_test(tf32_rounds_half_away), cmocka_unit_test(floats_to_integers),
        cmocka_unit_test(integer_division),      cmocka_unit_test(shifts_clamp),
        cmocka_unit_test(bits_and_bytes),        cmocka_unit_test(comparisons_with_nan),
        cmocka_unit_test(zeros_have_an_order),   cmocka_unit_test(rows_of_the_table)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
