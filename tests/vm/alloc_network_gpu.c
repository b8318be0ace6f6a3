/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the host runs out while a network is opened on the stand-in for the driver, and while whole passes settle
   its plan: then it is not opened, or runs as it would have without. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "kernels/fake_cudnn.h"
#include "support/alloc_fail.h"
#include "vm/network_stand_in.h"

static const char second[] = "type=f16 m=32 n=512 k=512";

/* The second way is the faster one in passes. */
static int us_of(unsigned grid, unsigned threads, unsigned shared) {
    (void)grid, (void)shared;
    return threads == 128 ? 90 : 100;
}

static int open_ways(void **state) {
    static const char *const ways[] = {"mma=1 ms=16 ns=16 ml=16 nl=16 u=16 stages=2 vec=16",
                                       "mma=1 ms=16 ns=16 ml=32 nl=32 u=16 stages=2 kg=2 split=0 vec=16"};
    open_products(state);
    for (int i = 0; i < 2; i++)
        good(tw_network_plan_add(&m.plan, &(tw_network_choice){"gemm", second, ways[i], 10 + i, false}, NULL), NULL);
    good(tw_network_plan_add(&m.plan,
                             &(tw_network_choice){"gemm", "type=f16 m=32 n=512 k=64",
                                                  "mma=1 ms=16 ns=16 ml=64 nl=64 u=16 stages=2 vec=16", 1, false},
                             NULL),
         NULL);
    fake_cuda_time(us_of);
    return 0;
}

static const char attention[] = "graph \"attention\" @23\n"
                                "  input %x: f16[2, 16, 64]\n"
                                "  %y = Attention(%x, %x, %x) q_num_heads=2 kv_num_heads=2\n"
                                "  output %y\n";

/* cuDNN computes attention. */
static int open_attention(void **state) {
    char words[512];
    tw_attention_problem p;
    (void)state;
    fake_cudnn_reset();
    open_text(attention);
    good(tw_network_attention(&m.program->steps[0], &p, NULL), NULL);
    tw_attention_print(&p, words, sizeof words);
    static const char *const engines[] = {"9 24=7", "1 24=6", "2 24=7"};
    for (int i = 0; i < 3; i++)
        good(tw_network_plan_add(&m.plan, &(tw_network_choice){"cudnn", words, engines[i], 10 - 0.1 * i, false}, NULL),
             NULL);
    return 0;
}

/* Returns true if allocation `nth` was reached. */
static bool fails(int by, long nth, bool persist, int *opened) {
    static char x[2 * 16 * 64 * 2], y[2 * 16 * 512 * 2];
    const void *in[] = {x};
    void *out[] = {y};
    const tw_cuda_network_options o = {.by = by, .search = true};
    tw_cuda_network *n;
    tw_diag diag = {0};
    for (int i = 0; i < m.plan.n; i++) m.plan.choices[i].settled = false;
    alloc_fail_after(nth, persist);
    const tw_status st = tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, &diag);
    const bool hit = alloc_fail_hit();
    alloc_fail_after(-1, false);
    if (st != TW_OK) {
        assert_true(hit && st == TW_ERR_MEMORY && *diag.message);
        return true;
    }
    *opened += hit;
    for (int i = 0; i < 2; i++) good(tw_cuda_network_run(n, in, out, &diag), &diag);
    tw_cuda_network_close(n);
    return hit;
}

static int close_attention(void **state) {
    return close_all(state) + fake_cudnn_alive();
}

static void survive(int by) {
    int opened = 0;
    assert_false(fails(by, -1, false, &opened));
    const int entries = m.plan.n;
    for (int persist = 0; persist < 2; persist++)
        for (long nth = 0, step = 1; fails(by, nth, persist, &opened); nth += step)
            step += 1 + step / (TEST_SANITIZED ? 8 : 32);
    assert_int_equal(m.plan.n, entries);
    assert_true(opened > 2);
}

static void networks_survive(void **state) {
    (void)state;
    survive(TW_NETWORK_OWN);
}

static void attention_survives(void **state) {
    (void)state;
    survive(TW_NETWORK_VENDOR);
    assert_true(m.plan.settled.tried > 0 && fake_cudnn_runs() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(networks_survive, open_ways, close_all),
        cmocka_unit_test_setup_teardown(attention_survives, open_attention, close_attention)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
