/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of the GPU's machine: clocks made up for a schedule give the events they stand for, and those of the kernel in
   the emulator belong together. */
#include "support/lower.h"
#include "support/support.h"

#include "schedule/schedule.h"
#include "vm/cuda/timeline.h"
#include "vm/traced.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 32, WORKERS = 3 };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

static const char *text(const tw_trace *t, const tw_trace_event *e) {
    return t->names[e->name].text;
}

static const char *name_of(const tw_schedule *s, const tw_instr *in) {
    const bool down = in->op == TW_INSTR_PROJECT && strstr(s->buffers[in->operand[TW_PROJECT_W]].name, "mlp.down");
    return down ? "down" : tw_instr_op_describe(in->op)->name;
}

static int count(const tw_trace *t, const char *name, tw_event_kind kind) {
    int n = 0;
    for (int i = 0; i < t->n_events; i++) n += t->events[i].kind == kind && !strcmp(text(t, &t->events[i]), name);
    return n;
}

static void events_nest(const tw_trace *t) {
    double open[8];
    int depth = 0, track = -1;
    for (int i = 0; i < t->n_events; i++) {
        const tw_trace_event *e = &t->events[i];
        if (e->track != track) depth = 0;
        track = e->track;
        assert_true(e->begin <= e->end);
        while (depth && open[depth - 1] <= e->begin) depth--;
        if (depth && e->end > open[depth - 1]) fail_msg("event %d, %s, ends after what it is in", i, text(t, e));
        assert_in_range(depth, 0, 7);
        open[depth++] = e->end;
    }
}

/* -- clocks that are made up: every phase of every record takes its number of nanoseconds, at half a clock each */

/* Nanoseconds of each phase: wait, prepare, multiply, finish, arrive, and from there to the next record. */
static const int lasts[TW_MEGA_MARKS] = {70, 20, 300, 40, 10, 4};
enum {
    START = 1000 /* Nanoseconds from a block's beginning to its first record. */,
    LATE = 16 /* A block to the next. */
};

typedef struct made {
    int64_t (*marks)[TW_MEGA_MARKS];
    tw_mega_anchor anchors[WORKERS];
    int rows;
} made;

/* Clocks of different multiprocessors have nothing in common. */
static const int64_t offsets[WORKERS] = {123456789, 5000, 998877665544};
static const uint64_t began = 1700000000000000000;

static int64_t clock_at(int worker, int64_t ns) {
    return offsets[worker] + ns / 2;
}

static made make_up(const tw_schedule *s) {
    made x = {.rows = tw_mega_most_records(s)};
    x.marks = calloc((size_t)x.rows * WORKERS, sizeof *x.marks);
    assert_non_null(x.marks);
    for (int w = 0; w < WORKERS; w++) {
        int64_t now = w * LATE;
        x.anchors[w] = (tw_mega_anchor){.sm = 2 * w + 1, .clock = {clock_at(w, now)}, .time = {began + (uint64_t)now}};
        now += START;
        for (int r = 0; r < tw_mega_records(s, w); r++)
            for (int k = 0; k < TW_MEGA_MARKS; k++) {
                x.marks[w * x.rows + r][k] = clock_at(w, now);
                now += lasts[k];
            }
        x.anchors[w].clock[1] = clock_at(w, now);
        x.anchors[w].time[1] = began + (uint64_t)now;
    }
    return x;
}

static tw_trace *timeline(const tw_schedule *s, const made *x) {
    const tw_mega_clocks c = {(const int64_t(*)[TW_MEGA_MARKS])x->marks, x->anchors, x->rows, false};
    tw_trace *t;
    tw_diag d;
    if (tw_mega_timeline(&t, s, &c, 1, 4, "a step", "a device", &d) != TW_OK) fail_msg("%s", d.message);
    return t;
}

static bool near(double a, double b) {
    return fabs(a - b) < 1e-3;
}

