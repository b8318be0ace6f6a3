/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of every type on the GPU's machine, in the emulator: what they give is what the processor's machine gives
   with the same ones; and a tape has hardly more bytes than they need. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "schedule/schedule.h"
#include "tilewright/model.h"
#include "tilewright/vm.h"
#include "vm/cuda/mega.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct weights {
    tw_dtype type; /* f32: as stored */
    int group;
} weights;

enum { MAX_SEQ = 32 };

/* The largest difference of logits, over the largest logit, in a full step and one that is half full; no number where
   both have none, infinite where one has. */
static double differ(tw_vm *cpu, int c, tw_cuda_vm *gpu, int g, const tw_model *m, int tokens) {
    double worst = 0;
    for (int step = 0, pos = 0; step < 2; step++) {
        int32_t token[8];
        const int n = step ? (tokens + 1) / 2 : tokens;
        for (int i = 0; i < n; i++) token[i] = (int32_t)((31 * step + 11 * i + 3) % m->vocab);
        tw_vm_step want = {.program = c, .tokens = token, .n = n, .pos = pos, .length = MAX_SEQ}, got = want;
        tw_diag d;
        got.program = g;
        if (tw_vm_run(cpu, &want, &d) != TW_OK || tw_cuda_vm_run(gpu, &got, &d) != TW_OK) fail_msg("%s", d.message);
        double error = 0, largest = 0;
        for (int64_t i = 0; i < m->vocab; i++) {
            const double x = want.logits[i], y = got.logits[i];
            if (isnan(x) && isnan(y)) return NAN;
            if (!isfinite(x) || !isfinite(y)) return INFINITY;
            largest = fmax(largest, fabs(x));
            error = fmax(error, fabs(x - y));
        }
        worst = fmax(worst, error / largest);
        pos += n;
    }
    return worst;
}

/* Of the processor's machine and the GPU's. */
static double differ_on(const tw_model *m, const char *target, weights w, int tokens, bool dequantise,
                        tw_cuda_vm_tuning tuning) {
    tw_vm *cpu;
    tw_cuda_vm *gpu;
    tw_diag d;
    int c = 0, g = 0;
    tw_lowering l = {.tokens = tokens, .weights = w.type, .group = w.group}, lc = l;
    lc.workers = 1;
    tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true};
    tw_cuda_vm_options og = {
        .emulate = true, .target = target, .workers = 3, .seed = 1, .dequantise = dequantise, .tuning = tuning};
    tw_checked *of_cpu = test_lower(m, lc, MAX_SEQ);
    if (tw_vm_open(&cpu, m, &o, &d) != TW_OK || tw_vm_load(cpu, of_cpu, &c, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_cuda_vm_open(&gpu, m, &og, &d) != TW_OK) fail_msg("%s", d.message);
    tw_cuda_vm_lowering(gpu, &l);
    l.kv = TW_F32;
    tw_checked *of_gpu = test_lower(m, l, MAX_SEQ);
    if (tw_cuda_vm_load(gpu, of_gpu, &g, &d) != TW_OK) fail_msg("%s", d.message);
    const double worst = differ(cpu, c, gpu, g, m, tokens);
    tw_cuda_vm_close(gpu);
    tw_vm_close(cpu);
    tw_checked_free(of_cpu);
    tw_checked_free(of_gpu);
    return worst;
}

static tw_model *open_folder(const char *path) {
    tw_model *m = NULL;
    tw_diag d;
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    return m;
}

static tw_model *open_model(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", name);
    return open_folder(path);
}

static void agree(const char *folder, weights w, int tokens, bool dequantise, tw_cuda_vm_tuning tuning) {
    tw_model *m = open_model(folder);
    const double worst = differ_on(m, NULL, w, tokens, dequantise, tuning);
    if (!(worst < 5e-5))
        fail_msg("%s, %s in groups of %d, %d positions: %.3g", folder, tw_dtype_name(w.type), w.group, tokens, worst);
    tw_model_close(m);
}

static const tw_cuda_vm_tuning narrow = {.warps = 3, .blocks = 2, .stages = 4},
                               one = {.warps = 2, .blocks = 1, .stages = 3};

