/* SPDX-License-Identifier: Apache-2.0 */
/* What the search tries, on a stand-in for the driver whose kernels are all right and equally fast. */
#define _GNU_SOURCE
#include "tune/fake_rig.h"

#include "kernels/gemm/space.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static fake_rig f;
static tw_gemm_config tried[MOST];
static int n_tried;

static int setup(void **state) {
    (void)state;
    const tw_gemm_problem problem = {.type = TW_GEMM_F32, .m = 64, .n = 64, .k = 1024, .alpha = 1};
    return fake_rig_open(&f, &problem, 1);
}

static int teardown(void **state) {
    (void)state;
    return fake_rig_close(&f);
}

static tw_status note(void *context, const tw_gemm_config *c, const tw_measured *m, tw_diag *diag) {
    (void)context, (void)diag;
    assert_int_equal(m->status, TW_OK);
    assert_int_equal(m->time.n, 3);
    assert_true(n_tried < MOST && m->time.median > 9.9 && m->time.median < 10.1);
    for (int i = 0; i < 3; i++) assert_true(m->samples[i] >= m->time.min && m->samples[i] <= m->time.max);
    assert_true(m->began > INT64_C(1700000000) * 1000000000);
    tried[n_tried++] = *c;
    return TW_OK;
}

static tw_gemm_search_report search(tw_gemm_search_options o) {
    tw_gemm_found found;
    tw_gemm_search_report report;
    tw_diag d;
    int n = 0;
    o.compiler = tw_ptx_compiler_for(f.cuda, false);
    o.measured_one = note;
    n_tried = 0;
    if (tw_gemm_search(f.rig, f.cuda, &f.data, &o, 1, &found, &n, &report, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(n, n_tried > 0);
    if (n) tw_cubin_free(&found.cubin);
    return report;
}

/* Sums in any order are for those who can do with them; turns are waited for where they are few. */
static void splits_are_tried_where_they_may(void **state) {
    (void)state;
    static const struct {
        tw_join_way split;
        int kg;
        bool usually, deterministic;
    } cases[] = {
        {TW_JOIN_LAST, 1, true, true},    {TW_JOIN_LAST, 17, true, true},     {TW_JOIN_SERIAL, 2, true, true},
        {TW_JOIN_SERIAL, 16, true, true}, {TW_JOIN_ATOMIC, 2, true, false},   {TW_JOIN_ATOMIC, 17, true, false},
        {TW_JOIN_CLUSTER, 2, true, true}, {TW_JOIN_SERIAL, 17, false, false}, {TW_JOIN_SERIAL, 32, false, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int deterministic = 0; deterministic < 2; deterministic++) {
            tw_gemm_config c = tw_gemm_config_default(&f.data.problem);
            c.split = cases[i].split;
            c.kg = cases[i].kg;
            search((tw_gemm_search_options){.known = &c, .n_known = 1, .sampled = 1, .deterministic = deterministic});
            const bool want = deterministic ? cases[i].deterministic : cases[i].usually;
            if (n_tried != want) fail_msg("split=%d kg=%d: tried %d times", c.split, c.kg, n_tried);
            if (want) assert_true(tried[0].split == c.split && tried[0].kg == c.kg);
        }
    /* One part is not split, whatever it says. */
    tw_gemm_config c = tw_gemm_config_default(&f.data.problem);
    c.split = TW_JOIN_ATOMIC;
    search((tw_gemm_search_options){.known = &c, .n_known = 1, .sampled = 1, .deterministic = true});
    assert_int_equal(n_tried, 1);
}

/* What is drawn is legal, so that few draws are lost to what is not tried. */
static void most_draws_count(void **state) {
    (void)state;
    enum { SAMPLED = 400 };
    const tw_gemm_search_report report = search((tw_gemm_search_options){.sampled = SAMPLED, .measured = 8, .seed = 3});
    assert_true(report.sampled <= SAMPLED && report.sampled > SAMPLED * 2 / 3);
    assert_true(report.built == 8 && n_tried == 8 && !report.failed && !report.wrong);
}

/* Counts the parameters in which two configurations differ. */
static int differences(const tw_gemm_config *a, const tw_gemm_config *b) {
    int n = 0;
    for (int i = 0; i < tw_gemm_space.n; i++)
        n += tw_space_get(&tw_gemm_space, a, i) != tw_space_get(&tw_gemm_space, b, i);
    return n;
}

/* Each of a later generation is near one that was measured before, and none is measured again. With this seed the first
   generation has no two alike. */
static void offspring_are_new(void **state) {
    (void)state;
    enum { FIRST = 8, GENERATIONS = 3, OFFSPRING = 10, ALL = 1 + FIRST + GENERATIONS * OFFSPRING };
    const tw_gemm_config known = tw_gemm_config_default(&f.data.problem);
    const tw_gemm_search_report report = search((tw_gemm_search_options){.known = &known,
                                                                         .n_known = 1,
                                                                         .sampled = 60,
                                                                         .measured = FIRST,
                                                                         .generations = GENERATIONS,
                                                                         .offspring = OFFSPRING,
                                                                         .seed = 3});
    assert_int_equal(report.built, ALL);
    assert_int_equal(n_tried, ALL);
    for (int i = 0; i < ALL; i++) {
        int nearest = tw_gemm_space.n;
        for (int j = 0; j < i; j++) {
            const int n = differences(&tried[i], &tried[j]);
            assert_int_not_equal(n, 0);
            if (n < nearest) nearest = n;
        }
        /* Up to three parameters are changed; others may follow into the plain spelling. */
        if (i > FIRST && nearest > 4) fail_msg("configuration %d differs in %d parameters", i, nearest);
    }
}

/* What is drawn as a usual choice may be split along k in every way, since few tiles leave most of a GPU idle. */
static void usual_draws_are_split(void **state) {
    (void)state;
    int n[TW_JOIN_WAYS] = {0};
    for (uint64_t seed = 1; seed <= 10; seed++) {
        search((tw_gemm_search_options){.sampled = 200, .measured = 20, .seed = seed});
        for (int i = 0; i < n_tried; i++)
            if (tried[i].kg > 1) n[tried[i].split]++;
    }
    assert_true(n[TW_JOIN_CLUSTER] > 40 && n[TW_JOIN_ATOMIC] > 0);
}

/* Nothing that was measured has no offspring. */
static void nothing_may_be_measured(void **state) {
    (void)state;
    const tw_gemm_search_report report =
        search((tw_gemm_search_options){.sampled = 8, .generations = 4, .offspring = 16, .seed = 3});
    assert_true(report.sampled > 0 && !report.built && !n_tried);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(splits_are_tried_where_they_may, setup, teardown),
        cmocka_unit_test_setup_teardown(most_draws_count, setup, teardown),
        cmocka_unit_test_setup_teardown(offspring_are_new, setup, teardown),
        cmocka_unit_test_setup_teardown(usual_draws_are_split, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_may_be_measured, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
