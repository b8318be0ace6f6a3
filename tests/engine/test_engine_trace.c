/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of an engine's steps: the steps that were asked for, with the work that the model says they are. */
#include "engine/trace.h"
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CONTEXT = 48 };

static tw_model *model_of(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", TW_SOURCE_DIR, folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

static tw_engine *engine_of(const tw_model *m, int workers) {
    const tw_engine_options o = {.workers = workers, .context = CONTEXT, .prefill = 8, .no_vendor = true};
    tw_engine *e;
    tw_diag d;
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

/* The emulator runs few warps faster. */
static const tw_schedule_config few = {.machine = {.warps = 2}};

static int count(const tw_trace *t, const char *name, tw_event_kind kind) {
    int n = 0;
    for (int i = 0; i < t->n_events; i++)
        n += t->events[i].kind == kind && !strcmp(t->names[t->events[i].name].text, name);
    return n;
}

static double flops_of(const tw_trace *t) {
    double sum = 0;
    for (int i = 0; i < t->n_events; i++)
        if (t->events[i].kind == TW_EVENT_REGION) sum += t->names[t->events[i].name].flops;
    return sum;
}

/* Traces on an engine and holds what every trace has. `steps` are the machine's. */
static void trace(tw_engine *e, tw_engine_trace_options o, int steps) {
    tw_trace *t;
    tw_diag d;
    double want = 0;
    o.title = "some steps";
    if (tw_engine_trace(e, &o, &t, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(t->title, "some steps");
    /* A step is over when worker 0 is done. Others may still be on their way back from their last arrival. */
    assert_true(t->clean > 0 && t->tracks[0].end > 0 && t->tracks[0].end <= t->traced);
    assert_int_equal(t->n_tracks, tw_engine_workers(e));
    assert_int_equal(count(t, "output", TW_EVENT_REGION), steps);
    assert_int_equal(count(t, "step", TW_EVENT_ITERATION), steps * t->n_tracks);
    for (int i = 0; i < t->n_tracks; i++) assert_int_equal(t->tracks[i].dropped, 0);
    assert_int_equal(tw_engine_position(e), o.context + (o.prefill ? o.prefill : o.steps));
    /* Every step of a long prompt computes logits of its last position, which tw_engine_operations counts once a call.
     */
    for (int64_t done = 0, n; done < (o.prefill ? o.prefill : o.steps); done += n) {
        n = o.prefill ? tw_engine_step_tokens(e, o.prefill > 1 ? TW_PROGRAM_PREFILL : TW_PROGRAM_DECODE) : 1;
        if (n > o.prefill - done && o.prefill) n = o.prefill - done;
        want += tw_engine_operations(e, o.context + done, n);
    }
    assert_true(fabs(flops_of(t) - want) <= 1e-9 * want);
    tw_trace_free(t);
}

static void what_was_asked_for(void **state) {
    (void)state;
    static const char *const folders[] = {"models/demo", "tests/data/models/mistral-window",
                                          "tests/data/models/qwen3moe-dense-first", "tests/data/models/gpt2-gelu-bare"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        for (int workers = 1; workers < 6; workers += 2) {
            tw_model *m = model_of(folders[i]);
            tw_engine *e = engine_of(m, workers);
            trace(e, (tw_engine_trace_options){.steps = 1, .runs = 1}, 1);
            trace(e, (tw_engine_trace_options){.context = 11, .steps = 3, .runs = 2}, 3);
            trace(e, (tw_engine_trace_options){.prefill = 1, .runs = 1}, 1);
            trace(e, (tw_engine_trace_options){.context = 5, .prefill = 19, .runs = 2}, 3);
            tw_engine_close(e);
            tw_model_close(m);
        }
}

/* Without a number of runs there are several, and they end. */
static void runs_end(void **state) {
    (void)state;
    tw_model *m = model_of("models/demo");
    tw_engine *e = engine_of(m, 2);
    trace(e, (tw_engine_trace_options){.steps = 2}, 2);
    tw_engine_close(e);
    tw_model_close(m);
}

/* Tokens are those of a run without a trace, before it and after it. */
static void tokens_stay_the_same(void **state) {
    (void)state;
    tw_model *m = model_of("models/demo");
    tw_engine *e = engine_of(m, 3);
    int32_t before[8], after[8];
    tw_diag d;
    assert_int_equal(tw_engine_greedy(e, 1, 8, before, NULL, &d), TW_OK);
    trace(e, (tw_engine_trace_options){.steps = 8, .runs = 1}, 8);
    tw_engine_rewind(e, 0);
    assert_int_equal(tw_engine_greedy(e, 1, 8, after, NULL, &d), TW_OK);
    assert_memory_equal(before, after, sizeof before);
    tw_engine_close(e);
    tw_model_close(m);
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    tw_model *m = model_of("models/demo");
    tw_engine *e = engine_of(m, 1);
    tw_trace *t;
    tw_diag d;
    static const struct {
        tw_engine_trace_options o;
        const char *message;
    } cases[] = {
        {{.steps = 0}, "a trace needs tokens, at least one"},
        {{.steps = 1, .context = -1}, "a trace needs tokens, at least one"},
        {{.steps = 1, .runs = -1}, "a trace needs tokens, at least one"},
        {{.steps = 2, .context = 47}, "2 tokens after 47 others do not fit the context of 48"},
        {{.prefill = 49}, "49 tokens after 0 others do not fit the context of 48"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_engine_trace_options o = cases[i].o;
        o.title = "none";
        assert_int_equal(tw_engine_trace(e, &o, &t, &d), TW_ERR_USAGE);
        assert_string_equal(d.message, cases[i].message);
        assert_null(t);
    }
    trace(e, (tw_engine_trace_options){.steps = 1, .context = 47, .runs = 1}, 1);
    tw_engine_close(e);
    tw_model_close(m);
    m = model_of("tests/data/models/mistral-window");
    const tw_engine_options untraced = {.emulate = true, .context = CONTEXT, .config = &few};
    assert_int_equal(tw_engine_open(&e, m, &untraced, &d), TW_OK);
    assert_int_equal(tw_engine_trace(e, &(tw_engine_trace_options){.title = "none", .steps = 1}, &t, &d), TW_ERR_USAGE);
    assert_null(t);
    tw_engine_close(e);
    tw_model_close(m);
}

/* A GPU's machine records in every step, and a trace has the last one. Its clean time is another engine's. */
static void multiprocessors(void **state) {
    (void)state;
    enum { SMS = 3 };
    tw_model *m = model_of("tests/data/models/mistral-window");
    tw_engine_options o = {.emulate = true, .workers = SMS, .context = 16, .traced = true, .config = &few};
    const tw_engine_trace_options how = {.title = "an emulated step", .steps = 2, .context = 3, .runs = 1};
    tw_engine *e;
    tw_trace *t;
    tw_diag d;
    double clean = 0;
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_engine_trace(e, &how, &t, &d) != TW_OK) fail_msg("%s", d.message);
    assert_string_equal(t->title, "an emulated step");
    assert_int_equal(t->n_tracks % SMS, 0);
    assert_true(t->traced > 0 && t->clean == 0);
    assert_true(t->n_events > SMS);
    assert_int_equal(tw_engine_position(e), 5);
    tw_trace_free(t);
    tw_engine_close(e);

    o.traced = false;
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_engine_time_untraced(e, &how, &clean, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(clean > 0 && isfinite(clean));
    tw_engine_close(e);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_asked_for),   cmocka_unit_test(runs_end),
        cmocka_unit_test(tokens_stay_the_same), cmocka_unit_test(wrong_use_is_refused),
        cmocka_unit_test(multiprocessors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
