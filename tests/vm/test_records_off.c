/* SPDX-License-Identifier: Apache-2.0 */
/* Records that nobody lowers cost nothing: products of every way, and the GPU's machine, have the PTX that they would
   have if their parts placed none, byte for byte. */
#include "support/support.h"

#include "kernels/gemm/gemm.h"
#include "kernels/random_gemm.h"
#include "prof/traced.h"
#include "vm/cuda/mega.h"

enum { CASES = TEST_SANITIZED ? 40 : 160, WARPGROUPS = TEST_SANITIZED ? 20 : 80 };

static bool check(const gemm_case *c) {
    const tw_gemm_variant v = tw_gemm_variant_of(&c->problem, &c->config);
    tw_kernel *k = tw_gemm_build(&v, &c->config, c->target);
    assert_non_null(k);
    const bool records = traced_check_off(k, c->target->name);
    tw_kernel_free(k);
    return records;
}

static void of_products(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_90a"};
    const gemm_limits most = {.m = 100, .n = 100, .k = 150, .parts = 6, .work = 1e6, .code = 512};
    int with = 0;
    for (int i = 0; i < CASES; i++) {
        gemm_case c;
        if (gemm_case_draw(&c, (uint64_t)i, tw_target_find(targets[i / 5 % 2]), &most)) with += check(&c);
    }
    assert_true(with > CASES * 3 / 4);
}

static void of_products_on_warpgroups(void **state) {
    (void)state;
    const gemm_limits most = {.m = 200, .n = 150, .k = 300, .parts = 6, .work = 4e6, .code = 256};
    gemm_coverage v = {0};
    int with = 0;
    for (int i = 0; i < WARPGROUPS; i++) {
        gemm_case c;
        if (!gemm_case_draw_warpgroups(&c, (uint64_t)i, tw_target_find("sm_90a"), &most)) continue;
        gemm_cover(&v, &c);
        with += check(&c);
    }
    assert_int_equal(with, v.cases);
    assert_true(with > WARPGROUPS * 3 / 4);
}

static void of_the_machine(void **state) {
    (void)state;
    static const struct {
        const char *model, *target;
        int tokens, sequences;
    } cases[] = {{"llama-1b", "sm_80", 1, 1},
                 {"llama-1b", "sm_90a", 8, 1},
                 {"llama-1b", "sm_90a", 8, 8},
                 {"llama-8b", "sm_90a", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_model *m;
        tw_schedule *schedule;
        tw_checked *c;
        tw_mega_plan plan;
        tw_cuda_vm *vm;
        tw_diag d;
        const tw_target *target = tw_target_find(cases[i].target);
        const tw_cuda_vm_options o = {.emulate = true, .target = target->name, .workers = 4};
        assert_int_equal(tw_model_synthetic(&m, cases[i].model, TW_BF16, 1, &d), TW_OK);
        assert_int_equal(tw_cuda_vm_open(&vm, m, &o, &d), TW_OK);
        tw_lowering l = {.tokens = cases[i].tokens, .sequences = cases[i].sequences, .max_seq = 4096};
        tw_cuda_vm_lowering(vm, &l);
        assert_int_equal(tw_schedule_lower(&schedule, m, &l, &d), TW_OK);
        assert_int_equal(tw_schedule_check(&c, &schedule, NULL, &d), TW_OK);
        assert_int_equal(tw_mega_plan_of(&plan, tw_checked_schedule(c), m, target, &o, &d), TW_OK);
        tw_kernel *k = tw_mega_build(&plan);
        assert_non_null(k);
        assert_true(traced_check_off(k, target->name));
        tw_kernel_free(k);
        tw_checked_free(c);
        tw_cuda_vm_close(vm);
        tw_model_close(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_products),
        cmocka_unit_test(of_products_on_warpgroups),
        cmocka_unit_test(of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
