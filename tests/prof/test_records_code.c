/* SPDX-License-Identifier: Apache-2.0 */
/* Records in every kind of code: loops whose lanes part, roles that are no scope of their own, values and guards that
   change afterwards, blocks of many words, frames of every size; with every strategy. */
#include "support/support.h"

#include "base/diag.h"
#include "prof/traced.h"

#include <stdio.h>
#include <string.h>

/* -- rings that are written out */

static void one_mark(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n);
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_record_mark(b, "mark");
        tw_add_to(b, x, traced_work(b, 3));
    }
    traced_store(b, out, x);
}

/* A frame of four bytes is less than what is written out at once. */
static void small_frames_are_flushed(void **state) {
    (void)state;
    for (int frames = 1; frames <= 8; frames++)
        for (int n = 1; n <= 19; n += 3) {
            traced x = traced_run(one_mark, n, 1, (tw_prof_options){.flush = true, .frames = frames});
            assert_true(x.layout.flush);
            assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "mark"), n);
            for (int i = 0; i < n; i++) assert_int_equal(traced_nth(x.t, 0, TW_EVENT_MARK, "mark", i)->iteration, i);
            traced_end(&x);
        }
}

/* Writing out the rest of a ring takes place from the oldest frames of a segment that is full. */
static void full_segments_keep_whole_frames(void **state) {
    (void)state;
    for (int n = 1024; n <= 1060; n += 9) {
        traced x = traced_run(one_mark, n, 1, (tw_prof_options){.flush = true, .frames = 8});
        const int kept = traced_count(x.t, TW_EVENT_MARK, "mark");
        assert_true(kept <= 1024 && kept > 1024 - 8 && (n > 1024 || kept == n));
        assert_int_equal(x.t->tracks[0].dropped, n - kept);
        for (int i = 0; i < kept; i++) {
            const tw_trace_event *e = traced_nth(x.t, 0, TW_EVENT_MARK, "mark", i);
            assert_int_equal(e->iteration, n - kept + i);
            assert_true(e->begin > x.t->tracks[0].begin && e->begin < x.t->tracks[0].end);
            assert_true(!i || e->begin > traced_nth(x.t, 0, TW_EVENT_MARK, "mark", i - 1)->begin);
        }
        traced_end(&x);
    }
}

/* Lanes run different numbers of iterations, and of the loop inside. */
static void parting(tw_builder *b, tw_val out, tw_val n) {
    tw_val lane = tw_sreg(b, TW_SREG_laneid), x = tw_var_of(b, tw_i32(b, 0));
    TW_FOR (b, i, lane, n, tw_i32(b, 1), true) {
        tw_record_begin(b, "some", TW_ENGINE_OF_alu);
        tw_add_to(b, x, i);
        tw_record_end(b, "some");
        TW_FOR (b, j, tw_i32(b, 0), tw_i32(b, 3), tw_i32(b, 1), true) {
            tw_record_mark(b, "inner");
            tw_add_to(b, x, j);
        }
    }
    tw_val left = tw_var_of(b, tw_sub(b, n, lane));
    TW_WHILE (b, tw_lt(b, tw_i32(b, 0), left)) {
        tw_record_begin(b, "round", TW_ENGINE_OF_alu);
        tw_add_to(b, left, tw_i32(b, -1));
        tw_record_end(b, "round");
    }
    traced_store(b, out, tw_add(b, x, left));
}

static void lanes_may_part_in_any_loop(void **state) {
    (void)state;
    for (int strategy = 0; strategy < 3; strategy++) {
        traced x = traced_run(
            parting, 9, 2,
            (tw_prof_options){.flush = strategy == 1, .global = strategy == 2, .frames = strategy == 2 ? 64 : 2});
        const int all = strategy ? 9 : 2;
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "some"), 2 * all);
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "round"), 2 * all);
        if (strategy) assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "inner"), 2 * 3 * all);
        traced_end(&x);
    }
}

/* Bounds that are the same for all lanes, by computation and by variables. */
static void together(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, tw_i32(b, 0)), below = tw_var_of(b, tw_i32(b, 0));
    tw_assign(b, below, tw_add(b, n, tw_sreg(b, TW_SREG_ctaid_x)));
    TW_FOR (b, i, tw_i32(b, 0), below, tw_i32(b, 1), true) {
        tw_record_mark(b, "mark");
        tw_add_to(b, x, i);
    }
    traced_store(b, out, x);
}

