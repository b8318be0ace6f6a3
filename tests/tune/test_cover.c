/* SPDX-License-Identifier: Apache-2.0 */
/* Covers: few configurations that are near the fastest everywhere. */
#define _GNU_SOURCE
#include "tune/toy_family.h"

#include "tune/campaign.h"
#include "tune/cover.h"

#include <unistd.h>

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
    assert_int_equal(tw_cover(&t.family, &l, TW_COVER_SAMPLES, most, out, &n, NULL), TW_OK);
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

/* ---- covers of own and of vendors' configurations */

/* A toy whose macro choices 1 and 2 are a vendor's. The micro choices of the latter are a ranking. */
typedef struct mixed {
    toy t;
    tw_artefact_macro macros[TOY_MACROS];
} mixed;

static void open_mixed(mixed *m) {
    toy_open(&m->t);
    memcpy(m->macros, toy_macros, sizeof m->macros);
    m->macros[1].properties = m->macros[2].properties = TW_MACRO_VENDOR;
    m->t.family.macros = m->macros;
    m->t.family.ranking = 3;
}

static bool has(const tw_choice *of, int n, int macro, int micro) {
    for (int i = 0; i < n; i++)
        if (of[i].macro == macro && of[i].micro == micro) return true;
    return false;
}

/* Own and vendors' configurations are covered apart. All places of a ranking are there. */
static void both_oracles_are_covered(void **state) {
    (void)state;
    static const double times[][TOY_MACROS] = {{2, 1, 0.5, 3}, {2, 1, 0.5, 3}, {3, 1, 0.5, 2}, {3, 1, 0.5, 2}};
    mixed m;
    tw_trial room[100];
    tw_choice *out;
    int n;
    open_mixed(&m);
    const tw_trial_list l = list_of(times, 4, room);
    assert_int_equal(tw_cover_both(&m.t.family, &l, 2, &out, &n, NULL), TW_OK);
    assert_int_equal(n, 6);
    assert_true(has(out, 2, 0, 0) && has(out, 2, 3, 0) && has(out + 2, 1, 1, 0));
    for (int i = 0; i < 3; i++) assert_true(has(out + 3, 3, 2, i));
    free(out);
    assert_int_equal(tw_cover_both(&m.t.family, &l, 1, &out, &n, NULL), TW_OK);
    assert_int_equal(n, 4);
    assert_true(has(out, 4, 0, 0) && !has(out, 4, 1, 0));
    free(out);
}

/* Covers apart have own configurations even where vendors' ones are always the fastest, and no place of a ranking. */
static void own_ones_are_covered_too(void **state) {
    (void)state;
    static const double times[][TOY_MACROS] = {{4, 1, 2, 9}, {4, 1, 2, 9}, {9, 2, 1, 4}, {9, 2, 1, 4}};
    mixed m;
    tw_trial room[100];
    tw_choice out[6];
    int n;
    open_mixed(&m);
    tw_trial_list l = list_of(times, 4, room);
    for (int i = 0; i < l.n; i++) l.at[i].micro = l.at[i].macro == 2;
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 4, out, &n, NULL), TW_OK);
    assert_true(n == 3 && has(out, 2, 0, 0) && has(out, 2, 3, 0) && has(out + 2, 1, 1, 0));
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 2, out, &n, NULL), TW_OK);
    assert_true(n == 2 && (has(out, 1, 0, 0) || has(out, 1, 3, 0)) && has(out + 1, 1, 1, 0));
    /* Of a vendor that has nothing but a ranking the first place is there. */
    m.macros[1].properties = 0;
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 2, out, &n, NULL), TW_OK);
    assert_true(n == 2 && has(out, 1, 1, 0) && has(out + 1, 1, 2, 0));
    /* With trials of one kind all are of it. */
    for (int i = 0; i < l.n; i++) l.at[i].micro = 0;
    m.t.family.ranking = 0;
    m.macros[2].properties = 0;
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 2, out, &n, NULL), TW_OK);
    assert_true(n == 2 && has(out, 2, 1, 0) && has(out, 2, 2, 0));
    for (int k = 0; k < TOY_MACROS; k++) m.macros[k].properties = TW_MACRO_VENDOR;
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 2, out, &n, NULL), TW_OK);
    assert_true(n == 2 && has(out, 2, 1, 0) && has(out, 2, 2, 0));
}