static void integers_with_a_scale_a_row(void **state) {
    (void)state;
    agree("llama-biases", (weights){TW_I8, 0}, 1, false, (tw_cuda_vm_tuning){0});
    agree("qwen3-bias", (weights){TW_I8, 0}, 3, false, narrow);
    agree("llama-linear-mqa", (weights){TW_I8, 0}, 7, false, one);
}

/* Stages of experts_down have pieces of several matrices. Some experts have fewer columns than a group. */
static void integers_of_experts(void **state) {
    (void)state;
    agree("mixtral-fused", (weights){TW_I8, 0}, 1, false, narrow);
    agree("qwen3moe-dense-first", (weights){TW_I8, 32}, 1, false, one);
    agree("mixtral-window", (weights){TW_I4, 32}, 1, false, narrow);
    agree("qwen3moe-step-fused", (weights){TW_I4, 128}, 1, false, (tw_cuda_vm_tuning){0});
    agree("mixtral-fused", (weights){TW_I4, 64}, 1, true, one);
}

static void integers_with_layer_norms(void **state) {
    (void)state;
    agree("gpt2-gelu-bare", (weights){TW_I8, 0}, 1, false, (tw_cuda_vm_tuning){0});
    agree("gpt2-relu-untied", (weights){TW_I4, 32}, 5, false, narrow);
}

static void integers_in_groups(void **state) {
    (void)state;
    agree("llama-linear-mqa", (weights){TW_I8, 32}, 1, false, narrow);
    agree("llama-biases", (weights){TW_I8, 128}, 5, false, one);
    agree("qwen3-bias", (weights){TW_I4, 32}, 1, false, narrow);
    agree("llama-biases", (weights){TW_I4, 64}, 4, false, (tw_cuda_vm_tuning){0});
    agree("llama-linear-mqa", (weights){TW_I4, 128}, 8, false, one);
    agree("llama-biases", (weights){TW_I4, 128}, 2, false, (tw_cuda_vm_tuning){0});
    agree("llama-linear-mqa", (weights){TW_I8, 128}, 6, false, (tw_cuda_vm_tuning){0});
}

/* The first layer's ffn with activations that many times as large, or one of them something else. */
static double differ_scaled(weights w, int tokens, float scale, float odd) {
    tw_model *m = open_model("llama-biases");
    tw_weight *norm = (tw_weight *)tw_model_find(m, "layers.0.mlp_norm");
    float *values = malloc((size_t)norm->rows * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < norm->rows; i++) {
        tw_weight_read(norm, i, 0, 1, &values[i]);
        values[i] *= scale;
    }
    values[5] += odd;
    norm->dtype = TW_F32;
    norm->data = values;
    norm->row_stride = norm->col_stride = 1;
    const double worst = differ_on(m, NULL, w, tokens, false, (tw_cuda_vm_tuning){0});
    free(values);
    tw_model_close(m);
    return worst;
}

static void integers_with_activations_of_any_size(void **state) {
    (void)state;
    static const float scales[] = {1e7f, 1e-30f, 1e-41f};
    for (int i = TEST_SANITIZED ? 2 : 0; i < 3; i++) {
        const double bytes = differ_scaled((weights){TW_I8, 0}, 1 + i, scales[i], 0);
        const double nibbles = differ_scaled((weights){TW_I4, 64}, 3 - i, scales[i], 0);
        if (!(bytes < 5e-5) || !(nibbles < 5e-5)) fail_msg("times %g: %.3g, %.3g", (double)scales[i], bytes, nibbles);
    }
    /* One of them tells both machines' logits that they are none. */
    assert_true(isnan(differ_scaled((weights){TW_I8, 0}, 1, 1, NAN)));
    assert_true(isnan(differ_scaled((weights){TW_I4, 64}, 2, 1, INFINITY)));
}

