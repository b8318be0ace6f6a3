/* SPDX-License-Identifier: Apache-2.0 */
/* Records from a kernel's IR to a trace, in the emulator. */
#include "support/support.h"

#include "prof/decode.h"
#include "prof/traced.h"

#include <stdlib.h>
#include <string.h>

/* -- straight code: nested and overlapping regions, marks, values, code that some warps skip */

static void straight(tw_builder *b, tw_val out, tw_val n) {
    tw_record_begin(b, "outer", TW_ENGINE_OF_alu);
    tw_val x = traced_work(b, 5);
    tw_record_begin(b, "inner", TW_ENGINE_OF_tensor);
    x = tw_add(b, x, traced_work(b, 5));
    tw_record_end(b, "inner");
    tw_record_mark(b, "mark");
    tw_record_value(b, "value", tw_add_imm(b, n, 1000));
    tw_record_end(b, "outer");
    tw_record_begin(b, "first", TW_ENGINE_OF_alu);
    x = tw_add(b, x, traced_work(b, 5));
    tw_record_begin(b, "second", TW_ENGINE_OF_copy);
    x = tw_add(b, x, traced_work(b, 5));
    tw_record_end(b, "first");
    x = tw_add(b, x, traced_work(b, 5));
    tw_record_end(b, "second");
    tw_val y = tw_var_of(b, x);
    TW_IF (b, tw_eq(b, tw_sreg(b, TW_SREG_warpid), tw_i32(b, 1))) {
        tw_record_begin(b, "warp 1", TW_ENGINE_OF_alu);
        tw_add_to(b, y, tw_i32(b, 1));
        tw_record_end(b, "warp 1");
    }
    traced_store(b, out, y);
}

static void regions_nest_and_overlap(void **state) {
    (void)state;
    traced x = traced_run(straight, 7, 2, (tw_prof_options){.units = TW_PROF_WARPS});
    assert_int_equal(x.t->n_tracks, 2 * TRACED_WARPS);
    for (int track = 0; track < 2 * TRACED_WARPS; track++) {
        const tw_trace_event *outer = traced_nth(x.t, track, TW_EVENT_REGION, "outer", 0),
                             *inner = traced_nth(x.t, track, TW_EVENT_REGION, "inner", 0),
                             *mark = traced_nth(x.t, track, TW_EVENT_MARK, "mark", 0),
                             *value = traced_nth(x.t, track, TW_EVENT_VALUE, "value", 0),
                             *first = traced_nth(x.t, track, TW_EVENT_REGION, "first", 0),
                             *second = traced_nth(x.t, track, TW_EVENT_ASYNC, "second", 0); /* It does not nest. */
        assert_true(outer->begin < inner->begin && inner->end == mark->begin && mark->begin < outer->end);
        assert_true(mark->begin == mark->end && value->value == 1007);
        assert_true(first->begin < second->begin && second->begin < first->end && first->end < second->end);
        assert_true(inner->end - inner->begin >= 5);
        assert_int_equal(x.t->names[inner->name].engine, TW_ENGINE_TENSOR);
        assert_int_equal(outer->iteration, -1);
    }
    assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "warp 1"), 2); /* One a block. */
    assert_int_equal(x.t->tracks[x.t->events[0].track].dropped, 0);
    traced_end(&x);
}

static void units_are_chosen(void **state) {
    (void)state;
    static const struct {
        tw_prof_options o;
        int tracks;
    } cases[] = {{{.units = TW_PROF_WARPGROUPS}, 4 * 1},
                 {{.units = TW_PROF_BLOCKS}, 4 * 1},
                 {{.units = TW_PROF_WARPS}, 4 * TRACED_WARPS},
                 {{.units = TW_PROF_WARPS, .warps = 5}, 4 * 2},
                 {{.units = TW_PROF_WARPS, .first = 1}, 3 * TRACED_WARPS},
                 {{.units = TW_PROF_WARPS, .first = 1, .every = 2}, 2 * TRACED_WARPS},
                 {{.units = TW_PROF_WARPS, .first = 1, .every = 2, .global = true}, 2 * TRACED_WARPS},
                 {{.units = TW_PROF_BLOCKS, .metric = TW_PROF_GLOBALTIMER}, 4 * 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        traced x = traced_run(straight, 7, 4, cases[i].o);
        assert_int_equal(x.t->n_tracks, cases[i].tracks);
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "outer"), cases[i].tracks);
        for (int j = 0; j < x.t->n_tracks; j++) {
            const int block = x.t->tracks[j].block, first = cases[i].o.first, every = cases[i].o.every;
            assert_true(block >= first && (every < 2 || (block - first) % every == 0));
        }
        traced_end(&x);
    }
}

