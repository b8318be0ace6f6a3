/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of a loop of two products: times that follow by hand, and what a trace of known times says. */
#include "prof/hand.h"

#include "prof/orders.h"

static const tw_orders_names names = {
    .first = "scores", .work = "softmax", .second = "values", .rest = "rescale", .turn = "turn"};
static const tw_orders_order in_order = {false, false}, overlapped = {true, false}, turns = {true, true};

static tw_orders_times times_of(int tracks, double first, double work, double second, double rest) {
    return (tw_orders_times){
        .tracks = tracks, .first = first, .second = second, .work = work, .rest = rest, .share = 0.9};
}

/* A track alone waits for each step, or only for the longer of the work and the second product. */
static void one_track(void **state) {
    (void)state;
    const tw_orders_times x = times_of(1, 100, 300, 120, 50), y = times_of(1, 100, 60, 400, 50);
    near(tw_orders_iteration(&x, in_order), 570, 10);
    near(tw_orders_iteration(&x, overlapped), 450, 10);
    near(tw_orders_iteration(&x, turns), 450, 10);
    near(tw_orders_iteration(&y, in_order), 610, 10);
    near(tw_orders_iteration(&y, overlapped), 550, 10);
}

/* Tensor cores that are always busy bound all orders. */
static void tensor_cores(void **state) {
    (void)state;
    const tw_orders_times x = times_of(3, 200, 100, 200, 10);
    near(tw_orders_iteration(&x, overlapped), 1200, 15);
    near(tw_orders_iteration(&x, turns), 1200, 15);
    near(tw_orders_iteration(&x, in_order), 1200, 40);
}

/* Two tracks whose softmax is as long as both products: in turns one multiplies while the other computes. */
static void two_tracks(void **state) {
    (void)state;
    tw_orders_times x = times_of(2, 100, 190, 100, 5);
    const double alone = tw_orders_iteration(&x, in_order), all = tw_orders_iteration(&x, turns);
    assert_true(all < alone && all >= 400 - 8);
    x.order = in_order;
    near(tw_orders_ratio(&x, turns), 1 + 0.9 * (all / alone - 1), 1e-9);
    near(tw_orders_ratio(&x, in_order), 1, 1e-12);
}

/* In turns no track is more than an iteration ahead of another one, so that work that varies takes longer. */
static void turns_keep_step(void **state) {
    (void)state;
    const tw_orders_times x = times_of(2, 1, 1000, 1, 0);
    near(tw_orders_iteration(&x, overlapped), 1001.5, 1);
    near(tw_orders_iteration(&x, turns), 1004.5, 1.5);
}

enum { N = 40 };

/* Adds the iterations of a track that is alone on its multiprocessor. */
static void add_iterations(tw_trace *t, int track, bool overlaps, const tw_orders_times *x) {
    double at = 0;
    for (int i = 0; i < N; i++) {
        hand_event(t, track, TW_EVENT_WAIT, "keys.full", TW_ENGINE_COPY, at, at + x->loads);
        at += x->loads;
        double values = 0, scores = 0;
        if (overlaps) {
            hand_event(t, track, TW_EVENT_ASYNC, "scores", TW_ENGINE_TENSOR, at, scores = at + x->first);
            values = fmax(scores + x->second, scores + x->work);
            hand_event(t, track, TW_EVENT_ASYNC, "values", TW_ENGINE_TENSOR, at, values);
        } else {
            hand_event(t, track, TW_EVENT_ASYNC, "values", TW_ENGINE_TENSOR, at, at + x->second);
            hand_event(t, track, TW_EVENT_WAIT, "values", TW_ENGINE_TENSOR, at, at + x->second);
            at += x->second;
            hand_event(t, track, TW_EVENT_ASYNC, "scores", TW_ENGINE_TENSOR, at, scores = at + x->first);
        }
        hand_event(t, track, TW_EVENT_WAIT, "scores", TW_ENGINE_TENSOR, at, scores);
        hand_event(t, track, TW_EVENT_REGION, "softmax", TW_ENGINE_ALU, scores, at = scores + x->work);
        if (overlaps) hand_event(t, track, TW_EVENT_WAIT, "values", TW_ENGINE_TENSOR, at, values);
        if (overlaps) at = fmax(at, values);
        hand_event(t, track, TW_EVENT_REGION, "rescale", TW_ENGINE_ALU, at, at + x->rest);
        at += x->rest + x->other;
    }
}

static tw_orders_times measured(bool overlaps, const tw_orders_times *x, double length, int64_t dropped) {
    tw_orders_times out;
    tw_trace *t = tw_trace_new("made up", "none", "ns");
    assert_non_null(t);
    add_iterations(t, hand_track(t, 0, 0, "consumer", 0, length), overlaps, x);
    t->tracks[0].dropped = dropped;
    for (int i = 0; i < t->n_names; i++)
        if (!strcmp(t->names[i].text, "scores") || !strcmp(t->names[i].text, "values"))
            t->names[i].flops = !strcmp(t->names[i].text, "scores") ? x->first : x->second;
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    assert_int_equal(tw_orders_measure(&out, t, &names, NULL), TW_OK);
    tw_trace_free(t);
    return out;
}

static void from_traces(void **state) {
    (void)state;
    tw_orders_times x = times_of(1, 100, 300, 120, 50);
    x.loads = 20;
    x.other = 30;
    const tw_orders_times a = measured(false, &x, 62000, 0), b = measured(true, &x, 50000, 0);
    assert_false(a.order.overlapped || a.order.turns || b.order.turns);
    assert_true(b.order.overlapped);
    const tw_orders_times *const both[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(both[i]->tracks, 1);
        near(both[i]->first, x.first, 1e-9);
        near(both[i]->second, x.second, 1e-9);
        near(both[i]->work, x.work, 1e-9);
        near(both[i]->rest, x.rest, 1e-9);
        near(both[i]->loads, x.loads, 1e-9);
        near(both[i]->other, x.other, 1e-9);
    }
    near(a.iteration, 620, 1e-9);
    near(b.iteration, 500, 1e-9);
    near(a.share, 0.4, 1e-9);
    near(measured(false, &x, 62000, N * 14).share, 0.8, 1e-9); /* An iteration has seven events. */
    /* Each predicts the other. */
    near(tw_orders_iteration(&a, overlapped) / tw_orders_iteration(&a, in_order), 500.0 / 620, 0.01);
    near(tw_orders_iteration(&b, in_order) / tw_orders_iteration(&b, overlapped), 620.0 / 500, 0.01);
}

static void no_such_loop(void **state) {
    (void)state;
    tw_orders_times out;
    tw_diag diag;
    tw_trace *t = tw_trace_new("made up", "none", "ns");
    hand_event(t, hand_track(t, 0, 0, "consumer", 0, 10), TW_EVENT_REGION, "softmax", TW_ENGINE_ALU, 0, 5);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    assert_int_equal(tw_orders_measure(&out, t, &names, &diag), TW_ERR_USAGE);
    assert_non_null(strstr(diag.message, "no loop of \"scores\""));
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_track),   cmocka_unit_test(tensor_cores),
                                       cmocka_unit_test(two_tracks),  cmocka_unit_test(turns_keep_step),
                                       cmocka_unit_test(from_traces), cmocka_unit_test(no_such_loop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
