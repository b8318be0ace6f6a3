/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring the configurations that a model ranks first: for one problem, and as a strategy of an evaluation. */
#include "tune/toy_store.h"

#include "tilewright/select.h"
#include "tune/again.h"
#include "tune/rivals.h"
#include "tune/train.h"

enum { CONFIGS = 3 * TOY_MACROS };
static const int64_t problem[TW_SELECT_AXES] = {100, 48, 320};

/* Returns the least time of the problem in all configurations. */
static double least_time(const toy *t) {
    double least = (double)INFINITY;
    char config[100];
    for (int i = 0; i < CONFIGS; i++) {
        tw_family_config(&t->family, i / 3, i % 3, config, sizeof config);
        least = fmin(least, toy_time(&t->family, config, problem));
    }
    return least;
}

static tw_again_result again(toy *t, tw_store *s, const tw_again_options *o) {
    tw_again_result r;
    tw_diag d;
    if (tw_again(&t->family, s, problem, o, &r, &d) != TW_OK) fail_msg("%s", d.message);
    return r;
}

static void campaign(toy *t, tw_store *s) {
    static const tw_campaign_options o = {
        .name = "tune", .screens = 15, .thorough = true, .cover = 6, .spread = 20, .samples = 3, .seed = 1};
    tw_diag d;
    if (tw_campaign_run(&t->family, s, &o, NULL, &d) != TW_OK) fail_msg("%s", d.message);
}

static void the_fastest_is_found_and_listed(void **state) {
    (void)state;
    static const tw_again_options o = {.name = "again", .form = TW_MODEL_SPLINE, .k = 3, .first = 4};
    toy t;
    toy_open(&t);
    tw_store *s = open_store();
    campaign(&t, s);
    t.measured = 0;
    tw_again_result r = again(&t, s, &o);
    /* Three configurations once, and the same three in turn. */
    assert_int_equal(t.measured, 6);
    assert_true(r.legal == CONFIGS && r.progress.measured == 6 && r.learned > 100 && !r.progress.cut);
    assert_in_range(r.rank, 1, 3);
    assert_true(fabs(r.time - least_time(&t)) < 1e-9 * r.time);
    assert_true(r.second_time >= r.time && *r.second && strcmp(r.second, r.config) != 0);
    /* The artefact lists the problem, and the same run again measures nothing. */
    tw_trained trained;
    tw_diag d;
    tw_selector *selector;
    tw_selection choice;
    assert_int_equal(tw_train(&t.family, s, NULL, artefact, &trained, &d), TW_OK);
    assert_int_equal(tw_selector_open(&selector, artefact, &d), TW_OK);
    assert_int_equal(tw_select_choose(selector, problem, 0, &choice), TW_OK);
    assert_int_equal(choice.source, TW_SELECT_EXACT);
    assert_string_equal(choice.config, r.config);
    tw_selector_close(selector);
    r = again(&t, s, &o);
    assert_true(t.measured == 6 && r.progress.had == 6 && fabs(r.time - least_time(&t)) < 1e-9 * r.time);
    tw_store_close(s);
}

/* Without trials some configurations are drawn and measured first. The fastest of them is measured again with those
   that the model ranks first. */
static void nothing_is_needed_beforehand(void **state) {
    (void)state;
    tw_again_options o = {.name = "again", .form = TW_MODEL_ANALYTIC, .k = 1, .first = CONFIGS, .seed = 5};
    toy t;
    toy_open(&t);
    tw_store *s = open_store();
    tw_again_result r = again(&t, s, &o);
    assert_int_equal(r.learned, CONFIGS);
    assert_true(fabs(r.time - least_time(&t)) < 1e-9 * r.time);
    /* All legal configurations need no model. */
    o = (tw_again_options){.name = "all"};
    t.measured = 0;
    r = again(&t, s, &o);
    assert_int_equal(t.measured, CONFIGS + TW_AGAIN_LAST);
    assert_true(!r.rank && !r.learned && fabs(r.time - least_time(&t)) < 1e-9 * r.time);
    tw_store_close(s);
}

