/* SPDX-License-Identifier: Apache-2.0 */
/* Samples of the processor's rig that another process disturbed. What threads waited for a processor is what a test
   says (linked with --wrap=tw_delay_read). */
#include "support/support.h"

#include "base/diag.h"
#include "base/thread.h"
#include "tune/cpu_rig.h"

enum { THREADS = 2 };

int64_t __wrap_tw_delay_read(int account);

static int64_t delay;    /* Run delay so far, of each thread. */
static int64_t readings; /* Number of readings. A sample reads each thread's account before and after it. */
static int64_t quiet;    /* Number of the first reading from which on nothing waits. */
static int moved;        /* Number of readings during which this thread might run on several processors. */

/* The time that a thread waited grows by a second with each reading. */
int64_t __wrap_tw_delay_read(int account) {
    (void)account;
    moved += tw_allowed_cpus(NULL, 0) != 1;
    if (readings++ < quiet) delay += INT64_C(1000000000);
    return delay;
}

/* Takes a sample whose first `disturbed` tries are disturbed. Returns the number of tries. */
static int tries_of(tw_cpu_rig *r, int disturbed) {
    double us = 0;
    tw_diag d;
    readings = moved = 0;
    quiet = 2 * THREADS * disturbed;
    if (tw_cpu_rig_sample(r, &us, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(us > 0 && us < 1e9);
    assert_int_equal(readings % (2 * THREADS), 0);
    return (int)(readings / (2 * THREADS));
}

static void disturbed_samples_are_taken_again(void **state) {
    (void)state;
    const int processors = tw_allowed_cpus(NULL, 0);
    tw_cpu_rig *r;
    tw_diag d;
    if (tw_cpu_rig_make(&r, (tw_panel_format){TW_F32, 0}, THREADS, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_cpu_rig_open(r, 16, 256, 256, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_tiled_config c = {0, 16, 64, 512, 48, 0};
    assert_int_equal(tw_cpu_rig_set(r, &c, &d), TW_OK);
    assert_int_equal(tries_of(r, 0), 1);
    assert_int_equal(tries_of(r, 1), 2);
    assert_int_equal(tries_of(r, TW_CPU_RIG_TRIES - 1), TW_CPU_RIG_TRIES);
    assert_int_equal(tries_of(r, 100), TW_CPU_RIG_TRIES);
    /* Where nothing is undisturbed, samples are taken once, until some are undisturbed again. */
    for (int i = 0; i < 40; i++) tries_of(r, 100);
    assert_int_equal(tries_of(r, 100), 1);
    for (int i = 0; i < 8; i++) assert_int_equal(tries_of(r, 0), 1);
    assert_int_equal(tries_of(r, 1), 2);
    /* The thread stays on a processor while it samples, and may run on all of them afterwards. */
    if (processors >= THREADS) assert_int_equal(moved, 0);
    assert_int_equal(tw_allowed_cpus(NULL, 0), processors);
    tw_cpu_rig_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(disturbed_samples_are_taken_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
