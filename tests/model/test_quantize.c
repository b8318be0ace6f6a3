/* SPDX-License-Identifier: Apache-2.0 */
#include "support/support.h"

#include "base/dtype.h"
#include "base/random.h"
#include "model/quantize.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 4096 };

/* Rows of many kinds: normal, heavy-tailed, one outlier, sparse, constant, ramps, huge, tiny. */
static void fill(tw_random *r, int kind, float *x, int n) {
    for (int i = 0; i < n; i++) {
        float g = tw_random_normal(r);
        switch (kind) {
        case 0:
            x[i] = 0.02f * g;
            break;
        case 1:
            x[i] = g * g * g;
            break;
        case 2:
            x[i] = i == n / 2 ? -50.0f : 0.01f * g;
            break;
        case 3:
            x[i] = tw_random_below(r, 8) ? 0.0f : g;
            break;
        case 4:
            x[i] = -0.7f;
            break;
        case 5:
            x[i] = (float)(i - n / 2);
            break;
        case 6:
            x[i] = g * 1e5f;
            break;
        case 7:
            x[i] = g * 2e-5f;
            break;
        case 8:
            x[i] = fabsf(g);
            break;
        default:
            x[i] = (float)tw_random_below(r, 15) - 7.0f;
            break;
        }
    }
}
enum { KINDS = 10 };

static double error_with(const float *x, int n, double scale, int lo, int hi) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double q = scale != 0 ? fmin(fmax(rint((double)x[i] / scale), lo), hi) : 0, d = (double)x[i] - q * scale;
        sum += d * d;
    }
    return sum;
}

static float largest(const float *x, int n, float *signed_one) {
    float best = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > best) {
            best = fabsf(x[i]);
            *signed_one = x[i];
        }
    return best;
}

static double squares(const float *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* Integers in range; scales as f16 holds them; each integer the nearest for its scale. */
static void check_form(tw_dtype t, int group, const float *x, int n, const int8_t *q, const float *scales) {
    int lo = t == TW_I8 ? -127 : -8, hi = t == TW_I8 ? 127 : 7, step = group ? group : n;
    for (int i = 0; i < n; i++) {
        float s = scales[i / step];
        assert_true(q[i] >= lo && q[i] <= hi);
        if (t == TW_I4) assert_true(tw_f16_to_f32(tw_f32_to_f16(s)) == s);
        double want = s != 0 ? fmin(fmax((double)x[i] / (double)s, lo), hi) : 0;
        assert_true(fabs((double)q[i] - want) <= 0.5 + 1e-4);
    }
}

static void test_i4(void **state) {
    (void)state;
    static const int groups[] = {1, 7, 32, 64, 128, 200, 0}, lengths[] = {1, 5, 32, 100, 256, 300, 1000};
    tw_random r = tw_random_seed(11);
    static float x[MAX], scales[MAX];
    static int8_t q[MAX];
    for (int kind = 0; kind < KINDS; kind++)
        for (int a = 0; a < 7; a++)
            for (int b = 0; b < 7; b++) {
                int group = groups[a], n = lengths[b], step = group ? group : n;
                fill(&r, kind, x, n);
                tw_quantise_row(TW_I4, group, x, n, q, scales);
                check_form(TW_I4, group, x, n, q, scales);
                for (int at = 0; at < n; at += step) {
                    int some = n - at < step ? n - at : step;
                    float end = 0, top = largest(x + at, some, &end);
                    double got = tw_quantise_error(0, x + at, some, q + at, scales + at / step);
                    double plain = error_with(x + at, some, (double)tw_f16_to_f32(tw_f32_to_f16(top / 7)), -8, 7);
                    double eight = error_with(x + at, some, (double)tw_f16_to_f32(tw_f32_to_f16(end / -8)), -8, 7);
                    double slack = 1e-9 * squares(x + at, some);
                    assert_true(got <= plain * (1 + 1e-4) + slack);
                    assert_true(got <= eight * (1 + 1e-4) + slack);
                }
            }
}

/* Every scale that f16 has within reach, tried. */
static double best_of_all(const float *x, int n) {
    float end, top = largest(x, n, &end);
    double best = squares(x, n);
    int from = tw_f32_to_f16(top / 20), to = tw_f32_to_f16(top / 3);
    for (int h = from; h <= to; h++)
        for (int sign = -1; sign <= 1; sign += 2)
            best = fmin(best, error_with(x, n, sign * (double)tw_f16_to_f32((uint16_t)h), -8, 7));
    return best;
}

static void test_i4_near_the_best(void **state) {
    (void)state;
    tw_random r = tw_random_seed(5);
    float x[128], scale;
    int8_t q[128];
    static const int lengths[] = {4, 16, 32, 128};
    double total = 0, best_total = 0;
    for (int b = 0; b < 4; b++)
        for (int repeat = 0; repeat < 12; repeat++) {
            int n = lengths[b];
            fill(&r, 0, x, n);
            tw_quantise_row(TW_I4, 0, x, n, q, &scale);
            double got = tw_quantise_error(0, x, n, q, &scale), best = best_of_all(x, n);
            assert_true(got >= best * (1 - 1e-9));
            assert_true(n < 32 || got <= best * 1.06);
            total += got / squares(x, n);
            best_total += best / squares(x, n);
        }
    assert_true(total <= best_total * 1.02);
}

/* What has an exact representation gets it. */
static void test_exact(void **state) {
    (void)state;
    float x[32], scales[1];
    int8_t q[32];
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int i = 0; i < 32; i++) x[i] = (float)sign * (float)(i % 16 - 8) * 0.03125f;
        tw_quantise_row(TW_I4, 32, x, 32, q, scales);
        assert_true(scales[0] == (float)sign * 0.03125f);
        assert_true(tw_quantise_error(32, x, 32, q, scales) == 0);
    }
    for (int i = 0; i < 32; i++) x[i] = (float)(i * 8 - 127) * 0.5f;
    x[31] = 63.5f;
    tw_quantise_row(TW_I8, 0, x, 32, q, scales);
    assert_true(scales[0] == 0.5f && tw_quantise_error(0, x, 32, q, scales) == 0);
}

