/* SPDX-License-Identifier: Apache-2.0 */
/* checkkernel, norms, activations, sums and argmax: every variant under every mask against double. */
#include "kernels/checkkernel.h"

static const int64_t lengths[] = {1, 5, 8, 16, 17, 31, 64, 100, 1000};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void expect_near(const tw_kernels *k, const char *what, int64_t n, int64_t i, double got, double want,
                        double tolerance) {
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= tolerance) return;
    print_error("%s, mask %x, n %lld: [%lld] is %.9g, not %.9g +- %.3g\n", what, k->isa, (long long)n, (long long)i,
                got, want, tolerance);
    fail();
}

static void norms_are_accurate(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int c = 0; c < LENGTHS * INPUT_KINDS; c++) {
            int64_t n = lengths[c / INPUT_KINDS];
            size_t s = (size_t)n;
            float *x = guard_make(s), *w = guard_make(s), *b = guard_make(s), *y = guard_make(s), *z = guard_make(s),
                  eps = 1e-5f;
            input_fill(c % INPUT_KINDS, x, s, &r);
            input_fill(INPUT_NORMAL, w, s, &r);
            input_fill(INPUT_NORMAL, b, s, &r);
            k.norm_rms(x, w, eps, n, y);
            k.norm_layer(x, w, b, eps, n, z);
            double mean = 0, square = 0, variance = 0;
            for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
            for (int64_t i = 0; i < n; i++) {
                square += (double)x[i] * x[i] / (double)n;
                variance += (x[i] - mean) * (x[i] - mean) / (double)n;
            }
            /* Two or three roundings to float: of the scaled value, of the product, of the sum. */
            for (int64_t i = 0; i < n; i++) {
                double want = x[i] / sqrt(square + (double)eps) * w[i];
                expect_near(&k, "norm_rms", n, i, y[i], want, 2 * 0x1p-24 * fabs(want) + 1e-37);
                double scaled = (x[i] - mean) / sqrt(variance + (double)eps) * w[i], layer = scaled + b[i];
                double lost = 0x1p-48 * fabs(mean) / sqrt(variance + (double)eps) * fabs(w[i]);
                expect_near(&k, "norm_layer", n, i, z[i], layer,
                            3 * 0x1p-24 * (fabs(scaled) + fabs(b[i])) + lost + 1e-37);
            }
            guard_free(x, s), guard_free(w, s), guard_free(b, s), guard_free(y, s), guard_free(z, s);
        }
    }
}

static double exact_gelu(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}

static double exact_gelu_tanh(double x) {
    double u = sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-2 * u));
}

static double gelu_tanh_exponent(double x) {
    return 2 * sqrt(2 / acos(-1.0)) * fabs(x + 0.044715 * x * x * x);
}

/* Relative 1e-6; where an exponent is large its own rounding to float, 2^-24 of it, is the result's relative error. */
static void check_activations(const tw_kernels *k, const float *x, const float *u, int64_t n) {
    size_t s = (size_t)n;
    float *y = guard_make(s), *z = guard_make(s), *t = guard_make(s);
    /* Beyond x = -88.7 the denominator 1 + exp(-x) is infinite, and what is left, 88.7 exp(-88.7), is lost. */
    double floor = 3e-37;
    k->silu_mul(x, u, n, y);
    k->gelu(x, n, z);
    k->gelu_tanh(x, n, t);
    for (int64_t i = 0; i < n; i++) {
        double v = x[i], silu = v / (1 + exp(-v)) * u[i];
        expect_near(k, "silu_mul", n, i, y[i], silu, 1e-6 * fabs(silu) + floor * (1 + fabs((double)u[i])));
        double conditioning = k->isa ? 0 : 4 * 0x1p-24 * v * v; /* the plain C rounds x / sqrt 2 */
        expect_near(k, "gelu", n, i, z[i], exact_gelu(v),
                    (1e-6 + conditioning) * fabs(exact_gelu(v)) + floor * (1 + fabs(v)));
        double rounding = v < 0 ? 4 * 0x1p-24 * gelu_tanh_exponent(v) : 0;
        expect_near(k, "gelu_tanh", n, i, t[i], exact_gelu_tanh(v),
                    (1e-6 + rounding) * fabs(exact_gelu_tanh(v)) + floor * (1 + fabs(v)));
    }
    guard_free(y, s), guard_free(z, s), guard_free(t, s);
}

