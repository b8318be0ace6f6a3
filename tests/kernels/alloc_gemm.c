/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of building, printing and emulating a matrix product fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "ir/passes/passes.h"
#include "kernels/gemm/reference.h"
#include "ptx/ptx.h"
#include "tune/gemm_compare.h"

static const tw_gemm_problem problem = {
    .type = TW_GEMM_F32, .m = 5, .n = 9, .k = 7, .alpha = 1, .epilogue = {.bias = true, .mul = true, .residual = true}};
static const tw_gemm_config config = {.ms = 2,
                                      .ns = 4,
                                      .ml = 16,
                                      .nl = 16,
                                      .u = 4,
                                      .ks = 1,
                                      .kl = 1,
                                      .kg = 2,
                                      .vec = 4,
                                      .frag = 4,
                                      .stages = 2,
                                      .split = TW_JOIN_ATOMIC,
                                      .group = 1};

static int result(tw_status st) {
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static int print(void *context) {
    tw_gemm_problem p = problem;
    tw_buf ptx = {0};
    (void)context;
    tw_status st = tw_gemm_problem_complete(&p, NULL);
    const tw_target *t = tw_target_find("sm_80");
    tw_gemm_variant v = tw_gemm_variant_of(&p, &config);
    tw_kernel *k = tw_gemm_build(&v, &config, t);
    if (!k) st = TW_ERR_MEMORY;
    if (st == TW_OK) st = tw_pipeline_default(k, true, NULL);
    if (st == TW_OK) st = tw_ptx_print(&ptx, k, t, NULL);
    tw_buf_free(&ptx);
    tw_kernel_free(k);
    return result(st);
}

static int make_data(void *context) {
    tw_gemm_data d;
    tw_status st = tw_gemm_data_make(&d, &problem, 1, NULL);
    (void)context;
    if (st == TW_OK) tw_gemm_data_free(&d);
    return result(st);
}

typedef struct ready {
    tw_gemm_data data;
    tw_kernel *kernel;
} ready;

static int emulate(void *context) {
    const ready *r = context;
    return result(tw_gemm_emulate_kernel(&r->data, &config, tw_target_find("sm_80"), r->kernel, 1, NULL, NULL));
}

static int compare(void *context) {
    tw_kernel *k = tw_gemm_compare_build(TW_T_f32, 80);
    (void)context;
    tw_kernel_free(k);
    return k ? 0 : 1;
}

static void building_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(print, NULL);
    alloc_fail_exhaust(compare, NULL);
}

static void data_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(make_data, NULL);
}

static void emulating_survives_every_failure(void **state) {
    (void)state;
    ready r;
    assert_int_equal(tw_gemm_data_make(&r.data, &problem, 1, NULL), TW_OK);
    tw_gemm_variant v = tw_gemm_variant_of(&r.data.problem, &config);
    r.kernel = tw_gemm_build(&v, &config, tw_target_find("sm_80"));
    assert_non_null(r.kernel);
    alloc_fail_exhaust(emulate, &r);
    tw_kernel_free(r.kernel);
    tw_gemm_data_free(&r.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(building_survives_every_failure),
                                       cmocka_unit_test(data_survives_every_failure),
                                       cmocka_unit_test(emulating_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
