/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of an analysis fails once. */
#include "support/alloc_fail.h"

#include "prof/hand.h"

#include "prof/bubble.h"
#include "prof/iteration.h"
#include "prof/overlap.h"
#include "prof/path.h"
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
    const tw_edit edits[] = {
        {TW_EDIT_STAGES, "empty", 1, 1}, {TW_EDIT_SCALE, "load", 0.5, 0}, {TW_EDIT_REMOVE, "full", 1, 0}};
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
