/* SPDX-License-Identifier: Apache-2.0 */
/* Products as they are described to cuBLASLt. */
#include "support/support.h"

#include "tune/gemm_vendor.h"

static tw_cublaslt_problem described(tw_gemm_problem p) {
    tw_cublaslt_problem v;
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    assert_true(tw_gemm_vendor_problem(&p, &v));
    return v;
}

static bool refused(tw_gemm_problem p) {
    tw_cublaslt_problem v;
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    return !tw_gemm_vendor_problem(&p, &v);
}

static void e4m3_is_described(void **state) {
    (void)state;
    const tw_gemm_problem p = {.type = TW_GEMM_E4M3, .m = 16, .n = 32, .k = 512, .trans_b = true, .alpha = 0.5};
    tw_gemm_problem q = p;
    tw_cublaslt_problem v = described(p);
    assert_true(v.type == TW_CUBLASLT_E4M3 && v.m == 32 && v.n == 16 && v.k == 512 && v.alpha == 0.5);
    assert_true(v.trans_a && !v.trans_b && !v.c_f32 && v.scales == TW_CUBLASLT_UNSCALED && v.fast_sums);
    q.promote = true;
    q.out = TW_T_f32;
    v = described(q);
    assert_true(v.c_f32 && !v.fast_sums);
    q = p;
    q.epilogue.scale_rows = q.epilogue.scale_columns = true;
    assert_int_equal(described(q).scales, TW_CUBLASLT_OUTER);
    q = p;
    q.scale_blocks = true;
    assert_int_equal(described(q).scales, TW_CUBLASLT_BLOCKS);
}

static void what_the_library_lacks_is_refused(void **state) {
    (void)state;
    const tw_gemm_problem p = {.type = TW_GEMM_E4M3, .m = 16, .n = 32, .k = 512, .trans_b = true, .alpha = 1};
    tw_gemm_problem q[8] = {p, p, p, p, p, p, p, p};
    q[0].out = TW_T_f16;
    q[1].epilogue.scale_rows = true;
    q[2].epilogue.scale_columns = true;
    q[3].scale_blocks = q[3].epilogue.scale_rows = q[3].epilogue.scale_columns = true;
    q[4].scale_blocks = true;
    q[4].k = 640; /* Five blocks. */
    q[5].epilogue.squares = true;
    q[6].groups = 2;
    q[7].type = TW_GEMM_BF16;
    q[7].epilogue.scale_rows = q[7].epilogue.scale_columns = true;
    for (int i = 0; i < 8; i++) assert_true(refused(q[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(e4m3_is_described),
                                       cmocka_unit_test(what_the_library_lacks_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
