/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: any number of workers, any lowering, any split of a prompt into steps gives the same answer. */
#include "support/lower.h"
#include "support/support.h"

#include "schedule/schedule.h"
#include "tilewright/vm.h"
#include "vm/cpu/vm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 21, MAX_SEQ = 64, MAX_VOCAB = 1024 };

static const int32_t prompt[PROMPT] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6};

static tw_checked *checked(const tw_model *m, tw_lowering l) {
    return test_lower(m, l, MAX_SEQ);
}

static tw_vm *machine(const tw_model *m, int workers) {
    tw_vm *vm;
    tw_diag d;
    tw_vm_options o = {.workers = workers, .no_vendor = true, .no_pin = true};
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return vm;
}

/* Feeds the prompt in steps of at most `step` through the program; copies the last logits. */
static int32_t feed(tw_vm *vm, int program, int64_t step, int64_t vocab, float *logits) {
    tw_vm_step s = {.program = program, .length = PROMPT};
    tw_diag d;
    for (int64_t at = 0; at < PROMPT; at += s.n) {
        s.tokens = prompt + at;
        s.n = PROMPT - at < step ? PROMPT - at : step;
        s.pos = at;
        if (tw_vm_run(vm, &s, &d) != TW_OK) fail_msg("%s", d.message);
    }
    memcpy(logits, s.logits, (size_t)vocab * sizeof *logits);
    return s.token;
}

static void same(const float *a, const float *b, int64_t n, const char *what) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-5f * largest + 1e-6f))
            fail_msg("%s: logit %d is %g, not %g", what, (int)i, a[i], b[i]);
}

/* Under a sanitizer every third way, by turns. */
static void run_every_way(const tw_model *m, const char *name, size_t turn) {
    static const tw_lowering ways[] = {
        {.workers = 1, .tokens = 1},
        {.workers = 2, .tokens = 1},
        {.workers = 3, .tokens = 8},
        {.workers = 5, .tokens = 1, .kv_splits = 3},
        {.workers = 2, .tokens = 32},
        {.workers = 4, .tokens = 7, .row_blocks = 3, .row_unit = 6},
        {.workers = 9, .tokens = 21},
        {.workers = 3, .tokens = 5, .kv_splits = 2},
        {.workers = 7, .tokens = 1},
        {.workers = 132, .tokens = 11},
        {.workers = 7, .tokens = 9},
        {.workers = 132, .tokens = 3, .kv_splits = 2, .row_unit = 2},
        {.workers = 2, .tokens = 1, .group_heads = true},
        {.workers = 9, .tokens = 4, .group_heads = true},
        {.workers = 3, .tokens = 5, .row_unit = 6, .head_norms = TW_HEAD_NORMS_TURN},
    };
    static float want[MAX_VOCAB], got[MAX_VOCAB];
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char what[128];
        tw_diag d;
        int id;
        if (TEST_SANITIZED && i && (i + turn) % 3) continue;
        tw_checked *c = checked(m, ways[i]);
        tw_vm *vm = machine(m, ways[i].workers);
        if (tw_vm_load(vm, c, &id, &d) != TW_OK) fail_msg("%s", d.message);
        snprintf(what, sizeof what, "%s, way %zu", name, i);
        int32_t token = feed(vm, id, ways[i].tokens, m->vocab, got);
        if (i)
            same(got, want, m->vocab, what);
        else
            memcpy(want, got, sizeof want);
        for (int64_t k = 0; k < m->vocab; k++) assert_true(got[token] >= got[k]);
        tw_vm_close(vm);
        tw_checked_free(c);
    }
}

static void every_family_runs_every_way(void **state) {
    (void)state;
    static const char *const folders[] = {
        "gpt2-gelu-bare",       "gpt2-relu-untied", "llama-biases",         "llama-dynamic",       "llama-linear-mqa",
        "llama-llama3-sharded", "llama-yarn-mha",   "mistral-window",       "mixtral-fused",       "mixtral-window",
        "qwen2-window",         "qwen3-bias",       "qwen3moe-dense-first", "qwen3moe-step-fused", "gemma-gelu",
        "gemma2-caps",          "gemma3-ropes",     "gemma3-wide",          "phi3-window",         "phi3-long",
        "smollm3-norope",       "olmo2-norms"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        tw_model *m;
        tw_diag d;
        char path[4096];
        snprintf(path, sizeof path, "%s/models/%s", TEST_DATA, folders[i]);
        if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
        assert_true(m->vocab <= MAX_VOCAB);
        run_every_way(m, folders[i], i);
        tw_model_close(m);
    }
}

