/* SPDX-License-Identifier: Apache-2.0 */
/* Prompts of lengths between those that tiles fill: their logits are those of a processor. */
#include "support/lower.h"
#include "support/support.h"

#include "vm/prefill/prefill.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 720, VOCAB = 256 };

static void text(int32_t ids[MOST], int64_t vocab) {
    for (int i = 0; i < MOST; i++) ids[i] = (int32_t)(((int64_t)i * i * 7 + i * 13 + 5) % vocab);
}

static void run_cpu(const tw_model *m, int32_t *ids, int n, float *logits) {
    tw_vm *vm;
    tw_diag d;
    tw_checked *program = test_lower(m, (tw_lowering){.workers = 1, .tokens = n}, n);
    const tw_vm_options o = {.workers = 1, .no_vendor = true, .no_pin = true};
    tw_vm_step s = {.tokens = ids, .n = n, .length = n};
    if (tw_vm_open(&vm, m, &o, &d) != TW_OK || tw_vm_load(vm, program, &s.program, &d) != TW_OK ||
        tw_vm_run(vm, &s, &d) != TW_OK)
        fail_msg("%s", d.message);
    memcpy(logits, s.logits, (size_t)m->vocab * sizeof *logits);
    tw_vm_close(vm);
    tw_checked_free(program);
}

/* A prompt of n tokens in a list of so many rows. */
static void agrees(const char *folder, int rows, int n, double tolerance) {
    static float want[VOCAB];
    static int32_t ids[MOST];
    const tw_cuda_vm_options options = {.emulate = true, .workers = 3, .tuning = {.warps = 2}};
    const tw_prefill_options o = {0};
    tw_model *m;
    tw_cuda_vm *vm;
    tw_prefill *prefill;
    tw_diag d;
    int id;
    double off = 0, largest = 0;
    char path[4096], said[1 << 14], list[32];
    snprintf(path, sizeof path, TEST_DATA "/models/%s", folder);
    if (tw_model_open(&m, path, &d) != TW_OK) fail_msg("%s: %s", d.path, d.message);
    m->n_layers = TEST_SANITIZED ? 1 : 2; /* For time. */
    text(ids, m->vocab);
    run_cpu(m, ids, n, want);
    if (tw_cuda_vm_open(&vm, m, &options, &d) != TW_OK) fail_msg("%s", d.message);
    tw_lowering l = {.tokens = 1, .max_seq = rows};
    tw_cuda_vm_lowering(vm, &l);
    tw_checked *decode = test_lower(m, l, rows);
    if (tw_cuda_vm_load(vm, decode, &id, &d) != TW_OK) fail_msg("%s", d.message);
    tw_checked *prompt =
        test_lower(m, (tw_lowering){.workers = 1, .tokens = rows, .kv_splits = 1, .row_blocks = 1, .kv = l.kv}, rows);
    if (tw_prefill_open(&prefill, vm, id, prompt, &o, &d) != TW_OK) fail_msg("%s", d.message);
    tw_vm_step s = {.program = id, .tokens = ids, .n = n, .length = n};
    if (tw_prefill_run(prefill, 0, &s, true, &d) != TW_OK) fail_msg("%s: %s", folder, d.message);
    for (int64_t i = 0; i < m->vocab; i++) {
        off = fmax(off, fabs((double)s.logits[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    if (!(off <= tolerance * largest)) fail_msg("%s, %d: %g off, of %g", folder, n, off, largest);
    tw_prefill_explain(prefill, said, sizeof said);
    snprintf(list, sizeof list, " m=%d ", rows);
    if (!strstr(said, list)) fail_msg("no list of %d rows: %s", rows, said);
    tw_prefill_close(prefill);
    tw_cuda_vm_close(vm);
    tw_checked_free(decode);
    tw_checked_free(prompt);
    tw_model_close(m);
}

static void lengths_between_tiles(void **state) {
    (void)state;
    agrees("qwen2-window", 144, 129, 2e-2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths_between_tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
