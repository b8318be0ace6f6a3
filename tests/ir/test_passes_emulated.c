/* SPDX-License-Identifier: Apache-2.0 */
/* Passes keep results, in the emulator with every checker on: all lanes of several blocks, with shuffles, votes and
   barriers between them. */
#include "support/support.h"

#include "base/random.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "ir/random_kernel.h"
#include "ir/text.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 2 };

/* What the kernel leaves in its output. Owned by the caller. */
static uint8_t *run(const tw_kernel *k, uint64_t seed, size_t bytes) {
    uint8_t in[RANDOM_IN_BYTES], *out = calloc(bytes, 1);
    tw_random r = tw_random_seed(seed);
    tw_emu *e = tw_emu_new();
    tw_emu_report report;
    tw_diag d;
    assert_non_null(out);
    assert_non_null(e);
    for (int i = 0; i < RANDOM_IN_BYTES; i++) in[i] = (uint8_t)tw_random_u64(&r);
    uint64_t arguments[] = {tw_emu_alloc(e, "in", in, sizeof in, true), tw_emu_alloc(e, "out", out, bytes, false), 11,
                            0x3f400000};
    tw_emu_options o = {.seed = seed, .grid = {BLOCKS}};
    tw_status s = tw_emu_launch(e, k, arguments, &o, &report, &d);
    if (s != TW_OK) {
        tw_buf text = {0};
        tw_kernel_print(&text, k);
        fail_msg("seed %d: %s\n%s", (int)seed, s == TW_ERR_REJECTED ? report.findings[0].text : d.message, text.data);
    }
    assert_true(tw_emu_read(e, arguments[1], out, bytes));
    tw_emu_free(e);
    return out;
}

static void passes_keep_results(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 150; seed++) {
        random_kernel_options o = {.seed = 9000 + seed, .operations = 200, .runnable = true};
        tw_kernel *k = random_kernel(&o);
        tw_diag d;
        assert_non_null(k);
        size_t bytes = (size_t)k->threads * BLOCKS * RANDOM_OUT_BYTES;
        uint8_t *before = run(k, seed, bytes);
        if (tw_pipeline_default(k, true, &d) != TW_OK) fail_msg("seed %d: %s", (int)seed, d.message);
        uint8_t *after = run(k, seed, bytes);
        for (size_t at = 0; at < bytes; at++)
            if (before[at] != after[at])
                fail_msg("seed %d: slot %d of thread %d differs", (int)seed, (int)(at % RANDOM_OUT_BYTES / 16),
                         (int)(at / RANDOM_OUT_BYTES));
        free(before);
        free(after);
        tw_kernel_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
