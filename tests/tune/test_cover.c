/* SPDX-License-Identifier: Apache-2.0 */
/* Covers: few configurations that are near the fastest everywhere. */
#include "tune/toy_store.h"

#include "tune/campaign.h"
#include "tune/cover.h"

/* Makes trials of micro choice 0. times[i] has the times of macro choices 0 to 3 for problem i. 0: there is no trial.
 */
static tw_trial_list list_of(const double (*times)[TOY_MACROS], int n, tw_trial *room) {
    tw_trial_list l = {.at = room};
    for (int i = 0; i < n; i++)
        for (int m = 0; m < TOY_MACROS; m++)
            if (times[i][m] > 0) room[l.n++] = (tw_trial){.problem = {i + 1}, .macro = m, .time = times[i][m]};
    return l;
}

static void expect(const double (*times)[TOY_MACROS], int problems, int most, const char *macros) {
    toy t;
    tw_trial room[100];
    tw_choice out[TOY_MACROS * 3];
    int n;
    toy_open(&t);
    const tw_trial_list l = list_of(times, problems, room);
    assert_int_equal(tw_cover(&t.family, &l, most, out, &n, NULL), TW_OK);
    assert_int_equal(n, (int)strlen(macros));
    for (int i = 0; i < n; i++) assert_true(out[i].macro == macros[i] - '0' && out[i].micro == 0);
}

static void the_best_together_are_picked(void **state) {
    (void)state;
    /* Choice 0 has the best mean. Choices 1 and 2 are each best for half of the problems. */
    static const double times[][TOY_MACROS] = {{1.2, 1, 9, 0}, {1.2, 1, 9, 0}, {1.2, 9, 1, 0}, {1.2, 9, 1, 0}};
    expect(times, 4, 1, "0");
    expect(times, 4, 3, "012");
    expect(times, 4, 0, "");
    expect(times, 0, 3, "");
}

static void what_is_left_covers_again(void **state) {
    (void)state;
    /* Choice 0 is always the fastest. Then 1 and 2 cover the problems a second time, and 3 a third time. */
    static const double times[][TOY_MACROS] = {{1, 1.1, 3, 4}, {1, 1.1, 3, 4}, {1, 3, 1.1, 4}};
    expect(times, 3, 2, "01");
    expect(times, 3, 3, "012");
    expect(times, 3, 9, "0123");
}

/* A configuration without a trial of a problem counts as no worse than any other slow one. */
static void missing_trials_are_the_worst(void **state) {
    (void)state;
    static const double times[][TOY_MACROS] = {{1, 2, 0, 0}, {0, 2, 1, 0}, {0, 2, 1, 0}};
    expect(times, 3, 1, "1");
    expect(times, 3, 2, "12");
}

/* The vendors' configurations follow the cover of the screened problems. */
static void vendors_follow_the_cover(void **state) {
    (void)state;
    static const tw_campaign_options o = {.name = "tune", .screens = 4, .thorough = true, .samples = 1, .seed = 1};
    tw_artefact_macro macros[TOY_MACROS];
    toy t;
    tw_choice *out;
    tw_diag d;
    int n;
    toy_open(&t);
    memcpy(macros, toy_macros, sizeof macros);
    macros[3].properties = TW_MACRO_VENDOR;
    t.family.macros = macros;
    tw_store *s = open_store();
    assert_int_equal(tw_cover_stored(&t.family, s, 2, &out, &n, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "the store has no screened problems of toy");
    free(out);
    if (tw_campaign_run(&t.family, s, &o, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_cover_stored(&t.family, s, 2, &out, &n, &d), TW_OK);
    assert_int_equal(n, 2 + 3);
    for (int i = 0; i < n; i++) assert_true((out[i].macro == 3) == (i >= 2));
    for (int i = 0; i < 3; i++) assert_int_equal(out[2 + i].micro, i);
    free(out);
    tw_store_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_together_are_picked),
        cmocka_unit_test(what_is_left_covers_again),
        cmocka_unit_test(missing_trials_are_the_worst),
        cmocka_unit_test_setup_teardown(vendors_follow_the_cover, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