/* How far lanes go is known by variables: one that few lanes assigned, and one that a loop carries around. */
static void parting_by_variables(tw_builder *b, tw_val out, tw_val n) {
    tw_val lane = tw_sreg(b, TW_SREG_laneid), x = tw_var_of(b, tw_i32(b, 0)), zero = tw_i32(b, 0), one = tw_i32(b, 1);
    tw_val some = tw_var_of(b, n), next = tw_var_of(b, n), now = tw_var_of(b, n);
    TW_IF (b, tw_lt(b, lane, tw_i32(b, 5))) tw_assign(b, some, tw_i32(b, 9));
    TW_FOR (b, i, zero, some, one, true) {
        tw_record_mark(b, "some");
        tw_add_to(b, x, i);
    }
    TW_FOR (b, i, zero, tw_i32(b, 2), one, true) {
        TW_FOR (b, j, zero, now, one, true) {
            tw_record_mark(b, "carried");
            tw_add_to(b, x, j);
        }
        tw_assign(b, now, next);
        tw_assign(b, next, tw_sub(b, tw_i32(b, 40), lane));
        tw_add_to(b, x, i);
    }
    traced_store(b, out, x);
}

static void lanes_may_part_by_variables(void **state) {
    (void)state;
    traced x = traced_run(parting_by_variables, 3, 1, (tw_prof_options){.flush = true, .frames = 4});
    assert_true(x.layout.loops[0].apart && x.layout.loops[2].apart && !x.layout.loops[1].apart);
    assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "some"), 9);
    assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "carried"), 3 + 3);
    traced_end(&x);
}

static void lanes_that_stay_together_flush_together(void **state) {
    (void)state;
    traced x = traced_run(together, 9, 2, (tw_prof_options){.flush = true, .frames = 4});
    assert_false(x.layout.loops[0].apart);
    assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "mark"), 9 + 10);
    traced_end(&x);
    x = traced_run(parting, 9, 1, (tw_prof_options){.flush = true, .frames = 4});
    for (int i = 0; i < x.layout.n_loops; i++) assert_true(x.layout.loops[i].apart);
    traced_end(&x);
}

/* -- roles that are no scopes of their own */

static void inner_roles(tw_builder *b, tw_val out, tw_val n) {
    const int ranges[4] = {0, 1, 1, 3};
    tw_val x = tw_var_of(b, tw_i32(b, 0));
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_record_mark(b, "both");
        const tw_scope roles = tw_push_roles(b, ranges, 2);
        tw_record_begin(b, "left", TW_ENGINE_OF_alu);
        tw_add_to(b, x, traced_work(b, 2));
        tw_record_end(b, "left");
        tw_next_role(b, roles);
        tw_record_begin(b, "right", TW_ENGINE_OF_alu);
        tw_add_to(b, x, traced_work(b, 5));
        tw_record_end(b, "right");
        TW_FOR (b, j, tw_i32(b, 0), tw_i32(b, 2), tw_i32(b, 1), true) {
            tw_record_mark(b, "deep");
            tw_add_to(b, x, j);
        }
        tw_pop(b, roles);
    }
    traced_store(b, out, x);
}

static void roles_in_a_loop_are_conditional(void **state) {
    (void)state;
    for (int strategy = 0; strategy < 3; strategy++) {
        const tw_prof_options o = {
            .units = TW_PROF_WARPS, .flush = strategy == 1, .global = strategy == 2, .frames = strategy == 1 ? 2 : 64};
        traced x = traced_run(inner_roles, 7, 2, o);
        assert_int_equal(x.layout.n_scopes, 1);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "both"), 2 * 3 * 7);
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "left"), 2 * 7);
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "right"), 2 * 2 * 7);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "deep"), 2 * 2 * 7 * 2);
        traced_end(&x);
    }
}

/* Records before, in and after roles, two loops in each. */
static void around_roles(tw_builder *b, tw_val out, tw_val n) {
    const int ranges[4] = {0, 2, 2, 3};
    tw_val x = tw_var_of(b, tw_i32(b, 0));
    for (int part = 0; part < 2; part++) {
        tw_record_mark(b, "body");
        const tw_scope roles = tw_push_roles(b, ranges, 2);
        tw_name_roles(b, roles, "first second");
        for (int role = 0; role < 2; role++) {
            if (role) tw_next_role(b, roles);
            for (int loops = 0; loops < 2; loops++) {
                TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
                    tw_record_begin(b, role ? "second" : "first", TW_ENGINE_OF_alu);
                    tw_add_to(b, x, traced_work(b, 2));
                    tw_record_end(b, role ? "second" : "first");
                }
            }
        }
        tw_pop(b, roles);
        TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
            tw_record_mark(b, "behind");
            tw_add_to(b, x, i);
        }
    }
    traced_store(b, out, x);
}