static void activations_are_accurate(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 1);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int c = 0; c < LENGTHS * INPUT_KINDS; c++) {
            int64_t n = lengths[c / INPUT_KINDS];
            float *x = guard_make((size_t)n), *u = guard_make((size_t)n);
            input_fill(c % INPUT_KINDS, x, (size_t)n, &r);
            input_fill(INPUT_NORMAL, u, (size_t)n, &r);
            check_activations(&k, x, u, n);
            guard_free(x, (size_t)n), guard_free(u, (size_t)n);
        }
        /* A fine grid over everything that is neither zero nor the identity. */
        enum { GRID = 40001 };
        float *x = guard_make(GRID), *u = guard_make(GRID);
        for (int i = 0; i < GRID; i++) {
            x[i] = (float)(i - GRID / 2) * 0.00075f;
            u[i] = 1;
        }
        check_activations(&k, x, u, GRID);
        guard_free(x, GRID), guard_free(u, GRID);
    }
}

static void activations_of_what_is_no_number(void **state) {
    (void)state;
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        float x[3] = {NAN, INFINITY, 1e38f}, one[3] = {1, 1, 1}, y[3];
        k.silu_mul(x, one, 3, y);
        assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 1e38f);
        k.gelu(x, 3, y);
        assert_true(isnan(y[0]) && y[1] == INFINITY && y[2] == 1e38f);
        k.gelu_tanh(x, 2, y);
        assert_true(isnan(y[0]) && y[1] == INFINITY);
        float in_place[2] = {-1, 2}, up[2] = {3, 4};
        k.silu_mul(in_place, up, 2, up);
        assert_true(fabs(up[0] + 3 / (1 + exp(1))) < 1e-6 && fabs(up[1] - 8 / (1 + exp(-2))) < 1e-5);
    }
}

static void sums_are_single_operations(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 2);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int c = 0; c < LENGTHS; c++) {
            int64_t n = lengths[c];
            size_t s = (size_t)n;
            float *x = guard_make(s), *y = guard_make(s), *z = guard_make(s), *was = guard_make(s);
            input_fill(INPUT_MIXED, x, s, &r);
            input_fill(INPUT_MIXED, was, s, &r);
            memcpy(y, was, s * sizeof *y);
            memcpy(z, was, s * sizeof *z);
            k.add(y, x, n);
            k.axpy(z, x, 0.37f, n);
            for (int64_t i = 0; i < n; i++) {
                assert_true(y[i] == was[i] + x[i]);
                double want = (double)was[i] + (double)x[i] * (double)0.37f;
                expect_near(&k, "axpy", n, i, z[i], want, 0x1p-23 * (fabs((double)was[i]) + fabs((double)x[i])));
            }
            guard_free(x, s), guard_free(y, s), guard_free(z, s), guard_free(was, s);
        }
    }
}

static int64_t plain_argmax(const float *x, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
    return best < 0 ? 0 : best;
}

static void argmax_is_the_first_of_the_largest(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state + 3);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int c = 0; c < 400; c++) {
            int64_t n = 1 + (int64_t)tw_random_below(&r, 70);
            float *x = guard_make((size_t)n);
            for (int64_t i = 0; i < n; i++) {
                x[i] = (float)((int)tw_random_below(&r, 6) - 3);
                if (tw_random_below(&r, 4) == 0) x[i] = NAN;
                if (tw_random_below(&r, 8) == 0) x[i] = -INFINITY;
                if (c % 7 == 0) x[i] = c % 2 ? NAN : -INFINITY;
            }
            assert_int_equal(k.argmax(x, n), plain_argmax(x, n));
            guard_free(x, (size_t)n);
        }
    }
}

int main(void) {
    uint64_t seed = check_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(norms_are_accurate, &seed),
        cmocka_unit_test_prestate(activations_are_accurate, &seed),
        cmocka_unit_test(activations_of_what_is_no_number),
        cmocka_unit_test_prestate(sums_are_single_operations, &seed),
        cmocka_unit_test_prestate(argmax_is_the_first_of_the_largest, &seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
