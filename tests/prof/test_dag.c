/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that are odd: orders at one moment, contradictions, edges that lead nowhere, clocks that disagree. */
#include "prof/hand.h"

#include "base/random.h"
#include "prof/bubble.h"
#include "prof/iteration.h"
#include "prof/overlap.h"
#include "prof/path.h"
#include "prof/ring.h"
#include "prof/tally.h"

static void events_of_a_moment_keep_their_order(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("moment", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 50);
    /* An issue, a wait that took no time, another issue, and regions around and inside one another. */
    hand_event(t, a, TW_EVENT_ASYNC, "load 0", TW_ENGINE_COPY, 10, 30);
    hand_event(t, a, TW_EVENT_WAIT, "wait", TW_ENGINE_SYNC, 10, 10);
    hand_event(t, a, TW_EVENT_REGION, "inner", TW_ENGINE_ALU, 10, 15);
    hand_event(t, a, TW_EVENT_ASYNC, "load 1", TW_ENGINE_COPY, 10, 40);
    hand_event(t, a, TW_EVENT_REGION, "middle", TW_ENGINE_ALU, 10, 17);
    hand_event(t, a, TW_EVENT_REGION, "outer", TW_ENGINE_ALU, 10, 20);
    hand_event(t, a, TW_EVENT_REGION, "before", TW_ENGINE_ALU, 5, 10);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    static const char *const want[] = {"before", "load 0", "wait", "outer", "load 1", "middle", "inner"};
    for (int i = 0; i < 7; i++) assert_string_equal(hand_name(t, t->events[i].name), want[i]);
    tw_dag *f = tw_dag_new(t);
    assert_int_equal(f->parent[6], 5);
    assert_int_equal(f->parent[5], 3);
    assert_int_equal(f->parent[4], 3);
    assert_int_equal(f->parent[3], -1);
    assert_int_equal(f->parent[1], -1);
    tw_dag_free(f);
    tw_trace_free(t);
}

static void contradictions_are_left_out(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("circle", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 100), b = hand_track(t, 0, 0, "b", 0, 90);
    const int wait_a = hand_event(t, a, TW_EVENT_WAIT, "for b", TW_ENGINE_SYNC, 10, 60);
    const int mark_a = hand_event(t, a, TW_EVENT_MARK, "arrive", TW_ENGINE_NONE, 60, 60);
    const int wait_b = hand_event(t, b, TW_EVENT_WAIT, "for a", TW_ENGINE_SYNC, 20, 60);
    const int mark_b = hand_event(t, b, TW_EVENT_MARK, "arrive", TW_ENGINE_NONE, 60, 60);
    tw_trace_add_edge(t, mark_a, wait_b);
    tw_trace_add_edge(t, mark_b, wait_a);
    tw_trace_add_edge(t, mark_b, mark_a); /* Into no wait. */
    tw_trace_add_edge(t, wait_a, wait_a); /* From itself. */
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_path p;
    assert_int_equal(tw_path_find(&p, t, NULL), TW_OK);
    assert_int_equal(p.ignored, 3);
    near(p.length, 100, 0);
    double sum = 0;
    for (int i = 0; i < p.n_parts; i++) sum += p.parts[i].time;
    assert_true(sum <= 100);
    tw_path_free(&p);
    tw_bubbles bubbles;
    assert_int_equal(tw_bubbles_find(&bubbles, t, NULL), TW_OK);
    assert_int_equal(bubbles.ignored, 3);
    tw_bubbles_free(&bubbles);
    tw_trace_free(t);
}

/* Another multiprocessor's clock is 4 ahead: news come before what they are of. */
static void clocks_may_disagree(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("clocks", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 64), b = hand_track(t, 1, 1, "b", 0, 100);
    hand_event(t, a, TW_EVENT_REGION, "work", TW_ENGINE_ALU, 0, 64);
    const int mark = hand_event(t, a, TW_EVENT_MARK, "arrive", TW_ENGINE_NONE, 64, 64);
    const int wait = hand_event(t, b, TW_EVENT_WAIT, "for a", TW_ENGINE_SYNC, 10, 60);
    hand_event(t, b, TW_EVENT_REGION, "more", TW_ENGINE_ALU, 60, 100);
    tw_trace_add_edge(t, mark, wait);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_prediction p;
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "work", 0.5, 0}, 1, NULL), TW_OK);
    near(p.before, 100, 1e-9);
    near(p.after, 100 - 32, 1e-9);
    assert_int_equal(p.matched, 1);
    tw_bubbles bubbles;
    assert_int_equal(tw_bubbles_find(&bubbles, t, NULL), TW_OK);
    near(bubbles.tracks.attributed, 50, 1e-9);
    tw_bubbles_free(&bubbles);
    tw_trace_free(t);
}