/* A worker's events: of each instruction its waits, itself, its phases, its arrival. */
static void worker_is(const tw_trace *t, const tw_schedule *s, int w) {
    int at = 0;
    double now = w * LATE + START;
    while (at < t->n_events && t->events[at].track < w) at++;
    for (int i = 0; i < s->workers[w].count; i++) {
        const tw_instr *in = &s->workers[w].list[i];
        double begin = 0;
        const int records = in->n_waits > 1 ? in->n_waits : 1;
        for (int r = 0; r < records; r++) {
            begin = now;
            for (int k = 0; k < TW_MEGA_MARKS; k++) now += lasts[k];
            if (!in->n_waits) break;
            while (t->events[at].kind == TW_EVENT_ITERATION) at++;
            assert_int_equal(t->events[at].kind, TW_EVENT_WAIT);
            assert_true(near(t->events[at].begin, begin) && near(t->events[at].end, begin + lasts[0]));
            at++;
        }
        while (t->events[at].kind == TW_EVENT_ITERATION) at++;
        const tw_trace_event *e = &t->events[at++];
        assert_int_equal(e->kind, TW_EVENT_REGION);
        assert_string_equal(text(t, e), name_of(s, in));
        double phase = begin + lasts[0];
        assert_true(near(e->begin, in->n_waits ? phase : begin));
        assert_true(near(e->end, phase + lasts[1] + lasts[2] + lasts[3]));
        static const char *const phases[] = {"prepare", "multiply", "finish"};
        for (int k = 0; k < 3; k++, at++) {
            char want[64];
            snprintf(want, sizeof want, "%s %s", name_of(s, in), phases[k]);
            assert_string_equal(text(t, &t->events[at]), want);
            assert_true(near(t->events[at].begin, phase) && near(t->events[at].end, phase + lasts[k + 1]));
            phase += lasts[k + 1];
        }
        if (in->arrive < 0) continue;
        assert_string_equal(text(t, &t->events[at]), "arrive");
        assert_true(near(t->events[at].begin, phase) && near(t->events[at].end, phase + lasts[4]));
        at++;
    }
    assert_true(at == t->n_events || t->events[at].track > w);
}

static void clocks_become_events(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    for (int splits = 1; splits <= 2; splits++) {
        tw_checked *c = splits > 1 ? test_lower_waits(m, WORKERS, MAX_SEQ)
                                   : test_lower(m, (tw_lowering){.workers = WORKERS, .tokens = 1}, MAX_SEQ);
        const tw_schedule *s = tw_checked_schedule(c);
        made x = make_up(s);
        tw_trace *t = timeline(s, &x);
        assert_int_equal(t->n_tracks, WORKERS);
        assert_string_equal(t->unit, "ns");
        assert_true(near(t->ghz, 0.5) && near(t->began_unix, (double)began / 1e9));
        events_nest(t);
        for (int w = 0; w < WORKERS; w++) {
            assert_int_equal(t->tracks[w].sm, 2 * w + 1);
            assert_int_equal(t->tracks[w].block, w);
            assert_true(near(t->tracks[w].begin, w * LATE));
            worker_is(t, s, w);
        }
        assert_int_equal(count(t, "layer", TW_EVENT_ITERATION), WORKERS * m->n_layers);
        assert_true(t->n_edges > 0);
        for (int i = 0; i < t->n_edges; i++) {
            const tw_trace_event *from = &t->events[t->edges[i].from], *to = &t->events[t->edges[i].to];
            assert_int_equal(to->kind, TW_EVENT_WAIT);
            assert_non_null(strstr(text(t, to), text(t, from)));
        }
        tw_trace_free(t);
        free(x.marks);
        tw_checked_free(c);
    }
    tw_model_close(m);
}

