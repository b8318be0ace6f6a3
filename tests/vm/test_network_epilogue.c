/* SPDX-License-Identifier: Apache-2.0 */
/* How products with an epilogue are searched and chosen, on a stand-in for the driver whose kernels do nothing. */
#define _GNU_SOURCE
#include "device/fake_cuda.h"
#include "kernels/gemm/estimate.h"
#include "vm/network_stand_in.h"

#include <math.h>

/* Three products of one shape: one has an activation, one a bias alone, and the last adds a matrix. */
static const char text[] = "graph \"epilogues\" @23\n"
                           "  input %x: f16[2, 16, 64]\n"
                           "  constant %u: f16[64, 64] random 7\n"
                           "  constant %v: f16[64, 64] random 8\n"
                           "  constant %w: f16[64, 64] random 9\n"
                           "  constant %b: f16[64] random 10\n"
                           "  %p = MatMul(%x, %u)\n"
                           "  %q = Add(%p, %b)\n"
                           "  %g = Gelu(%q)\n"
                           "  %r = MatMul(%g, %v)\n"
                           "  %s = Add(%r, %b)\n"
                           "  %t = MatMul(%s, %w)\n"
                           "  %y = Add(%t, %x)\n"
                           "  output %y\n";
static const char plain[] = "type=f16 m=32 n=64 k=64", with_bias[] = "type=f16 m=32 n=64 k=64 bias=1",
                  active[] = "type=f16 m=32 n=64 k=64 bias=1 activation=gelu_erf";
static const char small[] = "mma=1 ms=16 ns=16 ml=16 nl=16 u=16 stages=2 vec=16",
                  large[] = "mma=1 ms=16 ns=16 ml=32 nl=32 u=16 stages=2 vec=16", vendor[] = "1 520 1 0 0 0 4 0 5";
enum { PRODUCTS = 3 };

static int open_epilogues(void **state) {
    (void)state;
    return open_text(text);
}

static void add(const char *kind, const char *problem, const char *configuration, double us) {
    tw_diag diag = {0};
    good(tw_network_plan_add(&m.plan, &(tw_network_choice){kind, problem, configuration, us, false}, &diag), &diag);
}

/* Returns the microseconds of a problem's only choice of a kind. 0: there is none. */
static double us_of(const char *kind, const char *problem) {
    double us = 0;
    for (int i = tw_network_plan_find(&m.plan, problem, 0); i >= 0; i = tw_network_plan_find(&m.plan, problem, i + 1))
        if (!strcmp(m.plan.choices[i].kind, kind)) us = m.plan.choices[i].us;
    return us;
}

/* The product with a residual counts as the one with a bias, which comes first. */
static void activations_are_searched_apart(void **state) {
    (void)state;
    use(&(tw_cuda_network_options){.search = true, .measured = 2}, &m.plan);
    assert_int_equal(m.plan.searched, 2);
    assert_true(us_of("gemm", with_bias) > 0 && us_of("gemm", active) > 0);
    for (int i = 0; i < m.plan.n; i++)
        assert_true(!strcmp(m.plan.choices[i].problem, with_bias) || !strcmp(m.plan.choices[i].problem, active));
    /* Kernels take 10 us on the stand-in, and its library's fastest algorithm 20. Behind that a map follows. */
    assert_true(fabs(us_of("cublaslt", with_bias) - 30) < 1);
    assert_true(fabs(us_of("cublaslt", active) - 30) < 1);
}

/* Counts allocations of the device without which a network is not opened, among the first ones. */
static int needed(const tw_cuda_network_options *o) {
    int count = 0;
    for (int nth = 0; nth < 24; nth++) {
        tw_network_plan plan = {0};
        tw_cuda_network *n;
        tw_diag diag = {0};
        fake_cuda_fail("cuMemAlloc_v2", nth, 2);
        const tw_status st = tw_cuda_network_open(&n, m.program, m.weights, o, &plan, &diag);
        fake_cuda_fail(NULL, 0, 0);
        if (st == TW_OK)
            tw_cuda_network_close(n);
        else
            assert_int_equal(st, TW_ERR_MEMORY);
        count += st != TW_OK;
        tw_network_plan_free(&plan);
    }
    return count;
}

