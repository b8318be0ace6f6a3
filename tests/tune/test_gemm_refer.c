/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's reference kernel, in the emulator, against the processor's reference. */
#include "support/support.h"

#include "base/dtype.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "kernels/gemm/reference.h"
#include "tune/gemm_refer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Allocates a matrix of the problem. 0: it has none. */
static uint64_t place(tw_emu *e, const tw_gemm_data *d, tw_gemm_buffer which) {
    return d->of[which] ? tw_emu_alloc(e, tw_gemm_buffer_names[which], d->of[which], d->bytes[which], true) : 0;
}

static void compare_one(tw_gemm_problem *p) {
    const int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    tw_gemm_data d;
    tw_diag diag;
    assert_int_equal(tw_gemm_problem_complete(p, NULL), TW_OK);
    assert_int_equal(tw_gemm_data_make(&d, p, (uint64_t)(m + n + k), NULL), TW_OK);
    tw_kernel *kernel = tw_gemm_refer_build(p, 80);
    assert_non_null(kernel);
    assert_int_equal(tw_pipeline_default(kernel, true, &diag), TW_OK);
    tw_emu *e = tw_emu_new();
    const size_t cells = (size_t)d.cells;
    double *want = malloc(cells * sizeof *want);
    float *tolerance = malloc(cells * sizeof *tolerance), *twice = malloc(cells * sizeof *twice);
    memset(want, 0xff, cells * sizeof *want);
    memset(tolerance, 0xff, cells * sizeof *tolerance);
    memset(twice, 0xff, cells * sizeof *twice);
    const uint64_t arguments[] = {place(e, &d, TW_GEMM_A),
                                  place(e, &d, TW_GEMM_B),
                                  tw_emu_alloc(e, "want", want, cells * sizeof *want, false),
                                  tw_emu_alloc(e, "tolerance", tolerance, cells * sizeof *tolerance, false),
                                  (uint64_t)m,
                                  (uint64_t)n,
                                  (uint64_t)k,
                                  p->promote,
                                  place(e, &d, TW_GEMM_SCALES),
                                  place(e, &d, TW_GEMM_SCALE_COLUMNS),
                                  (uint64_t)p->ldb,
                                  place(e, &d, TW_GEMM_BIAS),
                                  place(e, &d, TW_GEMM_MUL),
                                  place(e, &d, TW_GEMM_RESIDUAL),
                                  tw_emu_alloc(e, "twice", twice, cells * sizeof *twice, false),
                                  place(e, &d, TW_GEMM_RESIDUAL_GAINS),
                                  place(e, &d, TW_GEMM_ROW_SUMS),
                                  (uint64_t)p->sums,
                                  (uint64_t)m,
                                  tw_f32_bits((float)p->eps)};
    const tw_emu_options o = {.grid = {(n + TW_GEMM_REFER_THREADS - 1) / TW_GEMM_REFER_THREADS,
                                       (m + TW_GEMM_REFER_ROWS - 1) / TW_GEMM_REFER_ROWS}};
    tw_emu_report report = {0};
    if (tw_emu_launch(e, kernel, arguments, &o, &report, &diag) != TW_OK) fail_msg("%s", diag.message);
    assert_true(tw_emu_read(e, arguments[2], want, cells * sizeof *want));
    assert_true(tw_emu_read(e, arguments[3], tolerance, cells * sizeof *tolerance));
    assert_true(tw_emu_read(e, arguments[14], twice, cells * sizeof *twice));
    for (size_t i = 0; i < cells; i++) {
        /* The two references may add in different orders, and know activations to 2e-9. */
        const double apart = (p->epilogue.activation ? 2e-9 * sqrt(k) : 1e-12 * k) * (p->epilogue.gated ? sqrt(k) : 1);
        assert_true(fabs(want[i] - d.want[i]) <= apart);
        /* The device's scales of a narrow B may be larger than those drawn here, and so may its elements. */
        if (p->scales)
            assert_true(tolerance[i] >= d.tolerance[i] * (1 - 1e-4f) && tolerance[i] <= d.tolerance[i] * 13);
        else if (p->narrow) /* Scales multiply before the root is taken, or after it. */
            assert_true(fabsf(tolerance[i] / d.tolerance[i] - 1) < 0.5f);
        else
            assert_true(fabsf(tolerance[i] / d.tolerance[i] - 1) < 1e-4f);
        if (tw_gemm_refer_rounds_twice(p))
            assert_true(twice[i] > tolerance[i] && fabsf(twice[i] / d.twice[i] - 1) < 1e-4f);
        else
            assert_true(isnan(twice[i]));
    }
    free(want);
    free(tolerance);
    free(twice);
    tw_emu_free(e);
    tw_kernel_free(kernel);
    tw_gemm_data_free(&d);
}