/* The default is one of the picks, though others are always faster. */
static void the_default_is_covered(void **state) {
    (void)state;
    static const double times[][TOY_MACROS] = {{1, 2, 3, 9}, {1, 2, 3, 9}, {3, 2, 1, 9}};
    mixed m;
    tw_trial room[100];
    tw_choice out[4];
    int n;
    open_mixed(&m);
    m.macros[1].properties = m.macros[2].properties = 0;
    m.t.family.ranking = 0;
    m.t.family.macro = 3;
    m.t.family.micro = 0;
    tw_trial_list l = list_of(times, 3, room);
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 2, out, &n, NULL), TW_OK);
    assert_true(n == 2 && has(out, 2, 0, 0) && has(out, 2, 3, 0));
    m.t.family.micro = 1;
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 2, out, &n, NULL), TW_OK);
    assert_true(n == 2 && has(out, 2, 0, 0) && has(out, 2, 2, 0));
    /* A vendor's default takes no place of an own configuration. */
    m.t.family.micro = 0;
    m.macros[3].properties = TW_MACRO_VENDOR;
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 3, out, &n, NULL), TW_OK);
    assert_true(n == 3 && has(out, 2, 0, 0) && has(out, 2, 2, 0) && has(out + 2, 1, 3, 0));
}

/* Counts the vendor's configurations among n picks. */
static int count_vendors(const mixed *m, const tw_choice *of, int n) {
    int vendors = 0;
    for (int i = 0; i < n; i++) vendors += tw_family_is_vendor(&m->t.family, of[i].macro);
    return vendors;
}

/* Vendors have two thirds of the picks. What they have no configurations for goes to own ones. */
static void vendors_have_two_thirds(void **state) {
    (void)state;
    enum { PROBLEMS = 2, CONFIGS = TOY_MACROS * 3 };
    mixed m;
    tw_trial room[PROBLEMS * CONFIGS];
    tw_choice out[CONFIGS];
    tw_trial_list l = {.at = room};
    int n;
    open_mixed(&m);
    m.t.family.ranking = 0;
    for (int i = 0; i < PROBLEMS * CONFIGS; i++) {
        const int config = i % CONFIGS;
        room[l.n++] = (tw_trial){
            .problem = {1 + i / CONFIGS}, .macro = config / 3, .micro = config % 3, .time = 1 + 0.01 * config};
    }
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 6, out, &n, NULL), TW_OK);
    assert_true(n == 6 && count_vendors(&m, out, n) == 4 && count_vendors(&m, out, 2) == 0);
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, CONFIGS, out, &n, NULL), TW_OK);
    assert_true(n == CONFIGS && count_vendors(&m, out, n) == 6);
    /* The vendor has one configuration. */
    l.n = 0;
    for (int i = 0; i < PROBLEMS * CONFIGS; i++)
        if (!tw_family_is_vendor(&m.t.family, room[i].macro) || (room[i].macro == 1 && !room[i].micro))
            room[l.n++] = room[i];
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 6, out, &n, NULL), TW_OK);
    assert_true(n == 6 && count_vendors(&m, out, n) == 1 && out[5].macro == 1);
}

/* Vendors that are slow have an eighth of the picks, at least one. */
static void slow_vendors_have_few_picks(void **state) {
    (void)state;
    /* Choices 1 and 3 are a vendor's. The least own times are 1 and 3. */
    static const double fast[][TOY_MACROS] = {{1, 1.3, 1.1, 2}, {1, 1.3, 1.1, 2}, {3, 2.6, 3.3, 2}, {3, 2.6, 3.3, 2}};
    static const double slow[][TOY_MACROS] = {{1, 2.6, 1.1, 4}, {1, 2.6, 1.1, 4}, {3, 5.2, 3.3, 4}, {3, 5.2, 3.3, 4}};
    mixed m;
    tw_trial room[100];
    tw_choice out[4];
    int n;
    open_mixed(&m);
    m.macros[3].properties = TW_MACRO_VENDOR;
    m.macros[2].properties = 0;
    m.t.family.ranking = 0;
    tw_trial_list l = list_of(fast, 4, room);
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 4, out, &n, NULL), TW_OK);
    assert_true(has(out, n, 1, 0) && has(out, n, 3, 0));
    l = list_of(slow, 4, room);
    assert_int_equal(tw_cover_apart(&m.t.family, &l, TW_COVER_SAMPLES, 4, out, &n, NULL), TW_OK);
    assert_true(n == 3 && has(out, 2, 0, 0) && has(out, 2, 2, 0) && out[2].macro % 2 == 1);
}

static tw_cover_loss lose(const mixed *m, const tw_trials *t, const tw_choice *of, int n) {
    tw_cover_loss loss;
    assert_int_equal(tw_cover_lose(&m->t.family, t, of, n, &loss, NULL), TW_OK);
    return loss;
}

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-9;
}

