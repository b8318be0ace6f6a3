/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on a stand-in for the driver whose kernels do nothing: what is captured, searched, chosen and given back. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "vm/network_stand_in.h"

static const char layer[] = "graph \"layer\" @23\n"
                            "  input %x: f16[2, 16, 64]\n"
                            "  constant %w: f16[64, 192] random 7\n"
                            "  constant %b: f16[192] random 8\n"
                            "  constant %o: f16[64, 64] random 9\n"
                            "  constant %one: f16[64] random 10\n"
                            "  %p = MatMul(%x, %w)\n"
                            "  %s = Add(%p, %b)\n"
                            "  %q, %k, %v = Split(%s) axis=-1 num_outputs=3\n"
                            "  %a = Attention(%q, %k, %v) q_num_heads=2 kv_num_heads=2\n"
                            "  %m = MatMul(%a, %o)\n"
                            "  %r = Add(%m, %x)\n"
                            "  %y = LayerNormalization(%r, %one, %one)\n"
                            "  output %y\n";
enum { LAUNCHES = 4 /* Products, attention and a norm. */ };
static int open_all(void **state) {
    (void)state;
    return open_text(layer);
}

static void networks_are_captured(void **state) {
    (void)state;
    assert_int_equal(use(&(tw_cuda_network_options){0}, NULL), LAUNCHES);
    assert_int_equal(use(&(tw_cuda_network_options){.late = true, .unsplit = true}, NULL), LAUNCHES);
    assert_int_equal(use(&(tw_cuda_network_options){.clear = true}, NULL), LAUNCHES);
}

static void products_are_searched_once(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.search = true, .measured = 3};
    use(&o, &m.plan);
    /* Two products and attention. */
    assert_int_equal(m.plan.searched, 3);
    assert_true(m.plan.n > 3 && m.plan.measured > 6);
    /* No attention that does nothing is right, so that there is no entry of it. */
    use(&o, &m.plan);
    assert_int_equal(m.plan.searched, 4);
}

static void the_longest_is_searched_first(void **state) {
    (void)state;
    tw_cuda_network *n;
    tw_diag diag = {0};
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true, .measured = 3};
    good(tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, &diag), &diag);
    tw_cuda_network_close(n);
    assert_int_equal(m.plan.searched, 2);
    assert_non_null(strstr(m.plan.choices[0].problem, " k=512"));
    assert_non_null(strstr(m.plan.choices[m.plan.n - 1].problem, " k=64"));
}

/* A limit that is over at once leaves the configurations that are chosen without a search. */
static void a_limit_ends_searches(void **state) {
    (void)state;
    tw_buf text = {0};
    assert_int_equal(tw_network_plan_explain(&m.plan, &text, NULL), TW_OK);
    assert_int_equal(text.size, 0);
    use(&(tw_cuda_network_options){.by = TW_NETWORK_OWN, .search = true, .measured = 3, .seconds = 1e-9}, &m.plan);
    assert_true(m.plan.cut > 0 && m.plan.searched + m.plan.cut >= 3 && m.plan.measured < 9);
    assert_int_equal(tw_network_plan_explain(&m.plan, &text, NULL), TW_OK);
    assert_non_null(strstr(text.data, "cut short"));
    tw_buf_free(&text);
    const tw_network_costs *c = &m.plan.costs;
    const double parts = c->draw + c->refer + c->wait + c->load + c->check + c->time + c->again + c->vendor;
    assert_true(parts >= 0 && parts <= m.plan.seconds + 1e-6);
}

/* Few tiles get fewer rows. Many keep the usual ones. */
static void few_heads_have_small_tiles(void **state) {
    (void)state;
    static const struct {
        int64_t heads, head, length, batch;
        bool causal;
        int rows;
    } cases[] = {{12, 64, 512, 1, false, 64},   {12, 64, 512, 1, true, 64},     {12, 64, 512, 4, false, 128},
                 {16, 64, 512, 4, false, 128},  {16, 64, 4096, 4, false, 192},  {32, 64, 8192, 1, true, 192},
                 {32, 128, 512, 1, false, 128}, {16, 128, 4096, 4, false, 128}, {12, 64, 128, 1, false, 64}};
    const tw_target *t = tw_target_find("sm_90a");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_attention_problem p = {.type = TW_T_f16,
                                  .heads = cases[i].heads,
                                  .kv_heads = cases[i].heads,
                                  .head = cases[i].head,
                                  .queries = cases[i].length,
                                  .keys = cases[i].length,
                                  .batch = cases[i].batch,
                                  .scale = 0.125,
                                  .causal = cases[i].causal};
        tw_attention_config c;
        tw_diag diag = {0};
        good(tw_attention_complete(&p, &diag), &diag);
        tw_network_attention_tile(&p, t, 132, &c);
        if (c.rows != cases[i].rows) fail_msg("case %zu has %d rows", i, c.rows);
        assert_true(tw_attention_legal(&p, &c, t, NULL, NULL));
    }
}

