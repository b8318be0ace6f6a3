/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of lowering, checking, loading and running fails once; each time the caller hears of it. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "engine/trace.h"
#include "schedule/json.h"
#include "tilewright/engine.h"
#include "tilewright/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_model *model;

static int verdict(tw_status st) {
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static int open_and_feed(void *context) {
    tw_engine_options o = *(tw_engine_options *)context;
    tw_engine *e;
    tw_diag d;
    static const int32_t ids[5] = {1, 2, 3, 4, 5};
    double nll;
    tw_status st = tw_engine_open(&e, model, &o, &d);
    if (st == TW_OK) st = tw_engine_feed(e, ids, 5, NULL, NULL, &d);
    if (st == TW_OK) st = tw_engine_score(e, ids, 5, &nll, &d);
    tw_engine_close(e);
    if (st != TW_OK && st != TW_ERR_MEMORY) fail_msg("%s", d.message);
    return verdict(st);
}

static void an_engine_survives_every_failure(void **state) {
    (void)state;
    tw_engine_options o = {.workers = 2, .context = 32, .prefill = 4, .no_vendor = true, .weights = TW_I8};
    alloc_fail_exhaust(open_and_feed, &o);
}

static int generate_two(void *context) {
    static const int32_t ids[3] = {1, 5, 9};
    const tw_engine_options *o = context;
    tw_generation g[2] = {{.prompt = ids, .n_prompt = 3, .limit = 2}, {.prompt = ids, .n_prompt = 1, .limit = 1}},
                  *done;
    tw_batch *b;
    tw_diag d;
    tw_status st = tw_batch_open(&b, model, o, 2, NULL, &d);
    for (int i = 0; i < 2 && st == TW_OK; i++) st = tw_batch_add(b, &g[i], &d);
    for (int i = 0; i < 2 && st == TW_OK; i++) st = tw_batch_next(b, &done, &d);
    tw_batch_close(b);
    for (int i = 0; i < 2; i++) free(g[i].ids);
    if (st != TW_OK && st != TW_ERR_MEMORY) fail_msg("%s", d.message);
    return verdict(st);
}

static void a_batch_survives_every_failure(void **state) {
    (void)state;
    tw_engine_options o = {.workers = 2, .context = 32, .prefill = 4, .no_vendor = true};
    alloc_fail_exhaust(generate_two, &o);
}

static int measure(void *engine) {
    double rate;
    char what[48];
    tw_diag d;
    const tw_status st = tw_engine_measure_arithmetic(engine, 1, &rate, what, sizeof what, &d);
    assert_true(alloc_fail_hit() == (st != TW_OK));
    return verdict(st);
}

static void measuring_tells_of_every_failure(void **state) {
    (void)state;
    const tw_engine_options o = {.workers = 1, .context = 32, .no_vendor = true};
    tw_engine *e;
    tw_diag d;
    assert_int_equal(tw_engine_open(&e, model, &o, &d), TW_OK);
    alloc_fail_exhaust(measure, e);
    tw_engine_close(e);
}

static int trace(void *engine) {
    const tw_engine_trace_options o = {.title = "prompts and steps", .context = 1, .prefill = 5, .runs = 2};
    tw_trace *t;
    tw_diag d;
    const tw_status st = tw_engine_trace(engine, &o, &t, &d);
    assert_true((st == TW_OK) == (t != NULL));
    tw_trace_free(t);
    return verdict(st);
}

static void tracing_survives_every_failure(void **state) {
    (void)state;
    const tw_engine_options o = {.workers = 2, .context = 32, .prefill = 4, .no_vendor = true};
    tw_engine *e;
    tw_diag d;
    assert_int_equal(tw_engine_open(&e, model, &o, &d), TW_OK);
    alloc_fail_exhaust(trace, e);
    tw_engine_close(e);
}

static int through_json(void *context) {
    const char *text = context;
    tw_schedule *s;
    tw_checked *c = NULL;
    tw_report r = {0};
    tw_diag d;
    tw_status st = tw_schedule_parse(&s, text, strlen(text), "s.json", &d);
    if (st == TW_OK) st = tw_schedule_check(&c, &s, &r, &d);
    if (st == TW_OK) st = tw_schedule_write(tw_checked_schedule(c), TW_BINARY_DIR "/alloc_engine.json", &d);
    tw_report_free(&r);
    tw_checked_free(c);
    tw_schedule_free(s);
    return verdict(st);
}

static void a_schedule_survives_every_failure(void **state) {
    (void)state;
    static char text[1 << 20];
    tw_schedule *s;
    tw_diag d;
    tw_lowering l = {.workers = 2, .max_seq = 32};
    assert_int_equal(tw_schedule_lower(&s, model, &l, &d), TW_OK);
    assert_int_equal(tw_schedule_write(s, TW_BINARY_DIR "/alloc_engine.json", &d), TW_OK);
    tw_schedule_free(s);
    FILE *f = fopen(TW_BINARY_DIR "/alloc_engine.json", "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    alloc_fail_exhaust(through_json, text);
    remove(TW_BINARY_DIR "/alloc_engine.json");
}

static int open_model(void **state) {
    (void)state;
    tw_diag d;
    return tw_model_synthetic(&model, "llama-tiny", TW_F32, 1, &d) == TW_OK ? 0 : -1;
}

static int close_model(void **state) {
    (void)state;
    tw_model_close(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_survives_every_failure), cmocka_unit_test(an_engine_survives_every_failure),
        cmocka_unit_test(a_batch_survives_every_failure),    cmocka_unit_test(measuring_tells_of_every_failure),
        cmocka_unit_test(tracing_survives_every_failure),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
