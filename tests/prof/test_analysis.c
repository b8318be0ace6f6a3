/* SPDX-License-Identifier: Apache-2.0 */
/* All analyses together, as JSON and as text. */
#include "prof/hand.h"

#include "prof/analysis.h"
#include "prof/ring.h"

#include <stdlib.h>

static tw_trace *specimen(void) {
    ring r = ring_of(10, 600, 150, 100);
    r.blocks = 6;
    r.sms = 4;
    r.consumers = 2;
    r.lag = 5;
    r.pass = 2;
    r.spread = 0.1;
    tw_trace *t = ring_trace(&r);
    t->tracks[1].dropped = 17;
    t->tracks[2].uncertainty = 3;
    return t;
}

/* The text and the JSON are what they were: TILEWRIGHT_GOLDEN=1 writes them anew. */
static void results_are_written(void **state) {
    (void)state;
    tw_trace *t = specimen();
    tw_analysis a;
    const tw_peaks peaks = {8e13, 8e11, 4};
    assert_int_equal(tw_analysis_make(&a, t, &peaks, NULL), TW_OK);
    tw_buf text = {0};
    assert_true(tw_analysis_lines(&a, t, 6, &text));
    test_golden("prof/golden/analysis.txt", text.data, text.size);
    json_t *o = tw_analysis_json(&a, t, 2);
    assert_non_null(o);
    char *json = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    test_golden("prof/golden/analysis.json", json, strlen(json));
    free(json);
    json_decref(o);
    /* All rows. */
    o = tw_analysis_json(&a, t, 0);
    assert_int_equal(json_array_size(json_object_get(json_object_get(o, "bubbles"), "rows")), a.bubbles.n);
    assert_int_equal(json_array_size(json_object_get(o, "regions")), a.regions.n);
    json_decref(o);
    tw_buf_free(&text);
    tw_analysis_free(&a);
    tw_trace_free(t);
}

/* Only rings are offered another stage, and what is offered is what a kernel with it takes. */
static void gains_are_of_rings(void **state) {
    (void)state;
    ring r = ring_of(10, 1000, 150, 100);
    tw_trace *t = ring_trace(&r);
    tw_analysis a;
    assert_int_equal(tw_analysis_make(&a, t, NULL, NULL), TW_OK);
    near(a.before, tw_trace_length(t), 1e-6);
    int stages = 0;
    for (int i = 0; i < a.n_gains; i++) {
        assert_true(!i || a.gains[i].after >= a.gains[i - 1].after);
        ring e = r;
        if (a.gains[i].kind == TW_CHANGE_STAGES) {
            assert_string_equal(hand_name(t, a.gains[i].name), "empty");
            e.stages++;
            stages++;
        } else if (!strcmp(hand_name(t, a.gains[i].name), "load")) {
            e.load /= 2;
        } else {
            continue;
        }
        near(a.gains[i].after, ring_length(&e), 0.01 * a.before);
    }
    assert_int_equal(stages, 1);
    tw_analysis_free(&a);
    tw_trace_free(t);
}

static void a_trace_without_loops_is_analysed(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("plain", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 100);
    hand_event(t, a, TW_EVENT_REGION, "work", TW_ENGINE_ALU, 0, 90);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_analysis x;
    assert_int_equal(tw_analysis_make(&x, t, NULL, NULL), TW_OK);
    assert_int_equal(x.n_pipelines, 0);
    tw_buf text = {0};
    assert_true(tw_analysis_lines(&x, t, 0, &text));
    assert_null(strstr(text.data, "model of"));
    assert_non_null(strstr(text.data, "outside of regions of a, 1 times"));
    json_t *o = tw_analysis_json(&x, t, 0);
    assert_true(json_is_null(json_object_get(o, "pipelines")));
    json_decref(o);
    tw_buf_free(&text);
    tw_analysis_free(&x);
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_written), cmocka_unit_test(gains_are_of_rings),
                                       cmocka_unit_test(a_trace_without_loops_is_analysed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
