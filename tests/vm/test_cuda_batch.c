/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences that decode together on the GPU's machine, in the emulator: each is what it is when the processor's machine
   runs it alone, wherever the others are. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "schedule/builder.h"
#include "schedule/schedule.h"
#include "tilewright/model.h"
#include "tilewright/vm.h"
#include "vm/cuda/vm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 8,
    ROWS = 24,
    STEPS = 4 /* launches of one step, if not said */,
    TOGETHER = 3 /* steps of the last launch */
};

typedef struct batch_case {
    const char *folder; /* NULL: a llama whose feed-forward layer is as wide as those in parts want. */
    int sequences, workers;
    uint64_t seed;
    tw_dtype weights;
    int64_t kv_splits, row_blocks, down_splits, row_unit;
    tw_cuda_vm_tuning tuning;
    bool dequantise;    /* integers are multiplied as floats */
    int steps;          /* launches of one step */
    const char *target; /* NULL: sm_90a */
} batch_case;

/* A sequence begins some launches after the first one, so that positions differ; until then it stands at position 0
   with a token that nobody asked for. Its prompt is followed by what is found. */
typedef struct sequence {
    int begins, prompt;
    int32_t last;        /* found */
    int32_t found[ROWS]; /* [position]: alone, on the processor */
    float *logits;       /* [position][vocab] */
} sequence;

typedef struct machines {
    tw_model *m;
    tw_checked *of_cpu, *of_gpu;
    tw_vm *cpu;
    tw_cuda_vm *gpu;
    int c, g;
} machines;

static tw_checked *lower(const tw_model *m, tw_lowering l) {
    return test_lower(m, l, ROWS);
}

