/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/diag.h"
#include "base/team.h"
#include "base/thread.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 5, RUNS = 400 };

typedef struct counted {
    _Atomic int calls[MEMBERS];
    _Atomic int present; /* Members that are in the current run. */
    bool together;       /* Whether a run waits for all members. */
} counted;

static void count(void *context, int member) {
    counted *c = context;
    atomic_fetch_add(&c->calls[member], 1);
    atomic_fetch_add(&c->present, 1);
    while (c->together && atomic_load(&c->present) < MEMBERS) usleep(10);
}

/* Every member is called once a run, and a run is over when all have returned. */
static void all_members_run(void **state) {
    (void)state;
    tw_team *t;
    assert_int_equal(tw_team_start(&t, MEMBERS, true, NULL), TW_OK);
    assert_int_equal(tw_team_size(t), MEMBERS);
    counted c = {.together = true};
    for (int run = 1; run <= RUNS; run++) {
        c.present = 0;
        tw_team_run(t, count, &c);
        assert_int_equal(c.present, MEMBERS);
        for (int i = 0; i < MEMBERS; i++) assert_int_equal(c.calls[i], run);
        if (run % 100 == 0) usleep(20000); /* Long enough for everyone to sleep. */
    }
    tw_team_stop(t);
}

typedef struct gate {
    _Atomic bool open;
    _Atomic int passed;
} gate;

static void pass(void *context, int member) {
    gate *g = context;
    while (member && !atomic_load(&g->open)) usleep(10);
    atomic_fetch_add(&g->passed, 1);
}

/* A launch returns while other members are at work. Settling waits for them, and so does the next launch. */
static void a_launch_returns_before_the_others(void **state) {
    (void)state;
    tw_team *t;
    gate g = {0};
    assert_int_equal(tw_team_start(&t, MEMBERS, false, NULL), TW_OK);
    tw_team_settle(t);
    tw_team_launch(t, pass, &g);
    assert_int_equal(g.passed, 1);
    g.open = true;
    tw_team_settle(t);
    assert_int_equal(g.passed, MEMBERS);
    for (int i = 0; i < RUNS; i++) tw_team_launch(t, pass, &g);
    tw_team_stop(t);
    assert_int_equal(g.passed, MEMBERS * (RUNS + 1));
}

static void a_team_of_one_is_the_caller(void **state) {
    (void)state;
    tw_team *t;
    counted c = {0};
    assert_int_equal(tw_team_start(&t, 1, true, NULL), TW_OK);
    tw_team_run(t, count, &c);
    assert_int_equal(c.calls[0], 1);
    tw_team_stop(t);
    tw_team_stop(NULL);
    assert_int_equal(tw_team_start(&t, 0, true, NULL), TW_OK);
    assert_true(tw_team_size(t) >= 1);
    tw_team_stop(t);
}

static void impossible_sizes_are_refused(void **state) {
    (void)state;
    tw_team *t;
    tw_diag d;
    assert_int_equal(tw_team_start(&t, -1, true, &d), TW_ERR_USAGE);
    assert_int_equal(tw_team_start(&t, TW_TEAM_MOST + 1, true, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "1 to 1024"));
    assert_null(t);
}

static void note_cpu(void *context, int member) {
    ((int *)context)[member] = sched_getcpu();
}

/* A launch moves the caller off the other member's processor, and lets it run where it might before. */
static void the_caller_has_a_processor_of_its_own(void **state) {
    (void)state;
    enum { TRIALS = 20 };
    int cpus[TW_TEAM_MOST], after[TW_TEAM_MOST], at[2], apart = 0;
    const int n = tw_allowed_cpus(cpus, TW_TEAM_MOST);
    if (n < 2 || n > TW_TEAM_MOST) skip();
    tw_team *t;
    assert_int_equal(tw_team_start(&t, 2, true, NULL), TW_OK);
    for (int i = 0; i < TRIALS; i++) {
        assert_true(tw_pin_self(cpus[1]));
        assert_true(tw_pin_among(cpus, n));
        tw_team_run(t, note_cpu, at);
        assert_int_equal(at[1], cpus[1]);
        apart += at[0] != at[1];
        assert_int_equal(tw_allowed_cpus(after, TW_TEAM_MOST), n);
        assert_memory_equal(after, cpus, (size_t)n * sizeof *cpus);
    }
    /* The kernel may move it back where other threads run, too. */
    assert_true(apart > TRIALS / 2);
    /* A caller that may run nowhere else stays. */
    assert_true(tw_pin_self(cpus[1]));
    tw_team_run(t, note_cpu, at);
    assert_int_equal(at[0], cpus[1]);
    assert_int_equal(tw_allowed_cpus(after, TW_TEAM_MOST), 1);
    tw_team_stop(t);
    assert_true(tw_pin_among(cpus, n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_members_run),
        cmocka_unit_test(a_launch_returns_before_the_others),
        cmocka_unit_test(a_team_of_one_is_the_caller),
        cmocka_unit_test(the_caller_has_a_processor_of_its_own),
        cmocka_unit_test(impossible_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
