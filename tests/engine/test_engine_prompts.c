/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts by kernels for all positions at once, in the emulator with every checker on: the processor's answers for
   every family that is covered, every format of weights, and prompts in one step and in several. */
#include "support/support.h"

#include "engine/engine.h"
#include "tilewright/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 64, PROMPT = 21, VOCAB = 4096 /* The most ids of a model. */ };

static tw_model *open_model(const char *folder) {
    tw_model *m;
    tw_diag d;
    char path[4096];
    snprintf(path, sizeof path, "%s%s", *folder == '/' ? "" : TEST_DATA "/models/", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

static tw_engine *open_engine(const tw_model *m, tw_engine_options o, bool emulate) {
    tw_engine *e;
    tw_diag d;
    o.emulate = emulate;
    o.context = CONTEXT;
    if (!emulate) o.no_vendor = true;
    if (tw_engine_open(&e, m, &o, &d) != TW_OK) fail_msg("%s", d.message);
    return e;
}

/* Feeds ids, and copies the logits of the last. */
static int32_t feed(tw_engine *e, const int32_t *ids, int64_t n, float *logits) {
    const float *at;
    int32_t token;
    tw_diag d;
    if (tw_engine_feed(e, ids, n, &at, &token, &d) != TW_OK) fail_msg("%s", d.message);
    memcpy(logits, at, (size_t)e->model->vocab * sizeof *logits);
    return token;
}

/* Returns the largest difference, in shares of the largest logit. */
static double difference(const float *a, const float *b, int64_t n) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    }
    return most / largest;
}

static void ids_of(int32_t *ids, int n, int seed) {
    for (int i = 0; i < n; i++) ids[i] = (int32_t)((seed * 37 + i * i * 11 + i * 5 + 3) % 256);
}

/* A prompt, a second one behind it, and a token: the first `n` of these. Chunks have `step` positions (0: as many as
   there are). Closes the model. */
static void agrees_of(tw_model *m, const char *folder, tw_engine_options o, int64_t step, double tolerance, int n) {
    tw_engine *cpu = open_engine(m, (tw_engine_options){.workers = 1, .weights = o.weights, .group = o.group}, false);
    o.prefill = step;
    tw_engine *gpu = open_engine(m, o, true);
    int32_t ids[2 * PROMPT + 1];
    static float got[VOCAB], want[VOCAB];
    ids_of(ids, 2 * PROMPT + 1, 1);
    static const int from[] = {0, PROMPT, 2 * PROMPT, 2 * PROMPT + 1};
    for (int i = 0; i < n; i++) {
        const int32_t token = feed(gpu, ids + from[i], from[i + 1] - from[i], got);
        feed(cpu, ids + from[i], from[i + 1] - from[i], want);
        const double off = difference(got, want, m->vocab);
        for (int64_t k = 0; k < m->vocab; k++) assert_true(got[k] <= got[token]);
        if (!(off <= tolerance)) fail_msg("%s, steps of %d, prompt %d: %g off", folder, (int)step, i, off);
    }
    if (gpu->program[TW_PROGRAM_PROMPT] < 0 || gpu->program[TW_PROGRAM_PREFILL] >= 0 || gpu->no_prompts)
        fail_msg("%s: prompts did not run by their kernels", folder);
    tw_engine_close(gpu);
    tw_engine_close(cpu);
    tw_model_close(m);
}

static void agrees_for(const char *folder, tw_engine_options o, int64_t step, double tolerance, int n) {
    agrees_of(open_model(folder), folder, o, step, tolerance, n);
}

static const tw_schedule_config few = {.machine = {.warps = 2}}; /* The emulator runs few warps faster. */

static void agrees(const char *folder, tw_engine_options o, int64_t step, double tolerance) {
    if (!o.config) o.config = &few;
    agrees_for(folder, o, step, tolerance, 3);
}

static void every_family(void **state) {
    (void)state;
    const tw_engine_options two = {.workers = 2};
    agrees("qwen2-window", two, 0, 2e-2);
    agrees("gpt2-relu-untied", two, 8, 4e-3);
    if (TEST_SANITIZED) return; /* The rest differs in numbers, not in what it allocates. */
    agrees("llama-linear-mqa", two, 8, 4e-3);
    agrees("llama-dynamic", two, 0, 2e-2);
    agrees("llama-llama3-sharded", two, 0, 4e-3);
    agrees("mistral-window", two, 16, 2e-2);
    agrees("gpt2-gelu-bare", two, 0, 1e-4);
    agrees("llama-yarn-mha", two, 0, 2e-2);
}