static void open_machines(machines *x, const batch_case *c) {
    char path[4096];
    tw_diag d;
    if (!c->folder)
        x->m = test_open_llama(&(test_llama){.dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 768});
    snprintf(path, sizeof path, TEST_DATA "/models/%s", c->folder ? c->folder : "");
    if (c->folder && tw_model_open(&x->m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    const tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true};
    const tw_cuda_vm_options og = {.emulate = true,
                                   .target = c->target,
                                   .workers = c->workers,
                                   .seed = c->seed,
                                   .tuning = c->tuning,
                                   .dequantise = c->dequantise};
    x->of_cpu = lower(x->m, (tw_lowering){.workers = 1, .max_seq = ROWS, .weights = c->weights});
    if (tw_vm_open(&x->cpu, x->m, &o, &d) != TW_OK || tw_vm_load(x->cpu, x->of_cpu, &x->c, &d) != TW_OK)
        fail_msg("%s", d.message);
    if (tw_cuda_vm_open(&x->gpu, x->m, &og, &d) != TW_OK) fail_msg("%s", d.message);
    tw_lowering l = {.max_seq = ROWS, .weights = c->weights, .sequences = c->sequences};
    l.kv_splits = c->kv_splits;
    l.row_blocks = c->row_blocks;
    l.down_splits = c->down_splits;
    l.row_unit = c->row_unit;
    tw_cuda_vm_lowering(x->gpu, &l);
    l.kv = TW_F32;
    x->of_gpu = lower(x->m, l);
    if (tw_cuda_vm_load(x->gpu, x->of_gpu, &x->g, &d) != TW_OK) fail_msg("%s", d.message);
}

static void close_machines(machines *x) {
    tw_cuda_vm_close(x->gpu);
    tw_vm_close(x->cpu);
    tw_checked_free(x->of_cpu);
    tw_checked_free(x->of_gpu);
    tw_model_close(x->m);
}

static int32_t prompt_token(const machines *x, int which, int64_t position) {
    return (int32_t)((37 * which + 11 * position * (which + 1) + 3) % x->m->vocab);
}

static void run_alone(const machines *x, int which, int steps, sequence *s) {
    const size_t row = (size_t)x->m->vocab;
    s->logits = malloc((size_t)steps * row * sizeof *s->logits);
    assert_non_null(s->logits);
    for (int i = 0; i < steps; i++) {
        tw_diag d;
        int32_t token = i < s->prompt ? prompt_token(x, which, i) : s->found[i - 1];
        tw_vm_step step = {.program = x->c, .tokens = &token, .n = 1, .pos = i};
        if (tw_vm_run(x->cpu, &step, &d) != TW_OK) fail_msg("%s", d.message);
        s->found[i] = step.token;
        memcpy(s->logits + (size_t)i * row, step.logits, row * sizeof *s->logits);
    }
}

static void same(const batch_case *c, const machines *x, const sequence *s, int which, int64_t position, int32_t token,
                 const float *got) {
    const float *want = s->logits + position * x->m->vocab;
    double error = 0, largest = 0;
    for (int64_t i = 0; i < x->m->vocab; i++) {
        double e = fabs((double)want[i] - (double)got[i]);
        largest = fmax(largest, fabs((double)want[i]));
        error = e > error || isnan(e) ? e : error;
    }
    if (!(error / largest < 5e-5) || token != s->found[position])
        fail_msg("%s, sequence %d of %d at %d: %.3g, token %d instead of %d", c->folder ? c->folder : "a llama", which,
                 c->sequences, (int)position, error / largest, token, s->found[position]);
}

/* Launch `launch` of one step. */
static void one_step(const batch_case *c, const machines *x, sequence *s, int launch) {
    int32_t tokens[MOST], out[MOST];
    int64_t positions[MOST];
    const float *logits;
    tw_diag d;
    for (int i = 0; i < c->sequences; i++) {
        positions[i] = launch < s[i].begins ? 0 : launch - s[i].begins;
        tokens[i] = positions[i] < s[i].prompt ? prompt_token(x, i, positions[i]) : s[i].last;
        if (launch < s[i].begins) tokens[i] = 1;
    }
    if (tw_cuda_vm_batch(x->gpu, x->g, tokens, positions, 1, out, &logits, NULL, &d) != TW_OK)
        fail_msg("%s, %d sequences: %s", c->folder ? c->folder : "a llama", c->sequences, d.message);
    for (int i = 0; i < c->sequences; i++) {
        s[i].last = out[i];
        if (launch >= s[i].begins) same(c, x, &s[i], i, positions[i], out[i], logits + i * x->m->vocab);
    }
}

/* Several steps in one launch, all of what was found before. */
static void last_steps(const batch_case *c, const machines *x, const sequence *s) {
    int32_t tokens[MOST], out[TOGETHER * MOST];
    int64_t positions[MOST];
    const float *logits;
    double us = -1;
    tw_diag d;
    for (int i = 0; i < c->sequences; i++) {
        positions[i] = c->steps - s[i].begins;
        tokens[i] = s[i].last;
    }
    if (tw_cuda_vm_batch(x->gpu, x->g, tokens, positions, TOGETHER, out, &logits, &us, &d) != TW_OK)
        fail_msg("%s, %d sequences: %s", c->folder ? c->folder : "a llama", c->sequences, d.message);
    assert_true(us > 0);
    for (int i = 0; i < c->sequences; i++) {
        for (int step = 0; step < TOGETHER - 1; step++)
            assert_int_equal(out[step * c->sequences + i], s[i].found[positions[i] + step]);
        same(c, x, &s[i], i, positions[i] + TOGETHER - 1, out[(TOGETHER - 1) * c->sequences + i],
             logits + i * x->m->vocab);
    }
}

static void agree(batch_case c) {
    machines x;
    sequence s[MOST] = {{0}};
    if (!c.steps) c.steps = STEPS;
    open_machines(&x, &c);
    for (int i = 0; i < c.sequences; i++) {
        s[i].begins = (5 * i + 2) % 4;
        s[i].prompt = 1 + (3 * i + 1) % (STEPS - s[i].begins);
        run_alone(&x, i, c.steps + TOGETHER, &s[i]);
    }
    for (int launch = 0; launch < c.steps; launch++) one_step(&c, &x, s, launch);
    if (x.m->rope.kind != TW_ROPE_DYNAMIC) last_steps(&c, &x, s);
    for (int i = 0; i < c.sequences; i++) free(s[i].logits);
    close_machines(&x);
}

static const tw_cuda_vm_tuning narrow = {.warps = 3, .blocks = 2, .stages = 4},
                               one = {.warps = 2, .blocks = 1, .stages = 3};

static void any_number_of_sequences(void **state) {
    (void)state;
    for (int n = TEST_SANITIZED ? 5 : 1; n <= MOST; n += TEST_SANITIZED ? MOST : 1)
        agree((batch_case){.folder = "llama-linear-mqa",
                           .sequences = n,
                           .workers = 1 + n % 4,
                           .seed = (uint64_t)n,
                           .tuning = n % 2 ? one : narrow});
}

static void weights_of_every_type(void **state) {
    (void)state;
    if (!TEST_SANITIZED) agree((batch_case){.folder = "llama-biases", .sequences = 4, .workers = 2, .seed = 11});
    agree((batch_case){
        .folder = "qwen3-bias", .sequences = 5, .workers = 2, .seed = 12, .weights = TW_I8, .tuning = narrow});
    agree((batch_case){
        .folder = "llama-biases", .sequences = 3, .workers = 4, .seed = 13, .weights = TW_I4, .tuning = one});
}

static void windows_and_angles_of_every_kind(void **state) {
    (void)state;
    agree((batch_case){.folder = "qwen2-window",
                       .sequences = 4,
                       .workers = 3,
                       .seed = 21,
                       .kv_splits = 2,
                       .tuning = one,
                       .steps = 14});
    if (TEST_SANITIZED) return;
    agree((batch_case){.folder = "gemma3-ropes", .sequences = 3, .workers = 3, .seed = 26, .tuning = one});
    agree((batch_case){.folder = "olmo2-norms", .sequences = 4, .workers = 2, .seed = 27, .tuning = one});
    agree((batch_case){.folder = "llama-llama3-sharded", .sequences = 6, .workers = 3, .seed = 23, .tuning = one});
    agree((batch_case){.folder = "llama-dynamic", .sequences = 5, .workers = 3, .seed = 24, .tuning = one});
}

static void without_bulk_copies(void **state) {
    (void)state;
    agree((batch_case){
        .folder = "llama-linear-mqa", .sequences = 3, .workers = 2, .seed = 25, .tuning = narrow, .target = "sm_80"});
}

/* Attention in parts of the past, and of several sequences in one instruction. */
static void attention_dealt_out_in_every_way(void **state) {
    (void)state;
    for (int i = TEST_SANITIZED ? 3 : 1; i < 4; i++)
        agree((batch_case){.folder = "llama-linear-mqa",
                           .sequences = 5,
                           .workers = 1 + i,
                           .seed = (uint64_t)(31 + i),
                           .kv_splits = 1 + i % 4,
                           .row_blocks = 1 + i % 3,
                           .tuning = one});
}

/* The feed-forward layer's second product in parts along its columns. */
static void in_parts(const char *folder, int sequences, int workers, int64_t parts, tw_dtype weights,
                     tw_cuda_vm_tuning tuning) {
    agree((batch_case){.folder = folder,
                       .sequences = sequences,
                       .workers = workers,
                       .seed = (uint64_t)(41 + sequences + workers),
                       .weights = weights,
                       .down_splits = parts,
                       .tuning = tuning});
}

/* Of several teams, of one, and of workers that have several parts; with a bias; normed before it is added; with
   weights of every type, and whole rows' scales. */
static void down_in_parts(void **state) {
    (void)state;
    static const tw_cuda_vm_tuning single = {.warps = 1, .blocks = 1, .stages = 3};
    in_parts(NULL, 8, 9, 4, TW_F32, one);
    in_parts("gpt2-relu-untied", 3, 5, 2, TW_I4, single);
    if (TEST_SANITIZED) return;
    in_parts(NULL, 5, 3, 3, TW_F32, (tw_cuda_vm_tuning){.warps = 4, .blocks = 2});
    in_parts(NULL, 3, 2, 2, TW_I8, one);
    in_parts("gpt2-relu-untied", 6, 2, 4, TW_F32, one);
    in_parts("gpt2-gelu-bare", 2, 7, 6, TW_F32, single);
    in_parts("gpt2-gelu-bare", 4, 4, 3, TW_I8, single);
    in_parts("llama-biases", 4, 8, 7, TW_F32, single);
    agree((batch_case){.sequences = 3, .workers = 13, .seed = 47, .down_splits = 4, .row_unit = 2, .tuning = one});
    agree((batch_case){.folder = "olmo2-norms",
                       .sequences = 4,
                       .workers = 15,
                       .seed = 45,
                       .weights = TW_I8,
                       .down_splits = 7,
                       .tuning = single,
                       .dequantise = true});
    agree((batch_case){.folder = "gpt2-relu-untied",
                       .sequences = 3,
                       .workers = 4,
                       .seed = 46,
                       .down_splits = 2,
                       .tuning = one,
                       .target = "sm_80"});
}

/* With as many positions as make the activations of the whole product more than two chunks, parts are so many that one
   has a chunk. */
static void parts_are_chosen(void **state) {
    (void)state;
    static const struct {
        const char *shape;
        int64_t tokens, sequences;
        tw_dtype weights;
        int workers;
        int64_t parts;
    } cases[] = {{"llama-1b", 1, 1, TW_F32, 132, 1}, {"llama-1b", 4, 4, TW_F32, 132, 1},
                 {"llama-1b", 8, 8, TW_F32, 132, 4}, {"llama-1b", 0, 8, TW_F32, 132, 4},
                 {"llama-1b", 8, 1, TW_I4, 132, 4},  {"llama-1b", 8, 8, TW_F32, 3, 1},
                 {"llama-8b", 2, 2, TW_F32, 132, 1}, {"llama-8b", 3, 3, TW_F32, 132, 7},
                 {"llama-8b", 8, 8, TW_I8, 132, 7},  {"qwen3-30b-a3b", 8, 8, TW_F32, 132, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_cuda_vm_options o = {.emulate = true, .workers = cases[i].workers};
        tw_lowering l = {.tokens = cases[i].tokens, .sequences = cases[i].sequences, .weights = cases[i].weights};
        tw_model *m;
        tw_cuda_vm *vm;
        tw_diag d;
        assert_int_equal(tw_model_synthetic(&m, cases[i].shape, TW_BF16, 1, &d), TW_OK);
        assert_int_equal(tw_cuda_vm_open(&vm, m, &o, &d), TW_OK);
        tw_cuda_vm_lowering(vm, &l);
        assert_int_equal(l.down_splits, cases[i].parts);
        l.down_splits = 2;
        tw_cuda_vm_lowering(vm, &l);
        assert_int_equal(l.down_splits, 2);
        tw_cuda_vm_close(vm);
        tw_model_close(m);
    }
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    machines x;
    tw_diag d;
    int id;
    int32_t tokens[MOST] = {1, 2, 3}, out[MOST * MOST];
    int64_t positions[MOST] = {0, 5, 9};
    open_machines(&x,
                  &(batch_case){.folder = "llama-linear-mqa", .sequences = 3, .workers = 2, .seed = 1, .tuning = one});
    tw_vm_step step = {.program = x.g, .tokens = tokens, .n = 1};
    assert_int_equal(tw_cuda_vm_run(x.gpu, &step, &d), TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "several sequences"));
    assert_int_equal(tw_cuda_vm_batch(x.gpu, x.g + 1, tokens, positions, 1, out, NULL, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_vm_batch(x.gpu, x.g, tokens, positions, 0, out, NULL, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cuda_vm_batch(x.gpu, x.g, tokens, positions, ROWS - 8, out, NULL, NULL, &d), TW_ERR_USAGE);
    positions[1] = -1;
    assert_int_equal(tw_cuda_vm_batch(x.gpu, x.g, tokens, positions, 1, out, NULL, NULL, &d), TW_ERR_USAGE);
    positions[1] = 0;
    tokens[2] = (int32_t)x.m->vocab;
    assert_int_equal(tw_cuda_vm_batch(x.gpu, x.g, tokens, positions, 1, out, NULL, NULL, &d), TW_ERR_USAGE);
    tw_checked *batch = lower(x.m, (tw_lowering){.workers = 1, .max_seq = ROWS, .sequences = 2});
    assert_int_equal(tw_vm_load(x.cpu, batch, &id, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "2 sequences"));
    tw_checked_free(batch);
    batch = lower(x.m, (tw_lowering){.workers = 1, .max_seq = ROWS, .tokens = 2, .down_splits = 2});
    assert_int_equal(tw_vm_load(x.cpu, batch, &id, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "products in parts"));
    assert_int_equal(tw_cuda_vm_load(x.gpu, batch, &id, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "whole stages"));
    tw_checked_free(batch);
    batch = lower(x.m, (tw_lowering){.workers = 2, .max_seq = ROWS, .sequences = MOST + 1});
    assert_int_equal(tw_cuda_vm_load(x.gpu, batch, &id, &d), TW_ERR_UNSUPPORTED);
    tw_checked_free(batch);
    close_machines(&x);
}

/* Sums of rows as wide as the feed-forward layer: the check accepts them, and kernels have the model's width. */
static void sums_of_another_width_are_refused(void **state) {
    (void)state;
    machines x;
    tw_schedule *s;
    tw_checked *c;
    tw_diag d;
    int id;
    open_machines(&x, &(batch_case){.folder = "olmo2-norms", .sequences = 2, .workers = 2, .seed = 3, .tuning = one});
    const tw_lowering l = {.workers = 1, .max_seq = ROWS, .sequences = 2};
    assert_int_equal(tw_schedule_lower(&s, x.m, &l, &d), TW_OK);
    tw_worker *w = &s->workers[0];
    tw_instr *list = tw_arena_array(&s->arena, (size_t)w->count + 1, sizeof *list), *in = &list[w->count - 1];
    const int wide = tw_schedule_add_buffer(s, "wide", TW_BUFFER_ACTIVATION, TW_F32, 0, 2, 1, x.m->ffn_dim);
    memcpy(list, w->list, (size_t)(w->count - 1) * sizeof *list);
    list[w->count] = w->list[w->count - 1];
    *in = (tw_instr){.op = TW_INSTR_SUM, .arrive = -1, .param = {[TW_TO] = 1}};
    for (int i = 0; i < TW_MAX_OPERANDS; i++) in->operand[i] = -1;
    for (int i = 0; i < w->count - 1; i++)
        if (list[i].op == TW_INSTR_FFN) in->operand[TW_SUM_SUMS] = list[i].operand[TW_FFN_H];
    in->operand[TW_SUM_Y] = wide;
    w->list = list;
    w->count++;
    if (tw_schedule_check(&c, &s, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_cuda_vm_load(x.gpu, c, &id, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "rows are not the model's"));
    tw_checked_free(c);
    close_machines(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_sequences),
        cmocka_unit_test(weights_of_every_type),
        cmocka_unit_test(windows_and_angles_of_every_kind),
        cmocka_unit_test(without_bulk_copies),
        cmocka_unit_test(attention_dealt_out_in_every_way),
        cmocka_unit_test(down_in_parts),
        cmocka_unit_test(parts_are_chosen),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(sums_of_another_width_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
