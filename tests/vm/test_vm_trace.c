/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of the processor's machine: every instruction once a step, waits that end after what they wait for, events
   that nest, and answers that are the same as without a trace. */
#include "support/lower.h"
#include "support/support.h"

#include "schedule/schedule.h"
#include "schedule/work.h"
#include "vm/cpu/trace.h"
#include "vm/cpu/vm.h"
#include "vm/traced.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 64, PROMPT = 12, STEPS = 3, MAX_VOCAB = 1024 };

static const int32_t prompt[PROMPT] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};

static tw_model *model_of(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    assert_true(m->vocab <= MAX_VOCAB);
    return m;
}

static tw_vm *machine(const tw_model *m, int workers) {
    tw_vm *vm;
    tw_diag d;
    tw_vm_options o = {.workers = workers, .no_vendor = true, .no_pin = true};
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return vm;
}

static int load(tw_vm *vm, const tw_checked *c) {
    tw_diag d;
    int id;
    if (tw_vm_load(vm, c, &id, &d) != TW_OK) fail_msg("%s", d.message);
    return id;
}

static tw_trace *ended(tw_vm *vm) {
    tw_trace *t;
    tw_diag d;
    if (tw_vm_trace_end(vm, "a step", &t, &d) != TW_OK) fail_msg("%s", d.message);
    return t;
}

/* Runs `n` positions as one step and copies the logits of the last. */
static void step(tw_vm *vm, int program, const int32_t *tokens, int64_t n, int64_t pos, int64_t vocab, float *logits) {
    tw_vm_step s = {.program = program, .tokens = tokens, .n = n, .pos = pos, .length = PROMPT};
    tw_diag d;
    if (tw_vm_run(vm, &s, &d) != TW_OK) fail_msg("%s", d.message);
    memcpy(logits, s.logits, (size_t)vocab * sizeof *logits);
}

/* -- what holds for every trace of this machine */

static const char *text(const tw_trace *t, const tw_trace_event *e) {
    return t->names[e->name].text;
}

static void events_nest(const tw_trace *t) {
    double open[8];
    int depth = 0, track = -1;
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->track != track) depth = 0;
        track = e->track;
        assert_true(e->begin <= e->end && e->begin >= t->tracks[track].begin && e->end <= t->tracks[track].end);
        assert_true(e->least >= 0 && e->least <= e->most && e->most == e->end - e->begin);
        while (depth && open[depth - 1] <= e->begin) depth--;
        if (depth && e->end > open[depth - 1]) fail_msg("event %d, %s, ends after what it is in", i, text(t, e));
        assert_in_range(depth, 0, 7);
        open[depth++] = e->end;
    }
}

static void waits_end_after_arrivals(const tw_trace *t) {
    for (int i = 0; i < t->n_edges; i++) {
        const tw_trace_event *from = &t->events[t->edges[i].from], *to = &t->events[t->edges[i].to];
        assert_int_equal(to->kind, TW_EVENT_WAIT);
        assert_int_not_equal(from->kind, TW_EVENT_WAIT);
        if (from->end > to->end) fail_msg("%s ends before %s", text(t, to), text(t, from));
        if (!strcmp(text(t, to), "wait launch"))
            assert_string_equal(text(t, from), "launched");
        else
            assert_non_null(strstr(text(t, to), text(t, from)));
    }
}

static const char *name_of(const tw_schedule *s, const tw_instr *in) {
    const bool down = in->op == TW_INSTR_PROJECT && strstr(s->buffers[in->operand[TW_PROJECT_W]].name, "mlp.down");
    return down ? "down" : tw_instr_op_describe(in->op)->name;
}

/* The next event of a track of this kind that is not about launches. */
static const tw_trace_event *next(const tw_trace *t, int *at, int track, tw_event_kind kind) {
    for (; *at < t->n_events && t->events[*at].track == track; ++*at)
        if (t->events[*at].kind == kind && !strstr(text(t, &t->events[*at]), "launch")) return &t->events[(*at)++];
    return NULL;
}