static void runs_end_early(void **state) {
    (void)state;
    tw_again_options o = {.name = "again", .form = TW_MODEL_SPLINE, .k = 3, .first = 4, .interrupted = toy_interrupted};
    toy t;
    tw_diag d;
    tw_again_result r;
    toy_open(&t);
    tw_store *s = open_store();
    campaign(&t, s);
    o.context = &t;
    for (int end = 0; end < 6; end++) {
        t.end = 0;
        o.name = "interrupted";
        if (tw_again(&t.family, s, problem, &o, &r, &d) != TW_OK) fail_msg("%s", d.message);
        assert_true(!*r.config && !t.end);
    }
    /* The three configurations are tried, and the run ends while they are measured in turn. */
    t.end = 4;
    o.name = "interrupted at last";
    if (tw_again(&t.family, s, problem, &o, &r, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(r.progress.cut && r.progress.measured == 4);
    /* A budget that is over lets nothing be tried. */
    t.end = -1;
    o.name = "late";
    o.seconds = 1e-9;
    t.end = 0;
    o.interrupted = NULL;
    r = again(&t, s, &o);
    assert_true(r.progress.cut && !*r.config && !r.time);
    t.family.recorded = true;
    tw_again_result none;
    assert_int_equal(tw_again(&t.family, s, problem, &o, &none, &d), TW_ERR_UNSUPPORTED);
    tw_store_close(s);
}

/* ---- strategies */

typedef struct judged {
    int problems;
    double worst[2]; /* The least share of each of the two strategies that come after the baseline. */
} judged;

static tw_status judge(void *context, const tw_evaluation *e, tw_diag *diag) {
    judged *j = context;
    (void)diag;
    assert_int_equal(e->n, 3);
    for (int i = 0; i < 2; i++) j->worst[i] = fmin(j->worst[i], e->of[i + 1].share);
    j->problems++;
    return TW_OK;
}

static void strategies_choose_the_fastest_of_many(void **state) {
    (void)state;
    toy t;
    tw_diag d;
    tw_rivals rivals;
    judged j = {.worst = {1, 1}};
    toy_open(&t);
    tw_store *s = open_store();
    campaign(&t, s);
    assert_int_equal(tw_rivals_open(&rivals, &t.family, s, "analytic,analytic-again", NULL, &d), TW_OK);
    assert_string_equal(rivals.list[1].name, "analytic-again");
    const tw_evaluate_options o = {.name = "eval",
                                   .problems = 10,
                                   .seed = 1000,
                                   .strategies = rivals.list,
                                   .n_strategies = rivals.n,
                                   .result = judge,
                                   .context = &j};
    if (tw_evaluate(&t.family, s, &o, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(j.problems, 10);
    assert_true(j.worst[0] < 0.95 && j.worst[1] == 1);
    tw_rivals_close(&rivals);
    /* "-own" leaves vendors' configurations out. Here all are a vendor's, so nothing can be chosen. */
    static tw_artefact_macro vendors[TOY_MACROS];
    char config[100];
    memcpy(vendors, toy_macros, sizeof vendors);
    for (int i = 0; i < TOY_MACROS; i++) vendors[i].properties = TW_MACRO_VENDOR;
    t.family.macros = vendors;
    assert_int_equal(tw_rivals_open(&rivals, &t.family, s, "analytic-again,analytic-own-again", NULL, &d), TW_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rivals.list[i].own, i);
        assert_int_equal(rivals.list[i].choose(rivals.list[i].context, (int64_t[TW_SELECT_AXES]){100, 48, 320}, config,
                                               sizeof config),
                         0);
        assert_int_equal(tw_model_choose(rivals.of[i].m, problem, config, sizeof config), !i);
    }
    tw_rivals_close(&rivals);
    static const char *const wrong[] = {
        "again", "-again", "far-again", "near-again,near-again", "near-again-again", "near-again-own", "-own"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tw_rivals_open(&rivals, &t.family, s, wrong[i], NULL, &d), TW_ERR_USAGE);
        tw_rivals_close(&rivals);
    }
    tw_store_close(s);
}

/* Ranked configurations are those of the least scores, in ascending order. */
static void ranks_are_in_order(void **state) {
    (void)state;
    toy t;
    tw_diag d;
    tw_model *m;
    tw_trials trials;
    tw_choice of[CONFIGS + 1];
    double scores[CONFIGS];
    tw_model_options o = tw_model_defaults();
    o.all = true;
    toy_open(&t);
    tw_store *s = open_store();
    campaign(&t, s);
    assert_int_equal(tw_trials_read(&trials, &t.family, s, NULL, &d), TW_OK);
    assert_int_equal(tw_model_fit(&m, TW_MODEL_ANALYTIC, &t.family, &trials, &o, &d), TW_OK);
    tw_model_score(m, problem, scores);
    for (int most = 1; most <= CONFIGS + 1; most++) {
        const int n = tw_model_rank(m, problem, most, of);
        assert_int_equal(n, most < CONFIGS ? most : CONFIGS);
        for (int i = 0; i < n; i++) {
            const double score = scores[tw_model_index(m, of[i].macro, of[i].micro)];
            int before = 0;
            for (int k = 0; k < CONFIGS; k++) before += scores[k] < score;
            assert_true(before <= i);
            for (int k = 0; k < i; k++) assert_false(of[k].macro == of[i].macro && of[k].micro == of[i].micro);
        }
    }
    tw_model_free(m);
    tw_trials_free(&trials);
    tw_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_fastest_is_found_and_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_needed_beforehand, setup, teardown),
        cmocka_unit_test_setup_teardown(runs_end_early, setup, teardown),
        cmocka_unit_test_setup_teardown(strategies_choose_the_fastest_of_many, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_are_in_order, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