static void programs_share_the_cache(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    int prefill, decode;
    static float want[MAX_VOCAB], got[MAX_VOCAB];
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F16, 3, &d), TW_OK);
    tw_checked *a = checked(m, (tw_lowering){.workers = 2, .tokens = 1}),
               *b = checked(m, (tw_lowering){.workers = 2, .tokens = 16});
    tw_vm *vm = machine(m, 2);
    assert_int_equal(tw_vm_load(vm, a, &decode, &d), TW_OK);
    int64_t tape = tw_vm_tape_bytes(vm);
    assert_int_equal(tw_vm_load(vm, b, &prefill, &d), TW_OK);
    assert_int_equal(tw_vm_tape_bytes(vm), tape); /* the same rows, packed once */
    feed(vm, decode, 1, m->vocab, want);
    tw_vm_step s = {.program = prefill, .tokens = prompt, .n = 13};
    assert_int_equal(tw_vm_run(vm, &s, &d), TW_OK);
    for (int64_t at = 13; at < PROMPT; at++) {
        s = (tw_vm_step){.program = decode, .tokens = prompt + at, .n = 1, .pos = at};
        assert_int_equal(tw_vm_run(vm, &s, &d), TW_OK);
    }
    memcpy(got, s.logits, (size_t)m->vocab * sizeof *got);
    same(got, want, m->vocab, "prefill, then decode");
    tw_vm_close(vm);
    tw_checked_free(a);
    tw_checked_free(b);
    tw_model_close(m);
}