static int edges_to(const tw_trace *t, const tw_trace_event *e) {
    int n = 0;
    for (int i = 0; i < t->n_edges; i++) n += t->edges[i].to == (int)(e - t->events);
    return n;
}

/* The latest of the arrivals that a wait is for has an edge to it, however many there are. */
static void latest_has_an_edge(const tw_trace *t, const tw_trace_event *wait) {
    double latest = -1, edge = -1;
    const tw_trace_event *one = NULL;
    for (int i = 0; i < t->n_edges; i++)
        if (t->edges[i].to == (int)(wait - t->events)) {
            one = &t->events[t->edges[i].from];
            if (one->end > edge) edge = one->end;
        }
    for (int i = 0; i < t->n_events && one; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->name == one->name && e->loop == one->loop && e->iteration == one->iteration && e->end <= wait->end &&
            e->end > latest)
            latest = e->end;
    }
    assert_true(edge == latest);
}

static int arrivals(const tw_schedule *s, int counter) {
    int n = 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) n += s->workers[w].list[i].arrive == counter;
    return n;
}

/* Holds the regions and waits of a track against a worker's list, `steps` times. */
static void track_is_list(const tw_trace *t, const tw_schedule *s, int w, int steps) {
    int at = 0, waits;
    while (at < t->n_events && t->events[at].track < w) at++;
    waits = at;
    for (int k = 0; k < steps; k++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            const tw_trace_event *e = next(t, &at, w, TW_EVENT_REGION);
            assert_non_null(e);
            assert_string_equal(text(t, e), name_of(s, in));
            int layer = -1;
            for (int o = 0; o < TW_MAX_OPERANDS && layer < 0; o++)
                if (in->operand[o] >= 0) sscanf(s->buffers[in->operand[o]].name, "layers.%d", &layer);
            if (layer >= 0) assert_int_equal(e->iteration, layer);
            if (!strcmp(text(t, e), "merge")) layer = e[-1].iteration;
            assert_int_equal(e->loop, layer < 0 ? TW_LOOP_STEP : TW_LOOP_LAYER);
            if (layer < 0) assert_int_equal(e->iteration, k);
            double before = e->begin;
            for (int x = 0; x < in->n_waits; x++) {
                const tw_trace_event *wait = next(t, &waits, w, TW_EVENT_WAIT);
                assert_non_null(wait);
                assert_true(wait->end <= before);
                if (x == in->n_waits - 1) assert_true(wait->end == before);
                latest_has_an_edge(t, wait);
                const int n = arrivals(s, in->waits[x].counter);
                assert_int_equal(edges_to(t, wait), n < TW_TRACED_ARRIVALS ? n : TW_TRACED_ARRIVALS);
            }
            if (in->arrive < 0) continue;
            const tw_trace_event *arrive = next(t, &at, w, TW_EVENT_REGION);
            assert_non_null(arrive);
            assert_string_equal(text(t, arrive), "arrive");
            assert_true(arrive->begin == e->end);
        }
    assert_null(next(t, &at, w, TW_EVENT_REGION));
    assert_null(next(t, &waits, w, TW_EVENT_WAIT));
}

static int count(const tw_trace *t, const char *name, tw_event_kind kind) {
    int n = 0;
    for (int i = 0; i < t->n_events; i++) n += t->events[i].kind == kind && !strcmp(text(t, &t->events[i]), name);
    return n;
}

/* Sums up an instruction's work over the trace: that of its name times its regions. */
static void work_is(const tw_trace *t, const tw_schedule *s, const int64_t *n, const int64_t *pos, int steps) {
    double flops = 0, bytes = 0, want_flops = 0, want_bytes = 0;
    for (int i = 0; i < t->n_events; i++) {
        if (t->events[i].kind != TW_EVENT_REGION) continue;
        flops += t->names[t->events[i].name].flops;
        bytes += t->names[t->events[i].name].bytes;
    }
    for (int k = 0; k < steps; k++)
        for (int w = 0; w < s->n_workers; w++)
            for (int i = 0; i < s->workers[w].count; i++) {
                tw_instr_work work;
                tw_diag d;
                assert_int_equal(tw_instr_work_of(s, &s->workers[w].list[i], n[k], pos[k], &work, &d), TW_OK);
                want_flops += work.flops;
                want_bytes += work.bytes;
            }
    assert_true(want_flops > 0 && fabs(flops - want_flops) <= 1e-9 * want_flops);
    assert_true(want_bytes > 0 && fabs(bytes - want_bytes) <= 1e-9 * want_bytes);
}