static void losses_are_means(void **state) {
    (void)state;
    static const double times[][TOY_MACROS] = {{2, 1, 4, 3}, {2, 1, 4, 3}, {3, 1, 4, 2}, {3, 1, 4, 2}, {5, 0, 0, 0}};
    static const tw_choice some[] = {{0, 0}, {1, 0}}, slow[] = {{2, 0}, {3, 0}}, none[] = {{0, 2}};
    mixed m;
    tw_trial room[100], refused[3];
    open_mixed(&m);
    tw_trials t = {.screens = list_of(times, 5, room)};
    for (int i = 0; i < t.screens.n; i++) t.screens.at[i].problem[1] = t.screens.at[i].problem[2] = 64;
    /* The fifth problem was not screened in all that the others were. */
    tw_cover_loss loss = lose(&m, &t, some, 2);
    assert_int_equal(loss.problems, 4);
    assert_true(is_near(loss.all, 0) && is_near(loss.own, sqrt(1.5) - 1));
    loss = lose(&m, &t, slow, 2);
    assert_true(is_near(loss.all, sqrt(3. * 2) - 1) && is_near(loss.own, sqrt(1.5) - 1));
    loss = lose(&m, &t, none, 1);
    assert_true(is_near(loss.all, exp(7) - 1) && is_near(loss.own, exp(7) - 1));
    /* It was if the others were tried there in vain. */
    for (int i = 0; i < 3; i++) refused[i] = (tw_trial){.problem = {5, 64, 64}, .macro = i + 1};
    t.refused = (tw_trial_list){refused, 2, 3};
    assert_int_equal(lose(&m, &t, some, 2).problems, 4);
    t.refused.n = 3;
    loss = lose(&m, &t, slow, 2);
    assert_int_equal(loss.problems, 5);
    assert_true(is_near(loss.all, exp((2 * log(3) + 2 * log(2) + 7) / 5) - 1));
    assert_true(is_near(loss.own, exp((2 * log(1.5) + 7) / 5) - 1));
    /* Choices that cannot compute it count as little. */
    t.refused.n = 2;
    m.macros[3].least[0] = 6;
    m.macros[3].most[0] = 7;
    assert_int_equal(lose(&m, &t, some, 2).problems, 5);
    /* Without problems there are no losses. */
    t = (tw_trials){.wrong = 0};
    loss = lose(&m, &t, some, 2);
    assert_true(!loss.problems && loss.all == 0 && loss.own == 0);
}

/* Screens that an interruption cut are no full ones; those with wrong results are. */
static void screens_are_full_or_cut(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[600];
    static const char wrong[] = "tile=128 stages=4";
    const tw_campaign_options o = {
        .name = "c", .screens = 3, .thorough = true, .samples = 1, .seed = 1, .interrupted = toy_interrupted};
    snprintf(path, sizeof path, "%s/tuned.db", folder);
    for (int cut = 0; cut < 2; cut++) {
        toy t;
        tw_store *s;
        tw_trials trials;
        tw_cover_loss loss;
        tw_choice all[TOY_MACROS * 3];
        tw_campaign_options now = o;
        for (int i = 0; i < TOY_MACROS * 3; i++) all[i] = (tw_choice){i / 3, i % 3};
        toy_open(&t);
        t.wrong = wrong;
        if (cut) t.end = 2 * TOY_MACROS * 3 + 5;
        now.context = &t;
        unlink(path);
        assert_int_equal(tw_store_open(&s, path, false, NULL), TW_OK);
        assert_int_equal(tw_campaign_run(&t.family, s, &now, NULL, NULL), TW_OK);
        assert_int_equal(tw_trials_read(&trials, &t.family, s, NULL, NULL), TW_OK);
        assert_true(trials.refused.n == (cut ? 2 : 3) && trials.wrong == trials.refused.n);
        assert_true(trials.refused.at[0].macro == 3 && trials.refused.at[0].micro == 1);
        assert_int_equal(tw_cover_lose(&t.family, &trials, all, TOY_MACROS * 3, &loss, NULL), TW_OK);
        assert_int_equal(loss.problems, cut ? 2 : 3);
        assert_true(loss.all == 0 && loss.own == 0);
        tw_trials_free(&trials);
        tw_store_close(s);
    }
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_together_are_picked),
        cmocka_unit_test(what_is_left_covers_again),
        cmocka_unit_test(missing_trials_are_the_worst),
        cmocka_unit_test(both_oracles_are_covered),
        cmocka_unit_test(own_ones_are_covered_too),
        cmocka_unit_test(the_default_is_covered),
        cmocka_unit_test(vendors_have_two_thirds),
        cmocka_unit_test(slow_vendors_have_few_picks),
        cmocka_unit_test(losses_are_means),
        cmocka_unit_test(screens_are_full_or_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
