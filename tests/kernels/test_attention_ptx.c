/* SPDX-License-Identifier: Apache-2.0 */
/* Attention's kernels, assembled by ptxas where there is one: what is chosen where nothing is said spills nothing. */
#include "support/support.h"

#include "kernels/attention/generate.h"
#include "ptx/load.h"
#include "ptx/ptxas.h"

#include <stdio.h>
#include <string.h>

/* Assembles what is chosen for a target where nothing is said, for a GPU that runs its code. */
static void assemble(const char *ptxas, const char *problem, const char *target, const char *gpu, int mma) {
    const tw_target *t = tw_target_find(target);
    tw_ptx_compiler by = tw_ptx_compiler_for(NULL, false);
    char words[200];
    tw_attention_problem p;
    tw_diag d;
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    by.ptxas = ptxas;
    by.target = gpu;
    snprintf(words, sizeof words, "%s", problem);
    assert_int_equal(tw_attention_parse(&p, words, &d), TW_OK);
    const tw_attention_config c = tw_attention_config_default(&p, t, mma);
    if (tw_attention_ptx(&p, &c, t, &ptx, &d) != TW_OK) fail_msg("%s, %s: %s", problem, gpu, d.message);
    if (tw_ptx_compile_by(&by, ptx.data, ptx.size, &cubin, &d) != TW_OK)
        fail_msg("%s, %s: %s", problem, gpu, d.message);
    if (cubin.spill_bytes) fail_msg("%s, %s: %d bytes are spilt", problem, gpu, cubin.spill_bytes);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
}

/* What is chosen where nothing is said takes no more registers than a thread has. */
static void defaults_do_not_spill(void **state) {
    (void)state;
    static const char *const of[] = {
        "heads=32 head=128 queries=4096 causal=1",
        "heads=32 head=128 queries=4096",
        "heads=16 head=64 queries=4096 causal=1",
        "heads=16 head=64 queries=4096",
        "heads=32 head=128 queries=2048 causal=1",
        "heads=32 head=128 queries=16384 causal=1",
        "heads=16 head=80 queries=4096 causal=1",
        "heads=16 head=80 queries=4096",
        "heads=16 head=96 queries=4096 causal=1",
        "heads=16 head=96 queries=4096",
        "heads=16 head=192 queries=4096 causal=1",
        "heads=16 head=256 queries=4096",
        "heads=32 kv_heads=8 head=128 queries=2048 keys=8192 batch=8 capacity=8192 causal=1 ragged=1",
        "heads=32 kv_heads=8 head=64 queries=2048 keys=8192 batch=8 page=16 causal=1 ragged=1",
        "heads=32 kv_heads=8 head=128 queries=1 keys=8192 page=16",
        "heads=64 kv_heads=8 head=64 queries=4096 window=128 causal=1 sinks=1 lse=1",
        "heads=8 kv_heads=4 head=256 queries=2048 window=512 causal=1 cap=50",
        "heads=32 kv_heads=8 head=128 queries=1 keys=8192 page=1 batch=8",
        "heads=32 kv_heads=8 head=128 queries=2048 keys=8192 batch=8 page=1 causal=1 ragged=1",
        "heads=32 kv_heads=8 head=64 queries=2048 keys=8192 batch=2 page=4 causal=1",
        "heads=8 kv_heads=4 head=256 queries=2048 page=2 causal=1",
        "heads=32 head=128 queries=4096 mask=f32",
        "heads=32 head=128 queries=4096 mask=bf16 causal=1",
        "heads=32 head=64 queries=4096 mask=i8 mask_heads=32",
        "heads=16 head=96 queries=4096 mask=f16",
        "heads=8 head=192 queries=2048 mask=f32 causal=1",
        "heads=8 head=256 queries=2048 mask=f32 causal=1 cap=50",
        "heads=32 kv_heads=8 head=128 queries=1 keys=8192 page=16 mask=bf16",
    };
    char path[4096];
    if (TEST_SANITIZED) skip(); /* Only ptxas is asked. */
    if (!tw_ptxas_find("ptxas", path, sizeof path)) skip();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) assemble(path, of[i], "sm_90a", "sm_90a", 0);
}

/* The same of kernels by mma.sync, for all GPUs that have it. Those of sm_80 also run on sm_86. */
static void defaults_of_warps_do_not_spill(void **state) {
    (void)state;
    static const char *const of[] = {
        "heads=16 head=64 queries=4096 causal=1",
        "heads=16 head=64 queries=4096",
        "heads=32 head=128 queries=4096 causal=1",
        "heads=32 head=128 queries=4096",
        "heads=16 head=96 queries=4096 causal=1",
        "heads=16 head=256 queries=4096 causal=1",
        "heads=32 kv_heads=8 head=128 queries=2048 keys=8192 batch=8 page=16 causal=1 ragged=1",
        "heads=32 kv_heads=8 head=128 queries=1 keys=8192 page=16",
        "heads=64 kv_heads=8 head=64 queries=4096 window=128 causal=1 sinks=1 lse=1",
        "heads=8 kv_heads=4 head=256 queries=2048 window=512 causal=1 cap=50",
        "heads=32 head=128 queries=4096 mask=f32",
        "heads=16 head=64 queries=4096 causal=1 kv=e4m3",
        "heads=32 head=128 queries=4096 causal=1 kv=e4m3",
        "heads=8 head=256 queries=4096 causal=1 kv=e4m3 type=f16",
        "heads=32 kv_heads=8 head=128 queries=1 keys=8192 page=16 kv=e4m3",
    };
    static const char *const targets[][2] = {{"sm_80", "sm_80"},   {"sm_80", "sm_86"},     {"sm_89", "sm_89"},
                                             {"sm_90a", "sm_90a"}, {"sm_100a", "sm_100a"}, {"sm_120a", "sm_120a"}};
    char path[4096];
    if (TEST_SANITIZED) skip(); /* Only ptxas is asked. */
    if (!tw_ptxas_find("ptxas", path, sizeof path)) skip();
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
            assemble(path, of[i], targets[t][0], targets[t][1], TW_ATTENTION_BY_WARPS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults_do_not_spill),
                                       cmocka_unit_test(defaults_of_warps_do_not_spill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
