/* SPDX-License-Identifier: Apache-2.0 */
/* Choices of a plan that whole passes settle, on a stand-in for the driver that takes as long as the test says. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "vm/network_stand_in.h"

#include <math.h>
#include <stdio.h>

/* Ways to compute the second of two products, by what they take alone. The third has a workspace and counters, and the
   last takes too long alone. */
static const char second[] = "type=f16 m=32 n=512 k=512";
static const struct way {
    const char *configuration;
    double us;
    int threads;
} ways[] = {{"mma=1 ms=16 ns=16 ml=16 nl=16 u=16 stages=2 vec=16", 10, 32},
            {"mma=1 ms=16 ns=16 ml=16 nl=32 u=16 stages=2 vec=16", 11, 64},
            {"mma=1 ms=16 ns=16 ml=32 nl=32 u=16 stages=2 kg=2 split=0 vec=16", 11.2, 128},
            {"mma=1 ms=16 ns=16 ml=32 nl=64 u=16 stages=2 vec=16", 12, 256}};
enum { WAYS = sizeof ways / sizeof *ways };

static int whole_us[WAYS], noise_us;
static unsigned draws;

/* What kernels take in a pass: by their threads, and more or less by chance. */
static int us_of(unsigned grid, unsigned threads, unsigned shared) {
    (void)grid, (void)shared;
    draws = draws * 1664525u + 1013904223u;
    for (int i = 0; i < WAYS; i++)
        if (ways[i].threads == (int)threads) return whole_us[i] + (noise_us ? (int)(draws >> 8) % noise_us : 0);
    return 100;
}

static int open_ways(void **state) {
    tw_diag diag = {0};
    open_products(state);
    for (int i = 0; i < WAYS; i++)
        good(tw_network_plan_add(&m.plan,
                                 &(tw_network_choice){"gemm", second, ways[i].configuration, ways[i].us, false}, &diag),
             &diag);
    good(tw_network_plan_add(&m.plan,
                             &(tw_network_choice){"gemm", "type=f16 m=32 n=512 k=64",
                                                  "mma=1 ms=16 ns=16 ml=64 nl=64 u=16 stages=2 vec=16", 1, false},
                             &diag),
         &diag);
    return 0;
}

/* Objects of the driver that the network had which was settled last. */
static int objects;

/* Opens a network with what its ways take in passes. NULL: it is settled already. Returns which is settled, or -1, and
   its bytes beside weights. */
static int settle(const int us[WAYS], int noise, int64_t *bytes) {
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true};
    tw_cuda_network *n;
    tw_diag diag = {0};
    if (us) memcpy(whole_us, us, sizeof whole_us);
    noise_us = noise;
    fake_cuda_time(us_of);
    if (us) tw_network_plan_settle(&m.plan, second, -1);
    m.plan.settled = (tw_network_settled){0};
    good(tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, &diag), &diag);
    if (bytes) *bytes = tw_cuda_network_bytes(n);
    objects = fake_cuda_alive();
    tw_cuda_network_close(n);
    assert_int_equal(m.plan.searched, 0);
    for (int i = 0; i < WAYS; i++)
        if (m.plan.choices[i].settled) return i;
    return -1;
}

/* Opens a network by a plan alone, and tells whether it has a way. */
static bool has_way(tw_network_plan *plan, int way) {
    tw_cuda_network *n;
    tw_diag diag = {0};
    tw_buf text = {0};
    char shape[64];
    snprintf(shape, sizeof shape, "%.*s", (int)strcspn(ways[way].configuration, "u") - 1, ways[way].configuration);
    good(tw_cuda_network_open(&n, m.program, m.weights, &(tw_cuda_network_options){0}, plan, &diag), &diag);
    good(tw_cuda_network_explain(n, false, &text, &diag), &diag);
    const bool found = strstr(text.data, shape);
    tw_buf_free(&text);
    tw_cuda_network_close(n);
    return found;
}

