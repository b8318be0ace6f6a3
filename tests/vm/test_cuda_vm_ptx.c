/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's machine as PTX: for every target, small and large models, one position and several, of one sequence and
   of as many, it prints, fits, and where PATH has ptxas, assembles without spilling. */
#include "support/support.h"

#include "ir/passes/passes.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"
#include "vm/cuda/mega.h"

#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *name;
    int tokens;
    int sequences;
    int spilt; /* bytes that a thread may spill: heads of 128 elements leave no register over, and 8B took as long */
} shape;
enum { SHAPES = 8 };
static const shape shapes[SHAPES] = {{"llama-1b", 1, 1, 0},  {"llama-8b", 8, 1, 0}, {"llama-1b", 8, 1, 0},
                                     {"llama-8b", 1, 1, 16}, {"llama-1b", 8, 8, 0}, {"gemma2-2b", 1, 1, 0},
                                     {"gemma3-1b", 1, 1, 0}, {"olmo2-1b", 8, 1, 0}};

static void print_one(tw_buf *out, const shape *s, const tw_target *target) {
    tw_model *m;
    tw_schedule *schedule;
    tw_checked *c;
    tw_mega_plan plan;
    tw_cuda_vm *vm;
    tw_diag d;
    const tw_cuda_vm_options o = {.emulate = true, .target = target->name, .workers = 4};
    assert_int_equal(tw_model_synthetic(&m, s->name, TW_BF16, 1, &d), TW_OK);
    assert_int_equal(tw_cuda_vm_open(&vm, m, &o, &d), TW_OK);
    tw_lowering l = {.tokens = s->tokens, .sequences = s->sequences, .max_seq = 4096};
    tw_cuda_vm_lowering(vm, &l);
    assert_int_equal(tw_schedule_lower(&schedule, m, &l, &d), TW_OK);
    assert_int_equal(tw_schedule_check(&c, &schedule, NULL, &d), TW_OK);
    if (tw_mega_plan_of(&plan, tw_checked_schedule(c), m, target, &o, &d) != TW_OK)
        fail_msg("%s: %s", target->name, d.message);
    tw_kernel *k = tw_mega_build(&plan);
    assert_non_null(k);
    if (tw_pipeline_default(k, false, &d) != TW_OK) fail_msg("%s: %s", target->name, d.message);
    assert_true(tw_kernel_shared_layout(k, NULL) <= target->shared_block);
    if (tw_ptx_print(out, k, target, &d) != TW_OK) fail_msg("%s: %s", target->name, d.message);
    tw_kernel_free(k);
    tw_checked_free(c);
    tw_cuda_vm_close(vm);
    tw_model_close(m);
}

static void every_target_assembles(void **state) {
    (void)state;
    char path[4096];
    const bool have = tw_ptxas_find("ptxas", path, sizeof path);
    for (int t = 0; tw_target_at(t); t++) {
        const tw_target *target = tw_target_at(t);
        const tw_ptx_compiler by = {.target = target->name, .ptxas = path};
        const int n = target->sm == 90 ? SHAPES : 2;
        tw_buf ptx[SHAPES] = {{0}};
        tw_ptx_job jobs[SHAPES];
        for (int i = 0; i < n; i++) {
            print_one(&ptx[i], &shapes[i], target);
            assert_non_null(strstr(ptx[i].data, target->sm >= 90 ? "cp.async.bulk" : "cp.async.mbarrier.arrive"));
            jobs[i] = (tw_ptx_job){.ptx = ptx[i].data, .bytes = ptx[i].size};
        }
        if (have) tw_ptx_compile_all_by(&by, jobs, n, 2);
        for (int i = 0; i < n; i++) {
            const tw_cubin *c = &jobs[i].cubin;
            if (have && (jobs[i].status != TW_OK || c->spill_bytes > shapes[i].spilt))
                fail_msg("%s for %s, %d positions: %s; %d bytes spilt, %d registers", shapes[i].name, target->name,
                         shapes[i].tokens, jobs[i].diag.message, c->spill_bytes, c->registers);
            tw_cubin_free(&jobs[i].cubin);
            tw_buf_free(&ptx[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_target_assembles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
