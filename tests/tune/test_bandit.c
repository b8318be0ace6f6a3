/* SPDX-License-Identifier: Apache-2.0 */
/* The bandit's search on a grid of configurations with known times. */
#include "support/support.h"

#include "tune/bandit.h"

#include <math.h>
#include <string.h>

enum { SIDE = 20, GRID = SIDE * SIDE };

typedef struct grid {
    tw_features features;
    int first[GRID];
    float of[GRID * 2];
    tw_choice list[GRID];
    int asked[GRID]; /* How often each configuration was measured. */
    bool fails;      /* Configurations of odd columns do not run. */
} grid;

/* One macro choice a row; values grow along both sides. */
static void fill(grid *g) {
    memset(g, 0, sizeof *g);
    for (int i = 0; i < GRID; i++) {
        g->list[i] = (tw_choice){i / SIDE, i % SIDE};
        g->first[i / SIDE] = i / SIDE * SIDE;
        g->of[2 * i] = (float)(i / SIDE);
        g->of[2 * i + 1] = (float)(100 * (i % SIDE));
    }
    g->features = (tw_features){.params = 2, .configs = GRID, .first = g->first, .of = g->of};
}

/* A bowl whose least time, 10, is at row 13 and column 4. */
static double time_of(void *context, int i) {
    grid *g = context;
    g->asked[i]++;
    if (g->fails && i % 2) return 0;
    return 10 + pow(i / SIDE - 13, 2) + pow(i % SIDE - 4, 2);
}

static tw_bandit_result search(grid *g, int measurements, uint64_t seed) {
    tw_bandit_options o = tw_bandit_defaults();
    tw_bandit_result r;
    tw_diag d;
    o.measurements = measurements;
    o.seed = seed;
    assert_int_equal(tw_bandit_search(&r, &g->features, g->list, GRID, &o, time_of, g, &d), TW_OK);
    return r;
}

static void each_configuration_is_measured_once(void **state) {
    (void)state;
    static grid g;
    fill(&g);
    const tw_bandit_result some = search(&g, 50, 1);
    int n = 0, uses = 0;
    for (int i = 0; i < GRID; i++) {
        assert_in_range(g.asked[i], 0, 1);
        n += g.asked[i];
    }
    for (int t = 0; t < TW_BANDIT_TECHNIQUES; t++) {
        assert_true(some.uses[t] > 0);
        uses += some.uses[t];
    }
    assert_int_equal(n, 50);
    assert_int_equal(some.measured, 50);
    assert_int_equal(uses, 50);
    fill(&g);
    const tw_bandit_result all = search(&g, 2 * GRID, 1);
    assert_int_equal(all.measured, GRID);
    assert_int_equal(all.best, 13 * SIDE + 4);
    assert_true(all.time == 10);
}

static void the_same_seed_searches_alike(void **state) {
    (void)state;
    static grid g, other;
    fill(&g);
    fill(&other);
    const tw_bandit_result a = search(&g, 40, 7), b = search(&other, 40, 7);
    assert_memory_equal(g.asked, other.asked, sizeof g.asked);
    assert_int_equal(a.best, b.best);
    fill(&other);
    search(&other, 40, 8);
    assert_memory_not_equal(g.asked, other.asked, sizeof g.asked);
}

/* Of 40 drawn ones the fastest takes 13 in the mean; techniques that go on from the best one come closer. */
static void what_found_the_best_goes_on(void **state) {
    (void)state;
    static grid g;
    double sum = 0, uses[TW_BANDIT_TECHNIQUES] = {0};
    for (uint64_t seed = 0; seed < 200; seed++) {
        fill(&g);
        const tw_bandit_result r = search(&g, 40, seed);
        sum += r.time / 200;
        for (int t = 0; t < TW_BANDIT_TECHNIQUES; t++) uses[t] += r.uses[t];
    }
    if (sum > 10.6) fail_msg("%g", sum);
    assert_true(uses[TW_BANDIT_CLIMB] > 1.5 * uses[TW_BANDIT_RANDOM]);
}

static void what_does_not_run_is_no_best(void **state) {
    (void)state;
    static grid g;
    fill(&g);
    g.fails = true;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const tw_bandit_result r = search(&g, 10, seed);
        assert_true(r.best < 0 || r.best % 2 == 0);
    }
    const tw_bandit_options none = {.measurements = 0, .window = 1, .population = 3};
    tw_bandit_result r;
    tw_diag d;
    assert_int_equal(tw_bandit_search(&r, &g.features, g.list, GRID, &none, time_of, &g, &d), TW_ERR_USAGE);
    assert_int_equal(r.best, -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_configuration_is_measured_once),
        cmocka_unit_test(the_same_seed_searches_alike),
        cmocka_unit_test(what_found_the_best_goes_on),
        cmocka_unit_test(what_does_not_run_is_no_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