static void every_mixture(void **state) {
    (void)state;
    const tw_engine_options two = {.workers = 2};
    agrees("mixtral-window", two, 8, 2e-2);
    agrees("qwen3moe-dense-first", (tw_engine_options){.workers = 3, .weights = TW_I8}, 0, 2e-2);
    if (TEST_SANITIZED) return;
    agrees("mixtral-fused", two, 0, 1e-4);
    agrees("qwen3moe-step-fused", two, 0, 2e-2);
}

/* Decode norms heads apart from q, k and v, while prompts norm them with the product: both read the same tapes. Tensor
   cores attend to keys that attention has just appended. */
static void norms_of_heads_apart(void **state) {
    (void)state;
    static const tw_schedule_config turned = {.lowering = {.head_norms = TW_HEAD_NORMS_TURN}, .machine = {.warps = 2}},
                                    attended = {.lowering = {.head_norms = TW_HEAD_NORMS_ATTEND},
                                                .machine = {.warps = 2}};
    tw_model *m;
    tw_diag d;
    if (tw_model_synthetic(&m, "qwen3-tiny", TW_BF16, 1, &d) != TW_OK) fail_msg("%s", d.message);
    agrees_of(m, "qwen3-tiny", (tw_engine_options){.workers = 5, .config = &attended}, 0, 2e-2, 3);
    agrees("qwen3moe-step-fused", (tw_engine_options){.workers = 3, .config = &turned}, 8, 2e-2);
    if (TEST_SANITIZED) return;
    agrees("qwen3-bias", (tw_engine_options){.workers = 5, .config = &turned}, 0, 1e-4);
    agrees("qwen3-bias", (tw_engine_options){.workers = 3, .weights = TW_I8, .config = &attended}, 0, 2e-2);
}

/* Biases before an activation, which a product adds in its own type: in 16 bits, too. */
static void biases_in_16_bits(void **state) {
    (void)state;
    static const struct {
        tw_dtype dtype;
        double tolerance;
    } types[] = {{TW_BF16, 1e-2}, {TW_F16, 2e-3}};
    for (int i = 0; i < (TEST_SANITIZED ? 1 : 2); i++) {
        tw_model *m;
        tw_diag d;
        if (tw_model_synthetic(&m, "gpt2-tiny", types[i].dtype, 1, &d) != TW_OK) fail_msg("%s", d.message);
        agrees_of(m, tw_dtype_name(types[i].dtype), (tw_engine_options){.workers = 2, .config = &few}, 0,
                  types[i].tolerance, 3);
    }
}

/* Heads for which there is attention by tensor cores. */
static void large_heads(void **state) {
    (void)state;
    agrees_for(TW_SOURCE_DIR "/models/demo", (tw_engine_options){.workers = 2, .config = &few}, 0, 2e-2, 1);
    if (TEST_SANITIZED) return;
    agrees_for(TW_SOURCE_DIR "/models/demo", (tw_engine_options){.workers = 2, .config = &few}, 8, 2e-2, 2);
}

/* Matrices are unpacked, and tapes are read, with pieces in every order. */
static void every_tape(void **state) {
    (void)state;
    static const tw_schedule_config unpacked = {.prompts = TW_PROMPTS_UNPACKED, .machine = {.warps = 2, .blocks = 3}},
                                    small = {.machine = {.warps = 3, .blocks = 2}},
                                    odd = {.machine = {.warps = 3, .blocks = 1}};
    agrees("llama-linear-mqa", (tw_engine_options){.workers = 2, .config = &unpacked}, 0, 4e-3);
    if (!TEST_SANITIZED) agrees("llama-linear-mqa", (tw_engine_options){.workers = 3, .config = &small}, 0, 4e-3);
    agrees("llama-linear-mqa", (tw_engine_options){.workers = 1, .config = &odd}, 0, 4e-3);
}

static void floats(void **state) {
    (void)state;
    const tw_engine_options two = {.workers = 2};
    if (!TEST_SANITIZED) agrees("llama-biases", two, 0, 1e-4);
    agrees("qwen3-bias", two, 8, 1e-4);
}

