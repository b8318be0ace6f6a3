/* SPDX-License-Identifier: Apache-2.0 */
/* What the decoder says of durations that records leave open. */
#include "support/support.h"

#include "prof/decode.h"
#include "prof/traced.h"

enum { N = 4, BLOCKS = 2 };

static void body(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n), f = tw_var_of(b, tw_f32(b, 1));
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_record_arrive(b, "seen", TW_ARRIVAL_own, TW_ENGINE_OF_tensor);
        tw_record_arrive(b, "unseen", TW_ARRIVAL_own, TW_ENGINE_OF_copy);
        tw_op_to(b, f, TW_OP_add_f32, f, f, TW_NONE);
        tw_record_wait(b, "seen", TW_ENGINE_OF_tensor, 0);
        tw_op_to(b, f, TW_OP_add_f32, f, f, TW_NONE);
        tw_record_end(b, "seen");
        tw_add_to(b, x, i);
    }
    traced_store(b, out, tw_add(b, x, tw_get(b, TW_OP_bitcast, (tw_attrs){.type = TW_T_i32}, TW_T_i32, f, TW_NONE)));
}

static tw_trace *decode(const traced *x, double cost) {
    const tw_prof_decoding how = {.title = "test", .device = "emulator", .emulated = true, .cost = cost};
    tw_trace *t;
    tw_diag d;
    if (tw_prof_decode(&t, &x->layout, x->buffer, BLOCKS, &how, &d) != TW_OK) fail_msg("%s", d.message);
    return t;
}

/* A wait that is longer than records cost says when the work was done. A shorter one says that it was done before. */
static void waits_bound_what_they_saw(void **state) {
    (void)state;
    traced x = traced_run(body, N, BLOCKS, (tw_prof_options){0});
    const tw_trace_event *wait = traced_nth(x.t, 0, TW_EVENT_WAIT, "seen", 0);
    const double cost =
        0.7 * (wait->end - wait->begin); /* So that a wait takes longer than one record, and less than two. */
    for (int costs = 0; costs < 2; costs++) {
        tw_trace *t = decode(&x, costs * cost);
        assert_int_equal(traced_count(t, TW_EVENT_WAIT, "seen"), N * BLOCKS);
        assert_int_equal(traced_count(t, TW_EVENT_ASYNC, "seen"), N * BLOCKS);
        assert_int_equal(t->n_edges, N * BLOCKS);
        for (int i = 0; i < t->n_edges; i++) {
            const tw_trace_event *from = &t->events[t->edges[i].from], *to = &t->events[t->edges[i].to];
            assert_true(from->kind == TW_EVENT_ASYNC && to->kind == TW_EVENT_WAIT && from->iteration == to->iteration);
            assert_true(to->end > to->begin && from->end == to->end && from->most == from->end - from->begin);
            assert_true(from->least == (costs ? 0 : from->most));
            assert_true(to->least == (costs ? 0 : to->end - to->begin) && to->most >= to->end - to->begin);
        }
        tw_trace_free(t);
    }
    traced_end(&x);
}

/* Work that nobody waits for may last as long as its track. */
static void unseen_work_ends_with_its_track(void **state) {
    (void)state;
    traced x = traced_run(body, N, BLOCKS, (tw_prof_options){.only = "unseen"});
    assert_int_equal(x.t->n_events,
                     traced_count(x.t, TW_EVENT_ASYNC, "unseen") + traced_count(x.t, TW_EVENT_ITERATION, "iteration"));
    for (int i = 0; i < N; i++)
        for (int track = 0; track < BLOCKS; track++) {
            const tw_trace_event *e = traced_nth(x.t, track, TW_EVENT_ASYNC, "unseen", i);
            assert_true(e->end == x.t->tracks[track].end && e->least == 0 && e->most == e->end - e->begin);
        }
    traced_end(&x);
}

/* Iterations follow one another without a gap, and the last one ends with its last record. */
static void iterations_follow_one_another(void **state) {
    (void)state;
    traced x = traced_run(body, N, BLOCKS, (tw_prof_options){0});
    for (int track = 0; track < BLOCKS; track++)
        for (int i = 0; i < N; i++) {
            const tw_trace_event *e = traced_nth(x.t, track, TW_EVENT_ITERATION, "iteration", i);
            assert_int_equal(e->iteration, i);
            assert_true(e->begin == traced_nth(x.t, track, TW_EVENT_ASYNC, "seen", i)->begin);
            assert_true(e->end == (i + 1 < N ? traced_nth(x.t, track, TW_EVENT_ITERATION, "iteration", i + 1)->begin
                                             : traced_nth(x.t, track, TW_EVENT_WAIT, "seen", i)->end));
        }
    traced_end(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_bound_what_they_saw),
        cmocka_unit_test(unseen_work_ends_with_its_track),
        cmocka_unit_test(iterations_follow_one_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
