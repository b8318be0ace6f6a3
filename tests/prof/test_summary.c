/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries: figures of traces whose figures are known. */
#include "support/support.h"

#include "base/json.h"
#include "prof/made.h"
#include "prof/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tw_summary summed(tw_trace *t) {
    tw_diag d;
    tw_summary s;
    assert_int_equal(tw_trace_finish(t, &d), TW_OK);
    if (tw_summary_make(&s, t, &d) != TW_OK) fail_msg("%s", d.message);
    return s;
}

static void done(tw_summary *s, tw_trace *t) {
    tw_summary_free(s);
    tw_trace_free(t);
}

static const tw_summary_region *find(const tw_summary *s, const tw_trace *t, const char *role, const char *name) {
    for (int i = 0; i < s->n_roles; i++)
        for (int k = 0; k < s->roles[i].n_regions && !strcmp(t->names[s->roles[i].name].text, role); k++)
            if (!strcmp(t->names[s->roles[i].regions[k].name].text, name)) return &s->roles[i].regions[k];
    fail_msg("%s has no %s", role, name);
    return NULL;
}

static bool is_near(double x, double want) {
    return fabs(x - want) < 1e-9 * (1 + fabs(want));
}

/* Durations 1 to 101 in an order of their own: percentiles are known. */
static void percentiles_are_right(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    const int k = made_track(t, 0, 0, 0, "a", 0, 10302);
    double at = 0;
    for (int i = 0; i < 101; i++) {
        const int duration = i * 37 % 101 + 1;
        made_event(t, k, TW_EVENT_REGION, "r", TW_ENGINE_ALU, at, at + duration);
        at += duration;
    }
    tw_summary s = summed(t);
    const tw_summary_region *r = find(&s, t, "a", "r");
    assert_int_equal(r->count, 101);
    assert_true(is_near(r->total, 5151) && is_near(r->share, 0.5) && is_near(r->self, 5151));
    assert_true(is_near(r->mean, 51) && is_near(r->p50, 51) && is_near(r->p95, 96) && is_near(r->p99, 100));
    assert_true(is_near(r->max, 101) && is_near(r->least, 5151) && is_near(r->most, 5151));
    done(&s, t);
}

/* Of a single event everything is its duration; between two, percentiles are interpolated. */
static void few_events_have_percentiles(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    const int k = made_track(t, 0, 0, 0, "a", 0, 100);
    made_event(t, k, TW_EVENT_REGION, "one", TW_ENGINE_ALU, 0, 7);
    made_event(t, k, TW_EVENT_REGION, "two", TW_ENGINE_ALU, 10, 20);
    made_event(t, k, TW_EVENT_REGION, "two", TW_ENGINE_ALU, 20, 40);
    tw_summary s = summed(t);
    const tw_summary_region *one = find(&s, t, "a", "one"), *two = find(&s, t, "a", "two");
    assert_true(one->p50 == 7 && one->p99 == 7 && one->max == 7 && one->mean == 7);
    assert_true(is_near(two->p50, 15) && is_near(two->p95, 19.5) && is_near(two->max, 20));
    done(&s, t);
}

/* A region's own time is without what is nested in it, at any depth, and what works asynchronously takes none of it. */
static void nested_time_is_taken_once(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    const int k = made_track(t, 0, 0, 0, "a", 0, 100);
    made_event(t, k, TW_EVENT_REGION, "outer", TW_ENGINE_ALU, 0, 50);
    made_event(t, k, TW_EVENT_ITERATION, "middle", TW_ENGINE_ALU, 0, 30);
    made_event(t, k, TW_EVENT_WAIT, "inner", TW_ENGINE_SYNC, 10, 15);
    made_event(t, k, TW_EVENT_ITERATION, "middle", TW_ENGINE_ALU, 30, 40);
    made_event(t, k, TW_EVENT_MARK, "mark", TW_ENGINE_ALU, 32, 32);
    made_event(t, k, TW_EVENT_ASYNC, "copy", TW_ENGINE_COPY, 5, 45);
    made_event(t, k, TW_EVENT_ASYNC, "copy", TW_ENGINE_COPY, 5, 95);
    tw_summary s = summed(t);
    assert_true(is_near(find(&s, t, "a", "outer")->self, 10));
    assert_true(is_near(find(&s, t, "a", "middle")->self, 35));
    assert_true(is_near(find(&s, t, "a", "inner")->self, 5));
    assert_true(is_near(find(&s, t, "a", "copy")->share, 1.3));
    assert_int_equal(find(&s, t, "a", "mark")->count, 1);
    assert_true(find(&s, t, "a", "mark")->total == 0);
    done(&s, t);
}

