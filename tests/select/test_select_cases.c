/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions, one aspect at a time: ends of waves, anchors, ties, flags, rules, listed problems, defaults, limits. */
#include "select/opened.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tw_artefact_anchor first_micro[] = {{1, 0}};

static tw_artefact small(const tw_artefact_macro *m, int n) {
    return (tw_artefact){.kernel = "k",
                         .unit = "us",
                         .device = "the device",
                         .alike = "its like",
                         .architecture = "its kind",
                         .about = "{}",
                         .axes = {"m", "k"},
                         .n_axes = 2,
                         .macros = m,
                         .n_macros = n};
}

static const char *const micros[] = {"a", "b", "c"};

static tw_artefact_macro constant(const char *name, tw_artefact_fit *f, double time) {
    *f = (tw_artefact_fit){.c = {0, 0, 0, (float)time}, .anchors = first_micro, .n_anchors = 1};
    return (tw_artefact_macro){.config = name, .slots = 1, .micros = micros, .n_micros = 3, .fits = f, .n_fits = 1};
}

static tw_selection ask(const tw_selector *s, int64_t m, int64_t k, unsigned flags) {
    tw_selection out;
    (void)tw_select_choose(s, (int64_t[]){m, k}, flags, &out);
    return out;
}

static void waves_end_where_slots_are_full(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[4];
    for (int i = 0; i < 4; i++)
        fits[i] = (tw_artefact_fit){
            .c = {0, 0, 0, (float)(100 + i)}, .anchors = first_micro, .n_anchors = 1, .samples = i, .error = 0.25};
    const tw_artefact_macro m = {.config = "only",
                                 .grid = {1},
                                 .rounds = {0, 1},
                                 .times = 2,
                                 .slots = 20,
                                 .micros = micros,
                                 .n_micros = 1,
                                 .fits = fits,
                                 .n_fits = 4};
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    static const struct {
        int64_t m;
        double time;
    } cases[] = {{1, 100},  {9, 100},  {10, 100}, {11, 101}, {20, 101},   {21, 102},
                 {30, 102}, {31, 103}, {40, 103}, {41, 103}, {1000, 103}, {TW_SELECT_MOST, 103}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(ask(f.s, cases[i].m, 1, 0).time == cases[i].time);
    const tw_selection s = ask(f.s, 1, 1, 0);
    assert_true(s.low == 75 && s.high == 125);
    end(&f);
}

static void the_nearest_anchor_has_the_micro_choice(void **state) {
    (void)state;
    fixture f = {0};
    static const tw_artefact_anchor some[] = {{10, 2}, {20, 1}, {40, 0}}, others[] = {{4, 1}, {26, 2}};
    const tw_artefact_fit fits[] = {{.c = {0, 0, 0, 5}, .anchors = some, .n_anchors = 3},
                                    {.c = {0, 0, 0, 5}, .anchors = others, .n_anchors = 2}};
    const tw_artefact_macro m = {.config = "",
                                 .grid = {1},
                                 .rounds = {0, 1},
                                 .slots = 1,
                                 .micros = micros,
                                 .n_micros = 3,
                                 .fits = fits,
                                 .n_fits = 2};
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    static const struct {
        int64_t m, l;
        int micro;
    } cases[] = {{1, 1, 2}, {1, 15, 2}, {1, 16, 1}, {1, 30, 1}, {1, 31, 0},  {1, TW_SELECT_MOST, 0},
                 {2, 1, 1}, {2, 15, 1}, {2, 16, 2}, {2, 20, 2}, {2, 1000, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_selection s = ask(f.s, cases[i].m, cases[i].l, 0);
        assert_int_equal(s.micro, cases[i].micro);
        assert_string_equal(s.config, micros[cases[i].micro]); /* The text of a macro choice may be empty. */
    }
    end(&f);
}

/* Floats do not tell G = 2^26 from its neighbours. A bound for fewer blocks would leave out the better choice. */
static void bounds_end_where_floats_do(void **state) {
    (void)state;
    fixture f = {0};
    const tw_artefact_fit fits[] = {{.c = {0, 1, 0, 0}, .anchors = first_micro, .n_anchors = 1},
                                    {.c = {0, 1, 0, 3e7f}, .anchors = first_micro, .n_anchors = 1}};
    tw_artefact_macro m[] = {{.config = "many", .grid = {1}, .times = 4, .slots = 1},
                             {.config = "few", .grid = {65535}, .slots = 1}};
    for (int i = 0; i < 2; i++) {
        m[i].micros = micros;
        m[i].n_micros = m[i].n_fits = 1;
        m[i].fits = &fits[i];
    }
    const tw_artefact a = small(m, 2);
    begin(&f, &a);
    assert_int_equal(ask(f.s, TW_SELECT_MOST, 1, 0).macro, 1);
    assert_int_equal(ask(f.s, 1 << 20, 1, 0).macro, 0);
    end(&f);
}

/* 100 L - 399.99 is 0.01 at L = 4. Coefficients of 20 bits are too coarse, so this artefact has floats. */
static void what_cancels_is_kept_in_floats(void **state) {
    (void)state;
    fixture f = {0};
    static const tw_artefact_anchor from_four[] = {{4, 0}, {8, 0}};
    const tw_artefact_fit fit = {.c = {0, 0, 100, -399.99f}, .anchors = from_four, .n_anchors = 2};
    const tw_artefact_macro m = {
        .config = "", .rounds = {0, 1}, .slots = 1, .micros = micros, .n_micros = 1, .fits = &fit, .n_fits = 1};
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    assert_int_equal(f.s->view.record_words, SELECT_WIDE);
    assert_true(fabs(ask(f.s, 1, 4, 0).time - 0.01) < 1e-4);
    assert_int_equal(ask(f.s, 1, 3, 0).source, TW_SELECT_DEFAULT);
    end(&f);
}

static void of_equal_ones_the_first_is_taken(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[3];
    const tw_artefact_macro m[] = {constant("slow", &fits[0], 8), constant("one", &fits[1], 7),
                                   constant("other", &fits[2], 7)};
    const tw_artefact a = small(m, 3);
    tw_selection best[5];
    begin(&f, &a);
    assert_string_equal(ask(f.s, 1, 1, 0).config, "one a");
    assert_int_equal(tw_select_best(f.s, (int64_t[]){1, 1}, 0, 5, best), 3);
    assert_int_equal(best[0].macro, 1);
    assert_int_equal(best[1].macro, 2);
    assert_int_equal(best[2].macro, 0);
    assert_int_equal(tw_select_best(f.s, (int64_t[]){1, 1}, 0, 2, best), 2);
    assert_int_equal(best[1].macro, 2);
    assert_int_equal(tw_select_best(f.s, (int64_t[]){1, 1}, 0, 0, best), 0);
    assert_int_equal(tw_select_best(f.s, (int64_t[]){0, 1}, 0, 2, best), -1);
    end(&f);
}

static void flags_leave_out(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[4];
    tw_artefact_macro m[] = {constant("atomic", &fits[0], 1), constant("vendor", &fits[1], 2),
                             constant("workspace", &fits[2], 3), constant("plain", &fits[3], 4)};
    m[0].properties = TW_MACRO_ATOMIC;
    m[1].properties = TW_MACRO_VENDOR;
    m[2].properties = TW_MACRO_WORKSPACE;
    const tw_artefact a = small(m, 4);
    begin(&f, &a);
    enum { D = TW_SELECT_DETERMINISTIC, N = TW_SELECT_NO_WORKSPACE, O = TW_SELECT_OWN_ONLY, V = TW_SELECT_VENDOR_ONLY };
    static const int expected[16] = {
        [0] = 0,      [D] = 1,          [N] = 0,          [D | N] = 1,         [O] = 0,     [D | O] = 2,
        [N | O] = 0,  [D | N | O] = 3,  [V] = 1,          [V | D] = 1,         [V | N] = 1, [V | D | N] = 1,
        [V | O] = -1, [V | O | D] = -1, [V | O | N] = -1, [V | O | D | N] = -1};
    for (int twice = 0; twice < 2; twice++)
        for (unsigned flags = 0; flags < 16; flags++) assert_int_equal(ask(f.s, 5, 5, flags).macro, expected[flags]);
    tw_selection s;
    assert_int_equal(tw_select_choose(f.s, (int64_t[]){1, 1}, 16, &s), TW_ERR_USAGE);
    assert_int_equal(s.source, TW_SELECT_NONE);
    assert_int_equal(tw_select_choose(f.s, (int64_t[]){1, 1}, V | O, &s), TW_ERR_UNSUPPORTED);
    assert_true(!s.config && s.macro == -1 && s.micro == -1 && !s.remembered);
    end(&f);
}

static void rules_leave_out(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[4];
    tw_artefact_macro m[] = {constant("multiple", &fits[0], 1), constant("least", &fits[1], 2),
                             constant("most", &fits[2], 3), constant("any", &fits[3], 4)};
    m[0].multiple[1] = 8;
    m[1].least[0] = 100;
    m[2].most[0] = 50;
    const tw_artefact a = small(m, 4);
    begin(&f, &a);
    static const struct {
        int64_t m, k;
        int macro;
    } cases[] = {{1, 8, 0}, {1, 16, 0}, {1, 7, 2}, {1, 12, 2}, {50, 1, 2}, {51, 1, 3}, {99, 1, 3}, {100, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(ask(f.s, cases[i].m, cases[i].k, 0).macro, cases[i].macro);
    end(&f);
}

static void axes_have_limits(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fit;
    const tw_artefact_macro m = constant("only", &fit, 1);
    const tw_artefact a = small(&m, 1);
    begin(&f, &a);
    static const int64_t wrong[] = {0, -1, TW_SELECT_MOST + 1, INT64_MAX, INT64_MIN, (int64_t)1 << 32 | 1};
    tw_selection s;
    tw_select_explanation e;
    char text[300];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int x = 0; x < 2; x++) {
            int64_t problem[2] = {1, 1};
            problem[x] = wrong[i];
            assert_int_equal(tw_select_choose(f.s, problem, 0, &s), TW_ERR_USAGE);
            assert_int_equal(s.source, TW_SELECT_NONE);
            assert_int_equal(tw_select_explain(f.s, problem, 0, TW_SELECT_SAME, &e), TW_ERR_USAGE);
            assert_int_equal(tw_select_explain_text(f.s, problem, 0, TW_SELECT_SAME, text, sizeof text), TW_ERR_USAGE);
            assert_non_null(strstr(text, "choice: none"));
        }
    assert_int_equal(tw_select_choose(f.s, (int64_t[]){1, TW_SELECT_MOST}, 0, &s), TW_OK);
    end(&f);
}

static void the_default_is_last(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[2];
    tw_artefact_macro m[] = {constant("negative", &fits[0], -1), constant("none", &fits[1], 1)};
    m[1].n_fits = 0;
    m[1].properties = TW_MACRO_VENDOR;
    m[1].most[0] = 9;
    tw_artefact a = small(m, 2);
    a.macro = 1;
    a.micro = 2;
    begin(&f, &a);
    const tw_selection s = ask(f.s, 9, 1, 0);
    assert_int_equal(s.source, TW_SELECT_DEFAULT);
    assert_string_equal(s.config, "none c");
    assert_true(s.time == 0);
    assert_int_equal(ask(f.s, 10, 1, 0).source, TW_SELECT_NONE);
    assert_int_equal(ask(f.s, 9, 1, TW_SELECT_OWN_ONLY).source, TW_SELECT_NONE);
    end(&f);
}

static void many_problems_are_listed(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fits[2];
    const tw_artefact_macro m[] = {constant("one", &fits[0], 5), constant("other", &fits[1], 6)};
    tw_artefact a = small(m, 2);
    enum { SIDE = 100 };
    tw_artefact_exact *e = calloc(SIDE * SIDE, sizeof *e);
    assert_non_null(e);
    for (int i = 0; i < SIDE * SIDE; i++) {
        e[i] = (tw_artefact_exact){.macro = i % 2, .micro = i % 3, .time = 1 + i, .second_macro = -1};
        e[i].problem[0] = 2 * (1 + i / SIDE);
        e[i].problem[1] = 3 * (1 + i % SIDE);
    }
    a.exact = e;
    a.n_exact = SIDE * SIDE;
    begin(&f, &a);
    for (int64_t x = 1; x <= 2 * SIDE; x++)
        for (int64_t y = 1; y <= 3 * SIDE; y++) {
            const tw_selection s = ask(f.s, x, y, 0);
            const int64_t i = (x / 2 - 1) * SIDE + y / 3 - 1;
            const bool there = x % 2 == 0 && y % 3 == 0;
            assert_int_equal(s.source, there ? TW_SELECT_EXACT : TW_SELECT_MODEL);
            assert_true(s.time == (there ? (double)(1 + i) : 5));
            if (there) assert_true(s.macro == i % 2 && s.micro == i % 3);
        }
    free(e);
    end(&f);
}

static void it_says_what_it_is_of(void **state) {
    (void)state;
    fixture f = {0};
    tw_artefact_fit fit;
    const tw_artefact_macro m = constant("only", &fit, 1);
    const tw_artefact a = small(&m, 1);
    tw_selector_info i;
    begin(&f, &a);
    tw_selector_describe(f.s, &i);
    assert_string_equal(i.kernel, "k");
    assert_string_equal(i.unit, "us");
    assert_string_equal(i.device, "the device");
    assert_string_equal(i.alike, "its like");
    assert_string_equal(i.architecture, "its kind");
    assert_string_equal(i.about, "{}");
    assert_string_equal(i.axes[0], "m");
    assert_string_equal(i.axes[1], "k");
    assert_true(!i.axes[2] && i.n_axes == 2 && i.macros == 1 && i.exact == 0 && i.bytes == f.s->map.size);
    assert_int_equal(tw_selector_match(f.s, "the device", "x", "y"), TW_SELECT_SAME);
    assert_int_equal(tw_selector_match(f.s, "x", "its like", "y"), TW_SELECT_ALIKE);
    assert_int_equal(tw_selector_match(f.s, "x", "y", "its kind"), TW_SELECT_ARCHITECTURE);
    assert_int_equal(tw_selector_match(f.s, "x", "y", "z"), TW_SELECT_OTHER);
    assert_string_equal(tw_select_match_name(TW_SELECT_ALIKE), "alike");
    assert_string_equal(tw_select_source_name(TW_SELECT_EXACT), "exact");
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waves_end_where_slots_are_full),
        cmocka_unit_test(the_nearest_anchor_has_the_micro_choice),
        cmocka_unit_test(bounds_end_where_floats_do),
        cmocka_unit_test(what_cancels_is_kept_in_floats),
        cmocka_unit_test(of_equal_ones_the_first_is_taken),
        cmocka_unit_test(flags_leave_out),
        cmocka_unit_test(rules_leave_out),
        cmocka_unit_test(axes_have_limits),
        cmocka_unit_test(the_default_is_last),
        cmocka_unit_test(many_problems_are_listed),
        cmocka_unit_test(it_says_what_it_is_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
