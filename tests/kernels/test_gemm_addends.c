/* SPDX-License-Identifier: Apache-2.0 */
/* Products whose parts along k are stored one behind another: they add up to the product, by every way to multiply. */
#include "support/support.h"

#include "kernels/gemm/generate.h"
#include "kernels/gemm/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_gemm_problem problem_of(const char *words) {
    char copy[300];
    tw_gemm_problem p;
    tw_diag d;
    snprintf(copy, sizeof copy, "%s", words);
    if (tw_gemm_problem_parse(&p, copy, &d) != TW_OK) fail_msg("%s: %s", words, d.message);
    return p;
}

static tw_gemm_config config_of(const tw_gemm_problem *p, const char *text) {
    tw_gemm_config c = tw_gemm_config_default(p);
    tw_diag d;
    if (tw_gemm_config_parse(&c, text, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
    return c;
}

/* Parts of equal lengths, of a shorter last one, and of none: 9 stages in 8 parts of 2. */
static void they_add_up(void **state) {
    (void)state;
    static const char own[] = "mma=2 ms=64 ml=64 ns=64 nl=64 u=64 ks=1 kl=1 vec=16 copy=0 stages=3 ";
    static const struct {
        const char *words, *config;
        bool whole; /* The configuration has all parameters that are not as usual. */
    } cases[] = {
        {"type=bf16 m=70 n=72 k=600 tb=1 out=f32 addends=3 tape=3x2x4 weights=1", "early=2", false},
        {"type=bf16 m=70 n=72 k=600 tb=1 out=f32 addends=5 tape=3x2x2a weights=1", "early=2 swap=1", false},
        {"type=bf16 m=70 n=200 k=600 tb=1 out=f32 addends=3 tape=3x2x4 weights=1", "early=2 group=1 multicast=4",
         false},
        {"type=bf16 m=70 n=72 k=600 tb=1 out=f32 addends=2 tape=3x2x4 weights=1", "early=2 swap=1 group=8 multicast=2",
         false},
        {"type=f16 m=33 n=72 k=513 tb=1 out=f32 lda=520 ldb=520 ldc=76 alpha=0.5 addends=8", "early=1", false},
        {"type=bf16 m=70 n=40 k=304 out=f32 addends=2 scale_rows=1 scale_columns=1", "staged=1", false},
        {"type=bf16 m=70 n=96 k=304 tb=1 out=f32 addends=2 sums=3 eps=0.01", "staged=2 nl=32 ns=32", false},
        {"type=tf32x3 m=40 n=24 k=200 tb=1 addends=3", "u=32", false},
        {"type=f32 m=21 n=30 k=77 addends=3", "", true},
        {"type=bf16 m=40 n=32 k=130 tb=1 out=f32 addends=4", "kl=2 u=32", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        const tw_gemm_problem p = problem_of(cases[i].words);
        snprintf(text, sizeof text, "%s%s", cases[i].whole ? "" : own, cases[i].config);
        const tw_gemm_config c = config_of(&p, text);
        assert_int_equal(c.kg, p.addends);
        tw_gemm_data d;
        tw_diag diag;
        assert_int_equal(tw_gemm_data_make(&d, &p, i, &diag), TW_OK);
        if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), i, NULL, &diag) != TW_OK)
            fail_msg("gemm %s %s\n  %s", cases[i].words, text, diag.message);
        tw_gemm_data_free(&d);
    }
}

/* Whoever compares adds all parts up, and knows the gaps of each. */
static void all_are_compared(void **state) {
    (void)state;
    enum { M = 3, N = 5, LD = 7, PARTS = 3, ALL = (PARTS * M - 1) * LD + N };
    tw_gemm_data d;
    tw_diag diag;
    float c[ALL], before[ALL];
    char words[100];
    snprintf(words, sizeof words, "type=f32 m=%d n=%d k=9 ldc=%d addends=%d", M, N, LD, PARTS);
    const tw_gemm_problem p = problem_of(words);
    assert_int_equal(tw_gemm_data_make(&d, &p, 1, &diag), TW_OK);
    assert_int_equal(d.bytes[TW_GEMM_C], sizeof c);
    memset(c, 0, sizeof c);
    for (int i = 0; i < M * N; i++) {
        float *cell = &c[i / N * LD + i % N];
        cell[0] = 1;
        cell[M * LD] = (float)d.want[i];
        cell[2 * M * LD] = -1;
    }
    memcpy(before, c, sizeof c);
    assert_int_equal(tw_gemm_data_compare(&d, c, NULL, NULL), 0);
    c[2 * M * LD + LD + 2] += 0.01f;
    c[2 * M * LD + LD + N] = 1;
    assert_int_equal(tw_gemm_data_compare(&d, c, NULL, NULL), 1);
    assert_int_equal(tw_gemm_data_gaps(&d, c, before), 1);
    tw_gemm_data_free(&d);
}

static void others_are_refused(void **state) {
    (void)state;
    static const char *const more[] = {"out=bf16", "batch=2",         "groups=2",   "beta=1",
                                       "bias=1",   "activation=silu", "residual=1", "squares=1",
                                       "mul=1",    "gated=1",         "addends=65", "scaled=1"};
    static const struct {
        const char *config, *why;
    } configs[] = {{"kg=2", "kg is their number"},
                   {"split=1", "addends are not joined"},
                   {"persistent=4 kg=4", "persistent blocks have all of k"}};
    const char *why = NULL;
    tw_diag d;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char words[120];
        tw_gemm_problem p;
        snprintf(words, sizeof words, "type=bf16 m=64 n=64 k=64 tb=1 out=f32 addends=4 %s", more[i]);
        if (tw_gemm_problem_parse(&p, words, &d) != TW_ERR_USAGE) fail_msg("%s is not refused", more[i]);
    }
    const tw_gemm_problem p = problem_of("type=bf16 m=64 n=64 k=512 tb=1 out=f32 addends=4");
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char text[200];
        snprintf(text, sizeof text, "mma=2 ms=64 ml=64 ns=64 nl=64 u=64 ks=1 kl=1 vec=16 stages=3 %s",
                 configs[i].config);
        const tw_gemm_config c = config_of(&p, text);
        assert_false(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why));
        if (!strstr(why, configs[i].why)) fail_msg("%s: %s", configs[i].config, why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(they_add_up), cmocka_unit_test(all_are_compared),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
