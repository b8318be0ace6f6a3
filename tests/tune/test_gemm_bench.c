/* SPDX-License-Identifier: Apache-2.0 */
/* Which contenders of a comparison are timed, on a stand-in for the driver whose kernels are equally fast. */
#define _GNU_SOURCE
#include "tune/fake_rig.h"
#include "tune/gemm_bench.h"

#include <stdlib.h>
#include <string.h>

/* Replays of a graph that a timing takes: one to warm up, then the samples. */
enum { SEARCH = 1 + 3, RACE = 1 + TW_GEMM_BENCH_ROUNDS };

static fake_rig f;
static int compared, wrong_from, wrong_to;

/* Takes the place of the kernel that compares results. Runs wrong_from to wrong_to - 1 find a wrong cell. */
static void compare(void **parameters) {
    uint64_t address;
    memcpy(&address, parameters[3], sizeof address);
    if (compared >= wrong_from && compared < wrong_to) ++*(uint32_t *)(uintptr_t)address;
    compared++;
}

static int setup(void **state) {
    (void)state;
    const tw_gemm_problem problem = {.type = TW_GEMM_F32, .m = 16, .n = 24, .k = 8, .alpha = 1};
    return fake_rig_open(&f, &problem, 1);
}

static int teardown(void **state) {
    (void)state;
    fake_cuda_hook("", NULL);
    return fake_rig_close(&f);
}

/* Compares so many of our kernels with the vendor, if there is one. Returns how often graphs were replayed. */
static int bench(tw_gemm_bench_result *out, tw_cublaslt *vendor, int measured, int from, int to, tw_status want) {
    const tw_gemm_search_options o = {
        .sampled = 50, .measured = measured, .seed = 1, .compiler = tw_ptx_compiler_for(f.cuda, false)};
    const int before = fake_cuda_look()->replays;
    tw_diag d;
    compared = 0;
    wrong_from = from;
    wrong_to = to;
    fake_cuda_hook("compare", compare);
    const tw_status st = tw_gemm_bench(out, "gemm", f.rig, f.cuda, vendor, &f.data, &o, &d);
    if (st != want) fail_msg("status %d: %s", st, st == TW_OK ? "" : d.message);
    if (st != TW_OK) assert_string_equal(d.message, "gemm: wrong on a second look");
    assert_int_equal(out->search.built, measured);
    return fake_cuda_look()->replays - before;
}

/* A wrong kernel would leave its counters and its workspace dirty. */
static void our_wrong_finalists_are_not_timed(void **state) {
    (void)state;
    tw_gemm_bench_result right, v;
    assert_int_equal(bench(&right, NULL, 1, 0, 0, TW_OK), SEARCH + RACE);
    /* The search compares twice, so run 2 is the second look. */
    assert_int_equal(bench(&v, NULL, 1, 2, 3, TW_ERR_MISMATCH), SEARCH);
    /* Of two finalists the other one is left. */
    assert_int_equal(bench(&right, NULL, 2, 0, 0, TW_OK), 2 * SEARCH + 2 * RACE);
    assert_int_equal(bench(&v, NULL, 2, 4, 5, TW_OK), 2 * SEARCH + RACE);
    assert_true(v.ours.correct && v.ours.us.n == TW_GEMM_BENCH_ROUNDS);
    assert_int_not_equal(memcmp(&v.config, &right.config, sizeof v.config), 0);
}

/* The vendor has three algorithms, of which the first and the best are timed. */
static void the_vendors_wrong_results_are_timed(void **state) {
    (void)state;
    enum { VENDOR = 3 * SEARCH };
    tw_cublaslt *vendor;
    tw_gemm_bench_result v;
    tw_diag d;
    setenv("TILEWRIGHT_LIBCUBLASLT", TW_FAKE_CUBLASLT, 1);
    if (tw_cublaslt_open(&vendor, f.cuda, &d) != TW_OK) fail_msg("%s", d.message);
    /* The search and the choice among three algorithms compare eight times; our second look is runs 8 and 9. */
    assert_int_equal(bench(&v, vendor, 1, 10, 100, TW_OK), SEARCH + VENDOR + 3 * RACE);
    assert_true(v.ours.correct && !v.first.correct && !v.best.correct);
    assert_int_equal(v.first.us.n, TW_GEMM_BENCH_ROUNDS);
    assert_int_equal(v.best.us.n, TW_GEMM_BENCH_ROUNDS);
    /* Only ours is not timed where all are wrong. */
    assert_int_equal(bench(&v, vendor, 1, 8, 100, TW_ERR_MISMATCH), SEARCH + VENDOR + 2 * RACE);
    tw_cublaslt_close(vendor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(our_wrong_finalists_are_not_timed, setup, teardown),
        cmocka_unit_test_setup_teardown(the_vendors_wrong_results_are_timed, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
