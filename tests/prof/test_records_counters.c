/* SPDX-License-Identifier: Apache-2.0 */
/* What records read: the clock, once for those that follow one another; the GPU's timer; the multiprocessor's number.
 */
#include "support/support.h"

#include "base/diag.h"
#include "prof/decode.h"
#include "prof/traced.h"

#include <string.h>

/* -- readings */

static void marks(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n), f = tw_var_of(b, tw_f32(b, 1));
    tw_record_mark(b, "a");
    tw_record_mark(b, "b"); /* Right behind. */
    tw_op_to(b, f, TW_OP_add_f32, f, f, TW_NONE);
    tw_record_mark(b, "c"); /* Behind arithmetic. */
    traced_store(b, out, n);
    tw_record_mark(b, "d"); /* Behind a store. */
    tw_add_to(b, x, traced_work(b, 20));
    tw_record_mark(b, "e"); /* Behind many operations. */
    TW_IF (b, tw_lt(b, n, x)) tw_add_to(b, x, n);
    tw_record_mark(b, "f"); /* Behind an `if`. */
    tw_val all = tw_add(b, x, tw_get(b, TW_OP_bitcast, (tw_attrs){.type = TW_T_i32}, TW_T_i32, f, TW_NONE));
    traced_store(b, out, all);
}

/* Only a record right behind another, or behind a few addresses, is at the same moment. */
static void readings_are_shared_across_nothing(void **state) {
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        traced x = traced_run(marks, 3, 1, (tw_prof_options){.apart = apart});
        for (int i = 0; i < 5; i++) {
            const char name[2] = {(char)('a' + i), 0}, next[2] = {(char)('b' + i), 0};
            const double at = traced_nth(x.t, 0, TW_EVENT_MARK, name, 0)->begin,
                         then = traced_nth(x.t, 0, TW_EVENT_MARK, next, 0)->begin;
            assert_true(i || apart ? at < then : at == then);
        }
        traced_end(&x);
    }
}

/* -- other counters */

static void one_mark(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n);
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_record_mark(b, "mark");
        tw_add_to(b, x, traced_work(b, 3));
    }
    traced_store(b, out, x);
}

/* The timer of a GPU counts from 1970 and has nothing to do with a multiprocessor's clock. */
static void times_may_be_the_timers(void **state) {
    (void)state;
    enum { N = 9 };
    traced x = traced_run(one_mark, N, 1, (tw_prof_options){.metric = TW_PROF_GLOBALTIMER});
    const tw_prof_decoding how = {.title = "test", .device = "made", .cost = 4, .ghz = 1.7};
    uint64_t header[TW_PROF_HEADER_WORDS];
    tw_trace *t;
    tw_diag d;
    memcpy(header, x.buffer, sizeof header);
    header[TW_PROF_BEGIN_CLOCK] = 77;
    header[TW_PROF_END_CLOCK] = 999;
    header[TW_PROF_BEGIN_TIME] += 400000000ull << 32;
    header[TW_PROF_END_TIME] += 400000000ull << 32;
    memcpy(x.buffer, header, sizeof header);
    assert_int_equal(tw_prof_decode(&t, &x.layout, x.buffer, 1, &how, &d), TW_OK);
    assert_true(t->ghz == 0 && t->began_unix > 1.7e9);
    for (int i = 0; i < N; i++)
        assert_true(traced_nth(t, 0, TW_EVENT_MARK, "mark", i)->begin ==
                    traced_nth(x.t, 0, TW_EVENT_MARK, "mark", i)->begin);
    tw_trace_free(t);
    traced_end(&x);
}