static void loops_of_all_scopes_are_kept_apart(void **state) {
    (void)state;
    static const int grid[3] = {1, 2, 3};
    for (int strategy = 0; strategy < 3; strategy++) {
        const tw_prof_options o = {
            .units = TW_PROF_WARPS, .flush = strategy == 1, .global = strategy == 2, .frames = strategy == 1 ? 2 : 16};
        traced x = traced_run_grid(around_roles, 5, grid, o);
        assert_int_equal(x.t->n_tracks, 6 * 3);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "body"), 6 * 3 * 2);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "behind"), 6 * 3 * 2 * 5);
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "first"), 6 * 2 * 4 * 5);
        assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "second"), 6 * 1 * 4 * 5);
        for (int i = 0; i < x.t->n_tracks; i++) {
            assert_int_equal(x.t->tracks[i].block, i / 3);
            assert_string_equal(x.t->names[x.t->tracks[i].role].text, x.t->tracks[i].warp < 2 ? "first" : "second");
        }
        traced_end(&x);
    }
}

/* -- values and guards */

static void changing(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n), odd = tw_var_of(b, tw_eq(b, n, n));
    TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        tw_assign(b, x, tw_mul_imm(b, i, 10));
        tw_assign(b, odd, tw_eq(b, tw_rem(b, i, 2), tw_i32(b, 1)));
        tw_record_value(b, "value", x);
        tw_when(b, odd);
        tw_record_mark(b, "odd");
        tw_unless(b, odd);
        tw_record_mark(b, "even");
        tw_record_value(b, "fixed", tw_i32(b, 77));
        tw_add_to(b, x, tw_i32(b, 5000));
        tw_assign(b, odd, tw_not(b, odd));
        TW_IF (b, odd) tw_add_to(b, x, tw_i32(b, 1));
    }
    traced_store(b, out, x);
}

static void values_and_guards_are_those_of_the_record(void **state) {
    (void)state;
    enum { N = 7 };
    for (int strategy = 0; strategy < 3; strategy++) {
        traced x = traced_run(changing, N, 1, (tw_prof_options){.flush = strategy == 1, .global = strategy == 2});
        assert_int_equal(traced_count(x.t, TW_EVENT_VALUE, "value"), N);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "odd"), N / 2);
        assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "even"), N - N / 2);
        for (int i = 0; i < N; i++) {
            assert_int_equal(traced_nth(x.t, 0, TW_EVENT_VALUE, "value", i)->value, 10 * i);
            assert_int_equal(traced_nth(x.t, 0, TW_EVENT_VALUE, "fixed", i)->value, 77);
        }
        for (int i = 0; i < N / 2; i++)
            assert_int_equal(traced_nth(x.t, 0, TW_EVENT_MARK, "odd", i)->iteration, 2 * i + 1);
        traced_end(&x);
    }
}

/* -- names */

/* Regions of one name nest, and follow one another. */
static void same_names(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n);
    for (int i = 0; i < 2; i++) {
        tw_record_begin(b, "r", TW_ENGINE_OF_alu);
        tw_add_to(b, x, traced_work(b, 4));
        tw_record_begin(b, "r", TW_ENGINE_OF_alu);
        tw_add_to(b, x, traced_work(b, 4));
        tw_record_end(b, "r");
        tw_add_to(b, x, traced_work(b, 4));
        tw_record_end(b, "r");
        tw_add_to(b, x, traced_work(b, 4));
    }
    traced_store(b, out, x);
}

static void regions_of_one_name_nest(void **state) {
    (void)state;
    traced x = traced_run(same_names, 3, 1, (tw_prof_options){0});
    assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "r"), 4);
    for (int i = 0; i < 4; i += 2) {
        const tw_trace_event *outer = traced_nth(x.t, 0, TW_EVENT_REGION, "r", i),
                             *inner = traced_nth(x.t, 0, TW_EVENT_REGION, "r", i + 1);
        assert_true(outer->begin < inner->begin && inner->end < outer->end);
        assert_true(!i || traced_nth(x.t, 0, TW_EVENT_REGION, "r", 0)->end <= outer->begin);
    }
    traced_end(&x);
}

/* -- many words */

enum { MANY = 150 };

static void many(tw_builder *b, tw_val out, tw_val n) {
    tw_val x = tw_var_of(b, n);
    char name[8];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "s%d", i);
        tw_record_value(b, name, tw_add_imm(b, n, i));
    }
    TW_FOR (b, j, tw_i32(b, 0), n, tw_i32(b, 1), true) {
        for (int i = 0; i < MANY; i++) {
            snprintf(name, sizeof name, "l%d", i);
            tw_record_value(b, name, tw_add_imm(b, j, 1000 * i));
            tw_add_to(b, x, j);
        }
    }
    traced_store(b, out, x);
}

