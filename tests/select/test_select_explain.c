/* SPDX-License-Identifier: Apache-2.0 */
/* Explanations: the fields and lines of artefacts with known numbers. */
#include "select/opened.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tw_artefact_anchor anchors[] = {{2, 0}, {8, 1}};
static const char *const micros[] = {"stages=2", "stages=4"};

/* Constant times of the first, the second and all later waves. */
static const tw_artefact_fit own[] = {
    {.c = {0, 0, 0, 10}, .anchors = anchors, .n_anchors = 2, .samples = 40, .error = 0.125},
    {.c = {0, 0, 0, 20}, .anchors = anchors, .n_anchors = 2, .samples = 30, .error = 0.125},
    {.c = {0, 0, 0, 30}, .anchors = anchors, .n_anchors = 2, .samples = 99999, .error = 0.25}};
static const tw_artefact_fit vendor[] = {
    {.c = {0, 0, 0, 15}, .anchors = anchors, .n_anchors = 2, .samples = 7, .error = 0.5}};
static const tw_artefact_fit split[] = {
    {.c = {0, 0, 0, 9}, .anchors = anchors, .n_anchors = 2, .samples = 7, .error = 0.5}};

static const tw_artefact_macro macros[] = {
    {.config = "by=own",
     .grid = {64, 64},
     .rounds = {0, 0, 32},
     .slots = 4,
     .micros = micros,
     .n_micros = 2,
     .fits = own,
     .n_fits = 3},
    {.config = "by=vendor",
     .properties = TW_MACRO_VENDOR,
     .slots = 1,
     .micros = micros,
     .n_micros = 2,
     .fits = vendor,
     .n_fits = 1},
    {.config = "by=split",
     .properties = TW_MACRO_ATOMIC | TW_MACRO_WORKSPACE,
     .multiple = {0, 0, 512},
     .slots = 1,
     .micros = micros,
     .n_micros = 2,
     .fits = split,
     .n_fits = 1},
    {.config = "by=nothing", .slots = 1, .micros = micros, .n_micros = 2},
};

static const tw_artefact_exact exact[] = {
    {.problem = {7, 7, 7}, .macro = 1, .micro = 0, .time = 4, .second_macro = 0, .second_micro = 1, .second_time = 5},
    {.problem = {9, 9, 9}, .macro = 1, .micro = 0, .time = 4, .second_macro = -1}};

static fixture opened;

static int setup(void **state) {
    (void)state;
    const tw_artefact a = {.kernel = "gemm",
                           .unit = "us",
                           .device = "this one",
                           .alike = "alike",
                           .architecture = "kind",
                           .about = "{}",
                           .axes = {"m", "n", "k"},
                           .n_axes = 3,
                           .macros = macros,
                           .n_macros = 4,
                           .exact = exact,
                           .n_exact = 2,
                           .macro = 3,
                           .micro = 1};
    begin(&opened, &a);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    end(&opened);
    return 0;
}

static tw_select_explanation explain(int64_t m, int64_t n, int64_t k, unsigned flags) {
    tw_select_explanation e;
    (void)tw_select_explain(opened.s, (int64_t[]){m, n, k}, flags, TW_SELECT_ALIKE, &e);
    return e;
}

static void a_prediction_has_its_evidence(void **state) {
    (void)state;
    /* The problem has 6 blocks of 32 rounds on 4 slots. */
    tw_select_explanation e = explain(128, 192, 1000, TW_SELECT_DETERMINISTIC);
    assert_int_equal(e.choice.source, TW_SELECT_MODEL);
    assert_string_equal(e.choice.config, "by=vendor stages=2");
    assert_true(e.choice.time == 15 && e.predicted == 15 && e.error == 0.5);
    assert_true(e.grid == 1 && e.rounds == 1 && e.waves == 1 && e.slots == 1 && e.fit == 1 && e.beyond);
    assert_int_equal(e.samples, 7);
    assert_string_equal(e.second.config, "by=own stages=4");
    assert_true(e.second.time == 20 && fabs(e.behind - 1.0 / 3) < 1e-12);
    assert_int_equal(e.match, TW_SELECT_ALIKE);
    e = explain(128, 192, 1000, TW_SELECT_OWN_ONLY);
    assert_string_equal(e.choice.config, "by=own stages=4");
    assert_true(e.grid == 6 && e.rounds == 32 && e.waves == 2 && e.slots == 4 && e.fit == 2 && !e.beyond);
    assert_true(e.samples == 30 && e.error == 0.125 && e.second.source == TW_SELECT_NONE && e.behind == 0);
    e = explain(640, 640, 33, TW_SELECT_OWN_ONLY);
    assert_true(e.grid == 100 && e.rounds == 2 && e.waves == 25 && e.fit == 3 && e.beyond && e.samples == 65535);
    assert_string_equal(e.choice.config, "by=own stages=2");
}

