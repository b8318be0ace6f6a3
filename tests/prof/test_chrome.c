/* SPDX-License-Identifier: Apache-2.0 */
/* Chrome's format: JSON that keeps the rules of trace events. */
#include "support/support.h"

#include "base/file.h"
#include "base/json.h"
#include "prof/chrome.h"
#include "prof/made.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *written(const tw_trace *t) {
    tw_buf file = {0};
    tw_diag d;
    json_t *root;
    if (tw_chrome_encode(&file, t, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_json_parse(&root, file.data, file.size, "trace", -1, &d) != TW_OK) fail_msg("%s", d.message);
    tw_buf_free(&file);
    return root;
}

static const char *text_of(const json_t *e, const char *name) {
    const char *text = json_string_value(json_object_get(e, name));
    if (!text) fail_msg("%s is missing", name);
    return text;
}

static int64_t int_of(const json_t *e, const char *name) {
    const json_t *v = json_object_get(e, name);
    if (!json_is_integer(v)) fail_msg("%s is no integer", name);
    return json_integer_value(v);
}

/* A time in nanoseconds. It must have been written with three decimals. */
static int64_t time_of(const json_t *e, const char *name) {
    const json_t *v = json_object_get(e, name);
    assert_true(json_is_real(v));
    const double ns = json_real_value(v) * 1000, whole = floor(ns + 0.5);
    assert_true(fabs(ns - whole) < 1e-3 && whole >= 0);
    return (int64_t)whole;
}

typedef struct slice {
    int64_t pid, tid, begin, end;
} slice;