static void quantised(void **state) {
    (void)state;
    agrees("qwen2-window", (tw_engine_options){.workers = 2, .weights = TW_I4, .group = 32}, 0, 2e-2);
    if (TEST_SANITIZED) return;
    agrees("llama-biases", (tw_engine_options){.workers = 2, .weights = TW_I8}, 0, 2e-2);
    agrees("mistral-window", (tw_engine_options){.workers = 2, .weights = TW_I8, .group = 32}, 0, 2e-2);
    agrees("qwen3-bias", (tw_engine_options){.workers = 2, .weights = TW_I4}, 0, 2e-2);
}

/* A prompt at once agrees with the same ids one by one. */
static void steps_are_the_reference_of_long_prompts(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    tw_engine *e = open_engine(m, (tw_engine_options){.workers = 2, .prefill = 16, .config = &few}, true);
    tw_verdict v = {0};
    tw_diag d;
    if (tw_engine_compare_steps(e, PROMPT, 2, 1, &v, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(v.cases == 1 && v.tokens + v.close == 3 && v.worst_logit > 0);
    tw_engine_close(e);
    tw_model_close(m);
}

/* A prompt in chunks of any size has the processor's answers: of one position, of a number that divides nothing, and of
   more than there are. */
static void any_chunks(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 7, CONTEXT};
    /* Other tests have the first model in chunks of 8. */
    for (int i = TEST_SANITIZED ? 2 : 0; i < 3; i++)
        agrees("llama-linear-mqa", (tw_engine_options){.workers = 2}, sizes[i], 4e-3);
    agrees("mistral-window", (tw_engine_options){.workers = 2}, 7, 2e-2);
}

/* Memory is counted where it is allocated and freed. */
static void memory_is_counted(void **state) {
    (void)state;
    enum { ELEMENT = 2 /* Bytes of a key's or value's element. */ };
    tw_model *m = open_model("llama-linear-mqa");
    tw_engine *e = open_engine(m, (tw_engine_options){.workers = 2, .config = &few}, true);
    const tw_engine_memory before = tw_engine_memory_of(e);
    int32_t ids[PROMPT];
    static float logits[VOCAB];
    ids_of(ids, PROMPT, 1);
    assert_int_equal(before.caches, 2 * m->n_layers * m->n_kv_heads * CONTEXT * m->head_dim * ELEMENT);
    assert_true(before.weights >= tw_engine_tape_bytes(e));
    assert_true(before.peak >= tw_engine_tape_bytes(e) + before.caches);
    feed(e, ids, PROMPT, logits);
    const tw_engine_memory after = tw_engine_memory_of(e);
    assert_true(after.peak > before.peak); /* The prompt's activations. */
    assert_true(after.weights == before.weights && after.caches == before.caches);
    assert_true(after.peak < 2 * (after.weights + after.caches) + (1 << 20));
    tw_engine_close(e);
    tw_model_close(m);
}

/* A greedy text is the same as by steps, which find each token from the one before. */
static void greedy_texts_begin_with_the_prompts_token(void **state) {
    (void)state;
    tw_model *m = open_model("llama-linear-mqa");
    tw_engine *e = open_engine(m, (tw_engine_options){.workers = 2, .config = &few}, true);
    int32_t ids[PROMPT], id = 0;
    tw_diag d;
    ids_of(ids, PROMPT, 1);
    tw_generation g = {.prompt = ids, .n_prompt = PROMPT, .limit = 3, .ignore_eos = true};
    if (tw_generate(e, NULL, &g, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(g.n_ids, 3);
    assert_int_equal(tw_engine_position(e), PROMPT + 2);
    assert_true(e->program[TW_PROGRAM_PROMPT] >= 0);
    tw_engine_rewind(e, 0);
    for (int i = 0; i < PROMPT; i++) assert_int_equal(tw_engine_feed(e, &ids[i], 1, NULL, &id, &d), TW_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(g.ids[i], id);
        assert_int_equal(tw_engine_feed(e, &g.ids[i], 1, NULL, &id, &d), TW_OK);
    }
    free(g.ids);
    tw_engine_close(e);
    tw_model_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family),
        cmocka_unit_test(large_heads),
        cmocka_unit_test(every_mixture),
        cmocka_unit_test(norms_of_heads_apart),
        cmocka_unit_test(biases_in_16_bits),
        cmocka_unit_test(every_tape),
        cmocka_unit_test(floats),
        cmocka_unit_test(quantised),
        cmocka_unit_test(steps_are_the_reference_of_long_prompts),
        cmocka_unit_test(any_chunks),
        cmocka_unit_test(memory_is_counted),
        cmocka_unit_test(greedy_texts_begin_with_the_prompts_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
