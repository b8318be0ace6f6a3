/* SPDX-License-Identifier: Apache-2.0 */
/* The analytic model: times computed by hand, constants found again by fitting, products read from a store, estimates.
 */
#include "tune/toy_store.h"

#include "kernels/gemm/estimate.h"
#include "tune/analytic.h"
#include "tune/gemm_gpu.h"

static const tw_rates some = {{0.5, 0.5, 0.5, 0.5, 0.5}, 10, 1000, 32, 2000, 4e6, 1.5, 2};

static void assert_near(double a, double b) {
    if (!(fabs(a - b) <= 1e-9 * fabs(b))) fail_msg("%.12g is not %.12g", a, b);
}

/* Five blocks, two at a time: two full waves, and one of a single block. */
static void times_are_counted(void **state) {
    (void)state;
    const tw_demand d = {
        .clock = 1000, .blocks = 5, .together = 2, .rounds = 10, .busy = 100, .ahead = 4, .stored = 320};
    tw_demand c = d;
    /* A round of two blocks takes 400 clocks of the unit; one of a single block waits 250 for the next stage. */
    assert_near(tw_demand_time(&d, &some), 1.5 + (2 * (2000 + 10 * 400 + 20) + 2000 + 10 * 250 + 10) * 1e-3);
    /* With one stage ahead a round waits the whole latency, 1000 clocks. */
    c.ahead = 1;
    assert_near(tw_demand_time(&c, &some), 1.5 + (3 * (2000 + 10 * 1000) + 50) * 1e-3);
    /* The 30 dependent reads of a block take 300 clocks beside its 200 of the unit. */
    c = d;
    c.chain = 30;
    assert_near(tw_demand_time(&c, &some), 1.5 + (3 * (2000 + 10 * 500) + 50) * 1e-3);
    /* Moving 4e8 bytes takes longer than computing. Joining the parts of k comes behind it. */
    c = d;
    c.memory = 4e8;
    c.parts = 2e7;
    c.turns = 3;
    assert_near(tw_demand_time(&c, &some), 1.5 + 100 + 5 + 6);
}

static tw_analytic_sample draw(tw_random *r, const tw_rates *by) {
    const double blocks = (double)(1 + tw_random_below(r, 20)), split = (double)tw_random_below(r, 2);
    const tw_demand d = {.unit = (tw_demand_unit)tw_random_below(r, 2),
                         .clock = 1000,
                         .blocks = blocks,
                         .together = fmin(blocks, (double)(1 + tw_random_below(r, 3))),
                         .rounds = (double)(1 + tw_random_below(r, 60)),
                         .busy = 50 + 500 * tw_random_unit(r),
                         .chain = 20 * (double)tw_random_below(r, 3),
                         .ahead = (double)(1 + tw_random_below(r, 6)),
                         .stored = 16384 * (double)(1 + tw_random_below(r, 8)),
                         .memory = pow(10, 5 + 4 * tw_random_unit(r)),
                         .parts = split * 1e7,
                         .turns = split * (double)(1 + tw_random_below(r, 8))};
    return (tw_analytic_sample){d, tw_demand_time(&d, by)};
}

/* Samples without noise determine the constants. Shares of units that no sample has stay. */
static void constants_are_found(void **state) {
    (void)state;
    enum { N = 3000 };
    static tw_analytic_sample s[N];
    tw_random r = tw_random_seed(3);
    const tw_rates wanted = {{0.8, 0.4, 7, 7, 7}, 12, 900, 40, 2500, 3e6, 2, 3};
    tw_rates found = {.share = {7, 7, 7, 7, 7}};
    for (int i = 0; i < N; i++) s[i] = draw(&r, &wanted);
    assert_true(tw_analytic_fit(&found, s, N) < 1e-4);
    const double *a = (const double *)&found, *b = (const double *)&wanted;
    for (int i = 0; i < TW_RATES; i++)
        if (fabs(a[i] / b[i] - 1) > 0.1) fail_msg("constant %d is %g, not %g", i, a[i], b[i]);
    for (int u = 2; u < TW_DEMAND_UNITS; u++) assert_true(found.share[u] == 7);
}

/* A unit with one sample has the same weight as a unit with a thousand. */
static void units_count_equally(void **state) {
    (void)state;
    enum { N = 1001 };
    static tw_analytic_sample s[N];
    tw_rates found = some;
    /* The two units want different latencies, 1000 and 4000 clocks; 2000 is as far from one as from the other. */
    for (int i = 0; i < N; i++)
        s[i] = (tw_analytic_sample){{.unit = i ? TW_DEMAND_SIMT : TW_DEMAND_WARPS,
                                     .clock = 1,
                                     .blocks = 1,
                                     .together = 1,
                                     .rounds = 100,
                                     .ahead = 1},
                                    i ? 1e5 : 4e5};
    tw_analytic_fit(&found, s, N);
    assert_near(round(tw_demand_time(&s[0].demand, &found) / 2000), 100);
}