static void whole_passes_decide(void **state) {
    (void)state;
    tw_network_plan kept = {0};
    tw_buf text = {0}, line = {0};
    assert_int_equal(settle((int[]){1000, 900, 950, 100}, 20, NULL), 1);
    assert_true(m.plan.settled.problems == 1 && m.plan.settled.changed == 1 && m.plan.settled.tried == 2);
    assert_true(m.plan.settled.before > 1050 && m.plan.settled.after < 0.94 * m.plan.settled.before);
    good(tw_network_plan_explain(&m.plan, &line, NULL), NULL);
    assert_non_null(strstr(line.data, "settling "));
    assert_non_null(strstr(line.data, "1 of 1 problems otherwise"));
    /* It is kept with the plan, and no pass is compared again. */
    good(tw_network_plan_write(&m.plan, &text, NULL), NULL);
    good(tw_network_plan_read(&kept, text.data, text.size, NULL), NULL);
    assert_true(has_way(&kept, 1) && !has_way(&kept, 0));
    const int replays = fake_cuda_look()->replays;
    use(&(tw_cuda_network_options){.by = TW_NETWORK_OWN, .search = true}, &kept);
    assert_int_equal(kept.settled.tried, 0);
    assert_true(fake_cuda_look()->replays < replays + 60); /* Of explaining. */
    tw_buf_free(&text);
    tw_buf_free(&line);
    tw_network_plan_free(&kept);
}

static void noise_changes_nothing(void **state) {
    (void)state;
    for (unsigned seed = 1; seed <= 20; seed++) {
        draws = seed;
        assert_int_equal(settle((int[]){1000, 1000, 1000, 100}, 40, NULL), 0);
        assert_true(m.plan.settled.tried == 2 && m.plan.settled.changed == 0);
        assert_true(m.plan.settled.before == m.plan.settled.after);
    }
    /* Neither does a gain that is too small. */
    assert_int_equal(settle((int[]){10000, 9980, 9990, 100}, 0, NULL), 0);
    assert_int_equal(settle((int[]){10000, 9950, 9990, 100}, 0, NULL), 1);
}

/* A way that needs memory gets it, and gives it back if it is not taken. */
static void ways_have_their_workspace(void **state) {
    (void)state;
    int64_t without, with, lost;
    assert_int_equal(settle((int[]){900, 1000, 1000, 100}, 0, &without), 0);
    const int tried = objects;
    assert_int_equal(settle(NULL, 0, &lost), 0);
    assert_int_equal(m.plan.settled.tried, 0);
    assert_int_equal(lost, without);
    assert_int_equal(objects, tried);
    assert_int_equal(settle((int[]){1000, 1000, 900, 100}, 0, &with), 2);
    assert_true(with > without);
    assert_true(has_way(&m.plan, 2));
    use(&(tw_cuda_network_options){.by = TW_NETWORK_OWN, .search = true, .clear = true}, &m.plan);
    assert_int_equal(settle((int[]){900, 1000, 910, 100}, 0, &lost), 0);
    assert_int_equal(lost, without);
}

/* The second way is the fastest once the product before it has its second way. */
static int us_with_neighbour(unsigned grid, unsigned threads, unsigned shared) {
    static unsigned before;
    (void)grid, (void)shared;
    const int us = threads == 512                   ? 100
                   : threads == 256                 ? 50
                   : threads == 32                  ? 1000
                   : threads == 64 && before == 256 ? 900
                                                    : 1005;
    before = threads;
    return us;
}

static void neighbours_are_settled_again(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true};
    const tw_network_choice other = {"gemm", "type=f16 m=32 n=512 k=64",
                                     "mma=1 ms=16 ns=16 ml=64 nl=32 u=16 stages=2 vec=16", 1.1, false};
    tw_cuda_network *n;
    tw_diag diag = {0};
    good(tw_network_plan_add(&m.plan, &other, &diag), &diag);
    fake_cuda_time(us_with_neighbour);
    good(tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, &diag), &diag);
    tw_cuda_network_close(n);
    assert_true(m.plan.choices[m.plan.n - 1].settled && m.plan.choices[1].settled);
    assert_int_equal(m.plan.settled.changed, 2);
    assert_int_equal(m.plan.settled.tried, 6);
    assert_true(fabs(m.plan.settled.before - 1100) < 1 && fabs(m.plan.settled.after - 950) < 1);
}