/* Waits are called what Nsight Compute calls them, per role. */
static void waits_have_the_vendors_names(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    const int a = made_track(t, 0, 0, 0, "a", 0, 100), b = made_track(t, 0, 0, 1, "b", 0, 50);
    made_event(t, a, TW_EVENT_WAIT, "copy", TW_ENGINE_COPY, 0, 10);
    made_event(t, a, TW_EVENT_WAIT, "load", TW_ENGINE_MEMORY, 10, 15);
    made_event(t, a, TW_EVENT_WAIT, "full", TW_ENGINE_SYNC, 20, 60);
    made_event(t, a, TW_EVENT_WAIT, "products", TW_ENGINE_TENSOR, 60, 61);
    made_event(t, a, TW_EVENT_WAIT, "sum", TW_ENGINE_ALU, 61, 63);
    made_event(t, a, TW_EVENT_REGION, "not a wait", TW_ENGINE_SYNC, 70, 80);
    made_event(t, b, TW_EVENT_WAIT, "?", TW_ENGINE_NONE, 0, 25);
    tw_summary s = summed(t);
    static const char *const names[] = {"barrier", "long scoreboard", "wait", "warpgroup arrive"};
    static const double totals[] = {40, 15, 2, 1};
    assert_int_equal(s.roles[0].n_waits, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(s.roles[0].waits[i].reason, names[i]);
        assert_true(is_near(s.roles[0].waits[i].total, totals[i]));
        assert_true(is_near(s.roles[0].waits[i].share, totals[i] / 100));
    }
    assert_int_equal(s.roles[0].waits[1].count, 2);
    assert_string_equal(s.roles[1].waits[0].reason, "other");
    assert_true(is_near(s.roles[1].waits[0].share, 0.5));
    done(&s, t);
}

static tw_trace *timed(double clean, double traced) {
    tw_trace *t = made_small();
    t->clean = clean;
    t->traced = traced;
    return t;
}

/* A trace is trusted while recording took at most 2 %, or appears to have gained as much. */
static void trust_has_a_bound(void **state) {
    (void)state;
    static const double times[][3] = {{100, 102, 1}, {100, 102.1, 0}, {100, 97.9, 0},
                                      {100, 99, 1},  {0, 5, 1},       {5, 0, 1}};
    for (int i = 0; i < 6; i++) {
        tw_trace *t = timed(times[i][0], times[i][1]);
        tw_summary s = summed(t);
        tw_buf text = {0};
        tw_summary_text(&text, &s, t);
        assert_int_equal(s.trusted, times[i][2] != 0);
        assert_int_equal(strstr(text.data, "untrusted") != NULL, !s.trusted);
        assert_int_equal(strstr(text.data, "was not measured") != NULL, i >= 4);
        json_t *root = tw_summary_json(&s, t);
        const json_t *trusted = json_object_get(root, "trusted");
        assert_true(i >= 4 ? json_is_null(trusted) : json_boolean_value(trusted) == s.trusted);
        assert_int_equal(json_is_null(json_object_get(root, "overhead")), i >= 4);
        json_decref(root);
        tw_buf_free(&text);
        done(&s, t);
    }
}

static void texts_are_as_they_were(void **state) {
    (void)state;
    tw_trace *traces[] = {made_small(), made_product(3, 40), made_empty()};
    tw_buf text = {0};
    for (int i = 0; i < 3; i++) {
        tw_summary s = summed(traces[i]);
        tw_summary_text(&text, &s, traces[i]);
        tw_buf_str(&text, "----\n");
        done(&s, traces[i]);
    }
    test_golden("prof/summary.txt", text.data, text.size);
    tw_buf_free(&text);
}

static void json_says_the_same(void **state) {
    (void)state;
    tw_trace *t = made_small();
    memcpy(t->names[t->tracks[1].role].text, "\xff", 1);
    tw_summary s = summed(t);
    json_t *root = tw_summary_json(&s, t);
    assert_int_equal(json_integer_value(json_object_get(root, "dropped")), 12);
    assert_int_equal(json_integer_value(json_object_get(root, "sms")), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "blocks")), 3);
    assert_true(is_near(json_number_value(json_object_get(root, "length")), 154));
    assert_true(is_near(json_number_value(json_object_get(root, "uncertainty")), 2.5));
    const json_t *consumer = json_array_get(json_object_get(root, "roles"), 1);
    assert_string_equal(json_string_value(json_object_get(consumer, "role")), "?onsumer");
    assert_int_equal(json_integer_value(json_object_get(consumer, "dropped")), 12);
    const json_t *regions = json_object_get(consumer, "regions"), *k = json_array_get(regions, 0);
    assert_int_equal(json_array_size(regions), 5);
    assert_string_equal(json_string_value(json_object_get(k, "name")), "k");
    assert_string_equal(json_string_value(json_object_get(k, "kind")), "iteration");
    assert_int_equal(json_integer_value(json_object_get(k, "count")), 2);
    static const char *const members[] = {"total", "self", "share", "mean",  "p50",
                                          "p95",   "p99",  "max",   "least", "most"};
    const tw_summary_region *r = &s.roles[1].regions[0];
    const double values[] = {r->total, r->self, r->share, r->mean, r->p50, r->p95, r->p99, r->max, r->least, r->most};
    for (int i = 0; i < 10; i++) assert_true(json_number_value(json_object_get(k, members[i])) == values[i]);
    const json_t *stall = json_array_get(json_object_get(consumer, "stalls"), 0);
    assert_string_equal(json_string_value(json_object_get(stall, "reason")), "barrier");
    assert_true(is_near(json_number_value(json_object_get(stall, "total")), 20));
    json_decref(root);
    done(&s, t);
}

static void what_is_no_trace_is_refused(void **state) {
    (void)state;
    tw_trace *t = made_small();
    tw_diag d;
    tw_summary s;
    t->events[2].name = -1;
    assert_int_equal(tw_summary_make(&s, t, &d), TW_ERR_USAGE);
    done(&s, t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_right),     cmocka_unit_test(few_events_have_percentiles),
        cmocka_unit_test(nested_time_is_taken_once), cmocka_unit_test(waits_have_the_vendors_names),
        cmocka_unit_test(trust_has_a_bound),         cmocka_unit_test(texts_are_as_they_were),
        cmocka_unit_test(json_says_the_same),        cmocka_unit_test(what_is_no_trace_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
