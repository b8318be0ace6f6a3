/* SPDX-License-Identifier: Apache-2.0 */
/* Campaigns whose budget is too short for all configurations that cover the screened problems. The clock stands still
   but for what measuring takes, so that a slow machine says the same (linked with --wrap=tw_now_ns). */
#include "tune/toy_family.h"

#include "tune/campaign.h"
#include "tune/trials.h"

int64_t __wrap_tw_now_ns(void);

/* The time in nanoseconds. */
static int64_t now;

int64_t __wrap_tw_now_ns(void) {
    return now;
}

/* The most configurations of a call. Screening has one sample, so its calls do not count. */
static int most;

/* Takes a millisecond for each configuration. */
static tw_status slowly(void *self, const int64_t *problem, const char *const *configs, int n,
                        const tw_measure_protocol *p, const tw_family_listener *l, tw_diag *diag) {
    if (p->samples > 1 && n > most) most = n;
    now += n * (int64_t)1000000;
    return toy_measure(self, problem, configs, n, p, l, diag);
}

/* Runs a campaign of at most so many configurations, 0: any number, and returns the most configurations of a problem of
 * the spread. */
static int run(const char *path, double seconds, int64_t measured) {
    static const tw_family_calls calls = {.measure = slowly, .baseline = toy_baseline, .close = toy_close};
    const tw_campaign_options o = {.name = "tune",
                                   .seconds = seconds,
                                   .most = measured,
                                   .screens = 8,
                                   .thorough = true,
                                   .cover = 9,
                                   .spread = 1000,
                                   .samples = 2,
                                   .seed = 1};
    toy t;
    tw_store *s;
    tw_diag d;
    toy_open(&t);
    t.family.calls = &calls;
    most = 0;
    if (tw_store_open(&s, path, false, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_campaign_run(&t.family, s, &o, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    tw_store_close(s);
    return most;
}

static void few_configurations_are_spread(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[512];
    snprintf(path, sizeof path, "%s/short.db", folder);
    assert_int_equal(run(path, 0.25, 0), 4);
    /* The campaign goes on with as many. */
    assert_int_equal(run(path, 1, 0), 4);
    /* A spread configuration is expected to take 2 ms, on 30 problems at least. Screening 8 problems takes 0.1 s. */
    snprintf(path, sizeof path, "%s/middle.db", folder);
    assert_int_equal(run(path, 0.5, 0), 6);
    snprintf(path, sizeof path, "%s/long.db", folder);
    assert_int_equal(run(path, 8, 150), 9);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_configurations_are_spread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
