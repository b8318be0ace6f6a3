/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of reading and checking a schedule of AutoMegaKernel's fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "schedule/formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check(void *context) {
    const tw_buf *text = context;
    tw_schedule_file *f;
    tw_report r = {0};
    tw_diag d;
    tw_status st = tw_schedule_file_parse(&f, text->data, text->size, "x.json", TW_SCHEDULE_AUTO, &d);
    if (st == TW_OK) st = tw_schedule_file_check(f, &r, &d);
    remove(TW_BINARY_DIR "/alloc_amk.dot");
    if (st == TW_OK) st = tw_schedule_file_dot(f, &r, TW_BINARY_DIR "/alloc_amk.dot", &d);
    if (st == TW_OK) assert_int_equal(access(TW_BINARY_DIR "/alloc_amk.dot", R_OK), 0);
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

/* Something is wrong with it: whatever fails, it is never accepted, and what is said of it is said in words. */
static int reject(void *context) {
    const tw_buf *text = context;
    tw_schedule_file *f;
    tw_report r = {0};
    tw_diag d;
    tw_status st = tw_schedule_file_parse(&f, text->data, text->size, "x.json", TW_SCHEDULE_AUTO, &d);
    if (st == TW_OK) st = tw_schedule_file_check(f, &r, &d);
    bool said = r.count > 0 || r.cut;
    for (size_t i = 0; i < r.count; i++) said = said && r.findings[i].where && r.findings[i].text;
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return st == TW_ERR_REJECTED && said ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
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

static void nothing_unsafe_is_accepted(void **state) {
    (void)state;
    static const char *const files[] = {"unsafe-drop_wait-00", "unsafe-oob-00", "unsafe-wweight-00", "unsafe-cycle-00"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        tw_buf text = {0};
        tw_diag d;
        snprintf(path, sizeof path, TEST_DATA "/schedules/amk/%s.json", files[i]);
        assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
        alloc_fail_exhaust(reject, &text);
        tw_buf_free(&text);
    }
}

typedef struct wrong {
    char *text;
    size_t findings; /* 0: not known yet */
} wrong;

static int name_all(void *context) {
    wrong *w = context;
    tw_schedule_file *f;
    tw_report r = {0};
    tw_diag d;
    tw_status st = tw_schedule_file_parse(&f, w->text, strlen(w->text), "x.json", TW_SCHEDULE_AUTO, &d);
    if (st == TW_OK) st = tw_schedule_file_check(f, &r, &d);
    if (st == TW_ERR_REJECTED && !w->findings) w->findings = r.count;
    bool all = r.count == w->findings || r.cut;
    tw_report_free(&r);
    tw_schedule_file_free(f);
    return st == TW_ERR_REJECTED && all ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void set(json_t *root, const char *label, const char *parameter, int value) {
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(root, "tasks"), i, t) {
        if (strcmp(json_string_value(json_object_get(t, "label")), label) != 0) continue;
        assert_int_equal(json_object_set_new(json_object_get(t, "params"), parameter, json_integer(value)), 0);
        return;
    }
    fail_msg("no %s", label);
}

/* One thing is wrong with what a task writes, another with what attention sees. A report that does not say that it was
   cut has both. */
static void no_finding_is_lost_in_silence(void **state) {
    (void)state;
    json_t *root;
    tw_diag d;
    assert_int_equal(tw_json_load(&root, TEST_DATA "/schedules/amk/toy-split.json", &d), TW_OK);
    set(root, "k.append", "pos", 999);
    set(root, "attention.s0", "kv_len", 16);
    wrong w = {json_dumps(root, 0), 0};
    assert_non_null(w.text);
    alloc_fail_exhaust(name_all, &w);
    assert_int_equal(w.findings, 2);
    free(w.text);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_check_survives_every_failure),
                                       cmocka_unit_test(nothing_unsafe_is_accepted),
                                       cmocka_unit_test(no_finding_is_lost_in_silence)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