static int by_begin(const void *a, const void *b) {
    const slice *x = a, *y = b;
    if (x->pid != y->pid) return x->pid < y->pid ? -1 : 1;
    if (x->tid != y->tid) return x->tid < y->tid ? -1 : 1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

/* Slices of a thread are disjoint, or one is in the other. */
static void check_nesting(slice *s, size_t n) {
    int64_t stack[64];
    int depth = 0;
    qsort(s, n, sizeof *s, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (i && (s[i].pid != s[i - 1].pid || s[i].tid != s[i - 1].tid)) depth = 0;
        while (depth && stack[depth - 1] <= s[i].begin) depth--;
        assert_true(!depth || s[i].end <= stack[depth - 1]);
        assert_true(depth < 64);
        stack[depth++] = s[i].end;
    }
}

/* Ends the slice of the same thread that began last. */
static void end_slice(slice *s, size_t n, int64_t pid, int64_t tid, int64_t at) {
    while (n-- > 0 && (s[n].end >= 0 || s[n].pid != pid || s[n].tid != tid)) {
    }
    assert_true(n != SIZE_MAX && at >= s[n].begin);
    s[n].end = at;
}

static bool is_in_slice(const slice *s, size_t n, const json_t *e) {
    const int64_t at = time_of(e, "ts");
    for (size_t i = 0; i < n; i++)
        if (s[i].pid == int_of(e, "pid") && s[i].tid == int_of(e, "tid") && s[i].begin <= at && at < s[i].end)
            return true;
    return false;
}

typedef struct counts {
    int slices, lanes, marks, values, flows, names;
} counts;

/* Holds a file to the rules: each event is whole, each B has its E, slices nest, each thread has a name, each b has its
   e, and what has the same id does not overlap; each s has its f, which is not earlier, and both are in slices. */
static counts check_rules(const json_t *root) {
    enum { IDS = 1 << 16 };
    const json_t *events = json_object_get(root, "traceEvents"), *e;
    slice *slices = calloc(json_array_size(events) + 1, sizeof *slices);
    int64_t *open = calloc(IDS, sizeof *open), *flows = calloc(IDS, sizeof *flows), *over = calloc(IDS, sizeof *over);
    json_t *named = json_object();
    counts c = {0};
    size_t i, n = 0;
    char key[64];
    assert_string_equal(text_of(root, "displayTimeUnit"), "ns");
    json_array_foreach(events, i, e) {
        const char kind = text_of(e, "ph")[0];
        snprintf(key, sizeof key, "%d/%d", (int)int_of(e, "pid"), (int)int_of(e, "tid"));
        if (kind == 'B') slices[n++] = (slice){int_of(e, "pid"), int_of(e, "tid"), time_of(e, "ts"), -1};
        if (kind == 'E') end_slice(slices, n, int_of(e, "pid"), int_of(e, "tid"), time_of(e, "ts"));
        if (kind == 'M' && !strcmp(text_of(e, "name"), "thread_name")) {
            const json_t *args = json_object_get(e, "args");
            assert_null(json_object_get(named, key));
            assert_int_equal(json_object_set_new(named, key, json_string(text_of(args, "name"))), 0);
            c.names++;
        }
        assert_non_null(strchr("MBEbeisfC", kind));
        if (kind != 'M') assert_non_null(json_object_get(named, key));
        if (kind != 'E') text_of(e, "name");
    }
    for (i = 0; i < n; i++) assert_true(slices[i].end >= 0);
    check_nesting(slices, n);
    json_array_foreach(events, i, e) {
        const char kind = text_of(e, "ph")[0];
        const int64_t id = strchr("besf", kind) ? int_of(e, "id") : 0;
        assert_true(id >= 0 && id < IDS);
        if (kind == 'b') {
            assert_true(!open[id] && time_of(e, "ts") >= over[id]);
            open[id] = time_of(e, "ts") + 1;
            c.lanes++;
        } else if (kind == 'e') {
            assert_true(open[id] && time_of(e, "ts") >= open[id] - 1);
            open[id] = 0;
            over[id] = time_of(e, "ts");
        } else if (kind == 's' || kind == 'f') {
            assert_true(is_in_slice(slices, n, e));
            assert_int_equal(flows[id] != 0, kind == 'f');
            if (kind == 'f') {
                assert_string_equal(text_of(e, "bp"), "e");
                assert_true(time_of(e, "ts") >= flows[id] - 1);
                flows[id] = -1;
            } else {
                flows[id] = time_of(e, "ts") + 1;
                c.flows++;
            }
        } else if (kind == 'i') {
            assert_string_equal(text_of(e, "s"), "t");
            c.marks++;
        } else if (kind == 'C') {
            int_of(json_object_get(e, "args"), "value");
            c.values++;
        }
    }
    for (int id = 0; id < IDS; id++) assert_true(!open[id] && flows[id] <= 0);
    c.slices = (int)n;
    json_decref(named);
    free(slices);
    free(open);
    free(flows);
    free(over);
    return c;
}

static const json_t *find(const json_t *root, const char *kind, const char *name) {
    const json_t *events = json_object_get(root, "traceEvents"), *e;
    size_t i;
    json_array_foreach(events, i, e) {
        const char *own = json_string_value(json_object_get(e, "name"));
        if (!strcmp(text_of(e, "ph"), kind) && own && !strcmp(own, name)) return e;
    }
    fail_msg("no %s %s", kind, name);
    return NULL;
}

/* Returns the time at which the slice of a B ends. */
static int64_t end_of(const json_t *root, const json_t *begin) {
    const json_t *events = json_object_get(root, "traceEvents"), *e;
    size_t i;
    int depth = 0;
    json_array_foreach(events, i, e) {
        const char kind = text_of(e, "ph")[0];
        if (e == begin) depth = 1;
        if (e == begin || !depth || int_of(e, "pid") != int_of(begin, "pid") ||
            int_of(e, "tid") != int_of(begin, "tid"))
            continue;
        depth += kind == 'B' ? 1 : kind == 'E' ? -1 : 0;
        if (!depth) return time_of(e, "ts");
    }
    fail_msg("a slice has no end");
    return 0;
}

static void a_small_trace_is_written(void **state) {
    (void)state;
    tw_trace *t = made_small();
    json_t *root = written(t);
    const counts c = check_rules(root);
    assert_int_equal(c.slices, 9 + 4); /* Regions, and what tracks did. */
    assert_int_equal(c.lanes, 3);
    assert_int_equal(c.marks, 1);
    assert_int_equal(c.values, 1);
    assert_int_equal(c.flows, 1);
    assert_int_equal(c.names, 3);
    assert_int_equal(int_of(root, "baseTimeNanoseconds"), 1764000000249999996);
    const json_t *products = find(root, "B", "wgmma \"64x256\" \\ <b>\n\xc3\xa9\xe2\x82\xac");
    const json_t *args = json_object_get(products, "args");
    assert_int_equal(time_of(products, "ts"), 34);
    assert_int_equal(end_of(root, products), 54);
    assert_int_equal(int_of(products, "pid"), 3);
    assert_int_equal(int_of(products, "tid"), 4);
    assert_string_equal(text_of(products, "cat"), "tensor");
    assert_int_equal(int_of(args, "iteration"), 0);
    assert_true(json_number_value(json_object_get(args, "least")) == 18);
    assert_true(json_number_value(json_object_get(args, "most")) == 22);
    const json_t *block = find(root, "B", "block 7");
    assert_int_equal(time_of(block, "ts"), 104);
    assert_int_equal(int_of(json_object_get(find(root, "C", "warp 0, producer, stages"), "args"), "value"), -3);
    assert_int_equal(int_of(json_object_get(root, "otherData"), "dropped"), 12);
    assert_string_equal(text_of(json_object_get(root, "otherData"), "title"), "gemm \"q\" </script> m=512");
    json_decref(root);
    tw_trace_free(t);
}

static void a_product_is_written(void **state) {
    (void)state;
    tw_trace *t = made_product(3, 12);
    json_t *root = written(t);
    const counts c = check_rules(root);
    assert_int_equal(c.flows, t->n_edges);
    assert_int_equal(c.slices + c.lanes + c.marks, t->n_events + t->n_tracks);
    json_decref(root);
    tw_trace_free(t);
}

static void nothing_is_written(void **state) {
    (void)state;
    tw_trace *t = made_empty();
    json_t *root = written(t);
    assert_int_equal(check_rules(root).slices, 0);
    json_decref(root);
    tw_trace_free(t);
}

/* Threads of an SM differ in their numbers, whatever their places, warps and roles are. */
static void threads_have_numbers_of_their_own(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    tw_diag d;
    made_track(t, 0, 0, 64, "a", 0, 10); /* Its number is that of place 1's first warp. */
    made_track(t, 0, 1, 0, "a", 0, 10);
    made_track(t, 0, 1, 0, "a", 5, 10);
    made_track(t, 0, 1, 0, "b", 2, 3);
    made_track(t, 0, 1, 3, "\xff\x80z", 0, 10);
    assert_int_equal(tw_trace_finish(t, &d), TW_OK);
    json_t *root = written(t);
    assert_int_equal(check_rules(root).names, 5);
    assert_int_equal(int_of(find(root, "B", "block 0"), "tid"), 64);
    json_decref(root);
    tw_trace_free(t);
}

/* Numbers that JSON does not have, and bytes that are no text. */
static void what_json_lacks_is_replaced(void **state) {
    (void)state;
    tw_trace *t = made_small();
    for (int i = 0; i < t->n_events; i++) t->events[i].most = (double)INFINITY;
    t->tracks[0].uncertainty = (double)NAN;
    memcpy(t->names[t->events[0].name].text, "\x01\xc3z", 3);
    json_t *root = written(t);
    check_rules(root);
    assert_true(json_is_null(json_object_get(json_object_get(find(root, "B", "store"), "args"), "most")));
    find(root, "B", "\x01?zue");
    json_decref(root);
    tw_trace_free(t);
}

/* An arrow whose ends are of the same moment, and one that would lead back. */
static void edges_are_in_time(void **state) {
    (void)state;
    for (int late = 0; late < 3; late++) {
        tw_trace *t = tw_trace_new("", "", "ns");
        tw_diag d;
        const int a = made_track(t, 0, 0, 0, "a", 0, 100), b = made_track(t, 1, 1, 0, "b", 0, 100);
        const int wait = made_event(t, a, TW_EVENT_WAIT, "wait", TW_ENGINE_SYNC, 10, 20);
        const int mark = made_event(t, b, TW_EVENT_MARK, "arrive", TW_ENGINE_SYNC, 19 + late, 19 + late);
        assert_true(tw_trace_add_edge(t, mark, wait) >= 0);
        assert_int_equal(tw_trace_finish(t, &d), TW_OK);
        json_t *root = written(t);
        assert_int_equal(check_rules(root).flows, late < 2);
        json_decref(root);
        tw_trace_free(t);
    }
}

static void files_are_written(void **state) {
    (void)state;
    char *folder = test_folder_make(), path[512];
    tw_trace *t = made_small();
    tw_buf file = {0};
    tw_diag d;
    json_t *root;
    snprintf(path, sizeof path, "%s/a.json", folder);
    assert_int_equal(tw_chrome_write(t, path, &d), TW_OK);
    assert_int_equal(tw_json_load(&root, path, &d), TW_OK);
    json_decref(root);
    t->events[0].end = (double)NAN;
    assert_int_equal(tw_chrome_encode(&file, t, &d), TW_ERR_USAGE);
    assert_int_equal(tw_chrome_write(t, path, &d), TW_ERR_USAGE);
    tw_trace_free(t);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_small_trace_is_written),
                                       cmocka_unit_test(a_product_is_written),
                                       cmocka_unit_test(nothing_is_written),
                                       cmocka_unit_test(threads_have_numbers_of_their_own),
                                       cmocka_unit_test(what_json_lacks_is_replaced),
                                       cmocka_unit_test(edges_are_in_time),
                                       cmocka_unit_test(files_are_written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
