/* SPDX-License-Identifier: Apache-2.0 */
/* Random configurations of matrix products for every target: verified before and after each pass, the same after a way
   through text, PTX printed, and, where PATH has ptxas, assembled. */
#define _GNU_SOURCE
#include "support/support.h"

#include "ir/passes/passes.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "kernels/gemm/generate.h"
#include "kernels/random_gemm.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "ptx/ptxas.h"
#include "tune/gemm_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One for each target, and one of products on warpgroups. */
enum { TARGETS = 5, SETS = TARGETS + 1, EACH = 18 /* three a type */, CASES = SETS * EACH };

static gemm_case cases[CASES];
static tw_buf ptx[CASES];

/* What fails is named by its command. */
#define REQUIRE(c, condition, ...)                                                                                     \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            char text[800];                                                                                            \
            gemm_case_print(c, text, sizeof text);                                                                     \
            print_message("%s\n", text);                                                                               \
            fail_msg(__VA_ARGS__);                                                                                     \
        }                                                                                                              \
    } while (0)

static tw_kernel *built(const gemm_case *c) {
    tw_gemm_variant v = tw_gemm_variant_of(&c->problem, &c->config);
    tw_kernel *k = tw_gemm_build(&v, &c->config, c->target);
    assert_non_null(k);
    return k;
}

static void draw_all(void) {
    /* Small blocks: code for large ones differs in its length alone. */
    const gemm_limits most = {.m = 90, .n = 90, .k = 120, .parts = 6, .work = 5e5, .code = 256};
    for (int t = 0; t < TARGETS; t++)
        for (int i = 0; i < EACH; i++) {
            gemm_case *c = &cases[t * EACH + i];
            assert_true(gemm_case_draw(c, (uint64_t)(100000 + t * 30 + i), tw_target_at(t), &most));
        }
    assert_null(tw_target_at(TARGETS));
    for (int i = 0; i < EACH; i++)
        assert_true(gemm_case_draw_warpgroups(&cases[TARGETS * EACH + i], (uint64_t)(1000 + i),
                                              tw_target_find("sm_90a"), &most));
}

static void kernels_stay_verified(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const gemm_case *c = &cases[i];
        tw_kernel *k = built(c);
        tw_gemm_resources need;
        tw_diag d;
        int64_t fixed;
        assert_true(tw_gemm_legal(&c->problem, &c->config, c->target, &need, NULL));
        REQUIRE(c, tw_kernel_shared_layout(k, &fixed) == need.shared_bytes && !fixed, "shared memory: %lld planned",
                (long long)need.shared_bytes);
        REQUIRE(c, k->threads == need.threads, "%d threads, %d planned", k->threads, need.threads);
        REQUIRE(c, k->target == c->target->sm, "target %d", k->target);
        REQUIRE(c, tw_pipeline_default(k, true, &d) == TW_OK, "%s", d.message);
        REQUIRE(c, tw_ptx_print(&ptx[i], k, c->target, &d) == TW_OK, "%s", d.message);
        tw_kernel_free(k);
    }
}

static void text_keeps_kernels(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const gemm_case *c = &cases[i];
        for (int pass = 0; pass < 2; pass++) {
            tw_buf once = {0}, twice = {0}, again = {0};
            tw_kernel *k = built(c), *parsed = NULL;
            tw_diag d;
            if (pass) assert_int_equal(tw_pipeline_default(k, false, &d), TW_OK);
            assert_true(tw_kernel_print(&once, k));
            REQUIRE(c, tw_kernel_parse(&parsed, once.data, once.size, "(text)", &d) == TW_OK, "line %d: %s", d.line,
                    d.message);
            assert_true(tw_kernel_print(&twice, parsed));
            REQUIRE(c, once.size == twice.size && !memcmp(once.data, twice.data, once.size), "the text differs");
            REQUIRE(c, tw_kernel_verify(parsed, 0, &d) == TW_OK, "%s", d.message);
            assert_int_equal(tw_ptx_print(&again, parsed, c->target, &d), TW_OK);
            if (pass)
                REQUIRE(c, again.size == ptx[i].size && !memcmp(again.data, ptx[i].data, again.size),
                        "the PTX differs");
            tw_kernel_free(parsed);
            tw_kernel_free(k);
            tw_buf_free(&once);
            tw_buf_free(&twice);
            tw_buf_free(&again);
        }
    }
}

static int count_of(const tw_buf *text, const char *what) {
    int n = 0;
    const char *end = (const char *)text->data + text->size;
    for (const char *at = (const char *)text->data; (at = memmem(at, (size_t)(end - at), what, strlen(what))); at++)
        n++;
    return n;
}