static void names_are_chosen(void **state) {
    (void)state;
    traced x = traced_run(straight, 7, 1, (tw_prof_options){.only = "inner,value"});
    assert_int_equal(x.layout.n_sites, 3);
    assert_int_equal(x.t->n_events, 2);
    traced_end(&x);
}

/* -- loops: iterations, rings that overflow, records that are not made each time */

static void loop(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, tw_i32(b, 0));
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        TW_IF (b, tw_eq(b, tw_rem(b, i, 3), tw_i32(b, 2))) {
            tw_record_value(b, "third", i);
        }
        tw_record_begin(b, "step", TW_ENGINE_OF_alu);
        tw_add_to(b, x, traced_work(b, 3));
        tw_record_end(b, "step");
        tw_when(b, tw_eq(b, tw_rem(b, i, 2), tw_i32(b, 1)));
        tw_record_mark(b, "odd");
        TW_FOR (b, j, tw_i32(b, 0), tw_i32(b, 2), tw_i32(b, 1), true) {
            tw_record_mark(b, "deep");
            tw_add_to(b, x, j);
        }
    }
    traced_store(b, out, x);
}

/* A ring of `frames` frames has the last iterations, whole, and says how many are lost. */
static void check_loop(const traced *x, int n, int kept, int deep) {
    const int first = n - kept;
    assert_int_equal(traced_count(x->t, TW_EVENT_REGION, "step"), kept);
    assert_int_equal(traced_count(x->t, TW_EVENT_MARK, "deep"), deep);
    int thirds = 0, odds = 0;
    for (int i = first; i < n; i++) {
        thirds += i % 3 == 2;
        odds += i % 2 == 1;
    }
    assert_int_equal(traced_count(x->t, TW_EVENT_VALUE, "third"), thirds);
    assert_int_equal(traced_count(x->t, TW_EVENT_MARK, "odd"), odds);
    for (int i = 0; i < x->t->n_events; i++) {
        const tw_trace_event *e = &x->t->events[i];
        const char *name = x->t->names[e->name].text;
        if (!strcmp(name, "third")) assert_int_equal(e->value, e->iteration);
        if (!strcmp(name, "odd")) assert_int_equal(e->iteration % 2, 1);
        if (!strcmp(name, "step")) assert_true(e->iteration >= first && e->iteration < n);
    }
    for (int i = 0; i < kept; i++)
        assert_int_equal(traced_nth(x->t, 0, TW_EVENT_REGION, "step", i)->iteration, first + i);
    for (int i = 1; i < kept; i++)
        assert_true(traced_nth(x->t, 0, TW_EVENT_REGION, "step", i)->begin >
                    traced_nth(x->t, 0, TW_EVENT_REGION, "step", i - 1)->end);
}

static void rings_keep_the_last_iterations(void **state) {
    (void)state;
    static const int counts[] = {1, 3, 4, 5, 8, 11, 29};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const int n = counts[i], kept = n < 4 ? n : 4, deep = 2 * n < 4 ? 2 * n : 4;
        traced x = traced_run(loop, n, 1, (tw_prof_options){.frames = 4});
        check_loop(&x, n, kept, deep);
        /* Four sites of the outer loop and one of the inner one. */
        assert_int_equal(x.t->tracks[0].dropped, (n - kept) * 4 + (2 * n - deep));
        traced_end(&x);
        x = traced_run(loop, n, 1, (tw_prof_options){.frames = 4, .global = true});
        check_loop(&x, n, kept, deep);
        traced_end(&x);
        x = traced_run(loop, n, 1, (tw_prof_options){.frames = 4, .flush = true});
        check_loop(&x, n, n, 2 * n);
        assert_int_equal(x.t->tracks[0].dropped, 0);
        traced_end(&x);
    }
}

