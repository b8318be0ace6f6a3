/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares against solutions that are known, and against the normal equations. */
#include "support/support.h"

#include "base/least.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

enum { MOST = 50, N = TW_LEAST_UNKNOWNS };

static void near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.17g is not %.17g", a, b);
}

static void exact_systems_are_solved(void **state) {
    (void)state;
    tw_random r = tw_random_seed(1);
    for (int times = 0; times < 200; times++) {
        const int n = 1 + times % N, m = n + (int)tw_random_below(&r, 20);
        double rows[MOST * (N + 1)], want[N], x[N];
        for (int j = 0; j < n; j++) want[j] = 2 * tw_random_unit(&r) - 1;
        for (int i = 0; i < m; i++) {
            double *row = rows + i * (n + 1);
            row[n] = 0;
            for (int j = 0; j < n; j++) {
                /* Columns of very different sizes. */
                row[j] = (2 * tw_random_unit(&r) - 1) * pow(10, j);
                row[n] += row[j] * want[j];
            }
        }
        tw_least_squares(rows, m, n, x);
        for (int j = 0; j < n; j++) near(x[j], want[j], 1e-6);
    }
}

/* What is left is orthogonal to every column. */
static void what_is_left_is_least(void **state) {
    (void)state;
    tw_random r = tw_random_seed(2);
    for (int times = 0; times < 100; times++) {
        enum { M = 30, K = 4 };
        double rows[M * (K + 1)], kept[M * (K + 1)], x[K];
        for (int i = 0; i < M * (K + 1); i++) kept[i] = rows[i] = 2 * tw_random_unit(&r) - 1;
        tw_least_squares(rows, M, K, x);
        for (int j = 0; j < K; j++) {
            double dot = 0;
            for (int i = 0; i < M; i++) {
                const double *row = kept + i * (K + 1);
                double left = row[K];
                for (int t = 0; t < K; t++) left -= row[t] * x[t];
                dot += left * row[j];
            }
            near(dot, 0, 1e-12);
        }
    }
}

/* Two columns that say the same, and a column of zeros: one of them gets nothing, and the rest still fits. */
static void what_is_not_determined_is_zero(void **state) {
    (void)state;
    double rows[] = {2, 1, 0, 7, 4, 2, 0, 9, 6, 3, 0, 11}, x[3];
    memset(x, 1, sizeof x);
    tw_least_squares(rows, 3, 3, x);
    assert_true(x[2] == 0 && (x[0] == 0 || x[1] == 0));
    near(2 * x[0] + x[1], 58.0 / 14, 1e-12);
    /* One column is a third of the other but for rounding. */
    tw_random r = tw_random_seed(4);
    double rounded[MOST * 3];
    for (int i = 0; i < MOST; i++) {
        rounded[3 * i] = tw_random_unit(&r);
        rounded[3 * i + 1] = rounded[3 * i] / 3;
        rounded[3 * i + 2] = 5 * rounded[3 * i] + tw_random_unit(&r) / 100;
    }
    tw_least_squares(rounded, MOST, 2, x);
    assert_true(x[0] == 0 || x[1] == 0);
    near(x[0] + x[1] / 3, 5, 0.02);
    double few[] = {1, 2, 3, 4}, y[3];
    tw_least_squares(few, 1, 3, y);
    near(y[0] + 2 * y[1] + 3 * y[2], 4, 1e-12);
    tw_least_squares(few, 0, 3, y);
    assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0);
}

/* Columns of any size that the rows determine count, and the order of nearly dependent ones does not spoil the rest. */
static void sizes_do_not_matter(void **state) {
    (void)state;
    tw_random r = tw_random_seed(9);
    static const double size[] = {1e-12, 1e12, 1, 1e-6};
    double rows[MOST * 5], x[4];
    for (int i = 0; i < MOST; i++) {
        double *row = rows + 5 * i;
        row[4] = 0;
        for (int j = 0; j < 4; j++) {
            const double a = tw_random_unit(&r);
            row[j] = a * size[j];
            row[4] += (j + 1) * a;
        }
    }
    tw_least_squares(rows, MOST, 4, x);
    for (int j = 0; j < 4; j++) near(x[j] * size[j], j + 1, 1e-9);
    /* The second column is the first but for a hair; the hair is what the third one has, too. */
    for (int i = 0; i < MOST; i++) {
        double *row = rows + 4 * i;
        const double a = tw_random_unit(&r), hair = 1e-9 * tw_random_unit(&r);
        row[0] = a;
        row[1] = a + hair;
        row[2] = tw_random_unit(&r);
        row[3] = 2 * a + 3 * row[2];
    }
    double left = 0, copy[MOST * 4];
    memcpy(copy, rows, sizeof copy);
    tw_least_squares(rows, MOST, 3, x);
    near(x[0] + x[1], 2, 1e-6);
    near(x[2], 3, 1e-9);
    for (int i = 0; i < MOST; i++)
        left = fmax(left, fabs(copy[4 * i] * x[0] + copy[4 * i + 1] * x[1] + copy[4 * i + 2] * x[2] - copy[4 * i + 3]));
    near(left, 0, 1e-9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_systems_are_solved), cmocka_unit_test(what_is_left_is_least),
        cmocka_unit_test(what_is_not_determined_is_zero), cmocka_unit_test(sizes_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
