/* SPDX-License-Identifier: Apache-2.0 */
/* Products of f32 by terms of bf16, and softmax's exponentials, against double. */
#include "base/random.h"
#include "kernels/cpu/kernels.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float draw(tw_random *r) {
    return (float)ldexp(tw_random_unit(r) - 0.5, (int)tw_random_below(r, 12));
}

typedef struct taken {
    int64_t rows, parts;
} taken;

static void take(void *context, int64_t row, int64_t rows, int64_t col, int64_t cols) {
    taken *t = context;
    (void)row;
    assert_int_equal(col % TW_SINK_COLS, 0);
    t->rows += rows * cols;
    t->parts++;
}

/* `given`: by panels of f32. */
static void one_product(const tw_split_kernels *s, tw_random *r, bool given, int64_t rows, int64_t panels,
                        int64_t cols) {
    const int64_t n = panels * TW_PANEL_ROWS, ldx = cols + 3, ldy = n + 5;
    float *x = calloc((size_t)(rows * ldx), sizeof *x), *w = calloc((size_t)(n * cols), sizeof *w),
          *y = calloc((size_t)(rows * ldy), sizeof *y);
    const size_t of_panel = s->bytes(TW_PANEL_ROWS, cols);
    const tw_panel_format floats = {TW_F32, 0};
    char *packed = aligned_alloc(64, of_panel * (size_t)panels), *of_x = aligned_alloc(64, s->bytes(rows, cols)),
         *scratch = aligned_alloc(64, given ? s->floats_scratch_bytes : s->scratch_bytes),
         *given_panels = aligned_alloc(64, tw_panel_bytes(floats, cols) * (size_t)panels);
    for (int64_t i = 0; i < rows * ldx; i++) x[i] = draw(r);
    for (int64_t i = 0; i < n * cols; i++) w[i] = draw(r);
    for (int64_t i = 0; i < rows * ldy; i++) y[i] = -77;
    for (int64_t p = 0; p < panels; p++) s->pack_w(w + p * cols * TW_PANEL_ROWS, cols, packed + (size_t)p * of_panel);
    taken t = {0, 0};
    s->pack_x(x, ldx, rows, cols, true, of_x);
    memset(scratch, 0xff, given ? s->floats_scratch_bytes : s->scratch_bytes);
    for (int64_t p = 0; p < panels; p++) {
        float *panel = (float *)(void *)(given_panels + (size_t)p * tw_panel_bytes(floats, cols));
        memset(panel, 0, tw_panel_bytes(floats, cols));
        memcpy(panel, w + p * cols * TW_PANEL_ROWS, (size_t)(cols * TW_PANEL_ROWS) * sizeof *w);
    }
    (given ? s->gemm_floats : s->gemm)(given ? given_panels : packed, panels, cols, of_x, rows, y, ldy,
                                       &(tw_gemm_sink){take, &t}, scratch);
    assert_int_equal(t.rows, rows * n);
    for (int64_t m = 0; m < rows; m++) {
        for (int64_t c = 0; c < n; c++) {
            double sum = 0, most = 0;
            for (int64_t k = 0; k < cols; k++) {
                const double one =
                    (double)x[m * ldx + k] *
                    (double)w[c / TW_PANEL_ROWS * cols * TW_PANEL_ROWS + k * TW_PANEL_ROWS + c % TW_PANEL_ROWS];
                sum += one;
                most += fabs(one);
            }
            if (!(fabs(y[m * ldy + c] - sum) <= 1e-6 * most + 1e-30))
                fail_msg("%lldx%lldx%lld: [%lld][%lld] is %.9g, not %.9g", (long long)rows, (long long)n,
                         (long long)cols, (long long)m, (long long)c, (double)y[m * ldy + c], sum);
        }
        for (int64_t c = n; c < ldy; c++) assert_true(y[m * ldy + c] == -77);
    }
    free(x), free(w), free(y), free(packed), free(of_x), free(scratch), free(given_panels);
}