/* A search that finds no memory leaves a network that would be there without it. */
static void a_search_may_lack_memory(void **state) {
    (void)state;
    const tw_cuda_network_options none = {0};
    needed(&none); /* Constants stay on the device. */
    const int alone = needed(&none);
    assert_true(alone > 2);
    assert_int_equal(needed(&(tw_cuda_network_options){.search = true, .measured = 1}), alone);
}

/* Opens a network by the plan, and returns how many of its kernels have a shape. */
static int count(const char *shape) {
    tw_cuda_network *n;
    tw_diag diag = {0};
    tw_buf out = {0};
    int found = 0;
    good(tw_cuda_network_open(&n, m.program, m.weights, &(tw_cuda_network_options){0}, &m.plan, &diag), &diag);
    good(tw_cuda_network_explain(n, false, &out, &diag), &diag);
    for (const char *at = out.data; (at = strstr(at, shape)); at++) found++;
    tw_buf_free(&out);
    tw_cuda_network_close(n);
    return found;
}

static void problems_have_their_own_choices(void **state) {
    (void)state;
    /* What was found without the activation says nothing of it. */
    add("gemm", plain, small, 1);
    assert_int_equal(count("ml=16 nl=16"), PRODUCTS - 1);
    add("gemm", active, large, 2);
    assert_int_equal(count("ml=16 nl=16"), PRODUCTS - 1);
    assert_int_equal(count("ml=32 nl=32"), 1);
}

/* A product that was searched without its bias counts with the map. One that was searched with it has it counted. */
static void maps_count_once(void **state) {
    (void)state;
    add("gemm", plain, small, 10);
    add("cublaslt", plain, vendor, 9.9);
    add("gemm", active, small, 10);
    add("cublaslt", active, vendor, 9.9);
    assert_int_equal(use(&(tw_cuda_network_options){0}, &m.plan), PRODUCTS + 1);
    m.plan.choices[3].us = 10.1;
    assert_int_equal(use(&(tw_cuda_network_options){0}, &m.plan), PRODUCTS);
    m.plan.choices[1].us = 1;
    assert_int_equal(use(&(tw_cuda_network_options){0}, &m.plan), PRODUCTS + 2);
}

/* Parameters of the last map: its operands and its result. */
enum { OPERANDS = 3 };
static uint64_t mapped[OPERANDS + 1];

static void note(void **parameters) {
    for (int i = 0; i <= OPERANDS; i++) memcpy(&mapped[i], parameters[i], sizeof *mapped);
}

/* The largest errors that the last comparison allowed, and those that references wrote. */
static uint64_t compared_with, tolerance, twice;

static void note_reference(void **parameters) {
    enum { TOLERANCE = 3, TWICE = 14 };
    memcpy(&tolerance, parameters[TOLERANCE], sizeof tolerance);
    memcpy(&twice, parameters[TWICE], sizeof twice);
}

static void note_comparison(void **parameters) {
    memcpy(&compared_with, parameters[2], sizeof compared_with);
}

/* The vendor rounds a product before the map computes its epilogue. Nobody else may round twice. */
static void only_maps_round_twice(void **state) {
    (void)state;
    tw_cuda_network n = {.gpu = m.gpu, .weights = m.weights, .plan = &m.plan};
    tw_gemm_pool *pool;
    tw_diag diag = {0};
    good(tw_gemm_pool_make(&pool, m.gpu->cuda, TW_GEMM_F16, 1 << 20, 1, &diag), &diag);
    for (int biased = 0; biased < 2; biased++) {
        tw_gemm_problem p = {.type = TW_GEMM_F16, .m = 32, .n = 64, .k = 64, .alpha = 1, .epilogue = {.bias = biased}};
        tw_gemm_rig *rig;
        good(tw_gemm_problem_complete(&p, &diag), &diag);
        fake_cuda_hook("refer", note_reference);
        good(tw_gemm_rig_make_of(&rig, m.gpu->cuda, pool, &p, 0, 1024, &diag), &diag);
        fake_cuda_hook("compare", note_comparison);
        good(tw_network_search_vendor(&n, rig, &p, plain, &diag), &diag);
        fake_cuda_hook("compare", NULL);
        assert_true(tolerance && twice != tolerance && compared_with == (biased ? twice : tolerance));
        tw_gemm_rig_free(rig);
    }
    tw_gemm_pool_free(pool);
    tw_arena_free(&n.arena);
}