static void a_loop_that_never_runs_has_no_records(void **state) {
    (void)state;
    for (int flush = 0; flush < 2; flush++) {
        traced x = traced_run(loop, 0, 3, (tw_prof_options){.flush = flush});
        assert_int_equal(x.t->n_events, 0);
        assert_int_equal(x.t->n_tracks, 3);
        traced_end(&x);
    }
}

static void shared_memory_that_is_short_gives_way(void **state) {
    (void)state;
    traced x = traced_run(loop, 9, 1, (tw_prof_options){.shared_bytes = 300});
    assert_true(x.layout.shared_bytes <= 300 && x.layout.shared_bytes > 0 && !x.layout.global);
    traced_end(&x);
    x = traced_run(loop, 9, 1, (tw_prof_options){.shared_bytes = 16});
    assert_true(x.layout.global);
    assert_int_equal(x.layout.shared_bytes, 0);
    check_loop(&x, 9, 9, 18);
    traced_end(&x);
}

/* -- lanes that are apart */

static void lanes(tw_builder *b, tw_val out, tw_val n) {
    tw_val lane = tw_sreg(b, TW_SREG_laneid), x = tw_var_of(b, tw_i32(b, 0));
    TW_IF (b, tw_lt(b, lane, tw_i32(b, 5))) {
        TW_FOR (b, i, lane, n, tw_i32(b, 1), true) { /* Lanes run different numbers of iterations. */
            tw_record_begin(b, "some", TW_ENGINE_OF_alu);
            tw_add_to(b, x, i);
            tw_record_end(b, "some");
        }
    }
    TW_IF (b, tw_lt(b, tw_i32(b, 7), lane)) {
        tw_record_mark(b, "others");
        tw_add_to(b, x, n);
    }
    traced_store(b, out, x);
}

/* Records are those of the first lane. */
static void partial_warps_record_their_first_lane(void **state) {
    (void)state;
    for (int flush = 0; flush < 2; flush++) {
        traced x = traced_run(lanes, 6, 1, (tw_prof_options){.flush = flush, .frames = 2});
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "some"), flush ? 6 : 2);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "others"), 0);
        traced_end(&x);
    }
}

/* -- waits and arrivals */

/* Two warps hand over by named barriers; a third one watches. */
static void hand_over(tw_builder *b, tw_val out, tw_val n) {
    const int ranges[4] = {0, 1, 1, 2};
    tw_val x = tw_var_of(b, tw_i32(b, 0));
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    tw_name_roles(b, roles, "giver taker");
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_add_to(b, x, traced_work(b, 40));
        tw_record_arrive(b, "given", TW_ARRIVAL_now, TW_ENGINE_OF_sync);
        tw_do(b, TW_OP_barrier_arrive, (tw_attrs){.count = 64}, tw_i32(b, 1), TW_NONE);
        tw_record_wait(b, "taken", TW_ENGINE_OF_sync, 0);
        tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = 64}, tw_i32(b, 2), TW_NONE);
        tw_record_end(b, "taken");
    }
    tw_next_role(b, roles);
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_record_wait(b, "given", TW_ENGINE_OF_sync, 0);
        tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = 64}, tw_i32(b, 1), TW_NONE);
        tw_record_end(b, "given");
        tw_record_arrive(b, "taken", TW_ARRIVAL_now, TW_ENGINE_OF_sync);
        tw_do(b, TW_OP_barrier_arrive, (tw_attrs){.count = 64}, tw_i32(b, 2), TW_NONE);
    }
    tw_pop(b, roles);
    traced_store(b, out, x);
}

