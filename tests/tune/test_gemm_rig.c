/* SPDX-License-Identifier: Apache-2.0 */
/* The rig against a stand-in for the driver, whose kernels do nothing and take ten microseconds. */
#define _GNU_SOURCE
#include "tune/fake_rig.h"
#include "tune/gemm_bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tw_gemm_problem problem = {.type = TW_GEMM_F32, .m = 32, .n = 32, .k = 32, .alpha = 1};
static fake_rig f;

static int setup(void **state) {
    (void)state;
    return fake_rig_open(&f, &problem, 4);
}

static int teardown(void **state) {
    (void)state;
    return fake_rig_close(&f);
}

static void rounds_make_samples_long(void **state) {
    (void)state;
    assert_int_equal(tw_gemm_rig_sets(f.rig), 4);
    static const struct {
        double us;
        int rounds;
    } cases[] = {{1000, 1}, {50, 1},    {49.9, 2},      {10, 5},       {0.1, 500},
                 {0, 1000}, {-1, 1000}, {1e-300, 1000}, {INFINITY, 1}, {(double)NAN, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(tw_gemm_rig_rounds(f.rig, cases[i].us), cases[i].rounds);
}

static void own_kernels_are_timed(void **state) {
    (void)state;
    const tw_gemm_config c = tw_gemm_config_default(&f.data.problem);
    const tw_ptx_compiler by = tw_ptx_compiler_for(f.cuda, false);
    tw_gemm_own own = {0};
    tw_buf ptx = {0};
    tw_cubin cubin = {0};
    tw_diag d;
    tw_stats us;
    assert_int_equal(tw_gemm_ptx(&f.data.problem, &c, tw_cuda_describe(f.cuda)->target, &ptx, &d), TW_OK);
    assert_int_equal(tw_ptx_compile_by(&by, ptx.data, ptx.size, &cubin, &d), TW_OK);
    if (tw_gemm_own_load(&own, f.rig, &c, cubin.data, cubin.bytes, &d) != TW_OK) fail_msg("%s", d.message);
    const tw_gemm_candidate x = tw_gemm_own_candidate(&own);
    assert_int_equal(tw_gemm_time(f.rig, &x, &us, &d), TW_OK);
    assert_int_equal(us.n, TW_GEMM_BENCH_ROUNDS);
    assert_true(us.min > 9.9 && us.max < 10.1);
    tw_gemm_own_unload(&own);
    tw_cubin_free(&cubin);
    tw_buf_free(&ptx);
}

/* Every set has what the problem's data has, and what the problem lacks is nowhere. */
static void sets_hold_the_data(void **state) {
    (void)state;
    for (int some = 0; some < 2; some++) {
        tw_gemm_problem p = problem;
        p.beta = 1;
        p.epilogue.bias = p.epilogue.mul = some;
        p.epilogue.residual = !some;
        assert_int_equal(fake_rig_open(&f, &p, 3), 0);
        const tw_gemm_data *d = &f.data;
        assert_int_equal(tw_gemm_rig_sets(f.rig), 3);
        uint64_t seen[3 * 6];
        int n_seen = 0;
        for (int s = 0; s < 3; s++) {
            const tw_gemm_buffers b = tw_gemm_rig_buffers(f.rig, s);
            for (int i = 0; i < TW_GEMM_MATRICES; i++) {
                char got[32 * 32 * 8];
                tw_diag diag;
                assert_int_equal(!d->of[i], !b.of[i]);
                if (!d->of[i]) continue;
                for (int j = 0; j < n_seen; j++) assert_true(seen[j] != b.of[i]);
                seen[n_seen++] = b.of[i];
                assert_true(d->bytes[i] <= sizeof got);
                assert_int_equal(tw_cuda_download(f.cuda, got, b.of[i], d->bytes[i], &diag), TW_OK);
                assert_memory_equal(got, d->of[i], d->bytes[i]);
            }
        }
        assert_int_equal(fake_rig_close(&f), 0);
    }
}

/* Parameters of the last comparison on the device, and how many there were. */
enum { ELEMENTS = 4, COLUMNS, PITCH, PARAMETERS };
static int64_t compared[PARAMETERS];
static int comparisons;

static void note(void **parameters) {
    for (int i = 0; i < PARAMETERS; i++) memcpy(&compared[i], parameters[i], sizeof *compared);
    comparisons++;
}

/* Leaves C as it is. */
static tw_status do_nothing(void *context, const tw_gemm_buffers *buffers, tw_diag *diag) {
    (void)context, (void)buffers, (void)diag;
    return TW_OK;
}

/* C is compared on the device, gaps and all, if what lies in gaps is known. */
static void gaps_are_compared(void **state) {
    (void)state;
    enum { ROWS = 32, WIDE = 36 };
    static const struct {
        int64_t ldc, batch, stride, elements; /* No elements: it is compared on the host. */
        double beta;
    } cases[] = {{32, 1, 0, ROWS * 32, 0},
                 {32, 1, 0, ROWS * 32, 1},
                 {WIDE, 1, 0, ROWS * WIDE - 4, 0},
                 {WIDE, 1, 0, 0, 1},
                 {WIDE, 3, ROWS * WIDE, 3 * ROWS * WIDE - 4, 0},
                 {WIDE, 3, ROWS * WIDE + 8, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_gemm_problem p = problem;
        p.ldc = cases[i].ldc;
        p.batch = cases[i].batch;
        p.stride_c = cases[i].stride;
        p.beta = cases[i].beta;
        assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
        assert_int_equal(fake_rig_open(&f, &p, 1), 0);
        const tw_gemm_candidate x = {.enqueue = do_nothing};
        comparisons = 0;
        fake_cuda_hook("compare", note);
        /* The stand-in's comparison finds nothing. The host's finds that C is as it was. */
        const tw_status st = tw_gemm_rig_check(f.rig, &x, NULL);
        fake_cuda_hook("", NULL);
        const bool here = cases[i].elements;
        if (comparisons != (here ? 2 : 0) || st != (here ? TW_OK : TW_ERR_MISMATCH)) fail_msg("case %zu", i);
        if (here)
            assert_true(compared[ELEMENTS] == cases[i].elements && compared[COLUMNS] == 32 &&
                        compared[PITCH] == cases[i].ldc);
        assert_int_equal(fake_rig_close(&f), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sets_hold_the_data), cmocka_unit_test(gaps_are_compared),
                                       cmocka_unit_test_setup_teardown(rounds_make_samples_long, setup, teardown),
                                       cmocka_unit_test_setup_teardown(own_kernels_are_timed, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
