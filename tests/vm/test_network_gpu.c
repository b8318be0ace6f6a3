/* SPDX-License-Identifier: Apache-2.0 */
/* Networks on a stand-in for the driver whose kernels do nothing: what is captured, searched, chosen and given back. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "kernels/fake_cudnn.h"
#include "vm/network_stand_in.h"

#include <stdio.h>

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
    fake_cudnn_reset();
    return open_text(layer);
}

static int close_layer(void **state) {
    return close_all(state) + fake_cudnn_alive();
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
    use(&o, &m.plan);
    assert_int_equal(m.plan.searched, 3);
}

/* Opens a network, runs it, and tells what computes its attention. *left_out is the reason why that is not cuDNN. */
static void attention_by(const tw_cuda_network_options *o, tw_network_plan *plan, char by[256], char left_out[256]) {
    static char x[2 * 16 * 64 * 2], y[sizeof x];
    const void *in[] = {x};
    void *out[] = {y};
    tw_cuda_network *n;
    tw_diag diag = {0};
    tw_buf text = {0};
    good(tw_cuda_network_open(&n, m.program, m.weights, o, plan, &diag), &diag);
    for (int i = 0; i < 2; i++) good(tw_cuda_network_run(n, in, out, &diag), &diag);
    good(tw_cuda_network_explain(n, false, &text, &diag), &diag);
    const char *line = strstr(text.data, "; Attention"), *reason = strstr(text.data, "# cudnn is left out: ");
    if (!line) fail_msg("%s", text.data);
    line = strchr(line + 1, ';') + 2;
    snprintf(by, 256, "%.*s", (int)strcspn(line, "\n"), line);
    snprintf(left_out, 256, "%s", reason ? reason : "");
    tw_buf_free(&text);
    tw_cuda_network_close(n);
}

/* A plan of the layer's products leaves its attention alone to be searched. */
static void plan_products(void) {
    static const char *const products_of_it[] = {"type=f16 m=32 n=192 k=64 bias=1",
                                                 "type=f16 m=32 n=64 k=64 residual=1"};
    tw_diag diag = {0};
    for (int i = 0; i < 2; i++)
        good(tw_network_plan_add(&m.plan, &(tw_network_choice){"gemm", products_of_it[i], "none", 1, false}, &diag),
             &diag);
}

/* The stand-in's second engine is faster and wrong, and the third is none. */
static void attention_is_the_vendors(void **state) {
    (void)state;
    char by[256], left_out[256];
    attention_by(&(tw_cuda_network_options){0}, NULL, by, left_out);
    assert_null(strstr(by, "cudnn"));
    assert_int_equal(fake_cudnn_runs(), 0);
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_VENDOR}, NULL, by, left_out);
    assert_string_equal(by, "cudnn 2 24=7");
    assert_string_equal(left_out, "");
    assert_int_equal(fake_cudnn_runs(), 2); /* A run, and what is captured behind it. */
    plan_products();
    attention_by(&(tw_cuda_network_options){.search = true, .measured = 1}, &m.plan, by, left_out);
    assert_int_equal(m.plan.searched, 1);
    assert_string_equal(by, "cudnn 2 24=7");
    int at = 0;
    while (at < m.plan.n && strcmp(m.plan.choices[at].kind, "cudnn") != 0) at++;
    assert_true(at < m.plan.n);
    assert_string_equal(m.plan.choices[at].configuration, "2 24=7");
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_OWN}, &m.plan, by, left_out);
    assert_null(strstr(by, "cudnn"));
    /* Who is faster by the plan computes it. */
    tw_diag diag = {0};
    const tw_network_choice own = {"attention", m.plan.choices[at].problem, "rows=64", m.plan.choices[at].us * 2,
                                   false};
    good(tw_network_plan_add(&m.plan, &own, &diag), &diag);
    attention_by(&(tw_cuda_network_options){0}, &m.plan, by, left_out);
    assert_string_equal(by, "cudnn 2 24=7");
    m.plan.choices[at].us *= 3;
    attention_by(&(tw_cuda_network_options){0}, &m.plan, by, left_out);
    assert_null(strstr(by, "cudnn"));
    m.plan.n--;
    /* What another version knew is not made, and a reason is given. */
    m.plan.choices[at].configuration = "9 24=7";
    attention_by(&(tw_cuda_network_options){0}, &m.plan, by, left_out);
    assert_null(strstr(by, "cudnn"));
    assert_non_null(strstr(left_out, "use this engine"));
}

