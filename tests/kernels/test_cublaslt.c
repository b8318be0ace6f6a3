/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for cuBLASLt against a stand-in for it: layouts, batches, scalars and algorithms arrive as they were meant. */
#define _GNU_SOURCE
#include "support/support.h"

#include "device/fake_cuda.h"
#include "kernels/vendor/cublaslt.h"

#include <stdlib.h>
#include <string.h>

static tw_cuda *cuda;
static tw_cublaslt *lt;

static int setup(void **state) {
    (void)state;
    tw_diag d;
    unsetenv("NVIDIA_TF32_OVERRIDE");
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUBLASLT", TW_FAKE_CUBLASLT, 1);
    fake_cuda_reset();
    return tw_cuda_open(&cuda, 0, &d) != TW_OK || tw_cublaslt_open(&lt, cuda, &d) != TW_OK;
}

static int teardown(void **state) {
    (void)state;
    tw_cublaslt_close(lt);
    tw_cuda_close(cuda);
    return fake_cuda_alive();
}

static double at(tw_cublaslt_type t, const void *p, int64_t i) {
    return t == TW_CUBLASLT_S8    ? ((const int8_t *)p)[i]
           : t == TW_CUBLASLT_F64 ? ((const double *)p)[i]
                                  : (double)((const float *)p)[i];
}

static double out_at(tw_cublaslt_type t, const void *p, int64_t i) {
    return t == TW_CUBLASLT_S8 ? (double)((const int32_t *)p)[i] : at(t, p, i);
}