/* A product by the vendor is a way as others are, also where it takes nearly twice as long alone. */
static void the_vendor_is_a_way(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.search = true};
    const tw_network_choice vendor = {"cublaslt", second, "1 520 1 0 0 0 4 0 5", 19, false};
    tw_cuda_network *n;
    tw_diag diag = {0};
    good(tw_network_plan_add(&m.plan, &vendor, &diag), &diag);
    memcpy(whole_us, (int[]){1000, 1000, 1000, 1000}, sizeof whole_us);
    fake_cuda_time(us_of);
    good(tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, &diag), &diag);
    tw_cuda_network_close(n);
    assert_true(m.plan.choices[m.plan.n - 1].settled && !m.plan.choices[0].settled);
    assert_int_equal(m.plan.settled.tried, 3);
    assert_int_equal(settle((int[]){1000, 1000, 1000, 100}, 0, NULL), 0); /* It is not asked. */
}

static void a_slow_vendor_is_no_way(void **state) {
    (void)state;
    const tw_network_choice vendor = {"cublaslt", second, "1 520 1 0 0 0 4 0 5", 21, false};
    int choices[TW_NETWORK_PROMISING];
    tw_diag diag = {0};
    const int before = tw_network_promising(&m.plan, second, choices);
    good(tw_network_plan_add(&m.plan, &vendor, &diag), &diag);
    assert_int_equal(before, 3);
    assert_int_equal(tw_network_promising(&m.plan, second, choices), 3);
}

/* Lets every kernel be compiled. Returns the cache's folder, or NULL. */
static char *leave_cache(void) {
    const char *folder = getenv("TILEWRIGHT_CACHE");
    char *kept = folder ? strdup(folder) : NULL;
    setenv("TILEWRIGHT_CACHE", "/dev/null/none", 1);
    return kept;
}

static void enter_cache(char *folder) {
    if (folder)
        setenv("TILEWRIGHT_CACHE", folder, 1);
    else
        unsetenv("TILEWRIGHT_CACHE");
    free(folder);
}

/* Each kernel is compiled once: the three ways that are promising, and the other product. */
static void ways_are_compiled_side_by_side(void **state) {
    (void)state;
    char *folder = leave_cache();
    const int compiled = fake_cuda_look()->compiled;
    assert_int_equal(settle((int[]){1000, 900, 950, 100}, 0, NULL), 1);
    assert_int_equal(fake_cuda_look()->compiled, compiled + 4);
    assert_int_equal(m.gpu->n_code, 0);
    enter_cache(folder);
}

static void settled_attention_is_taken(void **state) {
    (void)state;
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    tw_network_plan plan = {0};
    tw_cuda_network n = {.gpu = &gpu, .plan = &plan, .info = {.sm = 90, .sms = 132, .target = gpu.target}};
    tw_attention_problem p = {.type = TW_T_f16,
                              .heads = 12,
                              .kv_heads = 12,
                              .head = 64,
                              .queries = 512,
                              .keys = 512,
                              .batch = 1,
                              .scale = 0.125};
    tw_network_attending c;
    char words[512];
    good(tw_attention_complete(&p, NULL), NULL);
    tw_attention_print(&p, words, sizeof words);
    good(tw_network_choose_attention(&n, &p, &c, NULL), NULL);
    assert_int_equal(c.entry, 0);
    static const char *const tiles[] = {"rows=64 columns=64 slices=1", "rows=128 columns=128 slices=1",
                                        "rows=192 columns=96 slices=1"};
    for (int i = 0; i < 3; i++)
        good(tw_network_plan_add(&plan, &(tw_network_choice){"attention", words, tiles[i], i + 1, false}, NULL), NULL);
    good(tw_network_choose_attention(&n, &p, &c, NULL), NULL);
    assert_int_equal(c.entry, 1);
    assert_int_equal(c.config.rows, 64);
    tw_network_plan_settle(&plan, words, 2);
    good(tw_network_choose_attention(&n, &p, &c, NULL), NULL);
    assert_int_equal(c.entry, 3);
    assert_true(c.config.rows == 192 && c.config.columns == 96);
    tw_network_plan_free(&plan);
}