static void products_are_as_exact_as_floats(void **state) {
    (void)state;
    tw_cpu cpu;
    tw_kernels k;
    tw_cpu_detect(&cpu);
    tw_kernels_choose(&k, cpu.isa);
    if (!k.split) skip();
    tw_random r = tw_random_seed(5);
    one_product(k.split, &r, false, 256, 33, 200);
    one_product(k.split, &r, true, 100, 33, 400);
    for (int i = 0; i < 60; i++)
        one_product(k.split, &r, i % 2, 1 + (int64_t)tw_random_below(&r, 70), 1 + (int64_t)tw_random_below(&r, 5),
                    1 + (int64_t)tw_random_below(&r, i % 5 ? 100 : 500));
}

/* What is not a number shows in the results that it enters, and in no others: in W, with any bits. */
static void what_is_no_number_shows(void **state) {
    (void)state;
    enum { ROWS = 32, COLS = 64, BAD = 5 };
    static const uint32_t bits[] = {0x7fc00000, 0x7fffffff, 0xffffffff, 0x7f800001, 0x7f800000, 0xff800000};
    static float x[ROWS * COLS], w[COLS * TW_PANEL_ROWS], y[ROWS * TW_PANEL_ROWS];
    tw_cpu cpu;
    tw_kernels k;
    tw_cpu_detect(&cpu);
    tw_kernels_choose(&k, cpu.isa);
    if (!k.split) skip();
    tw_random r = tw_random_seed(8);
    void *of_x = aligned_alloc(64, k.split->bytes(ROWS, COLS)),
         *scratch = aligned_alloc(64, k.split->floats_scratch_bytes);
    for (int i = 0; i < ROWS * COLS; i++) x[i] = draw(&r);
    k.split->pack_x(x, COLS, ROWS, COLS, true, of_x);
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
        for (int i = 0; i < COLS * TW_PANEL_ROWS; i++) w[i] = draw(&r);
        memcpy(&w[(7 + (int)b) * TW_PANEL_ROWS + BAD], &bits[b], sizeof bits[b]);
        k.split->gemm_floats(w, 1, COLS, of_x, ROWS, y, TW_PANEL_ROWS, NULL, scratch);
        for (int i = 0; i < ROWS * TW_PANEL_ROWS; i++)
            if ((i % TW_PANEL_ROWS == BAD) != !isfinite(y[i])) fail_msg("%08x: [%d] is %g", bits[b], i, (double)y[i]);
    }
    free(of_x), free(scratch);
}

static void exponentials_are_right(void **state) {
    (void)state;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    const uint32_t sets[] = {0, TW_CPU_AVX2, cpu.isa};
    tw_random r = tw_random_seed(6);
    for (int i = 0; i < 300; i++) {
        tw_kernels k;
        float x[200] = {0}, bias[200], y[200];
        tw_kernels_choose(&k, sets[i % 3] & cpu.isa);
        const int64_t n = 1 + (int64_t)tw_random_below(&r, 150);
        const float scale = i % 4 ? 0.125f : -1;
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) {
            x[j] = (float)(40 * (tw_random_unit(&r) - 0.5));
            bias[j] = tw_random_below(&r, 4) && i % 7 ? (float)tw_random_unit(&r) : -INFINITY;
            most = fmax(most, (double)(x[j] * scale) + (double)bias[j]);
        }
        memcpy(y, x, sizeof y);
        y[n] = 5;
        const double got = k.soften(y, scale, bias, n);
        for (int64_t j = 0; j < n; j++) {
            const double want = most == -INFINITY ? 0 : exp((double)x[j] * (double)scale + (double)bias[j] - most);
            assert_true(fabs(y[j] - want) <= 1e-4 * want + 1e-30);
            sum += want;
        }
        assert_true(fabs(got - sum) <= 1e-4 * sum);
        assert_true(y[n] == 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_are_as_exact_as_floats),
                                       cmocka_unit_test(what_is_no_number_shows),
                                       cmocka_unit_test(exponentials_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