static void set(tw_cublaslt_type t, void *p, int64_t i, int v) {
    if (t == TW_CUBLASLT_S8)
        ((int8_t *)p)[i] = (int8_t)v;
    else if (t == TW_CUBLASLT_F64)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

enum { ROOM = 4096 };

/* By every algorithm, against sums of our own. Addresses of the stand-in's device are the host's. */
static void multiply(const tw_cublaslt_problem *p) {
    static _Alignas(16) unsigned char a[ROOM * 8], b[ROOM * 8], c[ROOM * 8], was[ROOM * 8];
    tw_cublaslt_plan *plan;
    tw_diag d;
    for (int i = 0; i < ROOM; i++) {
        set(p->type, a, i, i * 7 % 11 - 5);
        set(p->type, b, i, i * 5 % 13 - 6);
    }
    if (tw_cublaslt_plan_make(lt, p, 16, 600, &plan, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_cublaslt_algorithms(plan), 2); /* of four, one will not do and one needs too much memory */
    assert_int_equal(tw_cublaslt_workspace(plan, 1), 512);
    assert_int_equal(tw_cublaslt_run(plan, 2, 0, 0, 0, NULL, &d), TW_ERR_USAGE);
    for (int how = 0; how < 2; how++) {
        for (int i = 0; i < ROOM; i++) {
            set(p->type == TW_CUBLASLT_S8 ? TW_CUBLASLT_F32 : p->type, c, i, i % 9);
            if (p->type == TW_CUBLASLT_S8) ((int32_t *)(void *)c)[i] = i % 9;
        }
        memcpy(was, c, sizeof c);
        if (tw_cublaslt_run(plan, how, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, NULL, &d)) fail_msg("%s", d.message);
        for (int z = 0; z < (p->batch ? p->batch : 1); z++)
            for (int64_t i = 0; i < p->m; i++)
                for (int64_t j = 0; j < p->n; j++) {
                    double sum = 0;
                    int64_t o = z * p->stride_c + i + j * p->ldc;
                    for (int64_t k = 0; k < p->k; k++)
                        sum += at(p->type, a, z * p->stride_a + (p->trans_a ? k + i * p->lda : i + k * p->lda)) *
                               at(p->type, b, z * p->stride_b + (p->trans_b ? j + k * p->ldb : k + j * p->ldb));
                    sum = p->alpha * sum + p->beta * out_at(p->type, was, o);
                    if (out_at(p->type, c, o) != sum)
                        fail_msg("(%d, %d) of %d: %g, not %g", (int)i, (int)j, z, out_at(p->type, c, o), sum);
                }
    }
    tw_cublaslt_plan_free(plan);
}

static void products_are_as_asked_for(void **state) {
    (void)state;
    static const tw_cublaslt_type kinds[] = {TW_CUBLASLT_F32, TW_CUBLASLT_TF32, TW_CUBLASLT_F64};
    for (int t = 0; t < 3; t++)
        for (int way = 0; way < 4; way++)
            for (int batch = 0; batch < 4; batch++)
                multiply(&(tw_cublaslt_problem){.type = kinds[t],
                                                .m = 7,
                                                .n = 5,
                                                .k = 9,
                                                .trans_a = way & 1,
                                                .trans_b = way & 2,
                                                .lda = 11,
                                                .ldb = 10,
                                                .ldc = 8,
                                                .batch = batch,
                                                .stride_a = 130,
                                                .stride_b = 120,
                                                .stride_c = 41,
                                                .alpha = 2,
                                                .beta = batch == 2 ? 3 : 0});
    multiply(
        &(tw_cublaslt_problem){TW_CUBLASLT_S8, 8, 4, 16, true, false, false, 16, 16, 8, 0, 0, 0, 0, 1, 1, 0, false});
}

/* One number times one, by its bits. */
static float times_one_by(tw_cublaslt_type type, bool c_f32, bool fast_sums, const void *x, const void *one) {
    static _Alignas(16) unsigned char a[16], b[16];
    float c = 0;
    const tw_cublaslt_problem p = {.type = type,
                                   .m = 1,
                                   .n = 1,
                                   .k = 1,
                                   .trans_a = true,
                                   .lda = 1,
                                   .ldb = 1,
                                   .ldc = 1,
                                   .alpha = 1,
                                   .c_f32 = c_f32,
                                   .fast_sums = fast_sums};
    tw_cublaslt_plan *plan;
    tw_diag d;
    memcpy(a, x, 4);
    memcpy(b, one, 4);
    if (tw_cublaslt_plan_make(lt, &p, 1, 0, &plan, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_cublaslt_run(plan, 0, (uintptr_t)a, (uintptr_t)b, (uintptr_t)&c, NULL, &d)) fail_msg("%s", d.message);
    tw_cublaslt_plan_free(plan);
    return c;
}

static float times_one(tw_cublaslt_type type, bool c_f32, const void *x, const void *one) {
    return times_one_by(type, c_f32, false, x, one);
}

/* A peer that computes with fewer bits than ours would be beaten, or win, for the wrong reason. */
static void a_type_is_computed_as_that_type(void **state) {
    (void)state;
    const float fine = 1.0f + 0x1p-20f, one = 1;
    assert_true(times_one(TW_CUBLASLT_F32, false, &fine, &one) == fine);
    assert_true(times_one(TW_CUBLASLT_TF32, false, &fine, &one) == 1);
    /* 1.5 and 1 in either type of 16 bits. */
    static const uint16_t half[2] = {0x3e00}, half_one[2] = {0x3c00}, brain[2] = {0x3fc0}, brain_one[2] = {0x3f80};
    assert_true(times_one(TW_CUBLASLT_F16, true, half, half_one) == 1.5f);
    assert_true(times_one(TW_CUBLASLT_BF16, true, brain, brain_one) == 1.5f);
    static const uint8_t byte[4] = {0x3c}, byte_one[4] = {0x38};
    assert_true(times_one_by(TW_CUBLASLT_E4M3, true, false, byte, byte_one) == 1.5f);
    assert_true(times_one_by(TW_CUBLASLT_E4M3, true, true, byte, byte_one) == 1);
}

static void scales_are_the_products(void **state) {
    (void)state;
    enum { M = 130, N = 3, K = 512, BLOCKS = K / 128 };
    static _Alignas(16) uint8_t a[M * K], b[N * K];
    static float c[M * N], of_a[2 * BLOCKS + M], of_b[BLOCKS * N];
    memset(a, 0x38, sizeof a); /* Ones. */
    memset(b, 0x38, sizeof b);
    for (int i = 0; i < 2 * BLOCKS + M; i++) of_a[i] = (float)(i + 1);
    for (int i = 0; i < BLOCKS * N; i++) of_b[i] = (float)(2 * i + 1);
    for (tw_cublaslt_scales scales = TW_CUBLASLT_OUTER; scales <= TW_CUBLASLT_BLOCKS; scales++) {
        const tw_cublaslt_problem p = {.type = TW_CUBLASLT_E4M3,
                                       .m = M,
                                       .n = N,
                                       .k = K,
                                       .trans_a = true,
                                       .lda = K,
                                       .ldb = K,
                                       .ldc = M,
                                       .alpha = 1,
                                       .c_f32 = true,
                                       .scales = scales};
        tw_cublaslt_plan *plan;
        tw_diag d;
        if (tw_cublaslt_plan_make(lt, &p, 1, 0, &plan, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(tw_cublaslt_scale(plan, (uintptr_t)of_a, (uintptr_t)of_b, &d), TW_OK);
        assert_int_equal(tw_cublaslt_run(plan, 0, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, NULL, &d), TW_OK);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float want = 0;
                for (int k = 0; k < BLOCKS; k++)
                    want += scales == TW_CUBLASLT_OUTER ? 128 * of_a[i] * of_b[j]
                                                        : 128 * of_a[i / 128 * BLOCKS + k] * of_b[k * N + j];
                assert_true(c[j * M + i] == want);
            }
        tw_cublaslt_plan_free(plan);
    }
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    tw_cublaslt_plan *plan;
    tw_diag d;
    char version[32];
    const tw_cublaslt_problem good = {.m = 8, .n = 4, .k = 4, .lda = 8, .ldb = 4, .ldc = 8, .alpha = 1};
    tw_cublaslt_problem p = good;
    tw_cublaslt_version(lt, version, sizeof version);
    assert_string_equal(version, "13.1.2");
    p.lda = 7;
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 1, 0, &plan, &d), TW_ERR_USAGE);
    p = good;
    p.k = 0;
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 1, 0, &plan, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cublaslt_plan_make(lt, &good, 0, 0, &plan, &d), TW_ERR_USAGE);
    p = good;
    p.type = TW_CUBLASLT_S8;
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 16, 0, &plan, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "not supported"));
    p.type = TW_CUBLASLT_E4M3;
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 16, 0, &plan, &d), TW_ERR_UNSUPPORTED);
    p.trans_a = true;
    setenv("FAKE_CUBLASLT_OLD", "1", 1);
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 16, 0, &plan, &d), TW_ERR_UNSUPPORTED);
    unsetenv("FAKE_CUBLASLT_OLD");
    p = good;
    p.scales = TW_CUBLASLT_OUTER;
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 16, 0, &plan, &d), TW_ERR_USAGE);
    p = good;
    p.m = p.lda = p.ldc = 13;
    assert_int_equal(tw_cublaslt_plan_make(lt, &p, 16, 0, &plan, &d), TW_ERR_UNSUPPORTED);
    assert_null(plan);
    setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
    assert_int_equal(tw_cublaslt_plan_make(lt, &good, 16, 0, &plan, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "NVIDIA_TF32_OVERRIDE"));
    unsetenv("NVIDIA_TF32_OVERRIDE");
    fake_cuda_fail("cuMemAlloc_v2", 0, 2);
    assert_int_equal(tw_cublaslt_plan_make(lt, &good, 16, 1 << 20, &plan, &d), TW_ERR_MEMORY);
    assert_null(plan);
}

