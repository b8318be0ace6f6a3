/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of an analysis fails once. */
#include "support/alloc_fail.h"

#include "prof/hand.h"

#include "prof/analysis.h"
#include "prof/orders.h"
#include "prof/ring.h"

static int outcome(tw_status st) {
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static int find_path(void *t) {
    tw_path p;
    const tw_status st = tw_path_find(&p, t, NULL);
    if (st == TW_OK) tw_path_free(&p);
    return outcome(st);
}

static int predict(void *t) {
    const tw_change edits[] = {
        {TW_CHANGE_STAGES, "empty", 1, 1}, {TW_CHANGE_SCALE, "load", 0.5, 0}, {TW_CHANGE_REMOVE, "full", 1, 0}};
    tw_prediction p;
    return outcome(tw_path_predict(&p, t, edits, 3, NULL));
}

static int find_bubbles(void *t) {
    tw_bubbles b;
    const tw_status st = tw_bubbles_find(&b, t, NULL);
    if (st == TW_OK) tw_bubbles_free(&b);
    return outcome(st);
}

static int find_overlap(void *t) {
    tw_overlap o;
    const tw_status st = tw_overlap_find(&o, t, NULL);
    if (st == TW_OK) tw_overlap_free(&o);
    return outcome(st);
}

static int find_iterations(void *t) {
    tw_iterations i;
    const tw_status st = tw_iterations_find(&i, t, NULL);
    if (st == TW_OK) tw_iterations_free(&i);
    return outcome(st);
}

static int find_balance(void *t) {
    tw_balance b;
    const tw_status st = tw_balance_find(&b, t, 0, NULL);
    if (st == TW_OK) tw_balance_free(&b);
    return outcome(st);
}

static int find_regions(void *t) {
    const tw_peaks peaks = {1e12, 1e12, 0};
    tw_regions r;
    const tw_status st = tw_regions_find(&r, t, &peaks, NULL);
    if (st == TW_OK) tw_regions_free(&r);
    return outcome(st);
}

static int measure(void *t) {
    tw_pipelining_times m;
    return outcome(tw_pipelining_measure(&m, t, -1, NULL));
}

static int measure_orders(void *t) {
    const tw_orders_names names = {"product", "softmax", "product", "epilogue", "turn"};
    tw_orders_times m;
    return outcome(tw_orders_measure(&m, t, &names, NULL));
}

static int analyse(void *t) {
    tw_analysis a;
    tw_diag d;
    tw_status st = tw_analysis_make(&a, t, NULL, &d);
    if (st != TW_OK) return outcome(st);
    tw_buf text = {0};
    if (!tw_analysis_lines(&a, t, 0, &text)) st = TW_ERR_MEMORY;
    json_t *o = tw_analysis_json(&a, t, 0);
    if (!o) st = TW_ERR_MEMORY;
    json_decref(o);
    tw_buf_free(&text);
    tw_analysis_free(&a);
    return outcome(st);
}

static void analyses_survive_every_failure(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    r.blocks = 3;
    r.iterations = 8;
    tw_trace *t = ring_trace(&r);
    alloc_fail_exhaust(find_path, t);
    alloc_fail_exhaust(predict, t);
    alloc_fail_exhaust(find_bubbles, t);
    alloc_fail_exhaust(find_overlap, t);
    alloc_fail_exhaust(find_iterations, t);
    alloc_fail_exhaust(find_balance, t);
    alloc_fail_exhaust(find_regions, t);
    alloc_fail_exhaust(measure, t);
    alloc_fail_exhaust(measure_orders, t);
    alloc_fail_exhaust(analyse, t);
    tw_trace_free(t);
}

static int make_trace(void *r) {
    tw_trace *t = ring_trace(r);
    tw_trace_free(t);
    return t ? 0 : 1;
}

static void traces_survive_every_failure(void **state) {
    (void)state;
    ring r = ring_of(10, 300, 200, 150);
    alloc_fail_exhaust(make_trace, &r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(analyses_survive_every_failure),
                                       cmocka_unit_test(traces_survive_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
