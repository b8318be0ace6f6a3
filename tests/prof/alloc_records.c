/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering records, and decoding what they left, with the n-th allocation failing: all of it, or word that memory ran
   out. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "base/diag.h"
#include "prof/decode.h"
#include "prof/traced.h"

static void body(tw_builder *b, tw_val out, tw_val n) {
    const int ranges[4] = {0, 1, 1, 3};
    tw_val x = tw_var_of(b, n);
    tw_record_begin(b, "all", TW_ENGINE_OF_alu);
    const tw_scope roles = tw_push_roles(b, ranges, 2);
    tw_name_roles(b, roles, "left right");
    for (int role = 0; role < 2; role++) {
        if (role) tw_next_role(b, roles);
        TW_FOR (b, i, tw_i32(b, 0), n, tw_i32(b, 1), true) {
            tw_add_to(b, x, traced_work(b, 3));
            tw_record_meet(b, "barrier 1");
            tw_do(b, TW_OP_barrier_sync, (tw_attrs){.count = TRACED_THREADS, .apart = true}, tw_i32(b, 1), TW_NONE);
            tw_record_end(b, "barrier 1");
            tw_record_arrive(b, "own", TW_ARRIVAL_own, TW_ENGINE_OF_tensor);
            tw_add_to(b, x, i);
            tw_record_wait(b, "own", TW_ENGINE_OF_tensor, 0);
            tw_add_to(b, x, i);
            tw_record_end(b, "own");
        }
    }
    tw_pop(b, roles);
    tw_record_end(b, "all");
    traced_store(b, out, x);
}

static int lower(void *context) {
    const tw_prof_options *o = context;
    tw_prof_layout l;
    tw_diag d = {.message = ""};
    tw_kernel *k = tw_kernel_new("test", 90, TRACED_THREADS);
    if (!k) return 1;
    tw_builder b = tw_builder_of(k);
    body(&b, tw_pointer_add(&b, "out", 4, false), tw_parameter_add(&b, "n", TW_T_i32));
    const tw_status st = tw_prof_lower(k, o, &l, &d);
    tw_prof_layout_free(&l);
    tw_kernel_free(k);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY && d.message[0] ? 1 : 2;
}

static void lowering_says_so(void **state) {
    (void)state;
    for (int flush = 0; flush < 2; flush++) {
        tw_prof_options o = {.units = TW_PROF_WARPS, .shared_bytes = 16384, .flush = flush, .first = flush};
        alloc_fail_exhaust(lower, &o);
        o.global = true;
        alloc_fail_exhaust(lower, &o);
    }
}

typedef struct left {
    traced x;
    int events;
} left;

static int decode(void *context) {
    left *c = context;
    const tw_prof_decoding how = {.title = "t", .device = "d", .cost = 1, .iterations = true};
    tw_trace *t = NULL;
    tw_diag d = {.message = ""};
    const tw_status st = tw_prof_decode(&t, &c->x.layout, c->x.buffer, 2, &how, &d);
    const int events = t ? t->n_events : 0;
    tw_trace_free(t);
    if (st != TW_OK) return st == TW_ERR_MEMORY && d.message[0] && !t ? 1 : 2;
    if (!c->events) c->events = events;
    return events && events == c->events ? 0 : 3;
}

static void decoding_says_so(void **state) {
    (void)state;
    left c = {.x = traced_run(body, 5, 2, (tw_prof_options){.units = TW_PROF_WARPS, .frames = 4})};
    assert_int_equal(traced_count(c.x.t, TW_EVENT_WAIT, "own"), 2 * TRACED_WARPS * 4);
    alloc_fail_exhaust(decode, &c);
    traced_end(&c.x);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lowering_says_so), cmocka_unit_test(decoding_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