static void compare(tw_gemm_type type, int m, int n, int k, bool promote) {
    tw_gemm_problem p = {.type = type, .m = m, .n = n, .k = k, .trans_b = true, .alpha = 1, .promote = promote};
    compare_one(&p);
}

/* `gap`: elements between B's rows. */
static void compare_tall(tw_gemm_type type, int m, int n, int k, int gap) {
    tw_gemm_problem p = {.type = type, .m = m, .n = n, .k = k, .ldb = n + gap, .alpha = 1};
    compare_one(&p);
}

static void compare_narrow(tw_gemm_type type, tw_gemm_narrow narrow, int scales, bool sums, int m, int n, int k) {
    tw_gemm_problem p = {.type = type,
                         .m = m,
                         .n = n,
                         .k = k,
                         .trans_b = true,
                         .alpha = 1,
                         .narrow = narrow,
                         .scales = scales,
                         .scale_sums = sums,
                         .epilogue = {.scale_columns = !scales}};
    compare_one(&p);
}

/* Sums of 300 products are beyond 6 now and then, where activations have their limits. */
static void epilogues_agree(void **state) {
    (void)state;
    static const tw_gemm_type types[] = {TW_GEMM_F16, TW_GEMM_BF16, TW_GEMM_TF32X3};
    for (int i = 0; i < 3 * TW_GEMM_ACTIVATIONS; i++) {
        tw_gemm_problem p = {.type = types[i % 3],
                             .m = 3,
                             .n = 70,
                             .k = 304,
                             .trans_b = i % 2,
                             .alpha = 1,
                             .epilogue = {.bias = i % 4 != 1,
                                          .activation = (tw_gemm_activation)(i / 3),
                                          .mul = i % 3 == 1,
                                          .residual = i % 5 < 2}};
        compare_one(&p);
    }
}

static void gated_products_agree(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        tw_gemm_problem p = {.type = i % 2 ? TW_GEMM_BF16 : TW_GEMM_F16,
                             .m = 5,
                             .n = i < 3 ? 304 : 48,
                             .k = 304,
                             .trans_b = i % 3 > 0,
                             .alpha = 1,
                             .epilogue = {.gated = true, .activation = (tw_gemm_activation)i, .residual = i % 4 == 1}};
        compare_one(&p);
    }
}

/* Norms of A's rows, and of the residual's. */
static void norms_agree(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++) {
        const bool residual = i % 3 == 2, gated = i > 8 && !residual;
        tw_gemm_problem p = {.type = i % 2 ? TW_GEMM_BF16 : TW_GEMM_F16,
                             .m = 5,
                             .n = 144,
                             .k = 304,
                             .trans_b = i % 4 < 2,
                             .alpha = 1,
                             .sums = 1 + i,
                             .eps = i % 2 ? 0.25 : 1e-5,
                             .centred = i % 3 > 0,
                             .norm_residual = residual,
                             .epilogue = {.bias = i % 2 && !gated,
                                          .residual = residual || i % 5 == 1,
                                          .gated = gated,
                                          .activation = gated ? TW_GEMM_SILU : TW_GEMM_LINEAR}};
        compare_one(&p);
    }
}

/* Rounds a number to f16 or bf16. */
static double rounded(tw_gemm_type t, double x) {
    return t == TW_GEMM_F16 ? (double)tw_f16_to_f32(tw_f32_to_f16((float)x))
                            : (double)tw_bf16_to_f32(tw_f32_to_bf16((float)x));
}

