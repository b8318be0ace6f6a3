/* SPDX-License-Identifier: Apache-2.0 */
/* Overlap of engines and times of iterations. */
#include "prof/hand.h"

#include "base/random.h"
#include "prof/iteration.h"
#include "prof/overlap.h"
#include "prof/ring.h"
#include "prof/spans.h"

/* Sets of moments against arrays of them. */
static void spans_are_sets(void **state) {
    (void)state;
    enum { MOMENTS = 200 };
    tw_random x = tw_random_seed(1);
    for (int times = 0; times < 500; times++) {
        tw_spans s[2] = {{0}}, rest = {0};
        bool in[2][MOMENTS] = {{false}};
        for (int k = 0; k < 2; k++) {
            const int n = (int)tw_random_below(&x, 12);
            for (int i = 0; i < n; i++) {
                const int a = (int)tw_random_below(&x, MOMENTS), b = a + (int)tw_random_below(&x, MOMENTS / 4);
                const int end = b < MOMENTS ? b : MOMENTS;
                assert_true(tw_spans_add(&s[k], a, end));
                for (int m = a; m < end; m++) in[k][m] = true;
            }
            tw_spans_unite(&s[k]);
            for (int i = 1; i < s[k].n; i++) assert_true(s[k].list[i].begin > s[k].list[i - 1].end);
        }
        int length = 0, common = 0, without = 0;
        for (int m = 0; m < MOMENTS; m++) {
            length += in[0][m];
            common += in[0][m] && in[1][m];
            without += m >= 20 && m < 150 && !in[0][m];
        }
        near(tw_spans_length(&s[0]), length, 0);
        near(tw_spans_common(&s[0], &s[1]), common, 0);
        assert_true(tw_spans_complement(&s[0], 20, 150, &rest));
        near(tw_spans_length(&rest), without, 0);
        near(tw_spans_common(&rest, &s[0]), 0, 0);
        const int after = tw_spans_after(&s[0], 60);
        assert_true(after == s[0].n || s[0].list[after].end > 60);
        assert_true(after == 0 || s[0].list[after - 1].end <= 60);
        tw_spans_free(&s[0]);
        tw_spans_free(&s[1]);
        tw_spans_free(&rest);
    }
}

static void engines_overlap(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("overlap", "", "ns");
    const int a = hand_track(t, 0, 3, "a", 0, 100), b = hand_track(t, 0, 3, "b", 0, 100),
              c = hand_track(t, 0, 4, "a", 50, 150);
    const int d = hand_track(t, 2, 5, "a", 0, 50);
    hand_event(t, a, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 10, 50);
    /* Not busy, but for the wait for its own engine. */
    hand_event(t, a, TW_EVENT_WAIT, "barrier", TW_ENGINE_SYNC, 20, 25);
    hand_event(t, a, TW_EVENT_WAIT, "full", TW_ENGINE_COPY, 25, 30);
    hand_event(t, a, TW_EVENT_WAIT, "products", TW_ENGINE_TENSOR, 40, 50);
    hand_event(t, b, TW_EVENT_ASYNC, "load", TW_ENGINE_COPY, 0, 15);
    hand_event(t, b, TW_EVENT_ASYNC, "load", TW_ENGINE_COPY, 5, 25); /* They overlap, and count once. */
    hand_event(t, c, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 60, 80);
    hand_event(t, c, TW_EVENT_REGION, "mask", TW_ENGINE_ALU, 65, 75); /* Takes that from the product. */
    hand_event(t, c, TW_EVENT_ASYNC, "load", TW_ENGINE_COPY, 78, 90);
    hand_event(t, d, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, 0, 10);
    hand_event(t, d, TW_EVENT_ASYNC, "load", TW_ENGINE_COPY, 0, 40);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_overlap o;
    assert_int_equal(tw_overlap_find(&o, t, NULL), TW_OK);
    assert_int_equal(o.n_sms, 2);
    assert_int_equal(o.n_blocks, 3);
    const tw_overlap_of *first = &o.blocks[0], *second = &o.blocks[1], *sm = &o.sms[0];
    assert_int_equal(first->block, 3);
    assert_int_equal(o.sms[1].sm, 2);
    assert_int_equal(sm->block, -1);
    near(first->busy[TW_ENGINE_TENSOR], 30, 1e-9);
    near(first->busy[TW_ENGINE_COPY], 25, 1e-9);
    near(first->both[TW_ENGINE_TENSOR][TW_ENGINE_COPY], 10, 1e-9);
    near(tw_overlap_fraction(first, TW_ENGINE_TENSOR, TW_ENGINE_COPY), 0.4, 1e-9);
    near(second->busy[TW_ENGINE_TENSOR], 10, 1e-9);
    near(second->busy[TW_ENGINE_ALU], 10, 1e-9);
    near(second->both[TW_ENGINE_TENSOR][TW_ENGINE_ALU], 0, 0);
    near(second->both[TW_ENGINE_TENSOR][TW_ENGINE_COPY], 2, 1e-9);
    near(sm->busy[TW_ENGINE_TENSOR], 40, 1e-9);
    near(sm->resident, 150, 1e-9);
    /* Both multiprocessors: 12 of 37 copying, 10 of 10 multiplying. */
    near(o.fraction[TW_ENGINE_COPY][TW_ENGINE_TENSOR], 22.0 / 47, 1e-9);
    near(o.share[TW_ENGINE_TENSOR], 50.0 / 200, 1e-9);
    near(tw_overlap_fraction(first, TW_ENGINE_TENSOR, TW_ENGINE_MEMORY), 0, 0);
    tw_overlap_free(&o);
    tw_trace_free(t);
}