static const tw_cublaslt_problem of_halves = {.type = TW_CUBLASLT_BF16,
                                              .m = 300,
                                              .n = 200,
                                              .k = 64,
                                              .trans_a = true,
                                              .c_f32 = true,
                                              .lda = 64,
                                              .ldb = 64,
                                              .ldc = 300,
                                              .alpha = 1};

/* An algorithm is rebuilt from its attributes to the bit: a plan that has it gets it no second time. */
static void algorithms_are_their_attributes(void **state) {
    (void)state;
    tw_cublaslt_plan *plan;
    tw_cublaslt_algorithm a, some[8];
    tw_diag d;
    int n;
    if (tw_cublaslt_plan_make(lt, &of_halves, 8, 600, &plan, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(tw_cublaslt_algorithms(plan), 2);
    for (int i = 0; i < 2; i++) {
        int again = -1;
        assert_int_equal(tw_cublaslt_describe(plan, i, &a, &d), TW_OK);
        const tw_cublaslt_algorithm want = {.id = i ? 3 : 1,
                                            .tile = i ? 8 * 64 + 16 : 8 * 64 + 8,
                                            .split = 1,
                                            .stages = 4,
                                            .inner = i ? 2 : 0,
                                            .cluster = 5};
        assert_memory_equal(&a, &want, sizeof a);
        assert_int_equal(tw_cublaslt_plan_add(plan, &a, &again, &d), TW_OK);
        assert_int_equal(again, i);
    }
    assert_int_equal(tw_cublaslt_algorithms(plan), 2);
    assert_int_equal(tw_cublaslt_describe(plan, 2, &a, &d), TW_ERR_USAGE);
    assert_int_equal(tw_cublaslt_describe(plan, -1, &a, &d), TW_ERR_USAGE);
    tw_cublaslt_plan_free(plan);
    /* Proposals without a plan are the same, and take no memory. */
    fake_cuda_fail("cuMemAlloc_v2", 0, 2);
    if (tw_cublaslt_propose(lt, &of_halves, 8, 600, some, &n, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(n, 2);
    assert_memory_equal(&some[1], &a, sizeof a);
    assert_int_equal(tw_cublaslt_propose(lt, &of_halves, 0, 600, some, &n, &d), TW_ERR_USAGE);
    assert_int_equal(n, 0);
}

/* Waves are those of tiles of 64 rows and 64 columns, and a split does not count. */
static void checks_tell_waves_and_workspace(void **state) {
    (void)state;
    tw_cublaslt_algorithm a = {.id = 1, .tile = 8 * 64 + 8, .split = 3};
    tw_cublaslt_check c;
    tw_diag d;
    if (tw_cublaslt_fits(lt, &of_halves, &a, &c, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(c.waves * 132 > 19.99 && c.waves * 132 < 20.01);
    assert_int_equal(c.workspace, 2048);
    a.id = 2;
    assert_int_equal(tw_cublaslt_fits(lt, &of_halves, &a, &c, &d), TW_ERR_UNSUPPORTED);
    a.id = 77;
    assert_int_equal(tw_cublaslt_fits(lt, &of_halves, &a, &c, &d), TW_ERR_UNSUPPORTED);
    tw_cublaslt_problem wrong = of_halves;
    wrong.lda = 1;
    assert_int_equal(tw_cublaslt_fits(lt, &wrong, &a, &c, &d), TW_ERR_USAGE);
}

/* What does not fit is refused with a reason, and leaves the plan as it was. */
static void algorithms_that_do_not_fit_are_refused(void **state) {
    (void)state;
    const tw_cublaslt_algorithm good = {.id = 1, .tile = 8 * 64 + 8, .split = 1, .stages = 4};
    tw_cublaslt_algorithm a = good;
    tw_cublaslt_plan *plan;
    tw_diag d;
    int i = -1;
    if (tw_cublaslt_plan_make(lt, &of_halves, 1, 3000, &plan, &d) != TW_OK) fail_msg("%s", d.message);
    a.id = 2;
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "not supported"));
    a = good;
    a.stages = 9;
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_ERR_UNSUPPORTED);
    assert_true(strstr(d.message, "a value it does not take") && d.status == TW_ERR_UNSUPPORTED);
    /* An error of the library is none of the device, after which nothing could be measured. */
    a = good;
    a.custom = 14;
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_ERR_UNSUPPORTED);
    assert_true(strstr(d.message, "an internal error") && d.status == TW_ERR_UNSUPPORTED);
    a = good;
    a.cluster = 65536;
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_ERR_UNSUPPORTED);
    a = good;
    a.split = 4;
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "3072 bytes of workspace, of at most 3000"));
    a.split = 3;
    fake_cuda_fail("cuMemAlloc_v2", 0, 2);
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_ERR_MEMORY);
    assert_int_equal(tw_cublaslt_algorithms(plan), 1);
    assert_int_equal(tw_cublaslt_plan_add(plan, &a, &i, &d), TW_OK);
    assert_true(i == 1 && tw_cublaslt_algorithms(plan) == 2 && tw_cublaslt_workspace(plan, 1) == 2048);
    tw_cublaslt_plan_free(plan);
}

