/* SPDX-License-Identifier: Apache-2.0 */
/* Perfetto's format, held to a strict reader of it. */
#include "support/support.h"

#include "base/file.h"
#include "prof/made.h"
#include "prof/perfetto.h"
#include "prof/read_perfetto.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static read_counts read_back(const tw_trace *t, size_t plain, tw_buf *text) {
    tw_buf file = {0};
    tw_diag d;
    read_counts counts;
    if (tw_perfetto_encode_above(&file, t, plain, &d) != TW_OK) fail_msg("%s", d.message);
    const char *wrong = read_perfetto(file.data, file.size, text, &counts);
    if (wrong) fail_msg("%s", wrong);
    tw_buf_free(&file);
    return counts;
}

/* Word by word: names, tracks, lanes of what overlaps, notes, flows, counters, and blocks around what warps did. */
static void a_small_trace_is_written(void **state) {
    (void)state;
    tw_trace *t = made_small();
    tw_buf text = {0};
    read_back(t, SIZE_MAX, &text);
    test_golden("prof/small_perfetto.txt", text.data, text.size);
    tw_buf_free(&text);
    tw_trace_free(t);
}

static void nothing_is_written(void **state) {
    (void)state;
    tw_trace *t = made_empty();
    const read_counts n = read_back(t, SIZE_MAX, NULL);
    assert_int_equal(n.tracks, 1);
    assert_int_equal(n.begins, 1);
    assert_int_equal(n.packets, 5);
    tw_trace_free(t);
}

static void a_product_is_written(void **state) {
    (void)state;
    tw_trace *t = made_product(6, 24);
    int regions = 0, marks = 0;
    for (int i = 0; i < t->n_events; i++) {
        regions += t->events[i].kind != TW_EVENT_MARK;
        marks += t->events[i].kind == TW_EVENT_MARK;
    }
    for (int compressed = 0; compressed < 2; compressed++) {
        const read_counts n = read_back(t, compressed ? 0 : SIZE_MAX, NULL);
        assert_int_equal(n.begins, regions + t->n_tracks + 1);
        assert_int_equal(n.ends, n.begins);
        assert_int_equal(n.instants, marks);
        assert_int_equal(n.compressed, compressed);
    }
    tw_trace_free(t);
}

/* Packets of any size go into pieces of a MiB. */
static void large_files_are_compressed(void **state) {
    (void)state;
    tw_trace *t = made_product(40, 200);
    tw_buf plain = {0}, packed = {0};
    tw_diag d;
    read_counts n;
    assert_int_equal(tw_perfetto_encode_above(&plain, t, SIZE_MAX, &d), TW_OK);
    assert_int_equal(tw_perfetto_encode_above(&packed, t, plain.size - 1, &d), TW_OK);
    assert_null(read_perfetto(packed.data, packed.size, NULL, &n));
    assert_int_equal(n.compressed, plain.size / (1 << 20) + 1);
    assert_true(packed.size * 3 < plain.size);
    /* An event takes at most 25 bytes, and this trace has more of everything than most. */
    assert_true(packed.size < 25 * (size_t)t->n_events);
    tw_buf_clear(&packed);
    assert_int_equal(tw_perfetto_encode_above(&packed, t, plain.size, &d), TW_OK);
    assert_int_equal(packed.size, plain.size);
    tw_buf_free(&plain);
    tw_buf_free(&packed);
    tw_trace_free(t);
}

/* An edge is left out where clocks of SMs disagree so much that it would lead back in time. */
static void edges_lead_forwards(void **state) {
    (void)state;
    for (int late = 0; late < 3; late++) {
        tw_diag d;
        tw_trace *t = tw_trace_new("", "", "ns");
        const int a = made_track(t, 0, 0, 0, "a", 0, 100), b = made_track(t, 1, 1, 0, "b", 0, 100);
        const int wait = made_event(t, a, TW_EVENT_WAIT, "wait", TW_ENGINE_SYNC, 10, 20);
        const int mark = made_event(t, b, TW_EVENT_MARK, "arrive", TW_ENGINE_SYNC, 19 + late, 19 + late);
        assert_true(tw_trace_add_edge(t, mark, wait) >= 0);
        assert_int_equal(tw_trace_finish(t, &d), TW_OK);
        tw_buf text = {0};
        read_back(t, SIZE_MAX, &text);
        assert_int_equal(strstr(text.data, "flow=1") != NULL, late < 2);
        assert_int_equal(strstr(text.data, "flow_end=1") != NULL, late < 2);
        tw_buf_free(&text);
        tw_trace_free(t);
    }
}