static void holds(const tw_trace *t, const tw_schedule *s, const int64_t *n, const int64_t *pos, int steps) {
    assert_int_equal(t->n_tracks, s->n_workers);
    assert_string_equal(t->unit, "ns");
    assert_true(t->began_unix > 1e9 && tw_trace_length(t) > 0);
    assert_in_range(t->n_names, 7, 40);
    events_nest(t);
    waits_end_after_arrivals(t);
    for (int w = 0; w < s->n_workers; w++) {
        assert_string_equal(t->names[t->tracks[w].role].text, "worker");
        assert_int_equal(t->tracks[w].warp, w);
        assert_int_equal(t->tracks[w].dropped, 0);
        assert_true(t->tracks[w].sm >= 0);
        track_is_list(t, s, w, steps);
    }
    assert_int_equal(count(t, "step", TW_EVENT_ITERATION), steps * s->n_workers);
    assert_int_equal(count(t, "launched", TW_EVENT_MARK), steps);
    assert_int_equal(count(t, "launch", TW_EVENT_REGION), steps);
    assert_int_equal(count(t, "wait launch", TW_EVENT_WAIT), steps * (s->n_workers - 1));
    work_is(t, s, n, pos, steps);
}

/* Layers of a dense model's track: one iteration each in every step, as long as its instructions. */
static void layers_are_iterations(const tw_trace *t, int64_t layers, int steps) {
    int64_t n = 0;
    double end = 0;
    for (int i = 0; i < t->n_events && t->events[i].track == 0; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->kind == TW_EVENT_ITERATION && e->loop == TW_LOOP_LAYER) {
            assert_int_equal(e->iteration, n++ % layers);
            assert_string_equal(text(t, e), "layer");
            end = e->end;
        } else if (e->loop == TW_LOOP_LAYER)
            assert_true(e->end <= end);
    }
    assert_int_equal(n, layers * steps);
}

/* -- tests */

static void every_instruction_once_a_step(void **state) {
    (void)state;
    static const char *const folders[] = {"llama-biases", "mistral-window", "qwen3moe-step-fused"};
    static const tw_lowering ways[] = {
        {.workers = 1, .tokens = 1},
        {.workers = 2, .tokens = 1}, /* With several waits of an instruction. */
        {.workers = 9, .tokens = 1},
        {.workers = 3, .tokens = 8, .row_blocks = 2},
    };
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            static float plain[STEPS][MAX_VOCAB], traced[STEPS][MAX_VOCAB];
            tw_model *m = model_of(folders[f]);
            tw_checked *c = i == 1 ? test_lower_waits(m, ways[i].workers, MAX_SEQ) : test_lower(m, ways[i], MAX_SEQ);
            tw_vm *vm = machine(m, ways[i].workers);
            tw_diag d;
            const int id = load(vm, c);
            int64_t n[STEPS], pos[STEPS];
            for (int k = 0; k < STEPS; k++) {
                n[k] = ways[i].tokens > 1 ? 4 - k : 1; /* The last of several steps is shorter. */
                pos[k] = k ? pos[k - 1] + n[k - 1] : 0;
                step(vm, id, prompt + pos[k], n[k], pos[k], m->vocab, plain[k]);
            }
            assert_int_equal(tw_vm_trace_begin(vm, STEPS, &d), TW_OK);
            for (int k = 0; k < STEPS; k++) step(vm, id, prompt + pos[k], n[k], pos[k], m->vocab, traced[k]);
            tw_trace *t = ended(vm);
            for (int k = 0; k < STEPS; k++) assert_memory_equal(plain[k], traced[k], (size_t)m->vocab * sizeof(float));
            holds(t, tw_checked_schedule(c), n, pos, STEPS);
            if (f < 2 && i < 1) layers_are_iterations(t, m->n_layers, STEPS);
            tw_trace_free(t);
            /* The same again without a trace. */
            step(vm, id, prompt, n[0], 0, m->vocab, traced[0]);
            assert_memory_equal(plain[0], traced[0], (size_t)m->vocab * sizeof(float));
            tw_vm_close(vm);
            tw_checked_free(c);
            tw_model_close(m);
        }
}

