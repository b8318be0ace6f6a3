/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of building, printing and emulating attention fails once. */
#include "support/alloc_fail.h"
#include "support/support.h"

#include "kernels/attention/attention.h"

static const tw_attention_config config = {.rows = 64,
                                           .columns = 16,
                                           .stages = 2,
                                           .overlap = 1,
                                           .pack = 1,
                                           .splits = 2,
                                           .persistent = 2,
                                           .band = 1,
                                           .mma = 2,
                                           .strips = 1,
                                           .slices = 1};

static tw_attention_problem problem_of(void) {
    tw_attention_problem p = {.heads = 2,
                              .kv_heads = 1,
                              .head = 32,
                              .queries = 9,
                              .keys = 24,
                              .batch = 2,
                              .page = 8,
                              .ragged = true,
                              .lse = true,
                              .sinks = true,
                              .causal = true};
    assert_int_equal(tw_attention_complete(&p, NULL), TW_OK);
    return p;
}

static int result(tw_status st) {
    return st == TW_OK ? 0 : st == TW_ERR_MEMORY ? 1 : 2;
}

static int print(void *context) {
    const tw_attention_problem p = problem_of();
    tw_buf ptx = {0};
    (void)context;
    const tw_status st = tw_attention_ptx(&p, &config, tw_target_find("sm_90a"), &ptx, NULL);
    tw_buf_free(&ptx);
    return result(st);
}

static int print_of_warps(void *context) {
    const tw_target *t = tw_target_find("sm_80");
    tw_attention_problem p = problem_of();
    tw_buf ptx = {0};
    (void)context;
    p.kv = TW_T_e4m3;
    const tw_attention_config c = {
        .rows = 16, .columns = 32, .stages = 2, .splits = 2, .band = 1, .mma = 1, .strips = 1, .slices = 2};
    const tw_status st = tw_attention_ptx(&p, &c, t, &ptx, NULL);
    tw_buf_free(&ptx);
    return result(st);
}

static int make_data(void *context) {
    const tw_attention_problem p = problem_of();
    tw_attention_data d;
    (void)context;
    const tw_status st = tw_attention_data_make(&d, &p, 1, NULL);
    if (st == TW_OK) tw_attention_data_free(&d);
    return result(st);
}

typedef struct ready {
    tw_attention_data data;
    tw_kernel *kernel;
} ready;

static int emulate(void *context) {
    const ready *r = context;
    return result(tw_attention_emulate_kernel(&r->data, &config, r->kernel, 1, NULL, NULL));
}

static void building_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(print, NULL);
    alloc_fail_exhaust(print_of_warps, NULL);
}

static void data_survives_every_failure(void **state) {
    (void)state;
    alloc_fail_exhaust(make_data, NULL);
}

static void emulating_survives_every_failure(void **state) {
    (void)state;
    const tw_attention_problem p = problem_of();
    ready r;
    assert_int_equal(tw_attention_data_make(&r.data, &p, 1, NULL), TW_OK);
    r.kernel = tw_attention_make(&p, &config, tw_target_find("sm_90a"), true, NULL);
    assert_non_null(r.kernel);
    alloc_fail_exhaust(emulate, &r);
    tw_kernel_free(r.kernel);
    tw_attention_data_free(&r.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(building_survives_every_failure),
                                       cmocka_unit_test(data_survives_every_failure),
                                       cmocka_unit_test(emulating_survives_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