static void blocks_may_have_many_words(void **state) {
    (void)state;
    for (int strategy = 0; strategy < 3; strategy++) {
        traced x = traced_run(
            many, 5, 1,
            (tw_prof_options){.flush = strategy == 1, .global = strategy == 2, .frames = strategy == 1 ? 2 : 8});
        assert_true(x.layout.global == (strategy == 2));
        for (int i = 0; i < MANY; i += 7) {
            char name[8];
            snprintf(name, sizeof name, "s%d", i);
            assert_int_equal(traced_nth(x.t, 0, TW_EVENT_VALUE, name, 0)->value, 5 + i);
            snprintf(name, sizeof name, "l%d", i);
            for (int j = 0; j < (strategy ? 5 : 2); j++) {
                const tw_trace_event *e = traced_nth(x.t, 0, TW_EVENT_VALUE, name, j);
                assert_int_equal(e->value, e->iteration + 1000 * i);
            }
        }
        traced_end(&x);
    }
}

/* -- other shared memory, and clusters */

static void in_a_cluster(tw_builder *b, tw_val out, tw_val n) {
    b->kernel->cluster = 2;
    tw_shared_add(b, "own", 4 * TRACED_THREADS, 4, false);
    tw_shared_add(b, "more", 20, 4, true);
    tw_val at = tw_add(b, tw_shared_base(b, "own"), tw_mul_imm(b, tw_sreg(b, TW_SREG_tid_x), 4)), x = traced_work(b, 3);
    tw_record_begin(b, "store", TW_ENGINE_OF_memory);
    tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared}, at, &x);
    tw_record_end(b, "store");
    tw_val more = tw_shared_base(b, "more");
    tw_when(b, tw_eq(b, tw_sreg(b, TW_SREG_tid_x), tw_i32(b, 0)));
    tw_st(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared, .offset = 16}, more, &n);
    tw_do(b, TW_OP_cluster_sync, (tw_attrs){0}, TW_NONE, TW_NONE);
    tw_record_mark(b, "met");
    traced_store(b, out, tw_ld(b, (tw_attrs){.type = TW_T_i32, .space = TW_SPACE_shared}, at));
}

static void other_shared_memory_stays_as_it_is(void **state) {
    (void)state;
    traced x = traced_run(in_a_cluster, 5, 4, (tw_prof_options){.units = TW_PROF_WARPS});
    assert_int_equal(x.t->n_tracks, 4 * TRACED_WARPS);
    assert_int_equal(traced_count(x.t, TW_EVENT_REGION, "store"), 4 * TRACED_WARPS);
    assert_int_equal(traced_count(x.t, TW_EVENT_MARK, "met"), 4 * TRACED_WARPS);
    traced_end(&x);
}

/* -- what cannot be lowered */

static void check_refused(tw_kernel *k, const tw_prof_options *o, const char *says) {
    tw_prof_layout l;
    tw_diag d = {.message = ""};
    assert_int_equal(tw_prof_lower(k, o, &l, &d), TW_ERR_UNSUPPORTED);
    if (!strstr(d.message, says)) fail_msg("%s", d.message);
    tw_prof_layout_free(&l);
    tw_kernel_free(k);
}

static void named_like_ours(tw_builder *b, tw_val out, tw_val n) {
    tw_shared_add(b, "records", 16, 4, true);
    tw_record_mark(b, "mark");
    traced_store(b, out, n);
}

static void parameter_like_ours(tw_builder *b, tw_val out, tw_val n) {
    tw_parameter_add(b, "profile", TW_T_i32);
    tw_record_mark(b, "mark");
    traced_store(b, out, n);
}

static void what_cannot_be_lowered_is_said(void **state) {
    (void)state;
    tw_kernel *k = tw_kernel_new("test", 90, 40);
    tw_builder b = tw_builder_of(k);
    tw_record_mark(&b, "mark");
    check_refused(k, &(tw_prof_options){.shared_bytes = 4096}, "no whole warps");
    check_refused(traced_kernel(named_like_ours), &(tw_prof_options){.shared_bytes = 4096}, "\"records\"");
    check_refused(traced_kernel(parameter_like_ours), &(tw_prof_options){.shared_bytes = 4096}, "\"profile\"");
    check_refused(traced_kernel(one_mark), &(tw_prof_options){.global = true, .frames = INT32_MAX}, "more than");
    check_refused(traced_kernel(many), &(tw_prof_options){.global = true, .frames = 1 << 20}, "more than");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_frames_are_flushed),
        cmocka_unit_test(full_segments_keep_whole_frames),
        cmocka_unit_test(lanes_may_part_in_any_loop),
        cmocka_unit_test(lanes_may_part_by_variables),
        cmocka_unit_test(lanes_that_stay_together_flush_together),
        cmocka_unit_test(roles_in_a_loop_are_conditional),
        cmocka_unit_test(loops_of_all_scopes_are_kept_apart),
        cmocka_unit_test(values_and_guards_are_those_of_the_record),
        cmocka_unit_test(regions_of_one_name_nest),
        cmocka_unit_test(blocks_may_have_many_words),
        cmocka_unit_test(other_shared_memory_stays_as_it_is),
        cmocka_unit_test(what_cannot_be_lowered_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
