/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, lanes and whole times. */
#include "support/support.h"

#include "prof/rows.h"
#include "prof/made.h"
#include "prof/steps.h"

#include <stdlib.h>
#include <string.h>

static tw_layout laid(tw_trace *t) {
    tw_diag d;
    tw_layout l;
    assert_int_equal(tw_trace_finish(t, &d), TW_OK);
    if (tw_layout_make(&l, t, &d) != TW_OK) fail_msg("%s", d.message);
    return l;
}

static tw_trace *begun(void) {
    tw_trace *t = tw_trace_new("", "", "ns");
    assert_non_null(t);
    return t;
}

static void done(tw_layout *l, tw_trace *t) {
    tw_layout_free(l);
    tw_trace_free(t);
}

static void check_name(const tw_layout *l, const tw_trace *t, int row, const char *want) {
    char name[TW_ROW_NAME];
    tw_layout_name(l, t, row, name);
    assert_string_equal(name, want);
}

/* Asynchronous events that touch share a lane, and those that overlap do not. */
static void what_overlaps_has_lanes(void **state) {
    (void)state;
    static const double times[][2] = {{0, 10}, {2, 4}, {4, 12}, {10, 11}, {10, 20}, {12, 12}};
    tw_trace *t = begun();
    const int k = made_track(t, 0, 0, 3, "p", 0, 30);
    for (int i = 0; i < 6; i++) made_event(t, k, TW_EVENT_ASYNC, "copy", TW_ENGINE_COPY, times[i][0], times[i][1]);
    tw_layout l = laid(t);
    int used[4] = {0};
    for (int i = 0; i < 6; i++) used[l.rows[l.events[i].row].lane]++;
    for (int i = 0; i < t->n_events; i++)
        for (int j = 0; j < i; j++)
            if (l.events[i].row == l.events[j].row) assert_true(l.events[j].end <= l.events[i].begin);
    assert_int_equal(l.n_rows, 4);
    assert_int_equal(used[0], 0);
    check_name(&l, t, 0, "warp 3, p");
    check_name(&l, t, 3, "warp 3, p, async 3");
    done(&l, t);
}

/* Blocks that an SM runs at the same time have places, and those that follow take them over. */
static void blocks_have_places(void **state) {
    (void)state;
    tw_trace *t = begun();
    made_track(t, 2, 0, 0, "a", 0, 50);
    made_track(t, 2, 1, 0, "a", 0, 90);
    made_track(t, 2, 2, 0, "a", 60, 99);
    made_track(t, 2, 0, 1, "a", 0, 60);
    made_track(t, 1, 3, 0, "a", 0, 99);
    made_track(t, 1, 4, 0, "a", 99, 120);
    made_track(t, 2, 5, 0, "a", 55, 58); /* Block 0 still has a warp. */
    tw_layout l = laid(t);
    assert_int_equal(l.n_rows, 5);
    assert_true(l.places && l.blocks);
    assert_int_equal(l.tracks[4].row, 0);
    assert_int_equal(l.tracks[5].row, 0);
    assert_int_equal(l.tracks[0].row, 1);
    assert_int_equal(l.tracks[2].row, 1); /* Block 0 is over when its last warp is. */
    assert_int_equal(l.tracks[3].row, 2);
    assert_int_equal(l.tracks[1].row, 3);
    assert_int_equal(l.tracks[6].row, 4);
    check_name(&l, t, 3, "place 1, warp 0, a");
    done(&l, t);
}

/* A row has one role, and tracks of a warp that overlap have rows of their own. */
static void rows_hold_what_belongs_together(void **state) {
    (void)state;
    tw_trace *t = begun();
    made_track(t, 0, 0, 0, "a", 0, 50);
    made_track(t, 0, 0, 0, "a", 20, 50);
    made_track(t, 0, 0, 0, "b", 60, 70);
    t->on_processor = true;
    tw_layout l = laid(t);
    assert_int_equal(l.n_rows, 3);
    assert_false(l.places || l.blocks);
    check_name(&l, t, 0, "thread 0, a");
    check_name(&l, t, 1, "thread 0, a (2)");
    check_name(&l, t, 2, "thread 0, b");
    char name[TW_ROW_NAME];
    tw_layout_group_name(t, 3, name);
    assert_string_equal(name, "core 3");
    done(&l, t);
}

/* Regions nest, also where bounds are off by what replay could not know, and times begin at 0. */
static void spans_nest(void **state) {
    (void)state;
    tw_trace *t = begun();
    const int k = made_track(t, 0, 0, 0, "a", -10, 20);
    made_event(t, k, TW_EVENT_REGION, "outer", TW_ENGINE_ALU, -10, 10.4);
    made_event(t, k, TW_EVENT_REGION, "inner", TW_ENGINE_ALU, 0, 10.6);
    made_event(t, k, TW_EVENT_REGION, "beyond", TW_ENGINE_ALU, 15, 25);
    made_event(t, k, TW_EVENT_MARK, "mark", TW_ENGINE_ALU, 26, 26);
    tw_layout l = laid(t);
    assert_true(l.origin == -10);
    assert_int_equal(l.events[0].end, 20);
    assert_int_equal(l.events[1].begin, 10);
    assert_int_equal(l.events[1].end, 20);
    assert_int_equal(l.tracks[0].begin, 0);
    assert_int_equal(l.tracks[0].end, 36);
    assert_int_equal(l.end, 36);
    done(&l, t);
}

/* Steps of a row are a well-formed sequence of brackets in time. */
static void check_brackets(tw_trace *t) {
    tw_layout l = laid(t);
    size_t n;
    tw_step *steps = tw_steps_make(&l, t, &n);
    int *open = calloc((size_t)l.n_rows * 16, sizeof *open), *depth = calloc((size_t)l.n_rows, sizeof *depth);
    assert_non_null(steps);
    for (size_t i = 0; i < n; i++) {
        const tw_step *s = &steps[i];
        const bool is_track = s->kind == TW_STEP_TRACK_BEGIN || s->kind == TW_STEP_TRACK_END;
        const int row = is_track ? l.tracks[s->index].row : l.events[s->index].row;
        const int what = is_track ? -1 - s->index : s->index;
        assert_true(!i || steps[i - 1].when <= s->when);
        if (s->kind == TW_STEP_MOMENT) continue;
        if (s->kind == TW_STEP_BEGIN || s->kind == TW_STEP_TRACK_BEGIN)
            open[row * 16 + depth[row]++] = what;
        else
            assert_int_equal(open[row * 16 + --depth[row]], what);
    }
    for (int i = 0; i < l.n_rows; i++) assert_int_equal(depth[i], 0);
    free(open);
    free(depth);
    free(steps);
    done(&l, t);
}

static void steps_are_brackets(void **state) {
    (void)state;
    check_brackets(made_product(4, 20));
    check_brackets(made_small());
    /* Regions that begin or end together, or have no length. */
    tw_trace *t = begun();
    const int k = made_track(t, 0, 0, 0, "a", 0, 20);
    static const double times[][2] = {{0, 20}, {0, 10}, {9, 10}, {10, 10}, {10, 20}, {10, 11}, {19, 20}, {20, 20}};
    for (int i = 0; i < 8; i++) made_event(t, k, TW_EVENT_REGION, "r", TW_ENGINE_ALU, times[i][0], times[i][1]);
    made_track(t, 0, 1, 0, "a", 20, 20);
    check_brackets(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_overlaps_has_lanes), cmocka_unit_test(blocks_have_places),
                                       cmocka_unit_test(rows_hold_what_belongs_together), cmocka_unit_test(spans_nest),
                                       cmocka_unit_test(steps_are_brackets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