/* ---- stores */

static void add(tw_store *s, const char *environment, const char *space, const char *problem, const char *config,
                tw_status status, double time) {
    static int64_t n;
    tw_diag d;
    const tw_measurement m = {.environment = environment,
                              .space = space,
                              .problem = problem,
                              .config = config,
                              .protocol = "samples=1",
                              .unit = "us",
                              .status = status,
                              .message = status == TW_OK ? "" : "wrong",
                              .samples = &time,
                              .n = 1,
                              .began = ++n};
    if (tw_store_add(s, &m, NULL, &d) != TW_OK) fail_msg("%s", d.message);
}

static void products_of_a_store_are_read(void **state) {
    (void)state;
    static const char here[] = "{\"device\": \"a GPU\", \"sms\": 132, \"clock_khz\": 1000000}";
    static const char other[] = "{\"device\": \"b GPU\", \"sms\": 132, \"clock_khz\": 1000000}";
    static const char own[] = "mma=2 ml=128 nl=128 u=64 kg=1 ms=64 ns=128 ks=1 kl=1 vec=16 frag=16 stages=4 group=8";
    tw_analytic_products p;
    tw_diag d;
    tw_store *s = open_store();
    assert_int_equal(tw_analytic_read(&p, s, &d), TW_ERR_USAGE);
    assert_null(p.of);
    add(s, here, "gemm-gpu-bf16", "m=1024 n=1024 k=1024", own, TW_OK, 11);
    add(s, here, "gemm-gpu-bf16", "m=1024 n=1024 k=1024", "by=cublaslt", TW_OK, 12);
    add(s, here, "gemm-gpu-bf16", "m=1024 n=1024 k=1024", own, TW_ERR_MISMATCH, 13);
    add(s, here, "gemm-cpu-f32", "m=1024 n=1024 k=1024", "by=own", TW_OK, 14);
    add(s, other, "gemm-gpu-bf16", "m=1024 n=1024 k=1024", own, TW_OK, 15);
    add(s, here, "gemm", "type=f32 m=512 n=512 k=512", "mma=0", TW_OK, 16);
    add(s, here, "gemm", "type=f64 m=512 n=512 k=512", "mma=1", TW_OK, 17);
    add(s, here, "gemm", "type=f32 m=512 n=512 rubbish=1", "mma=0", TW_OK, 18);
    if (tw_analytic_read(&p, s, &d) != TW_OK) fail_msg("%s", d.message);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.device.name, "a GPU");
    assert_int_equal(p.device.sms, 132);
    const double times[] = {11, 16, 17};
    const tw_demand_unit units[] = {TW_DEMAND_WARPGROUPS, TW_DEMAND_SIMT, TW_DEMAND_DOUBLE};
    for (int i = 0; i < 3; i++) {
        assert_true(p.of[i].time == times[i]);
        assert_int_equal(p.of[i].demand.unit, units[i]);
        assert_int_equal(p.units[units[i]], 1);
    }
    /* 64 tiles for 132 multiprocessors; a block has 16 rounds of 128 x 128 x 64 multiply-adds, 2048 a clock. */
    const tw_demand *w = &p.of[0].demand;
    assert_true(w->blocks == 1 && w->together == 1 && w->rounds == 16 && w->ahead == 3 && w->clock == 1000);
    assert_true(w->busy >= 512 && w->stored == 128 * 128 * 4 && w->memory == 3.0 * 1024 * 1024 * 2);
    free(p.of);
    tw_store_close(s);
}

/* ---- estimates */

static double estimate(const tw_cuda_info *info, tw_gemm_type type, const char *config) {
    tw_gemm_problem p = {.type = type, .m = 512, .n = 512, .k = 16384, .trans_b = true, .alpha = 1};
    tw_diag d;
    assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_OK);
    tw_gemm_config c = tw_gemm_config_default(&p);
    if (tw_gemm_config_parse(&c, config, &d) != TW_OK) fail_msg("%s", d.message);
    return tw_gemm_estimate(&p, &c, info);
}

