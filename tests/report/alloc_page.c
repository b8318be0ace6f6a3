/* SPDX-License-Identifier: Apache-2.0 */
/* A page with the n-th allocation failing, for every n. */
#define _POSIX_C_SOURCE 200809L
#include "support/alloc_fail.h"
#include "support/support.h"

#include "report/page.h"

#include <stdio.h>
#include <sys/stat.h>

/* Tells whether the page is as large as the first one was. */
static bool is_whole(const char *path) {
    static long whole;
    struct stat s;
    if (stat(path, &s)) return false;
    if (!whole) whole = s.st_size;
    return s.st_size == whole;
}

static int written(void *context) {
    static const char *const columns[] = {"name", "value"};
    const char *path = context;
    tw_diag d = {.message = ""};
    tw_page *p = tw_page_open("A title", "A lead.");
    if (!p) return 1;
    tw_page_figure(p, "1", "one");
    tw_page_section(p, "A section", "Its text.");
    tw_page_table(p, NULL, columns, 2);
    tw_page_row(p, columns);
    tw_page_add_plot(p, &(tw_page_plot){.title = "A plot", .x = "x", .y = "y"});
    tw_page_series(p, "a series", TW_PAGE_POINTS);
    tw_page_point(p, 1, 2, "a point");
    tw_page_add_timeline(p, &(tw_page_timeline){"A timeline", "", "ns", 0, 9, .kinds = columns, .n_kinds = 2});
    tw_page_group(p, "A group");
    tw_page_timeline_row(p, "A row", false);
    tw_page_arrow(p, 0, tw_page_add_bar(p, &(tw_page_bar){0, TW_PAGE_WORK, 0, 1, 2, "a bar", 3, "a detail"}));
    const tw_status st = tw_page_write(p, path, "var Chart;", &d);
    tw_page_close(p);
    if (st == TW_OK) return is_whole(path) ? 0 : 2;
    return st == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
}

static void nothing_is_lost(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[512];
    snprintf(path, sizeof path, "%s/page.html", folder);
    alloc_fail_exhaust(written, path);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
