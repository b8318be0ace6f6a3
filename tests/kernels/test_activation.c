/* SPDX-License-Identifier: Apache-2.0 */
/* GELU by the error function of many numbers, in the emulator, against the library's error function. */
#include "support/support.h"

#include "base/random.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "kernels/parts/activation.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 128, N = 160 * THREADS };

/* Thread i of the grid computes the activation of element i. */
static void compute(const float *x, float *y) {
    tw_kernel *k = tw_kernel_new("activation", 80, THREADS);
    tw_builder builder = tw_builder_of(k), *b = &builder;
    tw_diag diag;
    tw_val in = tw_pointer_add(b, "x", 4, true), out = tw_pointer_add(b, "y", 4, false);
    tw_val i = tw_add(b, tw_mul_imm(b, tw_sreg(b, TW_SREG_ctaid_x), THREADS), tw_sreg(b, TW_SREG_tid_x));
    tw_val at = tw_mul_imm(b, tw_widen(b, i), 4);
    tw_val value = tw_part_gelu_erf(b, tw_ld(b, (tw_attrs){.type = TW_T_f32}, tw_add(b, in, at)));
    tw_st(b, (tw_attrs){.type = TW_T_f32}, tw_add(b, out, at), &value);
    assert_int_equal(tw_pipeline_default(k, true, &diag), TW_OK);
    tw_emu *e = tw_emu_new();
    const uint64_t arguments[] = {tw_emu_alloc(e, "x", x, N * sizeof *x, true),
                                  tw_emu_alloc(e, "y", y, N * sizeof *y, false)};
    const tw_emu_options o = {.grid = {N / THREADS, 1}};
    tw_emu_report report = {0};
    if (tw_emu_launch(e, k, arguments, &o, &report, &diag) != TW_OK) fail_msg("%s", diag.message);
    assert_true(tw_emu_read(e, arguments[1], y, N * sizeof *y));
    tw_emu_free(e);
    tw_kernel_free(k);
}

static void gelu_is_near(void **state) {
    (void)state;
    const double most =
        1.1e-7; /* The emulator's power of 2 is exact, so that an error of the device's is to be added. */
    static const float ends[] = {0,        -0.0f,        INFINITY, -INFINITY, NAN,   FLT_MAX,   -FLT_MAX, FLT_MIN,
                                 -FLT_MIN, FLT_TRUE_MIN, 14,       -14,       13.5f, -13.4999f, 100,      -100};
    enum { ENDS = sizeof ends / sizeof *ends };
    float *x = malloc(N * sizeof *x), *y = calloc(N, sizeof *y);
    tw_random r = tw_random_seed(1);
    memcpy(x, ends, sizeof ends);
    for (int i = ENDS; i < N; i++) {
        const double u = tw_random_unit(&r);
        x[i] = (float)(i % 4 ? 12 * u - 6 : (i % 8 ? 1 : -1) * exp2(40 * u - 36));
    }
    compute(x, y);
    double worst = 0;
    for (int i = 0; i < N; i++) {
        const double v = (double)x[i], want = 0.5 * v * erfc(-v * sqrt(0.5)), error = fabs((double)y[i] - want);
        if (!isfinite(v)) continue;
        /* 2^-149 is a step of what is not normal. */
        if (!(error <= most * fabs(v) + 0x1p-149)) fail_msg("%g: %g, and not %g", v, (double)y[i], want);
        if (v != 0) worst = fmax(worst, error / fabs(v));
    }
    assert_true(worst > most / 4);
    assert_true(y[2] == INFINITY && y[3] == 0 && isnan(y[4]));
    assert_true(y[5] == FLT_MAX && y[6] == 0);
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gelu_is_near)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
