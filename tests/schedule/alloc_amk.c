/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of reading and checking a schedule of AutoMegaKernel's fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "base/file.h"
#include "schedule/formats.h"

#include <stdio.h>

static int check(void *context) {
    const tw_buf *text = context;
    tw_schedule_file *f;
    tw_report r = {0};
    tw_diag d;
    tw_status st = tw_schedule_file_parse(&f, text->data, text->size, "x.json", TW_SCHEDULE_AUTO, &d);
    if (st == TW_OK) st = tw_schedule_file_check(f, &r, &d);
    if (st == TW_OK) st = tw_schedule_file_dot(f, &r, TW_BINARY_DIR "/alloc_amk.dot", &d);
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void survives(const char *path) {
    tw_buf text = {0};
    tw_diag d;
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    alloc_fail_exhaust(check, &text);
    remove(TW_BINARY_DIR "/alloc_amk.dot");
    tw_buf_free(&text);
}

static void a_check_survives_every_failure(void **state) {
    (void)state;
    survives(TEST_DATA "/schedules/amk/toy-split.json");
    survives(TEST_DATA "/schedules/amk/toy-batch.json");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_check_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
