/* SPDX-License-Identifier: Apache-2.0 */
/* Attention of the GPU's machine on tensor cores, in the emulator: heads of every width that it takes, and others by
   lanes; one to eight of them to a key/value head, prompts of several positions a step, then single ones, whole and
   split, against the processor's machine. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "schedule/schedule.h"
#include "tilewright/vm.h"
#include "vm/cuda/mega.h"

#include <math.h>
#include <string.h>

enum { MAX_SEQ = 56, TOGETHER = 8, PROMPT = 5 * TOGETHER, DECODED = 2 };

typedef struct attention_case {
    test_llama shape;
    tw_dtype kv;
    int splits;
    const char *target;
} attention_case;

static const attention_case cases[] = {
    {{.dim = 32, .heads = 2, .kv_heads = 2, .head_dim = 32, .ffn = 32}, TW_F16, 1, "sm_90a"},
    {{.dim = 32, .heads = 8, .kv_heads = 2, .head_dim = 64, .ffn = 32}, TW_F16, 2, "sm_90a"},
    {{.dim = 32, .heads = 4, .kv_heads = 1, .head_dim = 64, .ffn = 32}, TW_BF16, 1, "sm_80"},
    {{.dim = 32, .heads = 3, .kv_heads = 1, .head_dim = 96, .ffn = 32}, TW_F16, 1, "sm_90a"},
    {{.dim = 32, .heads = 7, .kv_heads = 1, .head_dim = 128, .ffn = 32}, TW_F16, 2, "sm_90a"},
    {{.dim = 32, .heads = 4, .kv_heads = 2, .head_dim = 12, .ffn = 32}, TW_F32, 1, "sm_90a"},
    {{.dim = 32, .heads = 3, .kv_heads = 1, .head_dim = 100, .ffn = 32}, TW_BF16, 2, "sm_90a"},
    {{.dim = 32, .heads = 2, .kv_heads = 2, .head_dim = 20, .ffn = 32}, TW_F16, 1, "sm_80"},
    {{.dim = 32, .heads = 2, .kv_heads = 1, .head_dim = 256, .ffn = 32}, TW_F16, 1, "sm_90a"},
    {{.dim = 32, .heads = 9, .kv_heads = 1, .head_dim = 32, .ffn = 32}, TW_BF16, 3, "sm_90a"},
};
enum { CASES = TEST_SANITIZED ? 2 : sizeof cases / sizeof *cases };

static tw_checked *lower(const tw_model *m, tw_lowering l) {
    return test_lower(m, l, MAX_SEQ);
}

/* What both machines hold: a program of several positions and one of a single one. */
typedef struct machines {
    tw_cuda_vm *gpu;
    tw_vm *cpu;
    tw_checked *checked[4];
    int on_gpu[2], on_cpu[2];
} machines;

static void load(machines *x, const tw_model *m, const attention_case *k) {
    tw_diag d;
    const tw_cuda_vm_options o = {
        .emulate = true, .target = k->target, .workers = 2, .seed = 5, .tuning = {.warps = 2, .blocks = 2}};
    const tw_vm_options plain = {.workers = 1, .no_vendor = true, .no_pin = true};
    if (tw_cuda_vm_open(&x->gpu, m, &o, &d) != TW_OK || tw_vm_open(&x->cpu, m, &plain, &d) != TW_OK)
        fail_msg("%s", d.message);
    for (int i = 0; i < 2; i++) {
        const int tokens = i ? 1 : TOGETHER;
        tw_lowering l = {.tokens = tokens, .max_seq = MAX_SEQ, .kv = k->kv, .kv_splits = k->splits};
        tw_mega_plan plan;
        tw_cuda_vm_lowering(x->gpu, &l);
        x->checked[i] = lower(m, l);
        x->checked[2 + i] = lower(m, (tw_lowering){.workers = 1, .tokens = tokens});
        const tw_schedule *s = tw_checked_schedule(x->checked[i]);
        assert_int_equal(tw_mega_plan_of(&plan, s, m, tw_target_find(k->target), &o, &d), TW_OK);
        const bool by_tensor = k->kv != TW_F32 && k->shape.head_dim % 32 == 0 && k->shape.head_dim <= 128;
        assert_int_equal(plan.attend_tensor, by_tensor);
        if (tw_cuda_vm_load(x->gpu, x->checked[i], &x->on_gpu[i], &d) != TW_OK ||
            tw_vm_load(x->cpu, x->checked[2 + i], &x->on_cpu[i], &d) != TW_OK)
            fail_msg("%s", d.message);
    }
}

static void unload(machines *x) {
    tw_cuda_vm_close(x->gpu);
    tw_vm_close(x->cpu);
    for (int i = 0; i < 4; i++) tw_checked_free(x->checked[i]);
}