/* What is wanted of the vendor alone is not measured of ours. */
static void attention_is_the_vendors_alone(void **state) {
    (void)state;
    char by[256], left_out[256];
    plan_products();
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_VENDOR, .search = true}, &m.plan, by, left_out);
    assert_string_equal(by, "cudnn 2 24=7");
    assert_int_equal(m.plan.measured, 3);
}

/* Describes the layer's attention. */
static void describe_attention(tw_attention_problem *p, char *words, size_t size) {
    int i = 0;
    while (m.program->steps[i].kind != TW_STEP_ATTENTION) i++;
    good(tw_network_attention(&m.program->steps[i], p, NULL), NULL);
    tw_attention_print(p, words, size);
}

static void engines_are_made_once(void **state) {
    (void)state;
    char words[512];
    tw_attention_problem p;
    const tw_network_foreign *f, *same;
    tw_network_launch launch = {0};
    tw_cuda_network n = {.gpu = m.gpu, .weights = m.weights, .plan = &m.plan};
    describe_attention(&p, words, sizeof words);
    /* What another version knew. */
    good(tw_network_open_cudnn(&n, &p, words, "9 24=7", &f, NULL), NULL);
    assert_null(f);
    assert_non_null(strstr(m.weights->left_out, "use this engine"));
    const int calls = fake_cudnn_calls(), alive = fake_cudnn_alive();
    good(tw_network_open_cudnn(&n, &p, words, "9 24=7", &f, NULL), NULL);
    assert_null(f);
    assert_int_equal(fake_cudnn_calls(), calls);
    /* What no launch has is freed, and the workspace of what one has counts. */
    good(tw_network_open_cudnn(&n, &p, words, "1 24=6", &f, NULL), NULL);
    good(tw_network_open_cudnn(&n, &p, words, "2 24=7", &f, NULL), NULL);
    good(tw_network_open_cudnn(&n, &p, words, "2 24=7", &same, NULL), NULL);
    assert_true(f && f == same);
    launch.cudnn = f;
    n.launches = &launch;
    n.n = 1;
    tw_network_keep_cudnn(&n);
    assert_true(n.foreign == f && !f->next);
    assert_int_equal(n.bytes, 256);
    n.n = 0;
    tw_network_keep_cudnn(&n);
    assert_int_equal(fake_cudnn_alive(), alive);
    tw_arena_free(&n.arena);
}

/* Who wants the vendor's has what a search found of it, whatever whole passes have settled. */
static void the_vendors_best_is_taken(void **state) {
    (void)state;
    char words[512], by[256], left_out[256];
    tw_attention_problem p;
    describe_attention(&p, words, sizeof words);
    plan_products();
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_OWN, .search = true, .measured = 1}, &m.plan, by,
                 left_out);
    assert_int_equal(m.plan.searched, 1);
    assert_false(m.weights->asked_cudnn);
    m.plan.n = 0;
    const tw_network_choice ways[] = {{"attention", words, "rows=64", 2, true}, {"cudnn", words, "1 24=6", 1, false}};
    for (int i = 0; i < 2; i++) good(tw_network_plan_add(&m.plan, &ways[i], NULL), NULL);
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_OWN}, &m.plan, by, left_out);
    assert_null(strstr(by, "cudnn"));
    assert_false(m.weights->asked_cudnn);
    attention_by(&(tw_cuda_network_options){0}, &m.plan, by, left_out);
    assert_null(strstr(by, "cudnn"));
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_VENDOR}, &m.plan, by, left_out);
    assert_string_equal(by, "cudnn 1 24=6");
    /* Without the vendor's it is what was settled. The reason is not given where other attention is the vendor's. */
    m.plan.choices[1].configuration = "9 24=7";
    m.plan.choices[0].configuration = "rows=64 columns=48";
    attention_by(&(tw_cuda_network_options){0}, &m.plan, by, left_out);
    assert_non_null(strstr(by, "columns=48"));
    snprintf(m.weights->left_out, sizeof m.weights->left_out, "of another");
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_VENDOR}, &m.plan, by, left_out);
    assert_string_equal(by, "cudnn 2 24=7");
    assert_string_equal(left_out, "");
}

/* Searches attention of these words by the vendor's engines. The stand-in computes it, and its results are compared. */
static bool is_found(const char *words) {
    char text[256];
    tw_attention_problem p;
    tw_attention_data d;
    tw_attention_answer *answer;
    tw_attention_rig *rig;
    tw_diag diag = {0};
    tw_cuda_network n = {.gpu = m.gpu, .weights = m.weights, .plan = &m.plan};
    snprintf(text, sizeof text, "%s", words);
    good(tw_attention_parse(&p, text, &diag), &diag);
    good(tw_attention_data_make(&d, &p, 1, &diag), &diag);
    good(tw_attention_answer_make(&answer, &d, 1, &diag), &diag);
    good(tw_attention_rig_make(&rig, m.gpu->cuda, &d, answer, &diag), &diag);
    m.plan.n = 0;
    good(tw_network_search_cudnn(&n, &p, rig, words, 0, &diag), &diag);
    tw_attention_rig_free(rig);
    tw_attention_answer_free(answer);
    tw_attention_data_free(&d);
    tw_arena_free(&n.arena);
    return m.plan.n == 1;
}