static void waits_name_their_arrivals(void **state) {
    (void)state;
    enum { N = 9 };
    for (int frames = 2; frames <= 16; frames *= 2) {
        traced x = traced_run(hand_over, N, 2, (tw_prof_options){.units = TW_PROF_WARPS, .frames = frames});
        const int kept = frames < N ? frames : N;
        assert_int_equal(traced_count(x.t, TW_EVENT_WAIT, "given"), 2 * kept);
        assert_int_equal(x.t->n_edges, 2 * 2 * kept);
        for (int i = 0; i < x.t->n_edges; i++) {
            const tw_trace_event *from = &x.t->events[x.t->edges[i].from], *to = &x.t->events[x.t->edges[i].to];
            assert_int_equal(from->iteration, to->iteration);
            assert_int_equal(from->name, to->name);
            assert_int_equal(x.t->tracks[from->track].block, x.t->tracks[to->track].block);
            assert_int_not_equal(from->track, to->track);
            assert_true(from->end <= to->end);
        }
        for (int i = 0; i < x.t->n_tracks; i++)
            assert_string_equal(x.t->names[x.t->tracks[i].role].text, x.t->tracks[i].warp ? "taker" : "giver");
        traced_end(&x);
    }
}

/* -- clocks of 32 bits */

/* Adds to all clocks of a buffer, so that they wrap in the middle. */
static void move_clocks(traced *x, uint64_t by) {
    const tw_prof_scope *s = &x->layout.scopes[0];
    for (int w = TW_PROF_BEGIN_CLOCK; w <= TW_PROF_END_CLOCK; w += TW_PROF_END_CLOCK - TW_PROF_BEGIN_CLOCK) {
        uint64_t clock;
        memcpy(&clock, x->buffer + s->segment + 8 * w, sizeof clock);
        clock += by;
        memcpy(x->buffer + s->segment + 8 * w, &clock, sizeof clock);
    }
    for (size_t at = (size_t)(s->segment + s->statics); at < x->bytes; at += 4) {
        uint32_t word;
        memcpy(&word, x->buffer + at, sizeof word);
        if (word) word += (uint32_t)by;
        memcpy(x->buffer + at, &word, sizeof word);
    }
}

static void plain_loop(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, tw_i32(b, 0));
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_record_begin(b, "step", TW_ENGINE_OF_alu);
        tw_add_to(b, x, traced_work(b, 3));
        tw_record_end(b, "step");
    }
    traced_store(b, out, x);
}

static void clocks_wrap(void **state) {
    (void)state;
    enum { N = 20 };
    traced x = traced_run(plain_loop, N, 1, (tw_prof_options){.units = TW_PROF_BLOCKS});
    const tw_prof_decoding how = {.title = "test", .device = "emulator", .emulated = true};
    const double middle = traced_nth(x.t, 0, TW_EVENT_REGION, "step", N / 2)->begin;
    tw_trace *moved;
    tw_diag d;
    move_clocks(&x, (3ull << 32) - (uint64_t)middle);
    assert_int_equal(tw_prof_decode(&moved, &x.layout, x.buffer, 1, &how, &d), TW_OK);
    for (int i = 0; i < N; i++) {
        const tw_trace_event *a = traced_nth(x.t, 0, TW_EVENT_REGION, "step", i),
                             *b = traced_nth(moved, 0, TW_EVENT_REGION, "step", i);
        assert_true(a->begin == b->begin && a->end == b->end);
    }
    tw_trace_free(moved);
    traced_end(&x);
}

/* -- buffers of others */

