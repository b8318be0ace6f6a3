/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring, and configurations as JSON, with the n-th allocation failing, for every n. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "schedule/config.h"
#include "tune/measure.h"

static tw_status sample(void *context, int i, double *time, tw_diag *diag) {
    int *calls = context;
    (void)diag;
    *time = i;
    ++*calls;
    return TW_OK;
}

static int measured(void *context) {
    static const tw_measure_calls calls = {.sample = sample};
    static const tw_measure_protocol p = {.samples = 2, .turns = true};
    int n = 0;
    tw_diag d;
    (void)context;
    const tw_status st = tw_measure(&calls, &n, 3, &p, NULL, &d);
    if (st == TW_OK) return n == 6 ? 0 : 2;
    return st == TW_ERR_MEMORY && !n && d.message[0] ? 1 : 3;
}

static int written(void *context) {
    const tw_schedule_config c = {{0}, {0}};
    tw_buf json = {0}, schema = {0};
    (void)context;
    tw_space_put_json(&tw_schedule_space, &c, &json);
    tw_space_put_schema(&tw_schedule_space, &schema);
    const bool failed = json.failed || schema.failed;
    tw_buf_free(&json);
    tw_buf_free(&schema);
    return failed;
}

static void nothing_is_lost(void **state) {
    (void)state;
    alloc_fail_exhaust(measured, NULL);
    alloc_fail_exhaust(written, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
