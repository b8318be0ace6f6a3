/* SPDX-License-Identifier: Apache-2.0 */
/* A device that others use, too: samples are taken in turn, and the least one counts. */
#include "tune/toy_store.h"

#include "tune/evaluate.h"
#include "tune/trials.h"

/* Number of calls, of those whose samples are taken in turn, and of those with a single sample; the most samples, and
   the least number of configurations. */
static int calls, turns, single, most, fewest;

static tw_status counting(void *self, const int64_t *problem, const char *const *configs, int n,
                          const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    calls++;
    turns += p->turns;
    single += p->samples == 1;
    if (p->samples > most) most = p->samples;
    if (n < fewest) fewest = n;
    return toy_measure(self, problem, configs, n, p, l, diag);
}

static void campaign(const char *name, bool shared, bool drifts) {
    static const tw_family_calls spy = {.measure = counting, .baseline = toy_baseline, .close = toy_close};
    const tw_campaign_options o = {.name = name, .screens = 3, .cover = 5, .spread = 4, .samples = 3, .seed = 1};
    toy t;
    toy_open(&t);
    t.family.calls = &spy;
    t.family.shared = shared;
    t.family.drifts = drifts;
    tw_store *s = open_store();
    calls = turns = single = most = 0;
    fewest = 1000;
    tw_diag d;
    if (tw_campaign_run(&t.family, s, &o, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    tw_store_close(s);
    /* A shared device has three times as many problems, and a third of the configurations. */
    assert_int_equal(calls, shared ? 3 + 3 * 4 : 3 + 4);
    assert_int_equal(fewest, shared ? 2 : 4);
}

static void samples_are_taken_in_turn(void **state) {
    (void)state;
    campaign("shared", true, false);
    assert_int_equal(turns, 15);
    assert_int_equal(single, 0);
    assert_int_equal(most, 6);
    campaign("drifting", false, true);
    assert_int_equal(turns, 4);
    assert_int_equal(single, 3);
    assert_int_equal(most, 3);
    campaign("alone", false, false);
    assert_int_equal(turns, 0);
    assert_int_equal(single, 3);
}

static tw_status take_evaluation(void *context, const tw_evaluation *e, tw_diag *diag) {
    (void)diag;
    *(double *)context = e->time;
    return TW_OK;
}

/* Measures every configuration as 5, 1 and 9 times its time. */
static tw_status delayed(void *self, const int64_t *problem, const char *const *configs, int n,
                         const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    const toy *t = self;
    tw_status st = TW_OK;
    (void)p;
    for (int i = 0; i < n && st == TW_OK; i++) {
        const double time = toy_time(&t->family, configs[i], problem), samples[] = {5 * time, time, 9 * time};
        double sorted[3];
        const tw_diag none = {.status = TW_OK};
        memcpy(sorted, samples, sizeof sorted);
        const tw_measured m = {.candidate = i,
                               .status = TW_OK,
                               .diag = &none,
                               .time = tw_stats_of(sorted, 3),
                               .samples = samples,
                               .began = 1};
        st = l->result(l->context, &m, diag);
    }
    return st;
}

static void the_least_sample_counts(void **state) {
    (void)state;
    static const tw_family_calls slow = {.measure = delayed, .baseline = toy_baseline, .close = toy_close};
    const tw_campaign_options o = {.name = "delayed", .screens = 2, .samples = 3, .seed = 1};
    toy t;
    tw_diag d;
    toy_open(&t);
    t.family.calls = &slow;
    tw_store *s = open_store();
    if (tw_campaign_run(&t.family, s, &o, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    for (int shared = 0; shared < 2; shared++) {
        tw_trials trials;
        double time = 0;
        t.family.shared = shared;
        if (tw_trials_read(&trials, &t.family, s, "delayed", &d) != TW_OK) fail_msg("%s", d.message);
        assert_true(trials.screens.n > 0);
        for (int i = 0; i < trials.screens.n; i++) {
            const tw_trial *x = &trials.screens.at[i];
            char config[100];
            tw_family_config(&t.family, x->macro, x->micro, config, sizeof config);
            const double least = toy_time(&t.family, config, x->problem);
            assert_true(fabs(x->time - (shared ? 1 : 5) * least) < 1e-9 * least);
        }
        tw_trials_free(&trials);
        const tw_evaluate_options e = {
            .name = shared ? "least" : "median", .problems = 1, .seed = 5, .result = take_evaluation, .context = &time};
        if (tw_evaluate(&t.family, s, &e, &d) != TW_OK) fail_msg("%s", d.message);
        static double least;
        if (shared)
            assert_true(fabs(time - least) < 1e-9 * least);
        else
            least = time / 5;
    }
    tw_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(samples_are_taken_in_turn),
                                       cmocka_unit_test(the_least_sample_counts)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