/* Rows that go in several chunks, the last of which ends in stages without columns; dim is normed, ffn is not. */
static void integers_of_long_rows(void **state) {
    (void)state;
    static const struct {
        int dim, ffn;
        weights w;
        int tokens;
        tw_cuda_vm_tuning tuning;
    } cases[] = {
        {32, 1100, {TW_I8, 0}, 8, {.warps = 1, .blocks = 1}},
        {32, 1100, {TW_I8, 128}, 7, {.warps = 1, .blocks = 1, .ahead = 1}},
        {32, 1100, {TW_I4, 64}, 8, {.warps = 1, .blocks = 1}},
        {1100, 40, {TW_I8, 0}, 8, {.warps = 2, .blocks = 1}},
        {1100, 40, {TW_I4, 128}, 5, {.warps = 1, .blocks = 3}},
        {32, 1100, {TW_F32, 0}, 8, {.warps = 1, .blocks = 3, .ahead = 1}},
    };
    for (size_t i = 0; i < (TEST_SANITIZED ? 2 : sizeof cases / sizeof *cases); i++) {
        char *folder = test_folder_make();
        test_write_llama(
            folder, &(test_llama){.dim = cases[i].dim, .heads = 4, .kv_heads = 2, .head_dim = 8, .ffn = cases[i].ffn});
        tw_model *m = open_folder(folder);
        const double worst = differ_on(m, "sm_89", cases[i].w, cases[i].tokens, false, cases[i].tuning);
        if (!(worst < 5e-5)) fail_msg("case %zu: %.3g", i, worst);
        tw_model_close(m);
        test_folder_remove(folder);
    }
}

static void floats_that_integers_stand_for(void **state) {
    (void)state;
    agree("llama-biases", (weights){TW_I8, 0}, 1, true, narrow);
    agree("llama-biases", (weights){TW_I4, 32}, 2, true, narrow);
}

static void floats(void **state) {
    (void)state;
    agree("llama-linear-mqa", (weights){TW_F32, 0}, 1, false, narrow);
    agree("qwen2-window", (weights){TW_F32, 0}, 8, false, one);
}

/* Bytes that a step streams of a model of full size, over those that its weights need. */
static double overhead(weights w) {
    tw_model *m;
    tw_schedule *s;
    tw_mega_plan p;
    tw_diag d;
    if (tw_model_synthetic(&m, "llama-1b", TW_BF16, 1, &d) != TW_OK) fail_msg("%s", d.message);
    tw_lowering l = {
        .workers = 132, .tokens = 1, .max_seq = 64, .weights = w.type, .group = w.group, .group_heads = true};
    l.row_unit = w.type == TW_F32 ? TW_MEGA_ROWS : 2 * TW_MEGA_ROWS;
    const tw_cuda_vm_options o = {.emulate = true};
    if (tw_schedule_lower(&s, m, &l, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_mega_plan_of(&p, s, m, tw_target_find("sm_90a"), &o, &d) != TW_OK) fail_msg("%s", d.message);
    double have = 0, need = 0;
    for (int worker = 0; worker < s->n_workers; worker++)
        for (int i = 0; i < s->workers[worker].count; i++) {
            const tw_instr *in = &s->workers[worker].list[i];
            if (!tw_instr_op_multiplies(in->op)) continue;
            const tw_mega_format *f = tw_mega_format_for(&p, in->op);
            const tw_mega_shape shape = tw_mega_shape_of(&p, s, in);
            have += (double)shape.stages * tw_mega_stage_bytes(&p, in->op);
            const double rows = (double)(in->param[TW_TO] - in->param[TW_FROM]) * (in->op == TW_INSTR_FFN ? 2 : 1);
            const double scale = !f->group ? 0 : f->dtype == TW_I4 ? 16.0 / f->group : 32.0 / f->group;
            need += rows * (double)shape.columns * (tw_dtype_bits(f->dtype) + scale) / 8;
        }
    tw_schedule_free(s);
    tw_model_close(m);
    return have / need - 1;
}

static void a_tape_is_hardly_larger_than_its_weights(void **state) {
    (void)state;
    static const weights all[] = {{TW_F32, 0}, {TW_I8, 0}, {TW_I4, 0}, {TW_I4, 32}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double more = overhead(all[i]);
        if (!(more >= -1e-9 && more < 0.01))
            fail_msg("%s in groups of %d: %.2f %%", tw_dtype_name(all[i].type), all[i].group, 100 * more);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_with_a_scale_a_row),
        cmocka_unit_test(integers_in_groups),
        cmocka_unit_test(integers_of_experts),
        cmocka_unit_test(integers_with_layer_norms),
        cmocka_unit_test(integers_with_activations_of_any_size),
        cmocka_unit_test(integers_of_long_rows),
        cmocka_unit_test(floats_that_integers_stand_for),
        cmocka_unit_test(floats),
        cmocka_unit_test(a_tape_is_hardly_larger_than_its_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