static double element(const tw_gemm_data *d, tw_gemm_buffer which, int64_t i) {
    const uint16_t x = ((const uint16_t *)d->of[which])[i];
    return (double)(d->problem.type == TW_GEMM_F16 ? tw_f16_to_f32(x) : tw_bf16_to_f32(x));
}

/* A C that is rounded before its epilogue and behind it is right by the tolerance for that, and not by the other. */
static void products_may_be_rounded_twice(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        const tw_gemm_type type = i % 2 ? TW_GEMM_BF16 : TW_GEMM_F16;
        const tw_gemm_problem plain = {.type = type, .m = 40, .n = 72, .k = 64, .trans_b = true, .alpha = 0.75};
        tw_gemm_problem p = plain;
        p.epilogue = (tw_gemm_epilogue){
            .bias = true, .activation = i < 4 ? TW_GEMM_GELU_ERF : TW_GEMM_LINEAR, .mul = i > 1, .residual = i > 1};
        tw_gemm_data product, d;
        assert_int_equal(tw_gemm_data_make(&product, &plain, 7, NULL), TW_OK);
        assert_int_equal(tw_gemm_data_make(&d, &p, 7, NULL), TW_OK);
        assert_memory_equal(product.of[TW_GEMM_B], d.of[TW_GEMM_B], d.bytes[TW_GEMM_B]);
        int64_t apart = 0;
        for (int64_t cell = 0; cell < d.cells; cell++) {
            double x = rounded(type, product.want[cell]) + element(&d, TW_GEMM_BIAS, cell % p.n);
            if (p.epilogue.activation) x = 0.5 * x * erfc(-x * sqrt(0.5));
            if (p.epilogue.mul) x *= element(&d, TW_GEMM_MUL, cell);
            if (p.epilogue.residual) x += element(&d, TW_GEMM_RESIDUAL, cell);
            const double error = fabs(rounded(type, x) - d.want[cell]);
            assert_true(error < (double)d.twice[cell]);
            apart += error >= (double)d.tolerance[cell];
        }
        assert_true(apart > d.cells / 100);
        tw_gemm_data_free(&product);
        tw_gemm_data_free(&d);
    }
}

static void both_references_agree(void **state) {
    (void)state;
    compare(TW_GEMM_BF16, 9, 200, 64, false);
    compare(TW_GEMM_F16, 9, 130, 40, false);
    compare(TW_GEMM_BF16, 1, 1, 8, false);
    compare(TW_GEMM_F16, 4, 128, 256, false);
    compare(TW_GEMM_TF32X3, 9, 130, 68, false);
    compare(TW_GEMM_F32, 1, 1, 4, false);
    compare_tall(TW_GEMM_F16, 9, 131, 40, 0);
    compare_tall(TW_GEMM_F16, 6, 131, 24, 5);
    compare_tall(TW_GEMM_BF16, 5, 1, 8, 0);
    compare_tall(TW_GEMM_TF32X3, 9, 130, 68, 2);
    compare(TW_GEMM_E4M3, 9, 130, 272, false);
    compare(TW_GEMM_E4M3, 9, 130, 272, true);
    compare(TW_GEMM_E4M3, 1, 1, 16, true);
    compare_narrow(TW_GEMM_BF16, TW_GEMM_I8, 0, false, 5, 200, 328);
    compare_narrow(TW_GEMM_F16, TW_GEMM_I8, 64, false, 1, 130, 328);
    compare_narrow(TW_GEMM_BF16, TW_GEMM_I4, 32, false, 5, 70, 256);
    compare_narrow(TW_GEMM_F16, TW_GEMM_I4, 0, false, 3, 64, 520);
    compare_narrow(TW_GEMM_BF16, TW_GEMM_I4, 64, true, 3, 64, 264);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_references_agree), cmocka_unit_test(epilogues_agree),
                                       cmocka_unit_test(gated_products_agree), cmocka_unit_test(norms_agree),
                                       cmocka_unit_test(products_may_be_rounded_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
