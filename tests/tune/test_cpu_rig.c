/* SPDX-License-Identifier: Apache-2.0 */
/* The rig and the family of products on this processor. */
#include "support/support.h"

#include "base/diag.h"
#include "tune/cpu_rig.h"
#include "tune/gemm_cpu.h"

#include <stdio.h>
#include <string.h>

static void configurations_are_checked(void **state) {
    (void)state;
    static const tw_panel_format formats[] = {{TW_F32, 0}, {TW_BF16, 0}, {TW_I8, 0}, {TW_I4, 32}};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        tw_cpu_rig *r;
        tw_diag d;
        if (tw_cpu_rig_make(&r, formats[f], 2, &d) != TW_OK) fail_msg("%s", d.message);
        const tw_cpu_rig_info *info = tw_cpu_rig_describe(r);
        assert_int_equal(info->threads, 2);
        assert_int_equal(tw_cpu_rig_open(r, 5, 40, 64, &d), TW_ERR_UNSUPPORTED);
        /* Sizes go up and down, since the rig keeps memory between problems. */
        static const int64_t problems[][3] = {{20, 160, 300}, {3, 32, 64}, {70, 320, 200}};
        for (int p = 0; p < 3; p++) {
            if (tw_cpu_rig_open(r, problems[p][0], problems[p][1], problems[p][2], &d) != TW_OK)
                fail_msg("%s", d.message);
            for (int by = 0; by <= info->any.vendors; by++) {
                const tw_tiled_config c = {by, 16, 64, 512, 48, by % 2};
                double us = 0;
                assert_int_equal(tw_cpu_rig_set(r, &c, &d), TW_OK);
                if (tw_cpu_rig_check(r, &d) != TW_OK) fail_msg("%s %s", tw_tiled_by(by), d.message);
                assert_int_equal(tw_cpu_rig_sample(r, &us, &d), TW_OK);
                assert_true(us > 0);
                assert_int_equal(tw_cpu_rig_check(r, &d), TW_OK);
            }
        }
        const tw_tiled_config absent = {info->any.vendors + 1, 16, 64, 512, 48, 0};
        if (absent.by <= 2) assert_int_equal(tw_cpu_rig_set(r, &absent, NULL), TW_ERR_UNSUPPORTED);
        tw_cpu_rig_free(r);
    }
    tw_cpu_rig_free(NULL);
}

typedef struct heard {
    int n, right;
} heard;

static tw_status hear(void *context, const tw_measured *m, tw_diag *diag) {
    heard *h = context;
    (void)diag;
    assert_int_equal(m->candidate, h->n);
    h->n++;
    h->right += m->status == TW_OK && m->time.n == 2 && m->time.min > 0;
    return TW_OK;
}

/* Every legal choice of a problem is measured and correct. */
static void families_measure_their_choices(void **state) {
    (void)state;
    enum { MOST = 700 };
    tw_family f;
    tw_diag d;
    const tw_gemm_cpu_options o = {.weights = {TW_BF16, 0}, .threads = 2};
    if (tw_gemm_cpu_open(&f, &o, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(f.name, "gemm-cpu-bf16");
    assert_non_null(strstr(f.environment, "\"threads\": 2"));
    /* Six heights by five widths, of our kernel and of each vendor. */
    assert_true(f.n_macros % 30 == 0 && f.n_macros >= 60);
    const int64_t problem[TW_SELECT_AXES] = {33, 256, 300};
    static char texts[MOST][200];
    const char *configs[MOST];
    int n = 0;
    for (int m = 0; m < f.n_macros; m++)
        for (int i = 0; i < f.macros[m].n_micros && tw_family_divide(&f, m, problem).grid; i++) {
            assert_true(n < MOST - 2);
            tw_family_config(&f, m, i, texts[n], sizeof texts[n]);
            configs[n] = texts[n];
            n++;
        }
    for (int b = 0; b < f.n_baselines; b++, n++) {
        f.calls->baseline(f.self, b, problem, texts[n], sizeof texts[n]);
        configs[n] = texts[n];
    }
    const tw_measure_protocol p = {.samples = 2};
    /* Baselines can be measured even where a thread has few columns. */
    const int64_t narrow[TW_SELECT_AXES] = {20, 32, 64};
    for (int b = 0; b < f.n_baselines; b++) {
        heard one = {0};
        const char *words = texts[MOST - 1];
        const tw_family_listener listener = {hear, NULL, &one};
        f.calls->baseline(f.self, b, narrow, texts[MOST - 1], sizeof texts[0]);
        if (f.calls->measure(f.self, narrow, &words, 1, &p, &listener, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(one.right, 1);
    }
    heard h = {0};
    const tw_family_listener l = {hear, NULL, &h};
    const int step = TEST_SANITIZED ? 11 : 3; /* Samples last half a millisecond each. */
    int asked = 0;
    for (int i = 0; i < n; i += step) configs[asked++] = texts[i];
    if (f.calls->measure(f.self, problem, configs, asked, &p, &l, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(h.n == asked && h.right == asked);
    tw_family_close(&f);
    tw_family_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_are_checked),
        cmocka_unit_test(families_measure_their_choices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