static void iterations_have_a_steady_state(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("loop", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 500);
    /* Two runs of a loop in iterations of another: 3 that fill, 8 steady, 1 that drains. */
    double time = 20;
    for (int run = 0; run < 2; run++) {
        const int outer = hand_event(t, a, TW_EVENT_ITERATION, "tiles", TW_ENGINE_NONE, time, time);
        t->events[outer].loop = 0;
        for (int i = 0; i < 12; i++) {
            const double takes = i < 3 ? 30 : i == 11 ? 5 : 10 + i % 2;
            const int e = hand_event(t, a, TW_EVENT_ITERATION, "k", TW_ENGINE_NONE, time, time + takes);
            t->events[e].loop = 1;
            t->events[e].iteration = 12 * run + i;
            time += takes;
        }
        t->events[outer].end = time;
    }
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_iterations o;
    assert_int_equal(tw_iterations_find(&o, t, NULL), TW_OK);
    assert_int_equal(o.n, 2);
    const tw_iteration_loop *l = &o.loops[1];
    assert_string_equal(hand_name(t, l->name), "k");
    assert_int_equal(l->loop, 1);
    assert_int_equal(l->iterations, 24);
    assert_int_equal(l->runs, 2);
    assert_int_equal(l->steady, 16);
    near(l->fill, 3, 0);
    near(l->drain, 1, 0);
    near(l->mean, (90 + 84 + 5) / 12.0, 1e-9);
    near(l->steady_mean, 10.5, 1e-9);
    near(l->steady_p95, 11, 1e-9);
    near(l->p50, 11, 1e-9);
    near(l->p95, 30, 1e-9);
    near(l->before, 20, 1e-9);
    near(l->after, 500 - time, 1e-9);
    near(o.loops[0].mean, 179, 1e-9);
    tw_iterations_free(&o);
    tw_trace_free(t);
}

static void a_ring_in_steady_state(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    tw_trace *t = ring_trace(&r);
    tw_iterations o;
    assert_int_equal(tw_iterations_find(&o, t, NULL), TW_OK);
    assert_int_equal(o.n, 2);
    for (int i = 0; i < 2; i++) {
        const bool consumer = !strcmp(hand_name(t, o.loops[i].role), "consumer");
        near(o.loops[i].steady_mean, 350, 1e-6);
        near(o.loops[i].fill, consumer ? 1 : 4, 0);
    }
    tw_iterations_free(&o);
    tw_trace_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(spans_are_sets), cmocka_unit_test(engines_overlap),
                                       cmocka_unit_test(iterations_have_a_steady_state),
                                       cmocka_unit_test(a_ring_in_steady_state)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
