/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of networks: each instruction set's results against sums in double precision, and predictions by each. */
#include "support/support.h"

#include "base/random.h"
#include "tilewright/device.h"
#include "tune/mlp.h"
#include "tune/mlp_layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 37, UNITS = 40, VARIANTS = 3 };

static const struct {
    const char *name;
    uint32_t needs;
    tw_mlp_layer_fn *fn;
} variants[VARIANTS] = {
    {"c", 0, tw_mlp_layer_c}, {"avx2", TW_CPU_AVX2, tw_mlp_layer_avx2}, {"avx512", TW_CPU_AVX512, tw_mlp_layer_avx512}};

static bool runs(int variant) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    return (cpu.isa & variants[variant].needs) == variants[variant].needs;
}

static _Alignas(TW_MLP_ALIGN) float weights[INPUTS * UNITS], x[INPUTS * TW_MLP_ROWS], y[UNITS * TW_MLP_ROWS];

/* Compares a layer of n listed inputs with sums in double precision. Inputs that are not listed are not 0, and must not
   count. Two units are negative in all rows. One input is 0 in all rows but the last. */
static void check(int variant, bool rectify, int n) {
    float bias[UNITS];
    int live[INPUTS], next[UNITS], listed = 0;
    tw_random r = tw_random_seed((uint64_t)n);
    for (int i = 0; i < INPUTS * UNITS; i++) weights[i] = tw_random_normal(&r);
    for (int i = 0; i < INPUTS * TW_MLP_ROWS; i++) x[i] = tw_random_normal(&r);
    for (int u = 0; u < UNITS; u++) bias[u] = u == 7 || u == 16 ? -1000 : tw_random_normal(&r);
    for (int i = 0; i < n; i++) live[i] = i * INPUTS / n;
    for (int i = 0; n && i < TW_MLP_ROWS - 1; i++) x[live[n / 2] * TW_MLP_ROWS + i] = 0;
    for (int i = 0; i < UNITS * TW_MLP_ROWS; i++) y[i] = NAN;
    const tw_mlp_layer l = {weights, bias, INPUTS, UNITS, rectify};
    const int count = variants[variant].fn(&l, x, live, n, y, next);
    for (int u = 0; u < UNITS; u++) {
        bool any = false;
        for (int row = 0; row < TW_MLP_ROWS; row++) {
            double sum = (double)bias[u], sizes = fabs(sum);
            for (int i = 0; i < n; i++) {
                const double w =
                    (double)weights[(u / TW_MLP_UNITS * INPUTS + live[i]) * TW_MLP_UNITS + u % TW_MLP_UNITS];
                sum += w * (double)x[live[i] * TW_MLP_ROWS + row];
                sizes += fabs(w * (double)x[live[i] * TW_MLP_ROWS + row]);
            }
            const double wanted = rectify && sum < 0 ? 0 : sum, got = (double)y[u * TW_MLP_ROWS + row];
            if (!(fabs(got - wanted) <= 1e-5 * sizes))
                fail_msg("%s: unit %d of row %d is %g, not %g", variants[variant].name, u, row, got, wanted);
            any |= got != 0;
        }
        if (any && (listed >= count || next[listed++] != u))
            fail_msg("%s: unit %d is not listed", variants[variant].name, u);
    }
    assert_int_equal(listed, count);
    if (rectify) assert_true(count <= UNITS - 2);
}

static void layers_are_sums(void **state) {
    (void)state;
    for (int v = 0; v < VARIANTS; v++)
        for (int n = 0; n <= INPUTS && runs(v); n += n < 3 ? 1 : 17)
            for (int rectify = 0; rectify < 2; rectify++) check(v, rectify, n);
}

/* The number of rows is no multiple of TW_MLP_ROWS, those of units none of TW_MLP_UNITS. */
static void predictions_agree(void **state) {
    (void)state;
    enum { ROWS = 3 * TW_MLP_ROWS + 5, COLUMNS = 3 };
    static float rows[ROWS * COLUMNS], wanted[ROWS];
    static bool held[ROWS];
    float by[VARIANTS][ROWS + 1];
    const tw_mlp_options o = {{11, 5}, 2, 30, 0, 16, 0.01, 3};
    tw_table t = {ROWS, COLUMNS, rows, wanted, held};
    tw_random r = tw_random_seed(8);
    tw_mlp *m;
    tw_diag d;
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < COLUMNS; c++) rows[i * COLUMNS + c] = tw_random_normal(&r);
        wanted[i] = rows[i * COLUMNS] * rows[i * COLUMNS + 1];
    }
    assert_int_equal(tw_mlp_fit(&m, &t, &o, &d), TW_OK);
    for (int v = 0; v < VARIANTS; v++) {
        tw_mlp_limit(m, variants[v].needs | (v == 2 ? TW_CPU_AVX2 : 0));
        by[v][ROWS] = 77;
        tw_mlp_predict(m, rows, ROWS, by[v]);
        assert_true(by[v][ROWS] == 77);
        for (int i = 0; i < ROWS; i++) {
            float alone;
            tw_mlp_predict(m, rows + (size_t)i * COLUMNS, 1, &alone);
            assert_true(fabsf(by[v][i] - by[0][i]) < 1e-4f && fabsf(alone - by[v][i]) < 1e-4f);
        }
    }
    tw_mlp_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_are_sums), cmocka_unit_test(predictions_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
