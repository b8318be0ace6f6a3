/* SPDX-License-Identifier: Apache-2.0 */
/* Which of equals the processor's machine takes: the lowest id of the largest logits, the lowest experts of the
   likeliest; and what is no number is neither. */
#include "support/llama.h"
#include "support/lower.h"
#include "support/support.h"

#include "model/model.h"
#include "tilewright/device.h"
#include "tilewright/vm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQ = 16, N = 3 };

static const int32_t prompt[N] = {3, 1, 4};

static void run_with(const tw_model *m, int workers, uint32_t isa, int32_t *token, float *logits) {
    tw_vm *vm;
    tw_diag d;
    int id = 0;
    const tw_vm_options o = {.workers = workers, .no_vendor = true, .no_pin = true, .limit_isa = true, .isa = isa};
    tw_checked *c = test_lower(m, (tw_lowering){.workers = workers, .tokens = N}, MAX_SEQ);
    tw_vm_step s = {.tokens = prompt, .n = N, .length = N};
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK || tw_vm_load(vm, c, &id, &d) != TW_OK) fail_msg("%s", d.message);
    s.program = id;
    if (tw_vm_run(vm, &s, &d) != TW_OK) fail_msg("%s", d.message);
    *token = s.token;
    memcpy(logits, s.logits, (size_t)m->vocab * sizeof *logits);
    tw_vm_close(vm);
    tw_checked_free(c);
}

static int32_t first_of_largest(const float *x, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]) && (best < 0 || x[i] > x[best])) best = i;
    return best < 0 ? 0 : (int32_t)best;
}

static const uint32_t isas[] = {0, TW_CPU_AVX2, UINT32_MAX};

static void the_lowest_of_equals_is_the_token(void **state) {
    (void)state;
    static const test_llama shape = {.dim = 32, .heads = 2, .kv_heads = 1, .head_dim = 32, .ffn = 32};
    static const int workers[] = {1, 2, 3, 7};
    float logits[TEST_LLAMA_VOCAB];
    for (int apart = 1; apart <= 40; apart += 3)
        for (int nan = 0; nan < 3; nan++) {
            tw_model *m = test_open_llama(&shape);
            float *head = test_own_weight(&m->head.weight);
            /* Every apart-th row is the same one, and the rest are another. */
            for (int k = 1; k < TEST_LLAMA_VOCAB; k++)
                for (int c = 0; c < 32; c++) head[k * 32 + c] = head[c] * (k % apart == apart - 1 ? 1 : -0.5f);
            for (int k = 0; k < 20 && nan; k++) head[(nan == 1 ? k : 63 - k) * 32] = NAN;
            for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
                int32_t token;
                run_with(m, workers[w], isas[w % 3], &token, logits);
                assert_int_equal(token, first_of_largest(logits, TEST_LLAMA_VOCAB));
            }
            tw_model_close(m);
            free(head);
        }
}

/* Experts that must not be chosen give what is no number. */
static void the_lowest_of_equal_experts_are_used(void **state) {
    (void)state;
    static const char *const folders[] = {"mixtral-fused", "qwen3moe-step-fused"};
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char path[4096];
        tw_model *m;
        tw_diag d;
        int mixtures = 0;
        strcpy(path, TEST_DATA "/models/");
        strcat(path, folders[f]);
        assert_int_equal(tw_model_open(&m, path, &d), TW_OK);
        const int64_t used = m->n_experts_used;
        assert_true(used < m->n_experts && used > 1);
        float *owned[64] = {0}, *logits = calloc((size_t)m->vocab, sizeof *logits);
        int n = 0;
        for (int64_t l = 0; l < m->n_layers; l++) {
            tw_layer *layer = &m->layers[l];
            if (!layer->experts) continue;
            mixtures++;
            float *router = owned[n++] = test_own_weight(&layer->router);
            memset(router, 0, (size_t)(layer->router.rows * layer->router.cols) * sizeof *router);
            for (int64_t e = 0; e < m->n_experts; e++) {
                assert_true(n < 64);
                float *down = owned[n++] = test_own_weight(&layer->experts[e].down.weight);
                for (int64_t i = 0;
                     e >= used && i < layer->experts[e].down.weight.rows * layer->experts[e].down.weight.cols; i++)
                    down[i] = NAN;
            }
        }
        assert_true(mixtures > 0);
        for (int workers = 1; workers <= 3; workers++) {
            int32_t token;
            run_with(m, workers, isas[workers - 1], &token, logits);
            for (int64_t i = 0; i < m->vocab; i++)
                if (isnan(logits[i])) fail_msg("%s: an expert beyond the first %d was used", folders[f], (int)used);
        }
        tw_model_close(m);
        for (int i = 0; i < n; i++) free(owned[i]);
        free(logits);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_lowest_of_equals_is_the_token),
                                       cmocka_unit_test(the_lowest_of_equal_experts_are_used)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
