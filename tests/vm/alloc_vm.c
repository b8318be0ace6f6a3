/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of opening the processor's machine, vendors' products among its choices, of loading a program, of a
   step and of a step's trace fails once, and every one of a trace of the GPU's machine. */
#include "support/alloc_fail.h"
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "tilewright/vm.h"
#include "vm/cpu/trace.h"
#include "vm/cuda/timeline.h"

#include <math.h>
#include <string.h>

typedef struct attempt {
    const tw_model *model;
    const tw_checked *program;
    bool no_vendor, traced;
    int32_t token; /* -1: not known yet */
} attempt;

static int run(void *context) {
    attempt *a = context;
    tw_vm *vm;
    tw_diag d;
    int id = 0;
    const int32_t prompt[2] = {3, 1};
    const tw_vm_options o = {.workers = 2, .no_vendor = a->no_vendor, .no_pin = true};
    tw_status st = tw_vm_open(&vm, a->model, &o, &d);
    if (st != TW_OK) {
        assert_null(vm);
        return st == TW_ERR_MEMORY ? 1 : 2;
    }
    st = tw_vm_load(vm, a->program, &id, &d);
    tw_vm_step s = {.program = id, .tokens = prompt, .n = 2, .length = 2};
    if (st == TW_OK && a->traced) st = tw_vm_trace_begin(vm, 2, &d);
    if (st == TW_OK) st = tw_vm_run(vm, &s, &d);
    if (st == TW_OK && a->traced) {
        tw_trace *t;
        st = tw_vm_trace_end(vm, "a step", &t, &d);
        if (st == TW_OK ? !t->n_events : t != NULL) return 2;
        tw_trace_free(t);
    }
    /* What goes through is the answer, whatever failed on the way. */
    if (st == TW_OK && a->token < 0) a->token = s.token;
    if (st == TW_OK && s.token != a->token) st = TW_ERR_MISMATCH;
    tw_vm_close(vm);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void the_machine_survives_every_failure(void **state) {
    (void)state;
    static const char *const folders[] = {"llama-biases", "qwen3moe-step-fused"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[4096];
        tw_model *m;
        tw_diag d;
        strcpy(path, TEST_DATA "/models/");
        strcat(path, folders[i]);
        assert_int_equal(tw_model_open(&m, path, &d), TW_OK);
        tw_checked *c = test_lower(m, (tw_lowering){.workers = 2, .tokens = 2}, 8);
        for (int vendor = 0; vendor < 2; vendor++) {
            attempt a = {.model = m, .program = c, .no_vendor = !vendor, .traced = !vendor, .token = -1};
            assert_int_equal(run(&a), 0);
            alloc_fail_exhaust(run, &a);
        }
        tw_checked_free(c);
        tw_model_close(m);
    }
}

enum { ROWS = 256 };

static int make_timeline(void *context) {
    static int64_t marks[2 * ROWS][TW_MEGA_MARKS];
    static const tw_mega_anchor anchors[2] = {{.sm = 0, .clock = {1, 1 << 20}, .time = {1, 1 << 20}},
                                              {.sm = 1, .clock = {1, 1 << 20}, .time = {1, 1 << 20}}};
    for (int i = 0; i < 2 * ROWS; i++)
        for (int k = 0; k < TW_MEGA_MARKS; k++) marks[i][k] = 2 + i * TW_MEGA_MARKS + k;
    const tw_mega_clocks c = {(const int64_t(*)[TW_MEGA_MARKS])marks, anchors, ROWS, false};
    tw_trace *t;
    tw_diag d;
    const tw_status st = tw_mega_timeline(&t, tw_checked_schedule(context), &c, 1, 0, "a step", "a device", &d);
    assert_true((st == TW_OK) == (t != NULL));
    tw_trace_free(t);
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static void timelines_survive_every_failure(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/llama-biases", &d), TW_OK);
    tw_checked *c = test_lower(m, (tw_lowering){.workers = 2, .tokens = 1, .kv_splits = 2}, 8);
    assert_true(tw_mega_most_records(tw_checked_schedule(c)) <= ROWS);
    alloc_fail_exhaust(make_timeline, c);
    tw_checked_free(c);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_machine_survives_every_failure),
                                       cmocka_unit_test(timelines_survive_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
