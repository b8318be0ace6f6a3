/* SPDX-License-Identifier: Apache-2.0 */
/* Problems that are measured by name, in an artefact with a model and without one. */
#include "tune/toy_store.h"

#include "tilewright/select.h"
#include "tune/campaign.h"
#include "tune/train.h"

enum { CONFIGS = 3 * TOY_MACROS };
static const int64_t wanted[][TW_SELECT_AXES] = {{100, 48, 320}, {16, 512, 2048}};

/* Measures the wanted problems in all configurations. */
static void measure(toy *t, tw_store *s, const char *campaign) {
    static const tw_measure_protocol p = {.samples = 3};
    char texts[CONFIGS][100];
    const char *configs[CONFIGS];
    tw_campaign_progress progress = {0};
    tw_diag d;
    for (int i = 0; i < CONFIGS; i++) {
        tw_family_config(&t->family, i / 3, i % 3, texts[i], sizeof texts[i]);
        configs[i] = texts[i];
    }
    for (int i = 0; i < 2; i++)
        if (tw_campaign_measure(&t->family, s, campaign, TW_TRIALS_EXACT, wanted[i], configs, CONFIGS, &p, NULL, NULL,
                                &progress, &d) != TW_OK)
            fail_msg("%s", d.message);
    assert_int_equal(progress.measured, 2 * CONFIGS);
}

static void train(toy *t, tw_store *s, tw_trained *out) {
    tw_diag d;
    if (tw_train(&t->family, s, NULL, artefact, out, &d) != TW_OK) fail_msg("%s", d.message);
}

/* The artefact lists the fastest configuration of each wanted problem, and the second. */
static void expect_listed(const toy *t) {
    tw_selector *s;
    tw_diag d;
    if (tw_selector_open(&s, artefact, &d) != TW_OK) fail_msg("%s", d.message);
    for (int i = 0; i < 2; i++) {
        double least = (double)INFINITY, second = (double)INFINITY;
        char best[100] = "", next[100] = "", config[100];
        for (int c = 0; c < CONFIGS; c++) {
            tw_family_config(&t->family, c / 3, c % 3, config, sizeof config);
            const double time = toy_time(&t->family, config, wanted[i]);
            if (time < least) {
                second = least;
                memcpy(next, best, sizeof next);
                least = time;
                memcpy(best, config, sizeof best);
            } else if (time < second) {
                second = time;
                memcpy(next, config, sizeof next);
            }
        }
        tw_select_explanation e;
        assert_int_equal(tw_select_explain(s, wanted[i], 0, TW_SELECT_UNKNOWN, &e), TW_OK);
        assert_int_equal(e.choice.source, TW_SELECT_EXACT);
        assert_string_equal(e.choice.config, best);
        assert_string_equal(e.second.config, next);
        assert_true(fabs(e.choice.time - least) < 1e-3 * least);
        assert_true(fabs(e.second.time - second) < 1e-3 * second);
    }
    tw_selector_close(s);
}

static tw_select_source source_of(const int64_t *problem) {
    tw_selector *s;
    tw_selection choice;
    tw_diag d;
    if (tw_selector_open(&s, artefact, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_select_choose(s, problem, 0, &choice), TW_OK);
    tw_selector_close(s);
    return choice.source;
}

static void problems_are_listed(void **state) {
    (void)state;
    static const int64_t other[TW_SELECT_AXES] = {99, 48, 320};
    static const tw_campaign_options o = {
        .name = "tune", .screens = 15, .thorough = true, .cover = 1, .spread = 20, .samples = 3, .seed = 1};
    toy t;
    tw_store *s;
    tw_diag d;
    tw_trained trained;
    toy_open(&t);
    s = open_store();
    assert_int_equal(tw_train(&t.family, s, NULL, artefact, &trained, &d), TW_ERR_USAGE);
    measure(&t, s, "model");
    train(&t, s, &trained);
    assert_string_equal(trained.form, "none");
    expect_listed(&t);
    assert_int_equal(source_of(other), TW_SELECT_DEFAULT);
    /* The model has one configuration. Those that are listed are others. */
    if (tw_campaign_run(&t.family, s, &o, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    train(&t, s, &trained);
    assert_string_equal(trained.form, "spline");
    expect_listed(&t);
    assert_int_equal(source_of(other), TW_SELECT_MODEL);
    /* What several campaigns measured is listed once. */
    measure(&t, s, "another");
    train(&t, s, &trained);
    expect_listed(&t);
    tw_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(problems_are_listed)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