/* A mark at the moment in which the wait ends comes before it, whichever track is first. */
static void many_edges_of_one_time_are_ordered(void **state) {
    (void)state;
    tw_diag d;
    tw_trace *t = tw_trace_new("", "", "ops");
    int waits[2], marks[2];
    for (int i = 0; i < 2; i++) {
        const int k = made_track(t, i, i, 0, "a", 0, 9);
        waits[i] = made_event(t, k, TW_EVENT_WAIT, "wait", TW_ENGINE_SYNC, 1, 5);
        marks[i] = made_event(t, k, TW_EVENT_MARK, "arrive", TW_ENGINE_SYNC, 5, 5);
    }
    for (int i = 0; i < 4; i++) assert_true(tw_trace_add_edge(t, marks[i / 2], waits[i % 2]) >= 0);
    assert_int_equal(tw_trace_finish(t, &d), TW_OK);
    tw_buf text = {0};
    read_back(t, SIZE_MAX, &text);
    assert_non_null(strstr(text.data, "flow=1 flow=3"));
    assert_non_null(strstr(text.data, "flow_end=1 flow_end=2"));
    assert_non_null(strstr(text.data, "1 ns is 1 operation"));
    tw_buf_free(&text);
    tw_trace_free(t);
}

static void what_is_no_trace_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < 8; i++) {
        tw_trace *t = made_small();
        tw_buf file = {0};
        tw_diag d;
        tw_trace_event *e = &t->events[1];
        if (i == 0) e->begin = (double)NAN;
        if (i == 1) e->end = (double)INFINITY;
        if (i == 2) e->end = e->begin - 1;
        if (i == 3) e->name = t->n_names;
        if (i == 4) e->track = -1;
        if (i == 5) t->tracks[0].role = -1;
        if (i == 6) t->edges[0].to = t->n_events;
        if (i == 7) t->tracks[0].end = 1e300;
        assert_int_equal(tw_perfetto_encode(&file, t, &d), TW_ERR_USAGE);
        assert_int_equal(file.size, 0);
        tw_trace_free(t);
    }
}

/* Bytes that are no text do not reach the file. */
static void texts_are_utf8(void **state) {
    (void)state;
    tw_trace *t = made_small();
    tw_buf text = {0};
    memcpy(t->names[t->events[0].name].text, "\xff\xc3", 2);
    memcpy(t->title, "\x80", 1);
    memcpy(t->device, "\xe2\x82", 2);
    memcpy(t->names[t->tracks[0].role].text, "\xfe", 1);
    read_back(t, SIZE_MAX, &text);
    assert_non_null(strstr(text.data, "name=\"?emm"));
    assert_non_null(strstr(text.data, "\"??IDIA"));
    assert_non_null(strstr(text.data, "warp 0, ?roducer"));
    assert_non_null(strstr(text.data, "text=\"??sue\""));
    tw_buf_free(&text);
    tw_trace_free(t);
}

static void files_are_written(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[512];
    tw_trace *t = made_small();
    tw_buf file = {0}, same = {0};
    tw_diag d;
    snprintf(path, sizeof path, "%s/a.pftrace", folder);
    assert_int_equal(tw_perfetto_write(t, path, &d), TW_OK);
    assert_int_equal(tw_file_read(&file, path, &d), TW_OK);
    assert_int_equal(tw_perfetto_encode(&same, t, &d), TW_OK);
    assert_int_equal(file.size, same.size);
    assert_memory_equal(file.data, same.data, file.size);
    assert_int_equal(tw_perfetto_write(t, "/nowhere/a.pftrace", &d), TW_ERR_IO);
    tw_buf_free(&file);
    tw_buf_free(&same);
    tw_trace_free(t);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_small_trace_is_written),
                                       cmocka_unit_test(nothing_is_written),
                                       cmocka_unit_test(a_product_is_written),
                                       cmocka_unit_test(large_files_are_compressed),
                                       cmocka_unit_test(edges_lead_forwards),
                                       cmocka_unit_test(many_edges_of_one_time_are_ordered),
                                       cmocka_unit_test(what_is_no_trace_is_refused),
                                       cmocka_unit_test(texts_are_utf8),
                                       cmocka_unit_test(files_are_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