static void agree(const tw_model *m, machines *x, const attention_case *k) {
    int32_t tokens[TOGETHER];
    tw_diag d;
    double worst = 0, largest = 0;
    for (int64_t at = 0, n; at < PROMPT + DECODED; at += n) {
        n = at < PROMPT ? TOGETHER : 1;
        for (int i = 0; i < n; i++) tokens[i] = (int32_t)((at + i) * 7 % TEST_LLAMA_VOCAB);
        tw_vm_step a = {.program = x->on_gpu[n == 1], .tokens = tokens, .n = n, .pos = at, .length = MAX_SEQ}, b = a;
        b.program = x->on_cpu[n == 1];
        if (tw_cuda_vm_run(x->gpu, &a, &d) != TW_OK || tw_vm_run(x->cpu, &b, &d) != TW_OK) fail_msg("%s", d.message);
        for (int64_t i = 0; i < m->vocab; i++) {
            largest = fmax(largest, fabs((double)b.logits[i]));
            worst = fmax(worst, fabs((double)a.logits[i] - (double)b.logits[i]));
        }
    }
    /* What keys and values lose in the cache. */
    const double most = k->kv == TW_F32 ? 5e-5 : k->kv == TW_F16 ? 1e-3 : 8e-3;
    if (!(worst <= most * largest))
        fail_msg("%d heads of %d, %s: off by %g of the largest logit", k->shape.heads, k->shape.head_dim, k->target,
                 worst / largest);
}

static void every_width_gives_the_processors_logits(void **state) {
    (void)state;
    for (int i = 0; i < (int)CASES; i++) {
        char *folder = test_folder_make();
        tw_model *m;
        tw_diag d;
        machines x = {0};
        test_write_llama(folder, &cases[i].shape);
        if (tw_model_open(&m, folder, &d) != TW_OK) fail_msg("%s", d.message);
        load(&x, m, &cases[i]);
        agree(m, &x, &cases[i]);
        unload(&x);
        tw_model_close(m);
        test_folder_remove(folder);
    }
}

/* Three sequences at positions of their own, each as the processor's machine has it alone. */
static void sequences_keep_to_their_own_past(void **state) {
    (void)state;
    enum { N = 3, APART = 9, LAST = 2 * APART + 2 };
    static const attention_case k = {
        {.dim = 32, .heads = 4, .kv_heads = 1, .head_dim = 64, .ffn = 32}, TW_F16, 2, "sm_90a"};
    char *folder = test_folder_make();
    tw_model *m;
    tw_diag d;
    machines x = {0};
    static float alone[LAST + 1][TEST_LLAMA_VOCAB];
    test_write_llama(folder, &k.shape);
    if (tw_model_open(&m, folder, &d) != TW_OK) fail_msg("%s", d.message);
    load(&x, m, &k);
    tw_lowering l = {.sequences = N, .max_seq = MAX_SEQ, .kv = k.kv, .kv_splits = k.splits};
    tw_cuda_vm_lowering(x.gpu, &l);
    tw_checked *c = lower(m, l);
    int batch;
    tw_cuda_vm *gpu;
    const tw_cuda_vm_options o = {.emulate = true, .workers = 2, .seed = 7, .tuning = {.warps = 2, .blocks = 2}};
    if (tw_cuda_vm_open(&gpu, m, &o, &d) != TW_OK || tw_cuda_vm_load(gpu, c, &batch, &d) != TW_OK)
        fail_msg("%s", d.message);
    for (int32_t i = 0; i <= LAST; i++) {
        const int32_t token = i * 7 % TEST_LLAMA_VOCAB;
        tw_vm_step b = {.program = x.on_cpu[1], .tokens = &token, .n = 1, .pos = i, .length = MAX_SEQ};
        if (tw_vm_run(x.cpu, &b, &d) != TW_OK) fail_msg("%s", d.message);
        memcpy(alone[i], b.logits, sizeof alone[i]);
    }
    for (int64_t step = 0; step <= LAST; step++) {
        int32_t token[N], out[N];
        int64_t at[N];
        const float *logits;
        for (int s = 0; s < N; s++) { /* sequence s is APART * s steps behind */
            at[s] = step < APART * s ? 0 : step - APART * s;
            token[s] = (int32_t)(at[s] * 7 % TEST_LLAMA_VOCAB);
        }
        if (tw_cuda_vm_batch(gpu, batch, token, at, 1, out, &logits, NULL, &d) != TW_OK) fail_msg("%s", d.message);
        for (int i = 0; i < N * TEST_LLAMA_VOCAB; i++) {
            const double want = alone[at[i / TEST_LLAMA_VOCAB]][i % TEST_LLAMA_VOCAB];
            if (!(fabs((double)logits[i] - want) < 5e-3)) fail_msg("step %d: %g, not %g", (int)step, logits[i], want);
        }
    }
    tw_cuda_vm_close(gpu);
    tw_checked_free(c);
    unload(&x);
    tw_model_close(m);
    test_folder_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_width_gives_the_processors_logits),
                                       cmocka_unit_test(sequences_keep_to_their_own_past)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