static void attention_of_all_kinds_is_the_vendors(void **state) {
    (void)state;
    static const char *const known[] = {
        "type=f16 heads=2 head=32 queries=9 causal=1 ldq=80 ldk=96 ldo=72 batch=2",
        "type=bf16 heads=4 kv_heads=2 head=32 queries=3 keys=11 batch=2 scale=0.3",
        "type=f16 heads=4 kv_heads=2 head=32 queries=3 keys=11 capacity=16 batch=2 causal=1",
        "type=f16 mask=f32 heads=2 head=32 queries=5 keys=8 batch=2 mask_batch=2 mask_heads=1 ldm=16",
        "type=f16 mask=f16 heads=2 head=32 queries=5 keys=8 batch=2 mask_batch=1 mask_heads=2"};
    static const char *const unknown[] = {"type=f16 heads=2 head=32 queries=9 keys=8 causal=1",
                                          "type=f16 heads=2 head=32 queries=9 cap=3",
                                          "type=f16 heads=2 head=32 queries=9 window=4",
                                          "type=f16 heads=2 head=32 queries=9 lse=1",
                                          "type=f16 heads=2 head=32 queries=9 sinks=1",
                                          "type=f16 mask=i8 heads=2 head=32 queries=9",
                                          "type=f16 heads=2 head=72 queries=9"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!is_found(known[i])) fail_msg("%s: %s", known[i], m.weights->left_out);
    assert_string_equal(m.weights->left_out, "");
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        *m.weights->left_out = 0;
        if (is_found(unknown[i])) fail_msg("%s", unknown[i]);
        assert_true(strlen(m.weights->left_out) > 0);
    }
}