/* Sixteen or 64 tiles leave most of 132 multiprocessors idle, so splits along k pay. Few stages do not. */
static void estimates_rank_what_is_known(void **state) {
    (void)state;
    const tw_cuda_info info = {
        .name = "NVIDIA H200", .sms = 132, .clock_khz = 1980000, .target = tw_target_find("sm_90a")};
    static const char wide[] = "mma=2 ml=128 nl=128 u=64 kg=1 ms=64 ns=128 stages=4 group=8";
    static const char split[] = "mma=2 ml=128 nl=128 u=64 kg=8 split=3 ms=64 ns=128 stages=4 group=1";
    static const char shallow[] = "mma=2 ml=128 nl=128 u=64 kg=1 ms=64 ns=128 stages=2 group=8";
    assert_true(estimate(&info, TW_GEMM_BF16, split) < 0.5 * estimate(&info, TW_GEMM_BF16, wide));
    assert_true(estimate(&info, TW_GEMM_BF16, wide) < 0.9 * estimate(&info, TW_GEMM_BF16, shallow));
    /* Without tensor cores large tiles of a thread are faster than small ones, and splits pay as well. */
    assert_true(estimate(&info, TW_GEMM_F32, "ms=8 ns=8 ml=64 nl=64") <
                estimate(&info, TW_GEMM_F32, "ms=2 ns=2 ml=64 nl=64"));
    assert_true(estimate(&info, TW_GEMM_F32, "ms=8 ns=8 ml=64 nl=64 kg=4") <
                0.5 * estimate(&info, TW_GEMM_F32, "ms=8 ns=8 ml=64 nl=64"));
    /* Blocks that add their parts one after another wait longer. */
    assert_true(estimate(&info, TW_GEMM_F32, "ms=8 ns=8 ml=64 nl=64 kg=8 split=0") <
                estimate(&info, TW_GEMM_F32, "ms=8 ns=8 ml=64 nl=64 kg=8 split=1"));
    assert_true(estimate(&info, TW_GEMM_F32, "ml=64 nl=64 ms=64 ns=64") == 1e30);
}

static void devices_have_constants(void **state) {
    (void)state;
    const tw_target *t = tw_target_find("sm_90a");
    const tw_cuda_info known = {.name = "NVIDIA H200", .sms = 132, .clock_khz = 1980000, .target = t};
    const tw_cuda_info slow = {.name = "other",
                               .sms = 132,
                               .clock_khz = 1980000,
                               .memory_clock_khz = 1000000,
                               .memory_bus_bits = 1024,
                               .target = t};
    const tw_cuda_info silent = {.name = "other", .sms = 132, .clock_khz = 1980000, .target = t};
    tw_rates a, b, c;
    tw_gemm_rates(&known, &a);
    tw_gemm_rates(&slow, &b);
    tw_gemm_rates(&silent, &c);
    for (int i = 0; i < TW_RATES; i++) assert_true(((const double *)&a)[i] > 0);
    /* Two transfers of 128 bytes in each of 1000 clocks a microsecond. */
    assert_true(b.memory > 0.5 * 256e3 && b.memory < 256e3);
    b.memory = a.memory;
    assert_memory_equal(&a, &b, sizeof a);
    assert_memory_equal(&a, &c, sizeof a);
}

/* ---- families */

static void families_ask_for_their_work(void **state) {
    (void)state;
    toy t;
    tw_demand d;
    toy_open(&t);
    const int64_t problem[TW_SELECT_AXES] = {100, 40, 256};
    /* Tiles of 32 x 16: 12 blocks of 8 rounds for 8 slots. */
    assert_true(tw_analytic_demand(&t.family, 1, 0, problem, &d));
    assert_true(d.unit == TW_DEMAND_SIMT && d.blocks == 2 && d.together == 1 && d.rounds == 8);
    assert_near(d.busy, 2.0 * 100 * 40 * 256 / 12 / 8);

    static const char environment[] = "{\"device\": \"NVIDIA H200\", \"sms\": 132, \"clock_khz\": 1980000}";
    static const int64_t product[TW_SELECT_AXES] = {1000, 1024, 4096};
    tw_family f;
    tw_diag why;
    assert_int_equal(tw_gemm_gpu_recorded(&f, (tw_gemm_kind){.type = TW_GEMM_BF16}, environment, NULL, &why), TW_OK);
    int units[TW_DEMAND_UNITS] = {0};
    for (int i = 0; i < f.n_macros; i++) {
        if (tw_analytic_demand(&f, i, 0, product, &d)) units[d.unit]++;
        assert_true(tw_demand_time(&d, &some) > 0);
    }
    assert_true(units[TW_DEMAND_WARPGROUPS] > 100);
    assert_int_equal(units[TW_DEMAND_VENDOR], 1);
    /* Tiles of 128 x 256 of the last choice, the vendor's: 32 tiles. */
    assert_true(d.unit == TW_DEMAND_VENDOR && d.blocks == 1 && d.rounds == 64 && d.busy == 128 * 256 * 64 / 2048.0);
    tw_family_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_counted),
        cmocka_unit_test(constants_are_found),
        cmocka_unit_test(units_count_equally),
        cmocka_unit_test_setup_teardown(products_of_a_store_are_read, setup, teardown),
        cmocka_unit_test(estimates_rank_what_is_known),
        cmocka_unit_test(devices_have_constants),
        cmocka_unit_test(families_ask_for_their_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
