/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of traces: what they hold, which part of a large trace is drawn, and that they say so. */
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "prof/made.h"
#include "prof/report.h"
#include "prof/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *folder;
static char path[512];
static tw_buf text;
static json_t *data;

static int setup(void **state) {
    (void)state;
    folder = test_folder_make();
    snprintf(path, sizeof path, "%s/trace.html", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    tw_buf_free(&text);
    text = (tw_buf){0};
    json_decref(data);
    data = NULL;
    test_folder_remove(folder);
    return 0;
}

static bool has(const char *part) {
    return strstr(text.data, part) != NULL;
}

static void write_and_read(const tw_trace *t) {
    static const char begin[] = "id=\"data\">";
    tw_diag d;
    if (tw_trace_report(t, NULL, path, "var Chart;", &d) != TW_OK) fail_msg("%s", d.message);
    tw_buf_clear(&text);
    json_decref(data);
    assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
    const char *from = strstr(text.data, begin) + strlen(begin), *end = strstr(from, "</script>");
    if (tw_json_parse(&data, from, (size_t)(end - from), "data", -1, &d) != TW_OK) fail_msg("%s", d.message);
}

static const json_t *line(void) {
    return json_array_get(json_object_get(data, "timelines"), 0);
}

static int64_t number(const json_t *bar, size_t i) {
    return json_integer_value(json_array_get(bar, i));
}

static const char *name_of(const json_t *bar, size_t i) {
    return json_string_value(json_array_get(json_object_get(line(), "texts"), (size_t)number(bar, i)));
}

/* Counts rows and bars, and holds bars of each level of a row to being one after the other. */
static int count_bars(int *rows) {
    const json_t *group, *row, *bar;
    size_t i, k, m;
    int n = 0;
    *rows = 0;
    json_array_foreach(json_object_get(line(), "groups"), i, group) {
        json_array_foreach(json_object_get(group, "rows"), k, row) {
            int64_t ends[16] = {0};
            ++*rows;
            json_array_foreach(json_object_get(row, "bars"), m, bar) {
                const int64_t level = number(bar, 4);
                n++;
                assert_true(level >= 0 && level < 16 && name_of(bar, 3));
                if (number(bar, 5) == TW_PAGE_MOMENT) continue;
                assert_true(number(bar, 0) >= ends[level] && number(bar, 1) >= number(bar, 0));
                ends[level] = number(bar, 1);
            }
        }
    }
    return n;
}

static const json_t *find_bar(const char *name, int skip) {
    const json_t *group, *row, *bar;
    size_t i, k, m;
    json_array_foreach(json_object_get(line(), "groups"), i, group)
        json_array_foreach(json_object_get(group, "rows"), k, row) json_array_foreach(
            json_object_get(row, "bars"), m, bar) if (!strcmp(name_of(bar, 3), name) && !skip--) return bar;
    fail_msg("there is no bar %s", name);
    return NULL;
}

static void a_small_trace_is_drawn_whole(void **state) {
    (void)state;
    tw_trace *t = made_small();
    int rows;
    write_and_read(t);
    assert_true(has("<title>gemm &quot;q&quot; &lt;/script&gt; m=512</title>"));
    assert_true(has("on NVIDIA H200"));
    assert_true(has("<dd>154.0 ns</dd>") && has("<dd>+1.33 %</dd>") && has("records lost</dt><dd>12</dd>"));
    assert_true(has("may be off by 2.5 ns") && has("Records are lost"));
    assert_false(has("Untrusted") || has("excerpt"));
    assert_int_equal(count_bars(&rows), t->n_events + t->n_tracks);
    assert_int_equal(rows, 5);
    const json_t *wait = find_bar("wait", 0), *products = find_bar("wgmma \"64x256\" \\ <b>\n\xc3\xa9\xe2\x82\xac", 0);
    assert_int_equal(number(wait, 5), TW_PAGE_WAIT);
    assert_int_equal(number(wait, 2), TW_ENGINE_SYNC);
    assert_int_equal(number(wait, 4), 2); /* In an iteration, which is in a block. */
    assert_int_equal(number(wait, 0), 14);
    assert_int_equal(number(wait, 1), 34);
    assert_int_equal(number(wait, 6), 0);
    assert_string_equal(name_of(products, 7), "between 18 and 22 ns");
    assert_int_equal(number(find_bar("k", 1), 5), TW_PAGE_FRAME);
    assert_int_equal(number(find_bar("k", 1), 6), 1);
    assert_string_equal(name_of(find_bar("stages", 0), 7), "value -3");
    assert_string_equal(name_of(find_bar("copy B", 0), 7), "asynchronous");
    assert_string_equal(name_of(find_bar("block 0", 1), 7), "12 records lost");
    assert_int_equal(json_array_size(json_object_get(line(), "arrows")), 1);
    assert_int_equal(json_array_size(json_object_get(data, "plots")), 0);
    tw_trace_free(t);
}

/* Arrows lead between the bars that the trace's edges name. */
static void arrows_are_between_the_right_bars(void **state) {
    (void)state;
    tw_trace *t = made_product(2, 8);
    const json_t *bars[1024], *group, *row, *bar, *arrow;
    size_t i, k, m;
    int n = 0, copies = 0;
    write_and_read(t);
    json_array_foreach(json_object_get(line(), "groups"), i, group)
        json_array_foreach(json_object_get(group, "rows"), k, row)
            json_array_foreach(json_object_get(row, "bars"), m, bar) bars[n++] = bar;
    assert_int_equal(json_array_size(json_object_get(line(), "arrows")), t->n_edges);
    json_array_foreach(json_object_get(line(), "arrows"), i, arrow) {
        const json_t *from = bars[number(arrow, 0)], *to = bars[number(arrow, 1)];
        const bool is_copy = !strcmp(name_of(from, 3), "copy of a stage");
        assert_string_equal(name_of(to, 3), is_copy ? "wait for a full stage" : "wait for an empty stage");
        if (!is_copy) assert_string_equal(name_of(from, 3), "arrive at an empty stage");
        assert_true(number(from, 1) <= number(to, 1));
        copies += is_copy;
    }
    assert_int_equal(copies, 2 * 2 * 8 * 2);
    tw_trace_free(t);
}

/* Of many SMs those are drawn that end first, in the middle and last, from the beginning until there is too much. */
static void an_excerpt_is_drawn_and_said(void **state) {
    (void)state;
    tw_trace *t = made_product(30, 60);
    int rows;
    assert_true(t->n_events > TW_TRACE_DRAWN);
    write_and_read(t);
    assert_true(has("An excerpt: 3 of 30 SMs"));
    assert_false(has("is left out"));
    const json_t *groups = json_object_get(line(), "groups"), *group;
    bool said[3] = {false};
    size_t i;
    assert_int_equal(json_array_size(groups), 3);
    json_array_foreach(groups, i, group) {
        const char *name = json_string_value(json_object_get(group, "name"));
        said[0] |= strstr(name, "the first to end") != NULL;
        said[1] |= strstr(name, "the middle one") != NULL;
        said[2] |= !strcmp(name, "SM 10, the last to end");
    }
    assert_true(said[0] && said[1] && said[2]);
    assert_int_equal(count_bars(&rows), 3 * 6 + 3 * t->n_events / 30);
    assert_int_equal(json_array_size(json_object_get(data, "plots")), 1);
    tw_trace_free(t);

    t = made_product(2, 400);
    assert_true(t->n_events > TW_TRACE_DRAWN);
    write_and_read(t);
    assert_true(has("An excerpt: what begins after ") && has("is left out"));
    const int n = count_bars(&rows);
    assert_true(n >= TW_TRACE_DRAWN - 8 && n <= TW_TRACE_DRAWN + 12);
    assert_true(json_number_value(json_object_get(line(), "end")) < tw_trace_length(t));
    tw_trace_free(t);
}

static void tables_have_the_summary(void **state) {
    (void)state;
    tw_trace *t = made_product(3, 40);
    t->clean = t->traced / 1.04;
    write_and_read(t);
    assert_true(has("<caption>producer: 6 tracks, together 77.65 µs, 0 records lost</caption>"));
    assert_true(has("<tr><td>products</td><td>region</td><td>tensor</td><td class=\"number\">480</td><td "
                    "class=\"number\">107.67</td><td class=\"number\">63.7 %</td>"));
    assert_true(has("<tr><td>consumer</td><td>long scoreboard</td><td class=\"number\">480</td>"));
    assert_true(has("Untrusted: with records the kernel takes +4.00 %") && has("that recording took: untrusted"));
    tw_trace_free(t);
}

/* On a processor rows are threads of cores, without thread blocks. */
static void processors_have_cores(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("a \xff model", "AMD", "ns");
    tw_diag d;
    int rows;
    for (int i = 0; i < 5; i++) {
        const int k = made_track(t, i, 0, i, "worker", 0, 3e6 + i);
        made_event(t, k, TW_EVENT_REGION, "gate", TW_ENGINE_MEMORY, 5, 2e6);
    }
    t->on_processor = true;
    assert_int_equal(tw_trace_finish(t, &d), TW_OK);
    write_and_read(t);
    assert_true(has("a ? model") && has("<dd>3.00 ms</dd>") && has("cores with 5 tracks") && has("When cores end"));
    assert_int_equal(count_bars(&rows), 5);
    const json_t *group = json_array_get(json_object_get(line(), "groups"), 0);
    assert_string_equal(json_string_value(json_object_get(group, "name")), "core 0, the first to end");
    const json_t *row = json_array_get(json_object_get(group, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "name")), "thread 0, worker");
    assert_int_equal(number(json_array_get(json_object_get(row, "bars"), 0), 4), 0);
    tw_trace_free(t);
}