static void maps_are_where_products_are(void **state) {
    (void)state;
    tw_cuda_network n = {.gpu = m.gpu, .weights = m.weights, .plan = &m.plan};
    tw_gemm_problem p = {.type = TW_GEMM_F16,
                         .m = 32,
                         .n = 64,
                         .k = 64,
                         .alpha = 1,
                         .epilogue = {.bias = true, .activation = TW_GEMM_SILU, .residual = true}};
    tw_gemm_pool *pool;
    tw_gemm_rig *rig;
    tw_diag diag = {0};
    good(tw_gemm_problem_complete(&p, &diag), &diag);
    good(tw_gemm_pool_make(&pool, m.gpu->cuda, p.type, 1 << 20, 1, &diag), &diag);
    good(tw_gemm_rig_make_of(&rig, m.gpu->cuda, pool, &p, 0, 1024, &diag), &diag);
    fake_cuda_hook("map", note);
    good(tw_network_search_vendor(&n, rig, &p, active, &diag), &diag);
    fake_cuda_hook("map", NULL);
    assert_true(us_of("cublaslt", active) > 0);
    const tw_gemm_buffers last = tw_gemm_rig_buffers(rig, tw_gemm_rig_sets(rig) - 1);
    const uint64_t *of = last.of;
    assert_true(mapped[0] == of[TW_GEMM_C] && mapped[OPERANDS] == of[TW_GEMM_C]);
    assert_true(mapped[1] == of[TW_GEMM_BIAS] && mapped[2] == of[TW_GEMM_RESIDUAL]);
    tw_gemm_rig_free(rig);
    tw_gemm_pool_free(pool);
    tw_arena_free(&n.arena);
}

/* Tiles that overlap are the best by estimate first, and more than the device has SMs. */
static void epilogues_overlap(void **state) {
    (void)state;
    tw_gpu gpu = {.target = tw_target_find("sm_90a")};
    const tw_cuda_network n = {.gpu = &gpu, .info = {.sm = 90, .sms = 132, .clock_khz = 1980000, .target = gpu.target}};
    static const int64_t shapes[][3] = {{2048, 3072, 768}, {512, 3072, 768}, {32, 64, 64}};
    for (int i = 0; i < 3; i++) {
        tw_gemm_problem p = {.type = TW_GEMM_F16,
                             .m = shapes[i][0],
                             .n = shapes[i][1],
                             .k = shapes[i][2],
                             .alpha = 1,
                             .epilogue = {.bias = true, .activation = TW_GEMM_GELU_ERF}};
        tw_gemm_config c[TW_NETWORK_OVERLAPPING];
        tw_gemm_resources need;
        double before = 0;
        assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
        assert_int_equal(tw_network_overlapping(&n, &p, c), i < 2 ? TW_NETWORK_OVERLAPPING : 0);
        for (int k = 0; k < TW_NETWORK_OVERLAPPING && i < 2; k++) {
            const double time = tw_gemm_estimate(&p, &c[k], &n.info);
            assert_true(c[k].pingpong && tw_gemm_legal(&p, &c[k], gpu.target, &need, NULL) && need.tiles > 132);
            assert_true(time >= before && (!k || memcmp(&c[k], &c[k - 1], sizeof *c) != 0));
            before = time;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(activations_are_searched_apart, open_epilogues, close_all),
        cmocka_unit_test_setup_teardown(a_search_may_lack_memory, open_epilogues, close_all),
        cmocka_unit_test_setup_teardown(problems_have_their_own_choices, open_epilogues, close_all),
        cmocka_unit_test_setup_teardown(maps_count_once, open_epilogues, close_all),
        cmocka_unit_test(epilogues_overlap),
        cmocka_unit_test_setup_teardown(maps_are_where_products_are, open_epilogues, close_all),
        cmocka_unit_test_setup_teardown(only_maps_round_twice, open_epilogues, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
