/* SPDX-License-Identifier: Apache-2.0 */
/* Writers of traces with the n-th allocation failing, for every n: each writes everything, or says that memory ran out.
 */
#define _POSIX_C_SOURCE 200809L
#include "support/alloc_fail.h"
#include "support/support.h"

#include "prof/chrome.h"
#include "prof/made.h"
#include "prof/perfetto.h"
#include "prof/report.h"
#include "prof/summary.h"

#include <stdio.h>
#include <sys/stat.h>

static tw_trace *made;

/* Tells whether a file is as large as the first one was. */
static int judge(tw_status st, const tw_diag *d, size_t size, size_t *whole) {
    if (st == TW_ERR_MEMORY) return d->message[0] ? 1 : 3;
    if (st != TW_OK) return 3;
    if (!*whole) *whole = size;
    return size == *whole ? 0 : 2;
}

static int perfetto(void *context) {
    static size_t wholes[2];
    const int packed = *(const int *)context;
    tw_buf out = {0};
    tw_diag d = {.message = ""};
    const tw_status st = tw_perfetto_encode_above(&out, made, packed ? 0 : SIZE_MAX, &d);
    const int judged = judge(st, &d, out.size, &wholes[packed]);
    tw_buf_free(&out);
    return judged;
}

static int chrome(void *context) {
    static size_t whole;
    tw_buf out = {0};
    tw_diag d = {.message = ""};
    (void)context;
    const tw_status st = tw_chrome_encode(&out, made, &d);
    const int judged = judge(st, &d, out.size, &whole);
    tw_buf_free(&out);
    return judged;
}

static int summary(void *context) {
    static size_t whole;
    tw_summary s;
    tw_buf out = {0};
    tw_diag d = {.message = ""};
    (void)context;
    tw_status st = tw_summary_make(&s, made, &d);
    int judged = 1;
    if (st == TW_OK) {
        tw_summary_text(&out, &s, made);
        judged = out.failed ? 1 : judge(TW_OK, &d, out.size, &whole);
    } else if (st != TW_ERR_MEMORY || !d.message[0]) {
        judged = 3;
    }
    tw_buf_free(&out);
    tw_summary_free(&s);
    return judged;
}

static int report(void *context) {
    static size_t whole;
    const char *path = context;
    tw_diag d = {.message = ""};
    struct stat s = {0};
    const tw_status st = tw_trace_report(made, NULL, path, NULL, &d);
    if (st == TW_OK && stat(path, &s)) return 3;
    return judge(st, &d, (size_t)s.st_size, &whole);
}

static void perfetto_is_whole(void **state) {
    (void)state;
    for (int packed = 0; packed < 2; packed++) alloc_fail_exhaust(perfetto, &packed);
}

static void chrome_is_whole(void **state) {
    (void)state;
    alloc_fail_exhaust(chrome, NULL);
}

static void summary_is_whole(void **state) {
    (void)state;
    alloc_fail_exhaust(summary, NULL);
}

static void report_is_whole(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[512];
    snprintf(path, sizeof path, "%s/trace.html", folder);
    alloc_fail_exhaust(report, path);
    test_folder_remove(folder);
}

static int setup(void **state) {
    (void)state;
    made = made_small();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tw_trace_free(made);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(perfetto_is_whole), cmocka_unit_test(chrome_is_whole),
                                       cmocka_unit_test(summary_is_whole), cmocka_unit_test(report_is_whole)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