static void nothing_is_written(void **state) {
    (void)state;
    tw_trace *t = made_empty();
    write_and_read(t);
    assert_int_equal(json_array_size(json_object_get(data, "timelines")), 0);
    assert_true(has("<dd>0.0 ns</dd>"));
    tw_trace_free(t);
}

static void failures_are_told(void **state) {
    (void)state;
    tw_trace *t = made_small();
    tw_diag d;
    assert_int_equal(tw_trace_report(t, NULL, "/nowhere/trace.html", NULL, &d), TW_ERR_IO);
    assert_int_equal(tw_trace_report(t, NULL, path, "</script>", &d), TW_ERR_UNSUPPORTED);
    t->events[0].end = (double)NAN;
    assert_int_equal(tw_trace_report(t, NULL, path, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_trace_report(t, NULL, path, NULL, NULL), TW_ERR_USAGE);
    assert_false(tw_file_exists(path));
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_small_trace_is_drawn_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(arrows_are_between_the_right_bars, setup, teardown),
        cmocka_unit_test_setup_teardown(an_excerpt_is_drawn_and_said, setup, teardown),
        cmocka_unit_test_setup_teardown(tables_have_the_summary, setup, teardown),
        cmocka_unit_test_setup_teardown(processors_have_cores, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_written, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_are_told, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
