/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on a stand-in for the driver whose kernels do nothing: what is captured, searched, chosen and given back. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "device/fake_cuda.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "graph/text.h"
#include "support/support.h"
#include "vm/network/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
/* The second product takes longer. */
static const char products[] = "graph \"products\" @23\n"
                               "  input %x: f16[2, 16, 64]\n"
                               "  constant %v: f16[64, 512] random 7\n"
                               "  constant %w: f16[512, 512] random 8\n"
                               "  %p = MatMul(%x, %v)\n"
                               "  %y = MatMul(%p, %w)\n"
                               "  output %y\n";

typedef struct made {
    tw_graph *graph;
    tw_program *program;
    tw_gpu *gpu;
    tw_network_weights *weights;
    tw_network_plan plan;
} made;

static made m;

static void good(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

/* Opens a machine, and lowers a graph for it. */
static int open_text(const char *text) {
    const tw_array x = {.type = TW_E_f16, .rank = 3, .dims = {2, 16, 64}};
    const tw_array *in[] = {&x};
    tw_graph *g = NULL;
    tw_diag diag = {0};
    setenv("TILEWRIGHT_LIBCUDA", TW_FAKE_CUDA, 1);
    setenv("TILEWRIGHT_LIBCUBLASLT", TW_FAKE_CUBLASLT, 1);
    unsetenv("TILEWRIGHT_PTXAS");
    fake_cuda_reset();
    good(tw_graph_parse(&g, text, strlen(text), "text", &diag), &diag);
    good(tw_graph_resolve(g, "text", &diag), &diag);
    good(tw_graph_specialize(&m.graph, g, in, &diag), &diag);
    tw_graph_free(g);
    good(tw_graph_fuse(m.graph, NULL, &diag), &diag);
    good(tw_graph_resolve(m.graph, "text", &diag), &diag);
    good(tw_program_lower(&m.program, m.graph, &(tw_program_options){.gpu = true}, &diag), &diag);
    good(tw_gpu_open(&m.gpu, "cuda", &diag), &diag);
    good(tw_network_weights_open(&m.weights, m.gpu, &diag), &diag);
    return 0;
}

static int open_all(void **state) {
    (void)state;
    return open_text(layer);
}

static int open_products(void **state) {
    (void)state;
    return open_text(products);
}

static int close_all(void **state) {
    (void)state;
    tw_network_weights_close(m.weights);
    tw_gpu_close(m.gpu);
    tw_program_free(m.program);
    tw_graph_free(m.graph);
    tw_network_plan_free(&m.plan);
    m = (made){0};
    return fake_cuda_alive(); /* An error for cmocka. */
}

/* Opens a network, runs it twice, times it, and shows it. Returns its number of launches. */
static int use(const tw_cuda_network_options *o, tw_network_plan *plan) {
    static char x[2 * 16 * 64 * 2], y[sizeof x];
    const void *in[] = {x};
    void *out[] = {y};
    tw_cuda_network *n;
    tw_diag diag = {0};
    tw_buf text = {0};
    double us[3];
    good(tw_cuda_network_open(&n, m.program, m.weights, o, plan, &diag), &diag);
    const int launches = tw_cuda_network_launches(n), before = fake_cuda_look()->replays;
    assert_int_equal(tw_cuda_network_time(n, 2, us, 3, &diag), TW_ERR_UNSUPPORTED);
    for (int i = 0; i < 2; i++) good(tw_cuda_network_run(n, in, out, &diag), &diag);
    assert_int_equal(fake_cuda_look()->replays, before + 1); /* The first run is captured behind its end. */
    good(tw_cuda_network_time(n, 2, us, 3, &diag), &diag);
    assert_true(us[0] > 0 && tw_cuda_network_bytes(n) > 0);
    good(tw_cuda_network_explain(n, true, &text, &diag), &diag);
    int lines = 0;
    for (size_t i = 0; i < text.size; i++) lines += text.data[i] == '\n';
    assert_int_equal(lines, launches);
    tw_buf_free(&text);
    tw_cuda_network_close(n);
    return launches;
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

/* ---- settling */

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

/* Opens a network with what its ways take in passes. Returns which is settled, or -1, and its bytes beside weights. */
static int settle(const int us[WAYS], int noise, int64_t *bytes) {
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true};
    tw_cuda_network *n;
    tw_diag diag = {0};
    memcpy(whole_us, us, sizeof whole_us);
    noise_us = noise;
    fake_cuda_time(us_of);
    tw_network_plan_settle(&m.plan, second, -1);
    m.plan.settled = (tw_network_settled){0};
    good(tw_cuda_network_open(&n, m.program, m.weights, &o, &m.plan, &diag), &diag);
    if (bytes) *bytes = tw_cuda_network_bytes(n);
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
    assert_int_equal(settle((int[]){1000, 1000, 900, 100}, 0, &with), 2);
    assert_true(with > without);
    assert_true(has_way(&m.plan, 2));
    use(&(tw_cuda_network_options){.by = TW_NETWORK_OWN, .search = true, .clear = true}, &m.plan);
    assert_int_equal(settle((int[]){900, 1000, 910, 100}, 0, &lost), 0);
    assert_int_equal(lost, without);
}

/* A product by the vendor is a way as others are. */
static void the_vendor_is_a_way(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.search = true};
    const tw_network_choice vendor = {"cublaslt", second, "1 520 1 0 0 0 4 0 5", 10.5, false};
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

/* Each kernel is compiled once: the three ways that are promising, and the other product. */
static void ways_are_compiled_side_by_side(void **state) {
    (void)state;
    const char *folder = getenv("TILEWRIGHT_CACHE");
    char *before = folder ? strdup(folder) : NULL;
    setenv("TILEWRIGHT_CACHE", "/dev/null/none", 1);
    const int compiled = fake_cuda_look()->compiled;
    assert_int_equal(settle((int[]){1000, 900, 950, 100}, 0, NULL), 1);
    assert_int_equal(fake_cuda_look()->compiled, compiled + 4);
    assert_int_equal(m.gpu->n_code, 0);
    if (before)
        setenv("TILEWRIGHT_CACHE", before, 1);
    else
        unsetenv("TILEWRIGHT_CACHE");
    free(before);
}

static void settled_attention_is_taken(void **state) {
    (void)state;
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    tw_network_plan plan = {0};
    const tw_cuda_network n = {.gpu = &gpu, .plan = &plan, .info = {.sm = 90, .sms = 132, .target = gpu.target}};
    tw_attention_problem p = {.type = TW_T_f16,
                              .heads = 12,
                              .kv_heads = 12,
                              .head = 64,
                              .queries = 512,
                              .keys = 512,
                              .batch = 1,
                              .scale = 0.125};
    tw_attention_config c;
    char words[512];
    good(tw_attention_complete(&p, NULL), NULL);
    tw_attention_print(&p, words, sizeof words);
    assert_int_equal(tw_network_choose_attention(&n, &p, &c), 0);
    static const char *const tiles[] = {"rows=64 columns=64", "rows=128 columns=128", "rows=192 columns=96"};
    for (int i = 0; i < 3; i++)
        good(tw_network_plan_add(&plan, &(tw_network_choice){"attention", words, tiles[i], i + 1, false}, NULL), NULL);
    assert_int_equal(tw_network_choose_attention(&n, &p, &c), 1);
    assert_int_equal(c.rows, 64);
    tw_network_plan_settle(&plan, words, 2);
    assert_int_equal(tw_network_choose_attention(&n, &p, &c), 3);
    assert_true(c.rows == 192 && c.columns == 96);
    tw_network_plan_free(&plan);
}

static void no_time_settles_nothing(void **state) {
    (void)state;
    const tw_cuda_network_options o = {.by = TW_NETWORK_OWN, .search = true, .seconds = 1e-9};
    use(&o, &m.plan);
    assert_int_equal(m.plan.cut, 1);
    assert_int_equal(m.plan.settled.problems, 0);
    assert_true(!m.plan.choices[0].settled);
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
        cmocka_unit_test_setup_teardown(networks_are_captured, open_all, close_all),
        cmocka_unit_test_setup_teardown(products_are_searched_once, open_all, close_all),
        cmocka_unit_test_setup_teardown(the_longest_is_searched_first, open_products, close_all),
        cmocka_unit_test_setup_teardown(a_limit_ends_searches, open_all, close_all),
        cmocka_unit_test(few_heads_have_small_tiles),
        cmocka_unit_test(no_warpgroup_idles),
        cmocka_unit_test(cleared_products_begin_late),
        cmocka_unit_test_setup_teardown(the_vendor_has_maps_behind, open_all, close_all),
        cmocka_unit_test_setup_teardown(a_plan_decides, open_all, close_all),
        cmocka_unit_test_setup_teardown(whole_passes_decide, open_ways, close_all),
        cmocka_unit_test_setup_teardown(noise_changes_nothing, open_ways, close_all),
        cmocka_unit_test_setup_teardown(ways_have_their_workspace, open_ways, close_all),
        cmocka_unit_test_setup_teardown(the_vendor_is_a_way, open_ways, close_all),
        cmocka_unit_test_setup_teardown(ways_are_compiled_side_by_side, open_ways, close_all),
        cmocka_unit_test(settled_attention_is_taken),
        cmocka_unit_test_setup_teardown(no_time_settles_nothing, open_ways, close_all),
        cmocka_unit_test_setup_teardown(failures_leave_what_there_was, open_ways, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
