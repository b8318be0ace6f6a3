/* SPDX-License-Identifier: Apache-2.0 */
/* Pages: what they hold, what is escaped, and what lacks where there is no library for plots. */
#include "support/support.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/json.h"
#include "report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder;
static char path[512];
static tw_buf text;

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    snprintf(path, sizeof path, "%s/page.html", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tw_buf_free(&text);
    text = (tw_buf){0};
    test_folder_remove(folder);
    return 0;
}

static tw_page *opened(void) {
    tw_page *p = tw_page_open("A <b> & \"c\"", "What it is of.");
    assert_non_null(p);
    return p;
}

static void write_and_read(tw_page *p, const char *plots) {
    tw_diag d;
    if (tw_page_write(p, path, plots, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    tw_page_close(p);
}

static bool has(const char *part) {
    return strstr(text.data, part) != NULL;
}

static void fill(tw_page *p) {
    static const char *const columns[] = {"name", "value"};
    tw_page_figure(p, "95 %", "of the <best>");
    tw_page_figure(p, "2 ×", "the default");
    tw_page_section(p, "A section", "Its text.");
    tw_page_table(p, "A caption", columns, 2);
    tw_page_row(p, (const char *const[]){"<script>", "-1.5 %"});
    tw_page_add_plot(p,
                     &(tw_page_plot){.title = "A plot", .x = "x, s", .y = "y, m", .note = "Its note.", .log_x = true});
    tw_page_series(p, "</script><!--", TW_PAGE_LINE);
    tw_page_point(p, 1, 2, NULL);
    tw_page_point(p, 2, (double)NAN, NULL);
    tw_page_point(p, (double)INFINITY, 1, NULL);
    tw_page_point(p, 3, 4.5, "here");
}

static void parts_are_written_in_order(void **state) {
    (void)state;
    tw_page *p = opened();
    fill(p);
    write_and_read(p, "var Chart;");
    static const char *const order[] = {"<!DOCTYPE html>",
                                        "<meta name=\"viewport\"",
                                        "<title>A &lt;b&gt; &amp; &quot;c&quot;</title>",
                                        "<h1>A &lt;b&gt;",
                                        "What it is of.",
                                        "<dl class=\"figures\">",
                                        "of the &lt;best&gt;</dt><dd>95 %",
                                        "the default</dt><dd>2 ×",
                                        "</dl>",
                                        "<h2>A section</h2>",
                                        "<p>Its text.</p>",
                                        "<caption>A caption</caption>",
                                        "<td>&lt;script&gt;</td><td class=\"number\">-1.5 %</td>",
                                        "</table>",
                                        "<canvas id=\"plot0\"",
                                        "Its note.",
                                        "id=\"data\">",
                                        "var Chart;",
                                        "</html>\n"};
    const char *at = text.data;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *next = strstr(at, order[i]);
        if (!next) fail_msg("\"%s\" is not there, or too early", order[i]);
        at = next + strlen(order[i]);
    }
    assert_int_equal(*at, 0);
    assert_false(has("plots are missing"));
}

/* The data is JSON that no text of it can end, without what is not finite. */
static void data_survives(void **state) {
    (void)state;
    static const char begin[] = "id=\"data\">";
    tw_page *p = opened();
    fill(p);
    write_and_read(p, "var Chart;");
    const char *from = strstr(text.data, begin);
    assert_non_null(from);
    from += strlen(begin);
    const char *end = strstr(from, "</script>");
    assert_non_null(end);
    json_t *data;
    tw_diag d;
    assert_false(memchr(from, '<', (size_t)(end - from)) != NULL);
    if (tw_json_parse(&data, from, (size_t)(end - from), "data", -1, &d) != TW_OK) fail_msg("%s", d.message);
    const json_t *plot = json_array_get(json_object_get(data, "plots"), 0);
    const json_t *series = json_array_get(json_object_get(plot, "series"), 0);
    const json_t *points = json_object_get(series, "points");
    assert_string_equal(json_string_value(json_object_get(plot, "x")), "x, s");
    assert_true(json_is_true(json_object_get(plot, "log_x")) && json_is_false(json_object_get(plot, "log_y")));
    assert_string_equal(json_string_value(json_object_get(series, "name")), "</script><!--");
    assert_string_equal(json_string_value(json_object_get(series, "kind")), "line");
    assert_int_equal(json_array_size(points), 2);
    assert_true(json_number_value(json_object_get(json_array_get(points, 1), "y")) == 4.5);
    assert_string_equal(json_string_value(json_object_get(json_array_get(points, 1), "label")), "here");
    json_decref(data);
}

static const char *const kinds[] = {"work", "</script>"};

static void add_line(tw_page *p, const char *title) {
    tw_page_add_timeline(
        p, &(tw_page_timeline){title, "What is <left> out.", "ns", 0, 1500.5, .kinds = kinds, .n_kinds = 2});
    tw_page_group(p, "SM 3");
    tw_page_timeline_row(p, "warp 0", false);
    assert_int_equal(tw_page_add_bar(p, &(tw_page_bar){0, TW_PAGE_FRAME, 0, 0, 1234567890, "block", -1, NULL}), 0);
    assert_int_equal(tw_page_add_bar(p, &(tw_page_bar){1, TW_PAGE_WAIT, 1, 0.25, 7, "</script>", 3, "value 4"}), 1);
    tw_page_timeline_row(p, "warp 0, lane", true);
    assert_int_equal(tw_page_add_bar(p, &(tw_page_bar){0, TW_PAGE_MOMENT, 0, 7, 7, "block", -1, "value 4"}), 2);
    tw_page_arrow(p, 2, 1);
}

static const json_t *at(const json_t *list, size_t i) {
    const json_t *item = json_array_get(list, i);
    assert_non_null(item);
    return item;
}

/* A timeline's data: rows in groups, bars of which each text is there once, arrows; and its script, only where it is
   needed. */
static void timelines_survive(void **state) {
    (void)state;
    static const char begin[] = "id=\"data\">";
    tw_page *p = opened();
    add_line(p, "First");
    add_line(p, "Second");
    tw_page_text(p, "Behind.");
    write_and_read(p, NULL);
    assert_true(has("<figure class=\"timeline\" id=\"timeline0\"><figcaption>First</figcaption>"));
    assert_true(has("id=\"timeline1\"") && has("What is &lt;left&gt; out.") && has("draw_timeline = "));
    assert_false(has("plots are missing"));
    const char *from = strstr(text.data, begin) + strlen(begin), *end = strstr(from, "</script>");
    json_t *data;
    tw_diag d;
    if (tw_json_parse(&data, from, (size_t)(end - from), "data", -1, &d) != TW_OK) fail_msg("%s", d.message);
    const json_t *lines = json_object_get(data, "timelines"), *line = at(lines, 1);
    assert_int_equal(json_array_size(lines), 2);
    const json_t *rows = json_object_get(at(json_object_get(line, "groups"), 0), "rows");
    assert_int_equal(json_array_size(rows), 2);
    assert_true(json_is_true(json_object_get(at(rows, 1), "lane")) &&
                json_is_false(json_object_get(at(rows, 0), "lane")));
    char *bars = tw_json_text(json_object_get(at(rows, 0), "bars"), JSON_COMPACT);
    assert_string_equal(bars, "[[0,1234567890,0,0,0,2,-1],[0.25,7,1,1,1,1,3,2]]");
    free(bars);
    bars = tw_json_text(json_object_get(at(rows, 1), "bars"), JSON_COMPACT);
    assert_string_equal(bars, "[[7,7,0,0,0,3,-1,2]]");
    free(bars);
    assert_int_equal(json_array_size(json_object_get(line, "texts")), 3);
    assert_string_equal(json_string_value(at(json_object_get(line, "texts"), 1)), "</script>");
    assert_string_equal(json_string_value(at(json_object_get(line, "kinds"), 1)), "</script>");
    assert_int_equal(json_integer_value(at(at(json_object_get(line, "arrows"), 0), 0)), 2);
    assert_true(json_number_value(json_object_get(line, "end")) == 1500.5);
    json_decref(data);
    tw_buf_clear(&text);
    write_and_read(opened(), NULL);
    assert_false(has("draw_timeline = "));
}

/* Nothing in a page leads anywhere else. */
static void pages_need_no_network(void **state) {
    (void)state;
    tw_page *p = opened();
    fill(p);
    add_line(p, "A timeline");
    write_and_read(p, NULL);
    assert_false(has("http:") || has("https:") || has("src=") || has("href="));
    assert_true(has("default-src 'none'"));
}

static void what_lacks_is_said(void **state) {
    (void)state;
    tw_page *p = opened();
    fill(p);
    write_and_read(p, NULL);
    assert_true(has("The plots are missing: Chart.js") && has("<td>&lt;script&gt;</td>"));
    tw_buf_clear(&text);
    /* A page without plots lacks nothing. */
    write_and_read(opened(), NULL);
    assert_false(has("plots are missing"));
}

static void failures_are_told(void **state) {
    (void)state;
    tw_diag d;
    tw_page *p = opened();
    assert_int_equal(tw_page_write(p, path, "x </script>", &d), TW_ERR_UNSUPPORTED);
    assert_int_equal(tw_page_write(p, path, "x <!-- y", &d), TW_ERR_UNSUPPORTED);
    assert_int_equal(tw_page_write(p, "/nowhere/page.html", NULL, &d), TW_ERR_IO);
    assert_false(tw_file_exists(path));
    tw_page_close(p);
    tw_page_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(parts_are_written_in_order, setup, teardown),
                                       cmocka_unit_test_setup_teardown(data_survives, setup, teardown),
                                       cmocka_unit_test_setup_teardown(timelines_survive, setup, teardown),
                                       cmocka_unit_test_setup_teardown(pages_need_no_network, setup, teardown),
                                       cmocka_unit_test_setup_teardown(what_lacks_is_said, setup, teardown),
                                       cmocka_unit_test_setup_teardown(failures_are_told, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