/* Warpgroups take tiles by turns only where there are more tiles than blocks. */
static void no_warpgroup_idles(void **state) {
    (void)state;
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    const tw_cuda_network n = {.gpu = &gpu, .info = {.sm = 90, .sms = 132, .clock_khz = 1980000, .target = gpu.target}};
    static const int64_t shapes[][3] = {{2048, 768, 3072}, {2048, 768, 768}, {2048, 3072, 768}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        tw_gemm_problem p = {
            .type = TW_GEMM_F16, .m = shapes[i][0], .n = shapes[i][1], .k = shapes[i][2], .alpha = 1, .trans_b = true};
        tw_gemm_config c;
        tw_gemm_resources need;
        assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
        assert_true(tw_network_estimate(&n, &p, &c));
        assert_true(tw_gemm_legal(&p, &c, gpu.target, &need, NULL));
        assert_int_equal(c.pingpong, i == 2);
        assert_true(i < 2 || need.tiles > 132);
    }
}

/* What zeroes counters stands between a product and the launch before, which it may then not overtake. */
static void cleared_products_begin_late(void **state) {
    (void)state;
    static const char *const ways[] = {
        "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=3 kg=3 vec=16 split=0",  /* Has counters. */
        "mma=2 ms=64 ns=16 ml=64 nl=16 u=64 stages=3 kg=2 vec=16 split=3"}; /* Has none. */
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    for (int i = 0; i < 4; i++) {
        const bool clear = i % 2;
        tw_network_plan plan = {0};
        tw_cuda_network n = {.gpu = &gpu, .options = {.clear = clear}, .plan = &plan};
        tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 16, .n = 16, .k = 320, .alpha = 1};
        tw_network_chosen chosen;
        tw_diag diag = {0};
        good(tw_gemm_problem_complete(&p, &diag), &diag);
        good(tw_network_plan_add(&plan, &(tw_network_choice){"gemm", "type=f16 m=16 n=16 k=320", ways[i / 2], 1, false},
                                 &diag),
             &diag);
        good(tw_network_choose(&n, &p, &chosen, &diag), &diag);
        assert_true(chosen.config.kg > 1);
        assert_int_equal(chosen.config.early, clear && i < 2 ? TW_GEMM_LATE : TW_GEMM_EARLY);
        tw_network_plan_free(&plan);
    }
}

static void the_vendor_has_maps_behind(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.by = TW_NETWORK_VENDOR};
    assert_int_equal(use(&o, NULL), LAUNCHES + 2);
}

static void a_plan_decides(void **state) {
    (void)state;
    static const char problem[] = "type=f16 m=32 n=192 k=64";
    use(&(tw_cuda_network_options){.search = true, .measured = 3}, &m.plan);
    for (int i = tw_network_plan_find(&m.plan, problem, 0); i >= 0; i = tw_network_plan_find(&m.plan, problem, i + 1))
        m.plan.choices[i].us = strcmp(m.plan.choices[i].kind, "gemm") ? 0.001 : 10;
    tw_network_plan_settle(&m.plan, problem, -1);
    /* The vendor's product has a map for its bias. */
    assert_int_equal(use(&(tw_cuda_network_options){0}, &m.plan), LAUNCHES + 1);
    /* The vendor is not asked where only our own kernels are wanted, and not for what it does not know. */
    assert_int_equal(use(&(tw_cuda_network_options){.by = TW_NETWORK_OWN}, &m.plan), LAUNCHES);
    for (int i = 0; i < m.plan.n; i++)
        if (!strcmp(m.plan.choices[i].kind, "cublaslt")) m.plan.choices[i].configuration = "1 2 1 0 0 0 3 4 5";
    assert_int_equal(use(&(tw_cuda_network_options){0}, &m.plan), LAUNCHES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(networks_are_captured, open_all, close_all),
        cmocka_unit_test_setup_teardown(products_are_searched_once, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_longest_is_searched_first, open_products, close_all),
        cmocka_unit_test_setup_teardown(a_limit_ends_searches, open_all, close_all),
        cmocka_unit_test(few_heads_have_small_tiles),
        cmocka_unit_test(no_warpgroup_idles),
        cmocka_unit_test(cleared_products_begin_late),
        cmocka_unit_test_setup_teardown(the_vendor_has_maps_behind, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_plan_decides, open_all, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