/* A workspace that grows stays where it was for what was captured with it: no memory is given back before the plan. */
static void workspaces_grow(void **state) {
    (void)state;
    enum { PARTS = 40 };
    static _Alignas(16) unsigned char a[1 << 16], b[1 << 16];
    static float c[300 * 200];
    tw_cublaslt_plan *plan;
    tw_diag d;
    const int before = fake_cuda_alive();
    if (tw_cublaslt_plan_make(lt, &of_halves, 1, 100 << 10, &plan, &d) != TW_OK) fail_msg("%s", d.message);
    const int begun = fake_cuda_alive();
    for (uint32_t split = 1; split < PARTS; split++) {
        const tw_cublaslt_algorithm of = {.id = 3, .tile = 8 * 64 + 8, .split = split, .stages = 4};
        int i = -1;
        if (tw_cublaslt_plan_add(plan, &of, &i, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(i, split);
        assert_int_equal(tw_cublaslt_workspace(plan, i), 512 + (split - 1) * 1024);
    }
    assert_int_equal(tw_cublaslt_algorithms(plan), PARTS);
    /* 512 bytes, 1536, 3072 and so on up to 49152. */
    assert_int_equal(fake_cuda_alive() - begun, 7);
    for (int i = 0; i < PARTS; i += 13)
        if (tw_cublaslt_run(plan, i, (uintptr_t)a, (uintptr_t)b, (uintptr_t)c, NULL, &d) != TW_OK)
            fail_msg("%s", d.message);
    tw_cublaslt_plan_free(plan);
    assert_int_equal(fake_cuda_alive(), before);
}

static void where_there_is_none_the_reason_is_said(void **state) {
    (void)state;
    tw_cublaslt *none;
    tw_diag d;
    assert_string_equal(tw_cublaslt_find(), TW_FAKE_CUBLASLT);
    setenv("FAKE_CUBLASLT_BROKEN", "1", 1);
    assert_int_equal(tw_cublaslt_open(&none, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "cuBLASLt cannot start"));
    unsetenv("FAKE_CUBLASLT_BROKEN");
    setenv("TILEWRIGHT_LIBCUBLASLT", "none", 1);
    assert_int_equal(tw_cublaslt_open(&none, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "no cuBLASLt"));
    assert_null(tw_cublaslt_find());
    setenv("TILEWRIGHT_LIBCUBLASLT", "libm.so.6", 1);
    assert_int_equal(tw_cublaslt_open(&none, cuda, &d), TW_ERR_UNSUPPORTED);
    assert_null(none);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(products_are_as_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(a_type_is_computed_as_that_type, setup, teardown),
        cmocka_unit_test_setup_teardown(scales_are_the_products, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(algorithms_are_their_attributes, setup, teardown),
        cmocka_unit_test_setup_teardown(checks_tell_waves_and_workspace, setup, teardown),
        cmocka_unit_test_setup_teardown(algorithms_that_do_not_fit_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(workspaces_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(where_there_is_none_the_reason_is_said, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
