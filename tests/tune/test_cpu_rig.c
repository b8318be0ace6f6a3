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
                if (tw_cpu_rig_check(r, &d) != TW_OK) fail_msg("%s %s", tw_tiled_makers[by], d.message);
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
    /* Six heights by five widths, of our kernel and of each vendor, and strips. */
    assert_true(f.n_macros % 30 == 1 && f.n_macros >= 61);
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
    /* The default choice is the first baseline: it has the same tiles. */
    tw_tiled_config tiles[2];
    heard usual = {0};
    const tw_family_listener alone = {hear, NULL, &usual};
    const char *words = texts[MOST - 1];
    f.calls->baseline(f.self, 0, narrow, texts[MOST - 2], sizeof texts[0]);
    tw_family_config(&f, f.macro, f.micro, texts[MOST - 1], sizeof texts[0]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tw_gemm_cpu_tiles(&f, narrow, texts[MOST - 1 - i], &tiles[i], &d), TW_OK);
    assert_memory_equal(&tiles[0], &tiles[1], sizeof tiles[0]);
    if (f.calls->measure(f.self, narrow, &words, 1, &p, &alone, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(usual.right, 1);
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

/* Opens the recorded family of an environment. Fails the test on an error. */
static tw_family open_recorded(tw_panel_format weights, const char *environment) {
    tw_family f;
    tw_diag d;
    if (tw_gemm_cpu_recorded(&f, weights, environment, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(f.recorded);
    assert_string_equal(f.environment, environment);
    return f;
}

/* Each thread has a strip of columns and all rows. The strips of the first problem differ by a panel. Those of the
   second are wider than the panels that are unpacked for a vendor at a time. */
static void strips_are_measured(void **state) {
    (void)state;
    const tw_gemm_cpu_options o = {.weights = {TW_BF16, 0}, .threads = 2, .strips = true};
    static const int64_t problems[][TW_SELECT_AXES] = {{20, 48, 64}, {33, 1136, 128}};
    static const char *const makers[] = {"by=own", "by=openblas", "by=onednn"};
    tw_family f;
    tw_diag d;
    char words[100];
    if (tw_gemm_cpu_open(&f, &o, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(f.name, "gemm-cpu-bf16-strips");
    assert_in_range(f.n_macros, 2, 3);
    assert_true(f.shared && f.macro == 0 && f.micro == 0);
    for (int i = 0; i < f.n_macros; i++) {
        tw_family_config(&f, i, 0, words, sizeof words);
        assert_string_equal(words, makers[i]);
        assert_int_equal(f.macros[i].properties & TW_MACRO_VENDOR ? 1 : 0, i > 0);
        assert_true(tw_family_divide(&f, i, problems[0]).grid > 0);
    }
    for (int b = 0; b < f.n_baselines; b++) {
        f.calls->baseline(f.self, b, problems[0], words, sizeof words);
        assert_string_equal(words, makers[b]);
    }
    static const int own[] = {32, 576}, unpacked[] = {32, 512};
    for (int i = 0; i < 2; i++) {
        heard all = {0};
        const tw_family_listener listener = {hear, NULL, &all};
        const tw_measure_protocol p = {.samples = 2, .turns = true};
        for (int by = 0; by < f.n_macros; by++) {
            tw_tiled_config c;
            assert_int_equal(tw_gemm_cpu_tiles(&f, problems[i], makers[by], &c, &d), TW_OK);
            assert_true(c.by == by && c.tm >= problems[i][0] && c.tn == (by ? unpacked : own)[i]);
        }
        if (f.calls->measure(f.self, problems[i], makers, f.n_macros, &p, &listener, &d) != TW_OK)
            fail_msg("%s", d.message);
        assert_int_equal(all.right, f.n_macros);
    }
    tw_family_close(&f);
}

/* The recorded family of an environment equals the family that measured. */
static void families_are_recorded(void **state) {
    (void)state;
    static const tw_panel_format formats[] = {{TW_F32, 0}, {TW_I4, 64}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const int64_t problem[TW_SELECT_AXES] = {33, 256, 300};
        char here[200], there[200];
        tw_family f;
        tw_diag d;
        const tw_gemm_cpu_options o = {.weights = formats[i], .threads = 2};
        if (tw_gemm_cpu_open(&f, &o, &d) != TW_OK) fail_msg("%s", d.message);
        tw_family g = open_recorded(formats[i], f.environment);
        assert_string_equal(g.name, f.name);
        assert_string_equal(g.device, f.device);
        assert_string_equal(g.alike, f.alike);
        assert_string_equal(g.architecture, f.architecture);
        assert_true(g.n_macros == f.n_macros && g.macro == f.macro && g.micro == f.micro);
        assert_int_equal(g.n_baselines, f.n_baselines);
        for (int m = 0; m < f.n_macros; m++) {
            assert_int_equal(g.macros[m].n_micros, f.macros[m].n_micros);
            assert_int_equal(g.macros[m].slots, 2);
            tw_family_config(&f, m, f.macros[m].n_micros - 1, here, sizeof here);
            tw_family_config(&g, m, f.macros[m].n_micros - 1, there, sizeof there);
            assert_string_equal(here, there);
        }
        for (int b = 0; b < f.n_baselines; b++) {
            f.calls->baseline(f.self, b, problem, here, sizeof here);
            g.calls->baseline(g.self, b, problem, there, sizeof there);
            assert_string_equal(here, there);
        }
        tw_family_close(&g);
        tw_family_close(&f);
    }
}

#define ENVIRONMENT(THREADS, ISA, MORE)                                                                                \
    "{\"device\": \"X\", \"isa\": \"" ISA "\", \"openblas\": \"O\", \"threads\": " THREADS MORE "}"

/* A recorded family's choices depend on the threads, instructions and libraries of its processor alone. */
static void other_processors_are_recorded(void **state) {
    (void)state;
    const int64_t problem[TW_SELECT_AXES] = {33, 512, 300};
    char words[200];
    tw_family wide = open_recorded((tw_panel_format){TW_BF16, 0}, ENVIRONMENT("16", "avx2 avx512", ""));
    assert_string_equal(wide.device, "X, 16 threads");
    assert_string_equal(wide.alike, "x86-64 avx2 avx512, 16 threads");
    assert_int_equal(wide.n_macros, 61);
    assert_int_equal(wide.macros[0].slots, 16);
    wide.calls->baseline(wide.self, 0, problem, words, sizeof words);
    assert_non_null(strstr(words, " tn=32 "));
    /* Kernels in plain C and with AMX have no choice of blocks. */
    tw_family plain = open_recorded((tw_panel_format){TW_BF16, 0}, ENVIRONMENT("16", "none", ""));
    tw_family amx = open_recorded((tw_panel_format){TW_BF16, 0}, ENVIRONMENT("16", "amx", ""));
    assert_true(tw_family_configs(&wide) > tw_family_configs(&plain) &&
                tw_family_configs(&plain) == tw_family_configs(&amx));
    tw_family two = open_recorded((tw_panel_format){TW_BF16, 0}, ENVIRONMENT("16", "none", ", \"onednn\": \"3\""));
    assert_int_equal(two.n_macros, 91);
    tw_family *const all[] = {&wide, &plain, &amx, &two};
    for (int i = 0; i < 4; i++) tw_family_close(all[i]);
    static const char *const bad[] = {"{}",
                                      "what",
                                      "[]",
                                      ENVIRONMENT("0", "none", ""),
                                      ENVIRONMENT("1025", "none", ""),
                                      ENVIRONMENT("\"2\"", "none", ""),
                                      ENVIRONMENT("2", "", ""),
                                      ENVIRONMENT("2", "neon", ""),
                                      "{\"device\": \"X\", \"isa\": \"none\", \"threads\": 2}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_family f;
        tw_diag d;
        assert_int_equal(tw_gemm_cpu_recorded(&f, (tw_panel_format){TW_F32, 0}, bad[i], &d), TW_ERR_FORMAT);
        assert_non_null(strstr(d.message, "is no processor's environment"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_are_checked),    cmocka_unit_test(families_measure_their_choices),
        cmocka_unit_test(strips_are_measured),           cmocka_unit_test(families_are_recorded),
        cmocka_unit_test(other_processors_are_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
