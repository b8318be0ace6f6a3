/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring, configurations as JSON, covers and models, with the n-th allocation failing, for every n. */
#define _GNU_SOURCE
#include "support/alloc_fail.h"
#include "tune/toy_family.h"

#include "device/fake_cuda.h"
#include "schedule/config.h"
#include "tune/cover.h"
#include "tune/describe.h"
#include "tune/gemm_algorithms.h"
#include "tune/measure.h"
#include "tune/trim.h"
#include "tune/wave.h"

static tw_status sample(void *context, int i, double *time, tw_diag *diag) {
    int *calls = context;
    (void)diag;
    *time = i;
    ++*calls;
    return TW_OK;
}

static int measured(void *context) {
    static const tw_measure_calls calls = {.sample = sample};
    static const tw_measure_protocol p = {.samples = 2, .turns = true};
    int n = 0;
    tw_diag d;
    (void)context;
    const tw_status st = tw_measure(&calls, &n, 3, &p, NULL, &d);
    if (st == TW_OK) return n == 6 ? 0 : 2;
    return st == TW_ERR_MEMORY && !n && d.message[0] ? 1 : 3;
}

static int written(void *context) {
    const tw_schedule_config c = {0};
    tw_buf json = {0}, schema = {0};
    (void)context;
    tw_space_put_json(&tw_schedule_space, &c, &json);
    tw_space_put_schema(&tw_schedule_space, &schema);
    const bool failed = json.failed || schema.failed;
    tw_buf_free(&json);
    tw_buf_free(&schema);
    return failed;
}

static int fitted(void *context) {
    static const tw_wave_sample s[] = {{0, 0, 5, 7, 10}, {1, 0, 9, 7, 12}};
    static const int64_t slots[] = {4, 4};
    const tw_wave_options o = {.last = 1};
    tw_wave_model *m;
    tw_diag d = {.message = ""};
    (void)context;
    const tw_status st = tw_wave_fit(&m, s, 2, slots, 2, &o, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && !m && d.message[0] ? 1 : 3;
    const tw_wave_division where[] = {{5, 7}, {9, 7}};
    const bool right = tw_wave_select(m, where).macro == 0;
    tw_wave_free(m);
    return right ? 0 : 2;
}

static int simulated(void *context) {
    tw_random r = tw_random_seed(1);
    tw_diag d = {.message = ""};
    double time;
    (void)context;
    const tw_status st = tw_wave_simulate(4, 9, 5, 0, &r, &time, &d);
    if (st == TW_OK) return time == 15 ? 0 : 2;
    return st == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
}

static int splined(void *context) {
    enum { TRIALS = 14 };
    toy t;
    tw_trial at[TRIALS];
    tw_spline *model;
    tw_diag d = {.message = ""};
    (void)context;
    toy_open(&t);
    for (int i = 0; i < TRIALS; i++) at[i] = (tw_trial){{16 + 16 * i, 64, 512}, 0, 0, 10.0 + i};
    const tw_trials trials = {.spread = {at, TRIALS, TRIALS}};
    const tw_status st = tw_spline_fit(&model, &t.family, &trials, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && !model && d.message[0] ? 1 : 3;
    tw_arena arena = {0};
    tw_artefact a = tw_describe_family(&t.family);
    const tw_status trimmed = tw_spline_trim(model, 1, &d);
    const tw_status described = trimmed == TW_OK ? tw_describe_spline(&a, &arena, model, &d) : trimmed;
    tw_arena_free(&arena);
    tw_spline_free(model);
    return described == TW_OK ? 0 : described == TW_ERR_MEMORY ? 1 : 2;
}

static int covered(void *context) {
    toy t;
    tw_trial at[] = {{{1}, 0, 0, 1}, {{1}, 1, 0, 2}};
    const tw_trial_list l = {at, 2, 2};
    tw_choice out[2];
    int n;
    tw_diag d = {.message = ""};
    (void)context;
    toy_open(&t);
    const tw_status st = tw_cover(&t.family, &l, TW_COVER_SAMPLES, 2, out, &n, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
    return n == 2 ? 0 : 2;
}

static int pruned(void *context) {
    toy t;
    tw_trial at[] = {{{1, 64, 64}, 0, 0, 1}, {{1, 64, 64}, 1, 0, 2}};
    const tw_trials trials = {.screens = {at, 2, 2}};
    tw_choice *of;
    tw_cover_loss loss;
    int n;
    tw_diag d = {.message = ""};
    (void)context;
    toy_open(&t);
    const tw_status st = tw_cover_both(&t.family, &trials.screens, 2, &of, &n, &d);
    if (st != TW_OK) return st == TW_ERR_MEMORY && !of && d.message[0] ? 1 : 3;
    const tw_status lost = tw_cover_lose(&t.family, &trials, of, n, &loss, &d);
    free(of);
    return lost == TW_OK ? loss.problems == 1 && n == 2 ? 0 : 2 : lost == TW_ERR_MEMORY && d.message[0] ? 1 : 3;
}

/* Lists cuBLASLt's algorithms by its stand-in, and adds one to a plan. */
static int listed(void *context) {
    const tw_family f = {.n_axes = 3, .least = {64, 384, 2048}, .most = {128, 512, 8192}, .step = {1, 64, 64}};
    const tw_cublaslt_problem p = {
        .type = TW_CUBLASLT_F32, .m = 8, .n = 8, .k = 8, .lda = 8, .ldb = 8, .ldc = 8, .alpha = 1};
    tw_arena arena = {0};
    tw_cublaslt_plan *plan = NULL;
    const char **list;
    int n, i;
    tw_diag d = {.message = ""};
    tw_status st = tw_gemm_algorithms_find(&arena, &f, TW_GEMM_BF16, context, 132, &list, &n, &d);
    bool good = st != TW_OK || n == 4;
    tw_gemm_algorithm a = {.tm = 0};
    if (st == TW_OK) good = good && tw_gemm_algorithm_parse(&a, list[0]);
    if (st == TW_OK) st = tw_cublaslt_plan_make(context, &p, 1, 0, &plan, &d);
    a.of.stages = 8;
    if (st == TW_OK) st = tw_cublaslt_plan_add(plan, &a.of, &i, &d);
    tw_cublaslt_plan_free(plan);
    tw_arena_free(&arena);
    return st == TW_OK && good ? 0 : st == TW_ERR_MEMORY && d.message[0] ? 1 : 2;
}

static void nothing_is_lost(void **state) {
    (void)state;
    alloc_fail_exhaust(measured, NULL);
    alloc_fail_exhaust(written, NULL);
    alloc_fail_exhaust(fitted, NULL);
    alloc_fail_exhaust(simulated, NULL);
    alloc_fail_exhaust(splined, NULL);
    alloc_fail_exhaust(covered, NULL);
    alloc_fail_exhaust(pruned, NULL);
}

static void algorithms_are_listed_or_not(void **state) {
    (void)state;
    tw_cuda *cuda;
    tw_cublaslt *lt = NULL;
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUBLASLT", TW_FAKE_CUBLASLT, 1);
    fake_cuda_reset();
    if (tw_cuda_open(&cuda, 0, &d) != TW_OK || tw_cublaslt_open(&lt, cuda, &d) != TW_OK) fail_msg("%s", d.message);
    alloc_fail_exhaust(listed, lt);
    tw_cublaslt_close(lt);
    tw_cuda_close(cuda);
    assert_int_equal(fake_cuda_alive(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost),
                                       cmocka_unit_test(algorithms_are_listed_or_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