/* An instruction whose marks were lost, and a worker that never came. */
static void what_lacks_is_left_out(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_checked *c = test_lower(m, (tw_lowering){.workers = WORKERS, .tokens = 1}, MAX_SEQ);
    const tw_schedule *s = tw_checked_schedule(c);
    made x = make_up(s);
    tw_trace *all = timeline(s, &x);
    x.marks[3][2] = 0;
    x.anchors[2] = (tw_mega_anchor){0};
    tw_trace *t = timeline(s, &x);
    const char *lost = name_of(s, &s->workers[0].list[3]);
    int of_last = 0;
    for (int i = 0; i < s->workers[2].count; i++) of_last += !strcmp(name_of(s, &s->workers[2].list[i]), lost);
    assert_int_equal(count(t, lost, TW_EVENT_REGION), count(all, lost, TW_EVENT_REGION) - of_last - 1);
    for (int i = 0; i < t->n_events; i++) assert_int_not_equal(t->events[i].track, 2);
    events_nest(t);
    tw_trace_free(t);
    memset(x.anchors, 0, sizeof x.anchors);
    const tw_mega_clocks none = {(const int64_t(*)[TW_MEGA_MARKS])x.marks, x.anchors, x.rows, false};
    tw_diag d;
    assert_int_equal(tw_mega_timeline(&t, s, &none, 1, 0, "", "", &d), TW_ERR_FORMAT);
    assert_null(t);
    tw_trace_free(all);
    free(x.marks);
    tw_checked_free(c);
    tw_model_close(m);
}

/* -- the kernel in the emulator */

static void a_step_of_the_emulator(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    for (int way = 0; way < 8; way++) {
        const int edges = way % 2 ? TW_EDGES_COUNTERS : TW_EDGES_DATA;
        const tw_cuda_vm_options o = {.emulate = true,
                                      .workers = WORKERS,
                                      .seed = (uint64_t)way,
                                      .trace = true,
                                      .tuning = {1, 2, 3, 2, 0, edges, 0}};
        tw_cuda_vm *vm;
        tw_diag d;
        int id;
        if (tw_cuda_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
        tw_lowering l = {.tokens = 1, .max_seq = MAX_SEQ};
        tw_cuda_vm_lowering(vm, &l);
        tw_checked *c = test_lower(m, l, MAX_SEQ);
        const tw_schedule *s = tw_checked_schedule(c);
        if (tw_cuda_vm_load(vm, c, &id, &d) != TW_OK) fail_msg("%s", d.message);
        const int32_t token = 7;
        tw_vm_step step = {.program = id, .tokens = &token, .n = 1};
        if (tw_cuda_vm_run(vm, &step, &d) != TW_OK) fail_msg("%s", d.message);
        tw_trace *t;
        if (tw_cuda_vm_timeline(vm, id, 1, 0, "emulated", &t, &d) != TW_OK) fail_msg("%s", d.message);
        assert_string_equal(t->unit, "ops");
        assert_string_equal(t->device, "emulator");
        events_nest(t);
        for (int w = 0; w < WORKERS; w++)
            for (int i = 0; i < s->workers[w].count; i++) {
                const char *name = name_of(s, &s->workers[w].list[i]);
                int n = 0, want = 0;
                for (int k = 0; k < s->workers[w].count; k++) want += !strcmp(name_of(s, &s->workers[w].list[k]), name);
                for (int k = 0; k < t->n_events; k++)
                    n += t->events[k].track == w && t->events[k].kind == TW_EVENT_REGION &&
                         !strcmp(text(t, &t->events[k]), name);
                assert_int_equal(n, want);
            }
        assert_true(t->n_edges > 0);
        int late = 0;
        for (int i = 0; i < t->n_edges; i++) late += t->events[t->edges[i].from].end > t->events[t->edges[i].to].end;
        assert_int_equal(late, 0);
        tw_trace_free(t);
        assert_int_equal(tw_cuda_vm_timeline(vm, id + 1, 1, 0, "none", &t, &d), TW_ERR_USAGE);
        assert_null(t);
        tw_cuda_vm_close(vm);
        tw_checked_free(c);
    }
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_become_events),
        cmocka_unit_test(what_lacks_is_left_out),
        cmocka_unit_test(a_step_of_the_emulator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