static void damaged_buffers_are_refused_or_read(void **state) {
    (void)state;
    traced x = traced_run(loop, 9, 2, (tw_prof_options){.units = TW_PROF_WARPS});
    const tw_prof_decoding how = {.title = "test", .device = "emulator"};
    unsigned char *copy = malloc(x.bytes);
    srand(17);
    int refused = 0;
    for (int i = 0; i < 300; i++) {
        tw_trace *t;
        tw_diag d;
        memcpy(copy, x.buffer, x.bytes);
        for (int j = 0; j < 1 + i % 8; j++) copy[(size_t)rand() % (i % 2 ? 128 : x.bytes)] = (unsigned char)rand();
        const tw_status st = tw_prof_decode(&t, &x.layout, copy, 2, &how, &d);
        assert_true(st == TW_OK || st == TW_ERR_FORMAT);
        refused += st == TW_ERR_FORMAT;
        tw_trace_free(t);
    }
    assert_true(refused > 0);
    /* Clocks count from 0. */
    const int64_t clocks[2] = {INT64_MIN, INT64_MIN + 5};
    tw_trace *t;
    tw_diag d;
    memcpy(copy, x.buffer, x.bytes);
    memcpy(copy + 8 * TW_PROF_BEGIN_CLOCK, &clocks[0], 8);
    memcpy(copy + 8 * TW_PROF_END_CLOCK, &clocks[1], 8);
    assert_int_equal(tw_prof_decode(&t, &x.layout, copy, 2, &how, &d), TW_ERR_FORMAT);
    free(copy);
    traced_end(&x);
}

/* -- what cannot be lowered, and what needs no lowering */

static void early_exit(tw_builder *b, tw_val out, tw_val n) {
    tw_record_mark(b, "mark");
    tw_when(b, tw_lt(b, n, tw_i32(b, 0)));
    tw_do(b, TW_OP_exit, (tw_attrs){0}, TW_NONE, TW_NONE);
    traced_store(b, out, n);
}

static void in_predicate(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n);
    const tw_scope s = tw_push_while(b);
    tw_record_mark(b, "mark");
    tw_push_while_body(b, s, tw_lt(b, tw_i32(b, 0), x));
    tw_add_to(b, x, tw_i32(b, -1));
    tw_pop(b, s);
    traced_store(b, out, x);
}

static void what_cannot_be_lowered_is_said(void **state) {
    (void)state;
    static const struct {
        traced_build *build;
        const char *says;
    } cases[] = {{early_exit, "exit early"}, {in_predicate, "loop's predicate"}};
    for (int i = 0; i < 2; i++) {
        tw_kernel *k = traced_kernel(cases[i].build);
        tw_prof_layout l;
        tw_diag d;
        assert_int_equal(tw_prof_lower(k, &(tw_prof_options){0}, &l, &d), TW_ERR_UNSUPPORTED);
        assert_non_null(strstr(d.message, cases[i].says));
        tw_prof_layout_free(&l);
        tw_kernel_free(k);
    }
}

/* A kernel with records that no pass lowers has the PTX of the kernel without them, byte for byte; so has one of whose
   records none is asked for. */
static void records_that_are_off_leave_no_trace(void **state) {
    (void)state;
    static traced_build *const kernels[] = {straight, loop, lanes, hand_over};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        tw_diag d;
        tw_kernel *k = traced_kernel(kernels[i]);
        assert_true(traced_check_off(k, "sm_90a"));
        tw_prof_layout l;
        char *before = traced_ptx(k, "sm_90a");
        assert_int_equal(tw_prof_lower(k, &(tw_prof_options){.only = "nothing"}, &l, &d), TW_OK);
        assert_int_equal(l.n_sites, 0);
        char *after = traced_ptx(k, "sm_90a");
        assert_string_equal(before, after);
        tw_prof_layout_free(&l);
        free(before);
        free(after);
        tw_kernel_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_nest_and_overlap),
        cmocka_unit_test(units_are_chosen),
        cmocka_unit_test(names_are_chosen),
        cmocka_unit_test(rings_keep_the_last_iterations),
        cmocka_unit_test(a_loop_that_never_runs_has_no_records),
        cmocka_unit_test(shared_memory_that_is_short_gives_way),
        cmocka_unit_test(partial_warps_record_their_first_lane),
        cmocka_unit_test(waits_name_their_arrivals),
        cmocka_unit_test(clocks_wrap),
        cmocka_unit_test(damaged_buffers_are_refused_or_read),
        cmocka_unit_test(what_cannot_be_lowered_is_said),
        cmocka_unit_test(records_that_are_off_leave_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