static void attention_without_the_library(void **state) {
    (void)state;
    char by[256], left_out[256];
    setenv("TILEWRIGHT_LIBCUDNN", "none", 1);
    attention_by(&(tw_cuda_network_options){.by = TW_NETWORK_VENDOR}, NULL, by, left_out);
    assert_null(strstr(by, "cudnn"));
    assert_non_null(strstr(left_out, "no cuDNN"));
    /* A plan that was found where there was one has our own second best. */
    char words[512];
    tw_attention_problem p;
    describe_attention(&p, words, sizeof words);
    const tw_network_choice ways[] = {{"attention", words, "rows=64 columns=48", 2, false},
                                      {"cudnn", words, "2 24=7", 1, true}};
    for (int i = 0; i < 2; i++) good(tw_network_plan_add(&m.plan, &ways[i], NULL), NULL);
    for (int by_whom = 0; by_whom <= TW_NETWORK_VENDOR; by_whom += TW_NETWORK_VENDOR) {
        attention_by(&(tw_cuda_network_options){.by = by_whom}, &m.plan, by, left_out);
        assert_non_null(strstr(by, "columns=48"));
        assert_non_null(strstr(left_out, "no cuDNN"));
    }
    m.plan.n = 0;
    plan_products();
    attention_by(&(tw_cuda_network_options){.search = true, .measured = 1}, &m.plan, by, left_out);
    assert_null(strstr(by, "cudnn"));
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

/* Few tiles get fewer rows, and if there is one for each SM two warpgroups. Many keep the usual ones. */
static void few_heads_have_small_tiles(void **state) {
    (void)state;
    static const struct {
        int64_t heads, head, length, batch;
        bool causal;
        int rows, slices;
    } cases[] = {{12, 64, 512, 1, false, 64, 2},   {12, 64, 512, 1, true, 64, 2},     {12, 64, 512, 4, false, 128, 1},
                 {16, 64, 512, 4, false, 128, 1},  {16, 64, 4096, 4, false, 192, 1},  {32, 64, 8192, 1, true, 192, 1},
                 {32, 128, 512, 1, false, 128, 1}, {16, 128, 4096, 4, false, 128, 1}, {12, 64, 128, 1, false, 64, 1}};
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
        if (c.rows != cases[i].rows || c.slices != cases[i].slices)
            fail_msg("case %zu has %d rows and %d slices", i, c.rows, c.slices);
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

/* What a single warpgroup would do to all of a tile's sums, two do where no other tile is multiplied meanwhile. */
static void residuals_are_shared(void **state) {
    (void)state;
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    const tw_cuda_network n = {.gpu = &gpu, .info = {.sms = 132, .clock_khz = 1980000, .target = gpu.target}};
    for (int i = 0; i < 4; i++) {
        tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 4096, .n = 768, .k = i % 2 ? 3072 : 768, .alpha = 1};
        tw_gemm_config c;
        p.epilogue.residual = i > 1;
        assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
        assert_true(tw_network_estimate(&n, &p, &c));
        assert_int_equal(c.ml / c.ms, i > 1 ? 2 : 1);
        assert_int_equal(c.pingpong, i < 2);
    }
}

/* A matrix whose rows are padded for the kernels is on the device as it is padded, and not as it was. */
static int open_padded(void **state) {
    (void)state;
    return open_text("graph \"padded\" @23\n"
                     "  input %x: f16[2, 16, 64]\n"
                     "  constant %v: f16[64, 510] random 7\n"
                     "  %y = MatMul(%x, %v)\n"
                     "  output %y\n");
}

static void what_nobody_reads_is_not_uploaded(void **state) {
    (void)state;
    use(&(tw_cuda_network_options){0}, NULL);
    /* What is padded belongs to the network. */
    assert_int_equal(tw_network_weights_bytes(m.weights), 0);
}

/* A constant that is an output, a table that is gathered from, and a mask. */
static int open_read(void **state) {
    (void)state;
    return open_text("graph \"read\" @23\n"
                     "  input %x: f16[2, 16, 64]\n"
                     "  constant %c: f16[3, 128] random 7\n"
                     "  constant %t: f16[32, 64] random 8\n"
                     "  constant %m: f16[16, 16] random 9\n"
                     "  %i = Cast(%x) to=7\n"
                     "  %g = Gather(%t, %i)\n"
                     "  %a = Attention(%x, %x, %x, %m) q_num_heads=2 kv_num_heads=2\n"
                     "  output %c\n"
                     "  output %g\n"
                     "  output %a\n");
}

static void what_steps_read_is_uploaded(void **state) {
    (void)state;
    enum { UNIT = 256 };
    const int64_t bytes[] = {3 * 128 * 2, 32 * 64 * 2, 16 * 16 * 2};
    tw_cuda_network *n;
    tw_diag diag = {0};
    int64_t all = 0;
    for (int i = 0; i < 3; i++) all += (bytes[i] + UNIT) / UNIT * UNIT;
    good(tw_cuda_network_open(&n, m.program, m.weights, &(tw_cuda_network_options){0}, NULL, &diag), &diag);
    assert_int_equal(tw_network_weights_bytes(m.weights), all);
    tw_cuda_network_close(n);
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
        good(tw_network_choose(&n, &p, &p, &chosen, &diag), &diag);
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
    static const char problem[] = "type=f16 m=32 n=192 k=64 bias=1";
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
        cmocka_unit_test_setup_teardown(networks_are_captured, open_all, close_layer),
        cmocka_unit_test_setup_teardown(products_are_searched_once, open_all, close_layer),
        cmocka_unit_test_setup_teardown(attention_is_the_vendors, open_all, close_layer),
        cmocka_unit_test_setup_teardown(attention_is_the_vendors_alone, open_all, close_layer),
        cmocka_unit_test_setup_teardown(engines_are_made_once, open_all, close_layer),
        cmocka_unit_test(residuals_are_shared),
        cmocka_unit_test_setup_teardown(what_nobody_reads_is_not_uploaded, open_padded, close_all),
        cmocka_unit_test_setup_teardown(what_steps_read_is_uploaded, open_read, close_all),
        cmocka_unit_test_setup_teardown(the_vendors_best_is_taken, open_all, close_layer),
        cmocka_unit_test_setup_teardown(attention_of_all_kinds_is_the_vendors, open_all, close_layer),
        cmocka_unit_test_setup_teardown(attention_without_the_library, open_all, close_layer),
        cmocka_unit_test_setup_teardown(the_longest_is_searched_first, open_products, close_all),
        cmocka_unit_test_setup_teardown(a_limit_ends_searches, open_all, close_layer),
        cmocka_unit_test(few_heads_have_small_tiles),
        cmocka_unit_test(no_warpgroup_idles),
        cmocka_unit_test(cleared_products_begin_late),
        cmocka_unit_test_setup_teardown(the_vendor_has_maps_behind, open_all, close_layer),
        cmocka_unit_test_setup_teardown(a_plan_decides, open_all, close_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