/* Counters wrap after 2^32 arrivals: about a month of decoding. */
static void counters_may_wrap(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    int id;
    static float want[MAX_VOCAB], got[MAX_VOCAB];
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F32, 3, &d), TW_OK);
    tw_checked *c = checked(m, (tw_lowering){.workers = 3, .tokens = 1});
    tw_vm *vm = machine(m, 3);
    assert_int_equal(tw_vm_load(vm, c, &id, &d), TW_OK);
    feed(vm, id, 1, m->vocab, want);
    const tw_schedule *s = tw_checked_schedule(c);
    tw_program *p = vm->programs;
    /* Another launch makes sure that nobody still looks at the counters. */
    static const tw_vm_step first = {.tokens = prompt, .n = 1};
    tw_vm_step step = first;
    assert_int_equal(tw_vm_run(vm, &step, &d), TW_OK);
    uint32_t epoch = UINT32_MAX - 4;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            for (int k = 0; k < s->workers[w].list[i].n_waits; k++) {
                tw_wait wait = s->workers[w].list[i].waits[k];
                atomic_store(&p->counters[wait.counter].value, (uint32_t)wait.threshold * epoch);
            }
    p->epoch = epoch;
    feed(vm, id, 1, m->vocab, got);
    same(got, want, m->vocab, "across the wrap");
    tw_vm_close(vm);
    tw_checked_free(c);
    tw_model_close(m);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    tw_model *m, *other;
    tw_diag d;
    int id;
    tw_vm *vm;
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F32, 3, &d), TW_OK);
    assert_int_equal(tw_model_synthetic(&other, "gpt2", TW_F32, 3, &d), TW_OK);
    assert_int_equal(tw_vm_open(&vm, m, &(tw_vm_options){.workers = 0}, &d), TW_ERR_USAGE);
    tw_checked *good = checked(m, (tw_lowering){.workers = 2, .tokens = 4}),
               *three = checked(m, (tw_lowering){.workers = 3}), *foreign = checked(other, (tw_lowering){.workers = 2}),
               *half = checked(m, (tw_lowering){.workers = 2, .kv = TW_BF16});
    vm = machine(m, 2);
    assert_int_equal(tw_vm_load(vm, three, &id, &d), TW_ERR_MISMATCH);
    assert_int_equal(tw_vm_load(vm, foreign, &id, &d), TW_ERR_MISMATCH);
    assert_int_equal(tw_vm_load(vm, half, &id, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "layers.0.k is bf16: on a processor the key/value cache is f32");
    assert_int_equal(tw_vm_load(vm, good, &id, &d), TW_OK);
    const int32_t beyond[2] = {1, 256}, negative[1] = {-1};
    tw_vm_step bad[] = {
        {.program = 7, .tokens = prompt, .n = 1},
        {.program = id, .tokens = prompt, .n = 0},
        {.program = id, .tokens = prompt, .n = 5},
        {.program = id, .tokens = prompt, .n = 4, .pos = MAX_SEQ - 3},
        {.program = id, .tokens = prompt, .n = 1, .pos = -1},
        {.program = id, .tokens = beyond, .n = 2},
        {.program = id, .tokens = negative, .n = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_int_equal(tw_vm_run(vm, &bad[i], &d), TW_ERR_USAGE);
    tw_vm_close(vm);
    tw_checked_free(good);
    tw_checked_free(three);
    tw_checked_free(foreign);
    tw_checked_free(half);
    tw_model_close(m);
    tw_model_close(other);
}

/* With scores that are not numbers every position still chooses distinct experts; the sanitizers watch the rest. */
static void a_router_of_nan_runs(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    int id;
    assert_int_equal(tw_model_open(&m, TEST_DATA "/models/mixtral-fused", &d), TW_OK);
    tw_weight *router = &m->layers[0].router;
    float *nan = malloc((size_t)(router->rows * router->cols) * sizeof *nan);
    for (int64_t i = 0; i < router->rows * router->cols; i++) nan[i] = i % 3 ? NAN : 1.0f;
    router->data = nan;
    router->dtype = TW_F32;
    tw_checked *c = checked(m, (tw_lowering){.workers = 2, .tokens = PROMPT});
    tw_vm *vm = machine(m, 2);
    if (tw_vm_load(vm, c, &id, &d) != TW_OK) fail_msg("%s", d.message);
    tw_vm_step s = {.program = id, .tokens = prompt, .n = PROMPT};
    assert_int_equal(tw_vm_run(vm, &s, &d), TW_OK);
    tw_vm_close(vm);
    tw_checked_free(c);
    tw_model_close(m);
    free(nan);
}

/* Workers without a single instruction wake and leave like the others. */
static void idle_workers_leave_too(void **state) {
    (void)state;
    tw_model *m;
    tw_diag d;
    assert_int_equal(tw_model_synthetic(&m, "llama-tiny", TW_F32, 3, &d), TW_OK);
    for (int i = 0; i < 50; i++) {
        tw_schedule *s;
        tw_checked *c;
        int id;
        tw_lowering l = {.workers = 1, .max_seq = MAX_SEQ};
        assert_int_equal(tw_schedule_lower(&s, m, &l, &d), TW_OK);
        tw_worker *wide = tw_arena_array(&s->arena, 8, sizeof *wide);
        wide[0] = s->workers[0];
        s->workers = wide;
        s->n_workers = 8;
        assert_int_equal(tw_schedule_check(&c, &s, NULL, &d), TW_OK);
        tw_vm *vm = machine(m, 8);
        assert_int_equal(tw_vm_load(vm, c, &id, &d), TW_OK);
        tw_vm_step step = {.program = id, .tokens = prompt, .n = 1};
        for (int k = 0; k < 3; k++, step.pos++) assert_int_equal(tw_vm_run(vm, &step, &d), TW_OK);
        tw_vm_close(vm);
        tw_checked_free(c);
    }
    tw_model_close(m);
}

/* A sum may add up what another instruction wrote: here what a norm then adds to the residual stream. */
static void sums_are_refused(void **state) {
    (void)state;
    tw_model *m;
    tw_schedule *s;
    tw_checked *c;
    tw_diag d;
    int id;
    const tw_lowering l = {.workers = 1, .max_seq = MAX_SEQ};
    if (tw_model_open(&m, TEST_DATA "/models/olmo2-norms", &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_schedule_lower(&s, m, &l, &d), TW_OK);
    tw_instr *in = s->workers[0].list;
    while (in->op != TW_INSTR_RESIDUAL) in++;
    const int y = in->operand[TW_RESIDUAL_Y], x = in->operand[TW_RESIDUAL_X];
    for (int i = 0; i < TW_MAX_OPERANDS; i++) in->operand[i] = -1;
    in->op = TW_INSTR_SUM;
    in->operand[TW_SUM_SUMS] = y;
    in->operand[TW_SUM_X] = x;
    if (tw_schedule_check(&c, &s, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    tw_vm *vm = machine(m, 1);
    assert_int_equal(tw_vm_load(vm, c, &id, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "in parts"));
    tw_vm_close(vm);
    tw_checked_free(c);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_runs_every_way),
        cmocka_unit_test(programs_share_the_cache),
        cmocka_unit_test(counters_may_wrap),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_router_of_nan_runs),
        cmocka_unit_test(idle_workers_leave_too),
        cmocka_unit_test(sums_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