static void two_programs_in_one_trace(void **state) {
    (void)state;
    static float logits[MAX_VOCAB];
    tw_model *m = model_of("llama-biases");
    tw_checked *decode = test_lower(m, (tw_lowering){.workers = 2, .tokens = 1, .kv_splits = 2}, MAX_SEQ),
               *prefill = test_lower(m, (tw_lowering){.workers = 2, .tokens = 8}, MAX_SEQ);
    tw_vm *vm = machine(m, 2);
    tw_diag d;
    const int one = load(vm, decode), many = load(vm, prefill);
    assert_int_equal(tw_vm_trace_begin(vm, 8, &d), TW_OK);
    step(vm, many, prompt, 8, 0, m->vocab, logits);
    step(vm, one, prompt + 8, 1, 8, m->vocab, logits);
    tw_trace *t = ended(vm);
    events_nest(t);
    waits_end_after_arrivals(t);
    assert_int_equal(count(t, "qkv", TW_EVENT_REGION), 2 * 2 * m->n_layers);
    assert_int_equal(count(t, "merge", TW_EVENT_REGION), 2 * m->n_layers); /* Prefill has none. */
    tw_trace_free(t);
    tw_vm_close(vm);
    tw_checked_free(decode);
    tw_checked_free(prefill);
    tw_model_close(m);
}

static void steps_beyond_the_buffer_are_counted(void **state) {
    (void)state;
    static float logits[MAX_VOCAB];
    tw_model *m = model_of("llama-biases");
    tw_checked *c = test_lower(m, (tw_lowering){.workers = 2, .tokens = 1}, MAX_SEQ);
    const tw_schedule *s = tw_checked_schedule(c);
    tw_vm *vm = machine(m, 2);
    tw_diag d;
    const int id = load(vm, c);
    assert_int_equal(tw_vm_trace_begin(vm, 1, &d), TW_OK);
    for (int k = 0; k < STEPS; k++) step(vm, id, prompt + k, 1, k, m->vocab, logits);
    tw_trace *t = ended(vm);
    for (int w = 0; w < 2; w++) {
        assert_int_equal(t->tracks[w].dropped, (STEPS - 1) * s->workers[w].count);
        track_is_list(t, s, w, 1);
    }
    tw_trace_free(t);
    tw_vm_close(vm);
    tw_checked_free(c);
    tw_model_close(m);
}

static void wrong_use_is_refused(void **state) {
    (void)state;
    tw_model *m = model_of("llama-biases");
    tw_vm *vm = machine(m, 1);
    tw_trace *t;
    tw_diag d;
    assert_int_equal(tw_vm_trace_end(vm, "none", &t, &d), TW_ERR_USAGE);
    assert_null(t);
    assert_int_equal(tw_vm_trace_begin(vm, 0, &d), TW_ERR_USAGE);
    assert_int_equal(tw_vm_trace_begin(vm, TW_VM_TRACE_STEPS + 1, &d), TW_ERR_USAGE);
    assert_string_equal(d.message, "steps: 1048577 is not within 1..1048576");
    assert_int_equal(tw_vm_trace_begin(vm, 1, &d), TW_OK);
    assert_int_equal(tw_vm_trace_begin(vm, 1, &d), TW_ERR_USAGE);
    t = ended(vm); /* Nothing was run. */
    assert_int_equal(t->n_events, 0);
    tw_trace_free(t);
    assert_int_equal(tw_vm_trace_begin(vm, 1, &d), TW_OK);
    tw_vm_close(vm); /* A trace that is not ended is freed. */
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_instruction_once_a_step),
        cmocka_unit_test(two_programs_in_one_trace),
        cmocka_unit_test(steps_beyond_the_buffer_are_counted),
        cmocka_unit_test(wrong_use_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