/* The first event of all is a wait, and its edge the first edge. */
static void the_first_wait_is_one(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("first", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 60), b = hand_track(t, 0, 0, "b", 0, 50);
    const int wait = hand_event(t, a, TW_EVENT_WAIT, "for b", TW_ENGINE_SYNC, 0, 50);
    hand_event(t, b, TW_EVENT_REGION, "work", TW_ENGINE_ALU, 0, 48);
    tw_trace_add_edge(t, hand_event(t, b, TW_EVENT_MARK, "arrive", TW_ENGINE_NONE, 48, 48), wait);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_prediction p;
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "work", 0.5, 0}, 1, NULL), TW_OK);
    near(p.after, 60 - 24, 1e-9);
    assert_int_equal(p.ignored, 0);
    tw_trace_free(t);
}

static void changes_are_of_names(void **state) {
    (void)state;
    const ring r = ring_of(10, 300, 200, 150);
    tw_trace *t = ring_trace(&r);
    tw_prediction p;
    tw_diag d;
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "nothing", 0, 0}, 1, NULL), TW_OK);
    assert_int_equal(p.matched, 0);
    near(p.after, p.before, 0);
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "load", -1, 0}, 1, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "load cannot take -1 times as long: give a factor of at least 0");
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "load", INFINITY, 0}, 1, &d), TW_ERR_USAGE);
    /* Two edits together. A region shrinks with the one around it, but waits in it do not. */
    const tw_change both[] = {{TW_CHANGE_SCALE, "softmax", 0, 0}, {TW_CHANGE_SCALE, "product", 0.5, 0}};
    ring e = r;
    e.alu = 0;
    e.product = 100;
    assert_int_equal(tw_path_predict(&p, t, both, 2, NULL), TW_OK);
    near(p.after, ring_length(&e), 1e-6);
    const tw_change stages[] = {
        {TW_CHANGE_STAGES, "empty", 1, 2}, {TW_CHANGE_STAGES, "empty", 1, -2}, {TW_CHANGE_STAGES, "empty", 1, 0}};
    assert_int_equal(tw_path_predict(&p, t, stages, 3, NULL), TW_OK);
    near(p.after, p.before, 1e-6);
    const tw_change loop = {TW_CHANGE_SCALE, "loop", 0, 0};
    assert_int_equal(tw_path_predict(&p, t, &loop, 1, NULL), TW_OK);
    e = r;
    e.alu = e.issue = 0;
    near(p.after, ring_length(&e), 1e-6);
    tw_trace_free(t);
}

/* A loop that loads ahead: one track, whose waits are for its own copies. */
static void a_loop_that_loads_ahead_gets_a_stage(void **state) {
    (void)state;
    enum { N = 30 };
    double length[5];
    for (int stages = 2; stages < 5; stages++) {
        tw_trace *t = tw_trace_new("ahead", "", "ns");
        const int a = hand_track(t, 0, 0, "warps", 0, 0);
        double time = 0, done[N + 8];
        int copies[N + 8], issued = 0;
        for (int i = -(stages - 1); i < N; i++) {
            if (i >= 0) {
                const double begin = time;
                time = fmax(time, done[i]);
                const int w = hand_event(t, a, TW_EVENT_WAIT, "copies", TW_ENGINE_COPY, begin, time);
                tw_trace_add_edge(t, copies[i], w);
            }
            hand_event(t, a, TW_EVENT_REGION, "issue", TW_ENGINE_ALU, time, time + 10);
            time += 10;
            if (issued < N) {
                copies[issued] = hand_event(t, a, TW_EVENT_ASYNC, "copy", TW_ENGINE_COPY, time, time + 500);
                done[issued++] = time + 500;
            }
            if (i < 0) continue;
            hand_event(t, a, TW_EVENT_REGION, "product", TW_ENGINE_TENSOR, time, time + 200);
            time += 200;
        }
        t->tracks[a].end = length[stages] = time;
        assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
        tw_prediction p;
        if (stages == 3) {
            assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_STAGES, "copies", 1, 1}, 1, NULL), TW_OK);
            length[0] = p.after;
            assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_STAGES, "copies", 1, -1}, 1, NULL), TW_OK);
            length[1] = p.after;
        }
        tw_trace_free(t);
    }
    assert_true(length[4] < 0.95 * length[3] && length[3] < 0.9 * length[2]);
    near(length[0], length[4], 0.03 * length[4]);
    near(length[1], length[2], 0.03 * length[2]);
}