/* Puts a block on multiprocessor 0, where it begins at a clock. */
static void move_block(traced *x, int block, uint64_t begin) {
    unsigned char *part = x->buffer + tw_prof_part(&x->layout, block);
    uint64_t header[TW_PROF_HEADER_WORDS];
    memcpy(header, part, sizeof header);
    const uint64_t by = begin - header[TW_PROF_BEGIN_CLOCK];
    for (int i = TW_PROF_BEGIN_CLOCK; i <= TW_PROF_END_TIME; i++) header[i] += by;
    header[TW_PROF_SM] = 0;
    memcpy(part, header, sizeof header);
    for (int64_t at = x->layout.scopes[0].statics; at < x->layout.block_bytes; at += 4) {
        uint32_t word;
        memcpy(&word, part + at, sizeof word);
        if (word) word += (uint32_t)by;
        memcpy(part + at, &word, sizeof word);
    }
}

/* A block that took the place of one which recording had made late began late. One beside it did not. */
static void blocks_that_follow_are_late(void **state) {
    (void)state;
    enum { N = 5, COST = 2, LATER = 100000 };
    traced x = traced_run(one_mark, N, 3, (tw_prof_options){0});
    tw_trace *t[2];
    tw_diag d;
    for (int i = 0; i < 3; i++) move_block(&x, i, i == 1 ? LATER : 1000 + 5 * (uint64_t)i);
    for (int i = 0; i < 2; i++) {
        const tw_prof_decoding how = {.title = "test", .device = "made", .emulated = true, .cost = i * COST};
        assert_int_equal(tw_prof_decode(&t[i], &x.layout, x.buffer, 3, &how, &d), TW_OK);
        assert_int_equal(t[i]->n_tracks, 3);
    }
    for (int i = 0; i < 3; i++) {
        const int block = t[0]->tracks[i].block;
        const double late = block == 1 ? N * COST : 0;
        assert_int_equal(t[1]->tracks[i].block, block);
        assert_true(t[0]->tracks[i].begin - t[1]->tracks[i].begin == late);
        assert_true(t[0]->tracks[i].end - t[1]->tracks[i].end == late + N * COST);
        for (int j = 0; j < N; j++)
            assert_true(traced_nth(t[0], i, TW_EVENT_MARK, "mark", j)->begin -
                            traced_nth(t[1], i, TW_EVENT_MARK, "mark", j)->begin ==
                        late + j * COST);
    }
    for (int i = 0; i < 2; i++) tw_trace_free(t[i]);
    traced_end(&x);
}

static void some_marks(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n);
    TW_IF (b, tw_eq(b, tw_sreg(b, TW_SREG_warpid), tw_i32(b, 1))) {
        tw_record_mark(b, "one");
        tw_add_to(b, x, n);
    }
    tw_record_begin(b, "all", TW_ENGINE_OF_alu);
    tw_add_to(b, x, n);
    tw_record_end(b, "all");
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_when(b, tw_eq(b, i, tw_i32(b, 2)));
        tw_record_mark(b, "third");
        tw_add_to(b, x, i);
    }
    traced_store(b, out, x);
}

/* Also of multiprocessor 0. */
static void records_may_say_where_they_were_made(void **state) {
    (void)state;
    const tw_prof_options o = {.units = TW_PROF_WARPS, .metric = TW_PROF_SMID};
    traced x = traced_run(some_marks, 5, 4, o);
    assert_int_equal(traced_count(x.t, TW_EVENT_VALUE, "one"), 4);
    assert_int_equal(traced_count(x.t, TW_EVENT_VALUE, "all"), 4 * TRACED_WARPS);
    assert_int_equal(traced_count(x.t, TW_EVENT_VALUE, "third"), 4 * TRACED_WARPS);
    int sms[2] = {0};
    for (int i = 0; i < x.t->n_events; i++) {
        const tw_trace_event *e = &x.t->events[i];
        assert_int_equal(e->kind, TW_EVENT_VALUE);
        assert_int_equal(e->value, x.t->tracks[e->track].sm);
        sms[e->value]++;
    }
    assert_true(sms[0] && sms[1]);
    traced_end(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readings_are_shared_across_nothing),
        cmocka_unit_test(times_may_be_the_timers),
        cmocka_unit_test(blocks_that_follow_are_late),
        cmocka_unit_test(records_may_say_where_they_were_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
