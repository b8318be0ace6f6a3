/* SPDX-License-Identifier: Apache-2.0 */
/* The engine on a GPU's machine, in the emulator: the processor's answers, in steps, in one launch, and scored. */
#define _GNU_SOURCE
#include "support/support.h"

#include "base/random.h"
#include "device/fake_cuda.h"
#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

static tw_engine *open_engine(const tw_model *m, tw_engine_options o) {
    tw_engine *e;
    tw_diag d;
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

static void agree(const char *folder, tw_engine_options o, uint64_t seed) {
    tw_model *m = open_model(folder);
    tw_model_info info;
    tw_verdict v;
    tw_diag d;
    tw_model_describe(m, &info);
    o.context = 12;
    tw_engine *cpu = open_engine(m, o);
    o.emulate = true;
    o.seed = seed;
    tw_engine *gpu;
    tw_status st = tw_engine_open(&gpu, m, &o, &d);
    if (st != TW_OK) fail_msg("%s: %s", folder, d.message);
    assert_true(tw_engine_on_gpu(gpu) && !tw_engine_on_gpu(cpu));
    assert_true(tw_engine_streamed_bytes(gpu, 3) > 0 && tw_engine_tape_bytes(gpu) > 0);
    if (tw_engine_compare(gpu, cpu, info.vocab, 2, 1, seed, &v, &d) != TW_OK) fail_msg("%s: %s", folder, d.message);
    assert_true(v.cases == 2 && v.tokens + v.close == 2);
    tw_engine_close(gpu);
    tw_engine_close(cpu);
    tw_model_close(m);
}

static void covered_models_agree_with_the_processor(void **state) {
    (void)state;
    if (!TEST_SANITIZED) agree("llama-linear-mqa", (tw_engine_options){.workers = 1}, 1);
    agree("qwen2-window", (tw_engine_options){.workers = 2}, 2);
    agree("qwen3moe-step-fused", (tw_engine_options){.workers = 2}, 5);
    if (TEST_SANITIZED) return; /* The machine's own tests have all models. */
    agree("gpt2-relu-untied", (tw_engine_options){.workers = 2}, 3);
    agree("mixtral-window", (tw_engine_options){.workers = 3}, 4);
}

static void quantised_weights_agree_with_the_processor(void **state) {
    (void)state;
    if (!TEST_SANITIZED) agree("llama-biases", (tw_engine_options){.workers = 2, .weights = TW_I8}, 1);
    agree("llama-biases", (tw_engine_options){.workers = 2, .weights = TW_I4}, 2);
    agree("qwen3moe-dense-first", (tw_engine_options){.workers = 2, .weights = TW_I8}, 3);
    if (!TEST_SANITIZED) agree("gpt2-gelu-bare", (tw_engine_options){.workers = 2, .weights = TW_I4}, 4);
}

/* A configuration goes through to the lowering and the machine, for prompts and for decoding. */
static void a_configuration_is_honoured(void **state) {
    (void)state;
    static const tw_schedule_config c = {{.workers = 3, .row_unit = 16, .kv_splits = 2, .kv = TW_F32, .exact_kv = true},
                                         {1, 3, 4, 2, 1, TW_EDGES_DATA, 0},
                                         TW_PROMPTS_AUTO,
                                         0,
                                         0};
    static const tw_schedule_config absurd = {.machine = {.warps = 16, .blocks = 8, .stages = 32}};
    tw_model *m = open_model("mistral-window");
    tw_engine *e = open_engine(m, (tw_engine_options){.emulate = true, .context = 16, .config = &c});
    char text[4096];
    int32_t prompt[3] = {1, 5, 9}, token;
    tw_diag d;
    assert_int_equal(tw_engine_workers(e), 3);
    if (tw_engine_feed(e, prompt, 3, NULL, &token, &d) != TW_OK) fail_msg("%s", d.message);
    tw_engine_explain(e, text, sizeof text);
    static const char first[] =
        "3 workers, each 1 warps of 3 x 512 bytes a stage, 4 stages, 2 in flight, 1 while it waits\n";
    assert_memory_equal(text, first, sizeof first - 1);
    assert_non_null(strstr(text, "prefill_"));
    tw_engine_close(e);
    assert_int_equal(tw_engine_open(&e, m, &(tw_engine_options){.emulate = true, .config = &absurd}, &d), TW_ERR_USAGE);
    tw_model_close(m);
    if (!TEST_SANITIZED) agree("qwen2-window", (tw_engine_options){.config = &c}, 4);
}

/* One launch of many tokens is as many launches of one; and it can be gone back. */
static void one_launch_gives_what_many_give(void **state) {
    (void)state;
    enum { N = 3 };
    tw_model *m = open_model("llama-biases");
    tw_engine *e = open_engine(m, (tw_engine_options){.emulate = true, .workers = 1, .context = 16});
    tw_diag d;
    int32_t prompt[3] = {1, 5, 9}, first, one, many[N];
    double seconds;
    assert_int_equal(tw_engine_feed(e, prompt, 3, NULL, &first, &d), TW_OK);
    if (tw_engine_greedy(e, first, N, many, &seconds, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_engine_position(e), 3 + N);
    tw_engine_rewind(e, 3);
    one = first;
    for (int i = 0; i < N; i++) {
        assert_int_equal(tw_engine_feed(e, &one, 1, NULL, &one, &d), TW_OK);
        assert_int_equal(one, many[i]);
    }
    assert_int_equal(tw_engine_greedy(e, first, 16, many, NULL, &d), TW_ERR_USAGE);
    assert_int_equal(tw_engine_measure_bandwidth(e, &seconds, &d), TW_ERR_UNSUPPORTED);
    tw_engine_close(e);
    tw_model_close(m);
}

/* Where the past grows long another program goes on, on the same tapes and the same cache. */
static void programs_change_with_the_past(void **state) {
    (void)state;
    enum { N = TEST_SANITIZED ? 2 : 4, FEED = TEST_SANITIZED ? 1 : 3, SHORT = FEED + 1, LONG = 800 };
    tw_model *m = open_model("llama-biases");
    tw_engine *cpu = open_engine(m, (tw_engine_options){.workers = 1, .context = 16});
    tw_engine *few = open_engine(m, (tw_engine_options){.emulate = true, .workers = 4, .context = 16});
    tw_engine *e = open_engine(m, (tw_engine_options){.emulate = true, .workers = 4, .context = LONG});
    tw_diag d;
    int32_t prompt[3] = {1, 5, 9}, first, on_cpu[N], on_gpu[N];
    assert_true(e->short_past > SHORT && e->short_past < LONG && !few->short_past);
    assert_true(tw_engine_tape_bytes(e) == tw_engine_tape_bytes(few));
    e->short_past = SHORT;
    assert_int_equal(tw_engine_feed(cpu, prompt, FEED, NULL, &first, &d), TW_OK);
    assert_int_equal(tw_engine_greedy(cpu, first, N, on_cpu, NULL, &d), TW_OK);
    assert_int_equal(tw_engine_feed(e, prompt, FEED, NULL, &first, &d), TW_OK);
    if (tw_engine_greedy(e, first, N, on_gpu, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    assert_memory_equal(on_cpu, on_gpu, sizeof on_cpu);
    assert_int_equal(tw_engine_position(e), FEED + N);
    tw_engine_rewind(e, SHORT);
    assert_int_equal(tw_engine_feed(e, &on_gpu[0], 1, NULL, &first, &d), TW_OK);
    assert_int_equal(first, on_gpu[1]);
    tw_engine_close(few);
    tw_engine_close(cpu);
    tw_engine_close(e);
    tw_model_close(m);
}

static void scores_agree_with_the_processor(void **state) {
    (void)state;
    enum { N = 9 };
    tw_model *m = open_model("qwen3-bias");
    tw_engine *cpu = open_engine(m, (tw_engine_options){.workers = 2, .context = 16}),
              *gpu = open_engine(m, (tw_engine_options){.emulate = true, .workers = 1, .context = 16});
    tw_model_info info;
    tw_diag d;
    tw_random r = tw_random_seed(3);
    int32_t ids[N];
    double want, got;
    tw_model_describe(m, &info);
    for (int i = 0; i < N; i++) ids[i] = (int32_t)tw_random_below(&r, (uint64_t)info.vocab);
    assert_int_equal(tw_engine_score(cpu, ids, N, &want, &d), TW_OK);
    if (tw_engine_score(gpu, ids, N, &got, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(fabs(got - want) <= 5e-3 * want);
    tw_engine_close(cpu);
    tw_engine_close(gpu);
    tw_model_close(m);
}

static void a_speeds_verdict_is_the_processors(void **state) {
    (void)state;
    tw_model *m = open_model("mistral-window");
    tw_engine *e = open_engine(m, (tw_engine_options){.emulate = true, .workers = 1, .context = 6});
    tw_verdict v;
    tw_diag d;
    if (tw_engine_check_kernels(e, 100, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.cases == 2 && v.worst_logit > 0 && v.worst_logit <= 1);
    assert_int_equal(tw_engine_position(e), 0);
    tw_engine_close(e);
    tw_model_close(m);
}

/* Where a long past is timed, the verdict is of a past as long, or as the context allows. */
static void a_speeds_verdict_reaches_as_far_as_the_speed(void **state) {
    (void)state;
    enum { ROOM = TEST_SANITIZED ? 54 : 62 };
    tw_model *m = open_model("llama-biases");
    tw_engine *e = open_engine(m, (tw_engine_options){.emulate = true, .workers = 1, .context = ROOM});
    tw_verdict v;
    tw_diag d;
    if (tw_engine_check_kernels(e, 1000, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.cases == 3 && v.tokens + v.close == 3 * 4);
    tw_engine_close(e);
    tw_model_close(m);
}

static void what_is_not_covered_says_so(void **state) {
    (void)state;
    static const tw_schedule_config c = {.machine = {.edges = TW_EDGES_DATA}};
    static const char *const folders[] = {"gpt2-gelu-bare", "mixtral-fused"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        tw_model *m = open_model(folders[i]);
        tw_engine *e;
        tw_diag d;
        tw_engine_options o = {.emulate = true, .config = &c};
        assert_int_equal(tw_engine_open(&e, m, &o, &d), TW_ERR_USAGE);
        assert_null(e);
        assert_true(*d.message && !strchr(d.message, '\n'));
        tw_model_close(m);
    }
}

static void devices_go_by_name(void **state) {
    (void)state;
    static const char *const wrong[] = {"gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:99999999999", "CPU", ""};
    tw_model *m = open_model("llama-biases");
    tw_engine *e;
    tw_diag d;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tw_engine_options o = {.device = wrong[i]};
        if (tw_engine_open(&e, m, &o, &d) != TW_ERR_USAGE) fail_msg("\"%s\"", wrong[i]);
        assert_null(e);
    }
    tw_engine_options none = {.device = "cuda:1000"}, threads = {.device = "cuda", .workers = 2};
    assert_int_equal(tw_engine_open(&e, m, &none, &d), TW_ERR_UNSUPPORTED);
    assert_int_equal(tw_engine_open(&e, m, &threads, &d), TW_ERR_USAGE);
    /* Threads are asked for: whatever else there is, it is the processor. */
    e = open_engine(m, (tw_engine_options){.device = "auto", .workers = 1});
    assert_string_equal(tw_engine_device(e), "cpu");
    tw_engine_close(e);
    e = open_engine(m, (tw_engine_options){.device = "auto"});
    tw_engine_close(e);
    tw_model_close(m);
}

/* On a stand-in for the driver, whose GPU has no more room than the processor. */
static void auto_goes_on_to_the_processor(void **state) {
    (void)state;
    tw_model *m = open_model("llama-biases");
    tw_engine *e;
    tw_engine_options o = {.device = "cuda", .memory_limit = 1000};
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    fake_cuda_reset();
    assert_int_equal(tw_engine_open(&e, m, &o, &d), TW_ERR_MEMORY);
    assert_non_null(strstr(d.message, "the GPU's memory"));
    o.device = "auto";
    assert_int_equal(tw_engine_open(&e, m, &o, &d), TW_ERR_MEMORY);
    assert_true(!e && !strstr(d.message, "GPU"));
    assert_int_equal(fake_cuda_alive(), 0);
    unsetenv("TILEWRIGHT_LIBCUDA");
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(covered_models_agree_with_the_processor),
        cmocka_unit_test(quantised_weights_agree_with_the_processor),
        cmocka_unit_test(a_configuration_is_honoured),
        cmocka_unit_test(one_launch_gives_what_many_give),
        cmocka_unit_test(programs_change_with_the_past),
        cmocka_unit_test(scores_agree_with_the_processor),
        cmocka_unit_test(a_speeds_verdict_is_the_processors),
        cmocka_unit_test(a_speeds_verdict_reaches_as_far_as_the_speed),
        cmocka_unit_test(what_is_not_covered_says_so),
        cmocka_unit_test(devices_go_by_name),
        cmocka_unit_test(auto_goes_on_to_the_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