/* PTX wants all threads that wait at a barrier to do so by the same instruction. */
static void roles_wait_in_one_place(void **state) {
    (void)state;
    const int first = TARGETS * EACH, numbers[] = {TW_GEMM_BEGIN, TW_GEMM_PRODUCER};
    int waiting = 0;
    for (int i = first; i < CASES; i++)
        for (int j = 0; j < 2; j++) {
            char line[32];
            snprintf(line, sizeof line, "bar.sync %d, ", numbers[j]);
            const int places = count_of(&ptx[i], line);
            REQUIRE(&cases[i], places < 2, "barrier %d is waited for in %d places", numbers[j], places);
            waiting += j && places;
        }
    assert_true(waiting > 0);
}

/* Each stage of tf32x3 on warpgroups ends with one wait for its products. */
static void terms_are_waited_for_once(void **state) {
    (void)state;
    int terms = 0;
    for (int i = TARGETS * EACH; i < CASES; i++) {
        if (cases[i].problem.type != TW_GEMM_TF32X3) continue;
        const int waits = count_of(&ptx[i], "wgmma.wait_group");
        REQUIRE(&cases[i], waits == 1, "%d waits", waits);
        terms++;
    }
    assert_true(terms > 0);
}

static void ptxas_takes_them(void **state) {
    (void)state;
    char path[4096];
    if (!tw_ptxas_find("ptxas", path, sizeof path)) skip();
    for (int t = 0; t < SETS; t++) {
        static tw_ptx_job jobs[EACH];
        const tw_ptx_compiler by = {.target = cases[t * EACH].target->name, .ptxas = path};
        for (int i = 0; i < EACH; i++) {
            const tw_buf *text = &ptx[t * EACH + i];
            jobs[i] = (tw_ptx_job){.ptx = text->data, .bytes = text->size};
        }
        tw_ptx_compile_all_by(&by, jobs, EACH, 2);
        for (int i = 0; i < EACH; i++) {
            const gemm_case *c = &cases[t * EACH + i];
            REQUIRE(c, jobs[i].status == TW_OK, "%s", jobs[i].diag.message);
            REQUIRE(c, jobs[i].cubin.registers <= c->target->thread_registers, "%d registers", jobs[i].cubin.registers);
            tw_cubin_free(&jobs[i].cubin);
        }
    }
}

/* Prints the PTX of a product of a prompt. */
static void print_product(const char *words, const char *configuration, tw_buf *out) {
    char copy[400], config[400];
    tw_gemm_problem p;
    tw_gemm_config c;
    tw_diag d;
    snprintf(copy, sizeof copy, "type=bf16 m=2048 n=2048 tb=1 k=2048 weights=1 %s", words);
    snprintf(config, sizeof config, "mma=2 u=64 stages=3 vec=16 frag=16 ks=1 kl=1 kg=1 group=8 early=1 %s",
             configuration);
    assert_int_equal(tw_gemm_problem_parse(&p, copy, &d), TW_OK);
    c = (tw_gemm_config){.kg = 1};
    char *save;
    for (char *w = strtok_r(config, " ", &save); w; w = strtok_r(NULL, " ", &save))
        assert_int_equal(tw_gemm_config_parse(&c, w, &d), TW_OK);
    c.ns = c.nl;
    if (tw_gemm_ptx(&p, &c, tw_target_find("sm_90a"), out, &d) != TW_OK) fail_msg("%s", d.message);
}

/* Counts loads in front of the first product. Those of the producer stand behind it. */
static int loads_ahead(const tw_buf *text) {
    const char *from = text->data, *product = memmem(from, text->size, "wgmma.mma_async", strlen("wgmma.mma_async"));
    assert_non_null(product);
    const tw_buf before = {.data = text->data, .size = (size_t)(product - from)};
    return count_of(&before, "ld.global");
}

/* A tile's residual is loaded before the tile is multiplied: all of it, but where blocks share an SM, whose registers
   they part, and where tiles are cut along k. */
static void residuals_are_loaded_ahead_of_products(void **state) {
    (void)state;
    static const struct {
        const char *configuration;
        int loads; /* Each of two cells. */
    } tiles[] = {{"ml=64 ms=64 nl=32", 8},
                 {"ml=128 ms=64 nl=112 stages=6", 28},
                 {"ml=128 ms=64 nl=112 persistent=132", 28},
                 {"ml=128 ms=64 nl=112", 0},
                 {"ml=64 ms=64 nl=112", 28},
                 {"ml=64 ms=64 nl=96 stages=2 blocks=4", 8},
                 {"ml=128 ms=64 nl=112 stages=6 kg=2", 0},
                 {"ml=128 ms=64 nl=112 persistent=132 stream=1", 0}};
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
        char configuration[200];
        tw_buf text = {0};
        snprintf(configuration, sizeof configuration, "%s staged=3", tiles[i].configuration);
        print_product("residual=1", configuration, &text);
        const int loads = loads_ahead(&text);
        if (loads != tiles[i].loads) fail_msg("%s: %d loads", configuration, loads);
        tw_buf_free(&text);
    }
}