static void test_i8(void **state) {
    (void)state;
    static const int groups[] = {0, 32, 100}, lengths[] = {1, 31, 256, 1000};
    tw_random r = tw_random_seed(2);
    static float x[MAX], scales[MAX];
    static int8_t q[MAX];
    for (int kind = 0; kind < KINDS; kind++)
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 4; b++) {
                int group = groups[a], n = lengths[b], step = group ? group : n;
                fill(&r, kind, x, n);
                tw_quantise_row(TW_I8, group, x, n, q, scales);
                check_form(TW_I8, group, x, n, q, scales);
                for (int at = 0; at < n; at += step) {
                    int some = n - at < step ? n - at : step;
                    float end = 0, top = largest(x + at, some, &end);
                    double got = tw_quantise_error(0, x + at, some, q + at, scales + at / step);
                    double plain = error_with(x + at, some, (double)(top / 127), -127, 127);
                    assert_true(got <= plain * (1 + 1e-4) + 1e-12 * squares(x + at, some));
                }
            }
}

static void test_zeros(void **state) {
    (void)state;
    float x[100] = {0}, scales[4] = {9, 9, 9, 9};
    int8_t q[100];
    x[40] = -0.0f;
    for (int t = 0; t < 2; t++) {
        memset(q, 5, sizeof q);
        tw_quantise_row(t ? TW_I8 : TW_I4, 32, x, 100, q, scales);
        for (int i = 0; i < 100; i++) assert_int_equal(q[i], 0);
        for (int i = 0; i < 4; i++) assert_true(scales[i] == 0);
    }
}

/* NaN and infinity, subnormals, the largest floats: always the same finite answer. */
static void test_odd_values(void **state) {
    (void)state;
    float x[40], y[40], scales[2], other[2];
    int8_t q[40], p[40];
    for (int t = 0; t < 2; t++) {
        tw_dtype type = t ? TW_I8 : TW_I4;
        for (int i = 0; i < 40; i++) x[i] = y[i] = (float)(i - 20) / 8;
        x[3] = NAN;
        x[11] = -NAN;
        y[3] = y[11] = 0;
        tw_quantise_row(type, 20, x, 40, q, scales);
        tw_quantise_row(type, 20, y, 40, p, other);
        assert_memory_equal(q, p, sizeof q);
        assert_int_equal(q[3], 0);
        x[5] = INFINITY;
        x[6] = -INFINITY;
        y[5] = FLT_MAX;
        y[6] = -FLT_MAX;
        tw_quantise_row(type, 20, x, 40, q, scales);
        tw_quantise_row(type, 20, y, 40, p, other);
        assert_memory_equal(q, p, sizeof q);
        assert_memory_equal(scales, other, sizeof scales);
        assert_true(isfinite(scales[0]) && scales[0] != 0);
        assert_true(q[5] == -q[6] || q[5] + q[6] == -1);
        for (int i = 0; i < 40; i++) x[i] = (float)(i - 20) * 1e-42f;
        tw_quantise_row(type, 20, x, 40, q, scales);
        assert_true(isfinite(scales[0]) && isfinite(scales[1]));
        for (int i = 0; i < 40; i++) x[i] = NAN;
        tw_quantise_row(type, 20, x, 40, q, scales);
        for (int i = 0; i < 40; i++) assert_int_equal(q[i], 0);
        assert_true(scales[0] == 0 && scales[1] == 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_i4),    cmocka_unit_test(test_i4_near_the_best),
        cmocka_unit_test(test_exact), cmocka_unit_test(test_i8),
        cmocka_unit_test(test_zeros), cmocka_unit_test(test_odd_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
