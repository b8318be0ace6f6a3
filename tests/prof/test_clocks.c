/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks of multiprocessors from their anchors, where offsets, rate and the timer's tick are known. */
#include "support/support.h"

#include "base/random.h"
#include "prof/clocks.h"

#include <math.h>

/* A GPU whose clocks are made. */
typedef struct gpu {
    double ghz, tick;
    uint64_t began;     /* The timer at moment 0. */
    int64_t clocks[16]; /* Of each multiprocessor at moment 0. */
} gpu;

static tw_prof_anchor read_at(const gpu *g, int sm, double moment) {
    return (tw_prof_anchor){sm, g->clocks[sm] + (int64_t)floor(moment * g->ghz),
                            g->began + (uint64_t)(floor(moment / g->tick) * g->tick)};
}

static tw_prof_clocks fit(const tw_prof_anchor *a, int n, double ghz) {
    tw_prof_clocks c;
    tw_diag d;
    if (tw_prof_clocks_fit(&c, a, n, ghz, &d) != TW_OK) fail_msg("%s", d.message);
    return c;
}

enum { SMS = 16, ANCHORS = 40 };

static gpu draw(tw_random *r, double ghz, double tick) {
    gpu g = {.ghz = ghz, .tick = tick, .began = 1700000000000000000ull / 1024 * 1024};
    for (int i = 0; i < SMS; i++) g.clocks[i] = (int64_t)(tw_random_u64(r) % (1ull << 50));
    return g;
}

static int draw_anchors(const gpu *g, tw_random *r, double length, tw_prof_anchor a[SMS * ANCHORS]) {
    int n = 0;
    for (int sm = 0; sm < SMS; sm++)
        for (int i = 0; i < ANCHORS; i++) a[n++] = read_at(g, sm, (double)(tw_random_u64(r) % 1000000) / 1e6 * length);
    return n;
}

/* Moments of all multiprocessors differ from the true ones by one constant, within what is said. */
static void offsets_are_found(void **state) {
    (void)state;
    static const double ticks[] = {1, 32, 1024};
    tw_random r = tw_random_seed(3);
    for (int i = 0; i < 3; i++)
        for (int given = 0; given < 2; given++) {
            const gpu g = draw(&r, 1.755, ticks[i]);
            tw_prof_anchor a[SMS * ANCHORS];
            const double length = 200 * ticks[i] + 20000;
            const int n = draw_anchors(&g, &r, length, a);
            tw_prof_clocks c = fit(a, n, given ? g.ghz : 0);
            assert_true(c.tick == ticks[i] && c.n == SMS);
            assert_true(fabs(c.ghz - g.ghz) <= (given ? 0 : g.ghz * 2 * ticks[i] / length));
            const double origin = (double)(int64_t)(c.origin - g.began);
            for (int sm = 0; sm < SMS; sm++) {
                const double slack = given ? 2 / g.ghz : 2 * ticks[i] + 2 / g.ghz;
                assert_true(c.uncertain[sm] <= ticks[i] / 2 + 1e-6);
                for (double moment = 0; moment <= length; moment += length / 7) {
                    const int64_t clock = g.clocks[sm] + (int64_t)floor(moment * g.ghz);
                    const double off = tw_prof_time_at(&c, sm, clock, 0) + origin - moment;
                    assert_true(fabs(off) <= c.uncertain[sm] + slack);
                }
            }
            tw_prof_clocks_free(&c);
        }
}

/* With many anchors the offsets are known far better than the tick. */
static void more_anchors_know_more(void **state) {
    (void)state;
    tw_random r = tw_random_seed(4);
    const gpu g = draw(&r, 1.5, 1024);
    static tw_prof_anchor a[2000];
    for (int i = 0; i < 2000; i++) a[i] = read_at(&g, i % 2, (double)(tw_random_u64(&r) % 100000000) / 100);
    tw_prof_clocks few = fit(a, 10, 1.5), many = fit(a, 2000, 1.5);
    for (int sm = 0; sm < 2; sm++) assert_true(many.uncertain[sm] < 10 && few.uncertain[sm] > 2 * many.uncertain[sm]);
    tw_prof_clocks_free(&few);
    tw_prof_clocks_free(&many);
}

static void one_anchor_is_enough(void **state) {
    (void)state;
    const tw_prof_anchor a = {3, INT64_C(9007199254740995), 1700000000000000123ull};
    tw_prof_clocks c = fit(&a, 1, 0);
    assert_true(c.ghz == 1 && c.tick == 1 && c.origin == a.time);
    assert_true(tw_prof_time_at(&c, 3, a.clock, 0) == 0.5);
    /* Neither digits of the clock nor what recording cost is lost. */
    assert_true(tw_prof_time_at(&c, 3, a.clock + 2, 0.25) == 2.25);
    tw_prof_clocks_free(&c);
    c = fit(&a, 1, 2);
    assert_true(tw_prof_time_at(&c, 3, a.clock + 8, 2) == 3.5);
    tw_prof_clocks_free(&c);
}

/* Anchors at one clock say nothing about the rate; nor does a timer that stood still. */
static void anchors_at_one_moment_have_no_rate(void **state) {
    (void)state;
    const tw_prof_anchor a[4] = {{0, 500, 1000}, {0, 500, 1000}, {1, 700, 1000}, {1, 900, 1000}};
    tw_prof_clocks c = fit(a, 4, 0);
    assert_true(c.ghz == 1 && c.tick == 1);
    tw_prof_clocks_free(&c);
}

/* The rate is that of all multiprocessors together, from their first and last anchors in whatever order. */
static void the_rate_is_of_the_longest_spans(void **state) {
    (void)state;
    const tw_prof_anchor a[5] = {{0, 3000, 2000}, {0, 1000, 1000}, {0, 1600, 1320}, {1, 90000, 1000}, {1, 90640, 1320}};
    tw_prof_clocks c = fit(a, 5, 0);
    assert_true(fabs(c.ghz - 2) < 1e-12 && c.tick == 40 && c.origin == 1000);
    assert_true(c.reference[0] == 1000 && c.reference[1] == 90000);
    tw_prof_clocks_free(&c);
}

/* Where the clock is not quite even, bounds contradict one another: the offset lies in the middle, and the doubt grows.
 */
static void a_clock_that_drifts_is_in_doubt(void **state) {
    (void)state;
    tw_prof_anchor a[200];
    for (int i = 0; i < 200; i++) {
        const double moment = 1000.0 * i;
        a[i] = (tw_prof_anchor){0, (int64_t)(moment * 1.5 + (i < 100 ? 0 : 150 * (i - 100))), (uint64_t)moment + 5000};
    }
    tw_prof_clocks c = fit(a, 200, 1.5);
    assert_true(c.uncertain[0] > 4000);
    for (int i = 0; i < 200; i += 11)
        assert_true(fabs(tw_prof_time_at(&c, 0, a[i].clock, 0) - 1000.0 * i) <= c.uncertain[0] + c.tick);
    tw_prof_clocks_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_found),
        cmocka_unit_test(more_anchors_know_more),
        cmocka_unit_test(one_anchor_is_enough),
        cmocka_unit_test(anchors_at_one_moment_have_no_rate),
        cmocka_unit_test(the_rate_is_of_the_longest_spans),
        cmocka_unit_test(a_clock_that_drifts_is_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