/* `epilogue` ends with how sums are staged. */
static void does_not_spill(const char *ptxas, const char *epilogue, const char *tile) {
    enum { FEW = 64 /* Bytes for tapes. */ };
    const char *staged = strstr(epilogue, " staged=");
    char words[200], configuration[200];
    tw_buf text = {0};
    tw_cubin cubin = {0};
    tw_diag d;
    const tw_ptx_compiler by = {.target = "sm_90a", .ptxas = ptxas};
    snprintf(words, sizeof words, "%.*s", (int)(staged - epilogue), epilogue);
    snprintf(configuration, sizeof configuration, "%s%s%s", tile, strstr(words, "tf32x3") ? " u=32" : "", staged);
    print_product(words, configuration, &text);
    if (tw_ptx_compile_by(&by, text.data, text.size, &cubin, &d) != TW_OK) fail_msg("%s", d.message);
    if (cubin.spill_bytes > (strstr(words, "tape") ? FEW : 0))
        fail_msg("%s %s: %d bytes spilled", words, configuration, cubin.spill_bytes);
    tw_cubin_free(&cubin);
    tw_buf_free(&text);
}

/* Products of many rows, whose large tiles leave few registers to what becomes of their sums. */
static void large_tiles_do_not_spill(void **state) {
    (void)state;
    static const char *const tiles[] = {"ml=256 ms=128 nl=128 persistent=132", "ml=128 ms=64 nl=256 persistent=132",
                                        "ml=128 ms=128 nl=128 persistent=132 pingpong=1"};
    static const char *const epilogues[] = {"tape=8x4x8 out=f32 beta=1 staged=2",
                                            "tape=8x4x8 out=f32 beta=1 squares=1 scaled=1 staged=2",
                                            "tape=8x4x8 gated=1 activation=silu sums=16 eps=1e-5 staged=3"};
    static const char *const others[][2] = {
        {"ml=128 ms=128 nl=160 persistent=132 pingpong=1", "bias=1 activation=gelu_erf staged=3"},
        {"ml=64 ms=64 nl=160 persistent=132 pingpong=1", "type=tf32x3 out=f16 bias=1 staged=3"},
        {"ml=128 ms=64 nl=128 persistent=132", "type=tf32x3 out=f16 beta=1 bias=1 mul=1 residual=1 staged=3"}};
    enum { TAPES = 9, ALL = TAPES + sizeof others / sizeof *others };
    char path[4096];
    if (!tw_ptxas_find("ptxas", path, sizeof path)) skip();
    for (int i = 0; i < ALL; i++)
        if (i < TAPES)
            does_not_spill(path, epilogues[i % 3], tiles[i / 3]);
        else
            does_not_spill(path, others[i - TAPES][1], others[i - TAPES][0]);
}

/* The kernels that count wrong cells and sums on a device. */
static void comparisons_assemble(void **state) {
    (void)state;
    static const tw_type types[] = {TW_T_f32, TW_T_f64, TW_T_f16, TW_T_bf16, TW_T_i32, TW_T_i8};
    char path[4096];
    const bool have = tw_ptxas_find("ptxas", path, sizeof path);
    for (size_t i = 0; i <= sizeof types / sizeof *types; i++) {
        const bool sums = i >= sizeof types / sizeof *types;
        const tw_type type = types[sums ? 0 : i];
        tw_kernel *k = sums ? tw_gemm_compare_sums_build(TW_T_f16, true, 80) : tw_gemm_compare_build(type, 80);
        tw_buf text = {0};
        tw_cubin cubin = {0};
        tw_diag d;
        const tw_ptx_compiler by = {.target = "sm_80", .ptxas = path};
        assert_non_null(k);
        if (tw_kernel_verify(k, 0, &d) != TW_OK) fail_msg("%s", d.message);
        assert_int_equal(tw_ptx_print(&text, k, tw_target_find("sm_80"), &d), TW_OK);
        if (have && tw_ptx_compile_by(&by, text.data, text.size, &cubin, &d) != TW_OK) fail_msg("%s", d.message);
        tw_cubin_free(&cubin);
        tw_buf_free(&text);
        tw_kernel_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_stay_verified),
                                       cmocka_unit_test(text_keeps_kernels),
                                       cmocka_unit_test(roles_wait_in_one_place),
                                       cmocka_unit_test(terms_are_waited_for_once),
                                       cmocka_unit_test(ptxas_takes_them),
                                       cmocka_unit_test(large_tiles_do_not_spill),
                                       cmocka_unit_test(residuals_are_loaded_ahead_of_products),
                                       cmocka_unit_test(comparisons_assemble)};
    draw_all();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < CASES; i++) tw_buf_free(&ptx[i]);
    return failed;
}