static void what_is_left_out_counts_once(void **state) {
    (void)state;
    enum { D = TW_SELECT_DETERMINISTIC, N = TW_SELECT_NO_WORKSPACE, O = TW_SELECT_OWN_ONLY, V = TW_SELECT_VENDOR_ONLY };
    static const struct {
        unsigned flags;
        int64_t k;
        int atomic, workspace, vendor, own, illegal, unknown;
    } cases[] = {{0, 512, 0, 0, 0, 0, 0, 1}, {0, 511, 0, 0, 0, 0, 1, 1}, {D | N, 511, 1, 0, 0, 0, 0, 1},
                 {N, 512, 0, 1, 0, 0, 0, 1}, {O, 512, 0, 0, 1, 0, 0, 1}, {V, 512, 0, 0, 0, 3, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_select_explanation e = explain(64, 64, cases[i].k, cases[i].flags);
        assert_int_equal(e.macros, 4);
        assert_int_equal(e.atomic, cases[i].atomic);
        assert_int_equal(e.workspace, cases[i].workspace);
        assert_int_equal(e.vendor, cases[i].vendor);
        assert_int_equal(e.own, cases[i].own);
        assert_int_equal(e.illegal, cases[i].illegal);
        assert_int_equal(e.unknown, cases[i].unknown);
    }
}

static void a_listed_problem_has_its_second(void **state) {
    (void)state;
    tw_select_explanation e = explain(7, 7, 7, 0);
    assert_int_equal(e.choice.source, TW_SELECT_EXACT);
    assert_string_equal(e.second.config, "by=own stages=4");
    assert_true(e.choice.time == 4 && e.second.time == 5 && e.behind == 0.25 && e.predicted == 15);
    e = explain(7, 7, 7, TW_SELECT_OWN_ONLY);
    assert_string_equal(e.choice.config, "by=own stages=4");
    assert_true(e.choice.source == TW_SELECT_EXACT && e.second.source == TW_SELECT_NONE);
    e = explain(9, 9, 9, 0);
    assert_true(e.choice.source == TW_SELECT_EXACT && e.second.source == TW_SELECT_NONE);
    e = explain(7, 7, 7, TW_SELECT_VENDOR_ONLY);
    assert_true(e.choice.macro == 1 && e.second.source == TW_SELECT_NONE);
}

static void expect_lines(int64_t m, int64_t n, int64_t k, unsigned flags, tw_select_match match, const char *lines) {
    char text[2000];
    (void)tw_select_explain_text(opened.s, (int64_t[]){m, n, k}, flags, match, text, sizeof text);
    assert_string_equal(text, lines);
    /* A text cut at any length is a prefix of the whole text. */
    for (size_t room = 0; room <= strlen(lines) + 1; room++) {
        char cut[2000];
        memset(cut, '#', sizeof cut);
        (void)tw_select_explain_text(opened.s, (int64_t[]){m, n, k}, flags, match, cut, room);
        for (size_t i = room; i < sizeof cut; i++) assert_int_equal(cut[i], '#');
        if (room) assert_int_equal(strlen(cut), room - 1);
        if (room) assert_memory_equal(cut, lines, room - 1);
    }
}

static void lines_say_it_all(void **state) {
    (void)state;
    expect_lines(128, 192, 1000, TW_SELECT_OWN_ONLY, TW_SELECT_SAME,
                 "choice: by=own stages=4 (the least prediction)\n"
                 "predicted: 20 us, 9 of 10 times from 17.5 to 22.5\n"
                 "work: G = 6 blocks of L = 32 rounds on 4 slots: 2 waves\n"
                 "evidence: the fit of wave 2, 30 samples, 9 of 10 residuals within 12.5 %\n"
                 "left out: 3 of 4 macro choices: 1 of a vendor's, 1 that cannot compute this problem, 1 without a "
                 "prediction\n"
                 "measured on: this one (this device)\n");
    expect_lines(640, 640, 512, TW_SELECT_OWN_ONLY | TW_SELECT_DETERMINISTIC, TW_SELECT_ALIKE,
                 "choice: by=own stages=4 (the least prediction)\n"
                 "predicted: 30 us, 9 of 10 times from 22.5 to 37.5\n"
                 "work: G = 100 blocks of L = 16 rounds on 4 slots: 25 waves\n"
                 "evidence: the fit of wave 3 and later, 65535 or more samples, 9 of 10 residuals within 25 %\n"
                 "left out: 3 of 4 macro choices: 1 that sum atomically, 1 of a vendor's, 1 without a prediction\n"
                 "measured on: this one (one of this kind, so this is a prior)\n");
    expect_lines(7, 7, 7, 0, TW_SELECT_ARCHITECTURE,
                 "choice: by=vendor stages=2 (the fastest measured: this problem is listed)\n"
                 "measured: 4 us\n"
                 "predicted: 15 us, 9 of 10 times from 7.5 to 22.5\n"
                 "work: G = 1 blocks of L = 1 rounds on 1 slots: 1 wave\n"
                 "evidence: the fit of wave 1 and later, 7 samples, 9 of 10 residuals within 50 %\n"
                 "second: by=own stages=4: 5 us, 25 % more\n"
                 "left out: 2 of 4 macro choices: 1 that cannot compute this problem, 1 without a prediction\n"
                 "measured on: this one (one of this architecture, so this is a prior)\n");
    expect_lines(64, 64, 64, TW_SELECT_OWN_ONLY | TW_SELECT_VENDOR_ONLY, TW_SELECT_OTHER,
                 "choice: none (nothing is allowed)\n"
                 "left out: 4 of 4 macro choices: 1 of a vendor's, 3 of our own\n"
                 "measured on: this one (another device, so this is a guess)\n");
    expect_lines(64, 64, 64, TW_SELECT_OWN_ONLY | TW_SELECT_VENDOR_ONLY, TW_SELECT_UNKNOWN,
                 "choice: none (nothing is allowed)\n"
                 "left out: 4 of 4 macro choices: 1 of a vendor's, 3 of our own\n"
                 "measured on: this one (not compared with a device here)\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prediction_has_its_evidence),
        cmocka_unit_test(what_is_left_out_counts_once),
        cmocka_unit_test(a_listed_problem_has_its_second),
        cmocka_unit_test(lines_say_it_all),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