static void no_time_settles_nothing(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true, .seconds = 1e-9};
    const int compiled = fake_cuda_look()->compiled;
    char *folder = leave_cache();
    use(&o, &m.plan);
    enter_cache(folder);
    assert_int_equal(fake_cuda_look()->compiled, compiled + 2); /* None that only comparisons have. */
    assert_int_equal(m.plan.cut, 1);
    assert_int_equal(m.plan.settled.problems, 0);
    assert_true(!m.plan.choices[0].settled);
    /* Passes of a second are too long for what is left. */
    tw_cuda_network *n;
    const tw_cuda_network_options some = {.by = TW_NETWORK_OWN, .search = true, .seconds = 20};
    memcpy(whole_us, (int[]){1000000, 900000, 1000000, 100}, sizeof whole_us);
    fake_cuda_time(us_of);
    const int replays = fake_cuda_look()->replays;
    good(tw_cuda_network_open(&n, m.program, m.weights, &some, &m.plan, NULL), NULL);
    tw_cuda_network_close(n);
    assert_int_equal(m.plan.cut, 2);
    assert_int_equal(fake_cuda_look()->replays, replays + 1); /* Which tells how long a pass is. */
    assert_true(m.plan.settled.problems == 1 && m.plan.settled.tried == 0 && !m.plan.choices[0].settled);
}

/* Whatever fails in the middle, the network is as it was, or is not opened. */
static void failures_leave_what_there_was(void **state) {
    (void)state;
    static const char *const calls[] = {"cuMemAlloc_v2",      "cuStreamBeginCapture_v2", "cuStreamEndCapture",
                                        "cuLaunchKernel",     "cuLaunchKernelEx",        "cuGraphInstantiateWithFlags",
                                        "cuModuleLoadDataEx", "cuGraphLaunch",           "cuEventRecord"};
    static char x[2 * 16 * 64 * 2], y[2 * 16 * 512 * 2];
    const void *in[] = {x};
    void *out[] = {y};
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true};
    int opened = 0, tried = 0;
    memcpy(whole_us, (int[]){1000, 1000, 900, 100}, sizeof whole_us);
    fake_cuda_time(us_of);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (int nth = 0; nth < 12; nth++) {
            tw_cuda_network *n;
            tw_network_plan_settle(&m.plan, second, -1);
            fake_cuda_fail(calls[c], nth, 2);
            const tw_status st = tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, NULL);
            fake_cuda_fail(NULL, 0, 0);
            tried++;
            if (st != TW_OK) continue;
            opened++;
            for (int i = 0; i < 2; i++) assert_int_equal(tw_cuda_network_run(n, in, out, NULL), TW_OK);
            tw_cuda_network_close(n);
        }
    assert_true(opened > tried / 2 && opened < tried);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_passes_decide, open_ways, close_all),
        cmocka_unit_test_setup_teardown(noise_changes_nothing, open_ways, close_all),
        cmocka_unit_test_setup_teardown(ways_have_their_workspace, open_ways, close_all),
        cmocka_unit_test_setup_teardown(neighbours_are_settled_again, open_ways, close_all),
        cmocka_unit_test_setup_teardown(the_vendor_is_a_way, open_ways, close_all),
        cmocka_unit_test_setup_teardown(a_slow_vendor_is_no_way, open_ways, close_all),
        cmocka_unit_test_setup_teardown(ways_are_compiled_side_by_side, open_ways, close_all),
        cmocka_unit_test(settled_attention_is_taken),
        cmocka_unit_test_setup_teardown(no_time_settles_nothing, open_ways, close_all),
        cmocka_unit_test_setup_teardown(failures_leave_what_there_was, open_ways, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