/* On tensor cores events of a track follow each other; copies do not end faster than they did. */
static void engines_have_queues(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("queues", "", "ns");
    const int a = hand_track(t, 0, 0, "a", 0, 400);
    hand_event(t, a, TW_EVENT_REGION, "before", TW_ENGINE_ALU, 0, 100);
    const int p0 = hand_event(t, a, TW_EVENT_ASYNC, "product", TW_ENGINE_TENSOR, 100, 200);
    hand_event(t, a, TW_EVENT_REGION, "between", TW_ENGINE_ALU, 100, 150);
    const int p1 = hand_event(t, a, TW_EVENT_ASYNC, "product", TW_ENGINE_TENSOR, 150, 300);
    const int w0 = hand_event(t, a, TW_EVENT_WAIT, "products", TW_ENGINE_TENSOR, 150, 200);
    const int w1 = hand_event(t, a, TW_EVENT_WAIT, "products", TW_ENGINE_TENSOR, 200, 300);
    hand_event(t, a, TW_EVENT_REGION, "after", TW_ENGINE_ALU, 300, 400);
    tw_trace_add_edge(t, p0, w0);
    tw_trace_add_edge(t, p1, w1);
    assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
    tw_prediction p;
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "between", 0, 0}, 1, NULL), TW_OK);
    near(p.after, 400, 1e-9);
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_SCALE, "product", 0.5, 0}, 1, NULL), TW_OK);
    near(p.after, 300, 1e-9);
    tw_path path;
    assert_int_equal(tw_path_find(&path, t, NULL), TW_OK);
    near(path.parts[0].time, 200, 1e-9);
    assert_int_equal(path.parts[0].cause, TW_CAUSE_ASYNC);
    assert_int_equal(path.n_pieces, 4);
    tw_path_free(&path);
    tw_trace_free(t);
    /* A ring that memory is too slow for: another stage is no use. */
    ring r = ring_of(10, 300, 50, 10);
    r.gap = 200;
    t = ring_trace(&r);
    assert_int_equal(tw_path_predict(&p, t, &(tw_change){TW_CHANGE_STAGES, "empty", 1, 1}, 1, NULL), TW_OK);
    r.stages++;
    near(p.after, ring_length(&r), 1e-6);
    near(p.after, p.before, 0.03 * p.before);
    tw_trace_free(t);
    /* One that is not, but would be with more stages and nothing else to do: only the first loads show it. */
    r = ring_of(10, 800, 50, 400);
    r.gap = 200;
    r.stages = 2;
    t = ring_trace(&r);
    const tw_change changes[] = {{TW_CHANGE_SCALE, "softmax", 0, 0}, {TW_CHANGE_STAGES, "empty", 1, 4}};
    assert_int_equal(tw_path_predict(&p, t, changes, 2, NULL), TW_OK);
    r.stages = 6;
    r.alu = 0;
    near(p.after, ring_length(&r), 0.01 * p.after);
    tw_trace_free(t);
}

static void an_empty_trace_has_nothing(void **state) {
    (void)state;
    tw_trace *t = tw_trace_new("", "", "ns");
    for (int tracks = 0; tracks < 2; tracks++) {
        if (tracks) hand_track(t, 0, 0, "a", 0, 10);
        assert_int_equal(tw_trace_finish(t, NULL), TW_OK);
        tw_path p;
        tw_bubbles b;
        tw_overlap o;
        tw_iterations i;
        tw_prediction q;
        assert_int_equal(tw_path_find(&p, t, NULL), TW_OK);
        assert_int_equal(tw_bubbles_find(&b, t, NULL), TW_OK);
        assert_int_equal(tw_overlap_find(&o, t, NULL), TW_OK);
        assert_int_equal(tw_iterations_find(&i, t, NULL), TW_OK);
        assert_int_equal(tw_path_predict(&q, t, NULL, 0, NULL), TW_OK);
        assert_int_equal(p.n_parts, tracks);
        assert_int_equal(b.n + i.n, 0);
        assert_int_equal(o.n_sms, tracks);
        near(q.after, 10 * tracks, 0);
        tw_path_free(&p);
        tw_bubbles_free(&b);
        tw_overlap_free(&o);
        tw_iterations_free(&i);
    }
    tw_trace_free(t);
}

static void tallies_are_sums(void **state) {
    (void)state;
    tw_random x = tw_random_seed(4);
    tw_tally tally = {0};
    double sum[50] = {0};
    for (int i = 0; i < 5000; i++) {
        const int k = (int)tw_random_below(&x, 50);
        const int32_t key[TW_TALLY_KEYS] = {k % 5, 0, k / 5, -1};
        sum[k] += i;
        assert_true(tw_tally_add(&tally, key, i, i));
    }
    assert_int_equal(tally.n, 50);
    tw_tally_sort(&tally);
    for (int i = 0; i < 50; i++) {
        const tw_tally_row *r = &tally.rows[i];
        near(r->sum, sum[r->key[0] + 5 * r->key[2]], 0);
        near(r->longest, r->where, 0);
        assert_true(!i || r->sum <= r[-1].sum);
    }
    tw_tally_free(&tally);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(events_of_a_moment_keep_their_order),
                                       cmocka_unit_test(contradictions_are_left_out),
                                       cmocka_unit_test(clocks_may_disagree),
                                       cmocka_unit_test(the_first_wait_is_one),
                                       cmocka_unit_test(changes_are_of_names),
                                       cmocka_unit_test(a_loop_that_loads_ahead_gets_a_stage),
                                       cmocka_unit_test(engines_have_queues),
                                       cmocka_unit_test(an_empty_trace_has_nothing),
                                       cmocka_unit_test(tallies_are_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
