/* SPDX-License-Identifier: Apache-2.0 */
/* Narrow B: how it is stored, that each integer is converted and scaled exactly, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "base/random.h"
#include "ir/value.h"
#include "kernels/gemm/generate.h"
#include "kernels/gemm/reference.h"
#include "kernels/random_gemm.h"

#include <stdlib.h>
#include <string.h>

static tw_gemm_problem problem(tw_gemm_type type, tw_gemm_narrow narrow, int64_t n, int64_t k, int64_t scales) {
    tw_gemm_problem p = {.type = type,
                         .out = TW_T_f32,
                         .m = 64,
                         .n = n,
                         .k = k,
                         .trans_b = true,
                         .narrow = narrow,
                         .scales = scales,
                         .alpha = 1};
    tw_diag d;
    if (tw_gemm_problem_complete(&p, &d) != TW_OK) fail_msg("%s", d.message);
    return p;
}

/* What is packed is found again, in bytes of its own, and the padding is zero. */
static void integers_are_found_again(void **state) {
    (void)state;
    enum { N = 130, K = 300 };
    static int8_t integers[N * K];
    for (tw_gemm_narrow t = TW_GEMM_I8; t <= TW_GEMM_I4; t++) {
        const tw_gemm_problem p = problem(TW_GEMM_BF16, t, N, K, 0);
        const tw_gemm_matrix m = tw_gemm_matrix_of(&p, TW_GEMM_B);
        const size_t bytes = tw_gemm_matrix_bytes(&m);
        assert_int_equal(bytes, 192 * 512 / (t == TW_GEMM_I4 ? 2 : 1));
        tw_random r = tw_random_seed(t);
        const int range = t == TW_GEMM_I4 ? 16 : 256;
        int64_t set = 0, found = 0;
        for (int i = 0; i < N * K; i++) {
            integers[i] = (int8_t)((int)tw_random_below(&r, (uint64_t)range) - range / 2);
            set += __builtin_popcount((unsigned)integers[i] & (unsigned)(range - 1));
        }
        uint8_t *packed = malloc(bytes);
        assert_non_null(packed);
        memset(packed, 0xff, bytes);
        tw_gemm_pack(&p, integers, packed);
        for (size_t i = 0; i < bytes; i++) found += __builtin_popcount(packed[i]);
        assert_int_equal(found, set);
        for (int i = 0; i < N * K; i++) assert_int_equal(tw_gemm_packed(&p, packed, i / K, i % K), integers[i]);
        free(packed);
    }
}

/* The places of scales are the numbers from 0, each once. */
static void scales_have_places(void **state) {
    (void)state;
    const tw_gemm_problem p = problem(TW_GEMM_F16, TW_GEMM_I4, 128, 300, 64);
    const tw_gemm_matrix m = tw_gemm_matrix_of(&p, TW_GEMM_SCALES);
    bool seen[128 * 8] = {false};
    assert_int_equal(tw_gemm_matrix_bytes(&m), sizeof seen * 2);
    for (int i = 0; i < 128 * 8; i++) {
        const int64_t at = tw_gemm_scale_place(&p, i / 8, i % 8);
        assert_true(at >= 0 && at < 128 * 8 && !seen[at]);
        seen[at] = true;
    }
}

static uint16_t round_to(tw_gemm_type t, float x) {
    return t == TW_GEMM_F16 ? tw_f32_to_f16(x) : tw_f32_to_bf16(x);
}

static float widen(tw_gemm_type t, uint16_t x) {
    return t == TW_GEMM_F16 ? tw_f16_to_f32(x) : tw_bf16_to_f32(x);
}

/* Row i of A selects element i of a column, so that C has the elements of B, bit by bit. */
static void elements_are_exact(tw_gemm_type type, tw_gemm_narrow narrow, int scales, bool sums) {
    enum { N = 256, K = 64 };
    tw_gemm_problem p = problem(type, narrow, N, K, scales);
    p.scale_sums = sums;
    tw_gemm_config c = tw_gemm_config_default(&p);
    tw_gemm_data d;
    tw_diag diag;
    assert_int_equal(tw_gemm_data_make(&d, &p, 7, &diag), TW_OK);
    static int8_t integers[N * K];
    const int range = narrow == TW_GEMM_I4 ? 16 : 256;
    for (int i = 0; i < N * K; i++) integers[i] = (int8_t)((i / K + i % K) % range - range / 2);
    tw_gemm_pack(&p, integers, d.of[TW_GEMM_B]);
    memset(d.of[TW_GEMM_A], 0, d.bytes[TW_GEMM_A]);
    for (int i = 0; i < K; i++) ((uint16_t *)d.of[TW_GEMM_A])[i * K + i] = round_to(type, 1);
    for (int i = 0; i < K * N; i++) {
        const int k = i / N, column = i % N, q = integers[column * K + k];
        d.want[i] = q;
        if (scales) {
            const int64_t at = tw_gemm_scale_place(&p, column, k / scales);
            const float x = (float)q * widen(type, ((uint16_t *)d.of[TW_GEMM_SCALES])[at]);
            d.want[i] = (double)(sums ? x : widen(type, round_to(type, x)));
        }
        d.tolerance[i] = 1e-30f;
    }
    if (tw_gemm_emulate(&d, &c, tw_target_find("sm_90a"), 1, NULL, &diag) != TW_OK) fail_msg("%s", diag.message);
    tw_gemm_data_free(&d);
}

static void all_integers_are_exact(void **state) {
    (void)state;
    for (int i = 0; i < 12; i++)
        elements_are_exact(i & 1 ? TW_GEMM_F16 : TW_GEMM_BF16, i & 2 ? TW_GEMM_I4 : TW_GEMM_I8, i >= 4 ? 32 : 0,
                           i >= 8);
}

/* Random products whose rings go round, in all ways to deal out tiles and to split k. */
static void random_ones_are_right(void **state) {
    (void)state;
    enum { CASES = TEST_SANITIZED ? 10 : 100 };
    const gemm_limits most = {.m = 150, .n = 200, .k = 900, .parts = 6, .work = 2e7, .code = 256};
    const tw_target *t = tw_target_find("sm_90a");
    int splits = 0, deep = 0, persistent = 0, teams = 0, streamed = 0, together = 0, wide = 0, sums = 0;
    for (int i = 0, n = 0; n < CASES; i++) {
        gemm_case c;
        tw_gemm_data d;
        tw_diag diag;
        char text[800];
        assert_true(gemm_case_draw_warpgroups(&c, 5000 + (uint64_t)i, t, &most));
        if (!c.problem.narrow) continue;
        n++;
        splits += c.config.kg > 1;
        deep += c.config.stages * c.config.u * c.config.kg < c.problem.k;
        persistent += c.config.persistent > 0;
        teams += c.config.pingpong;
        streamed += c.config.stream > 0;
        together += c.config.multicast > 0;
        wide += c.config.ms > 64;
        sums += c.problem.scale_sums;
        assert_int_equal(tw_gemm_data_make(&d, &c.problem, c.seed, &diag), TW_OK);
        if (tw_gemm_emulate(&d, &c.config, t, c.seed, NULL, &diag) != TW_OK) {
            gemm_case_print(&c, text, sizeof text);
            fail_msg("%s --emulate\n  %s", text, diag.message);
        }
        tw_gemm_data_free(&d);
    }
    print_message("splits %d, deep %d, persistent %d, teams %d, streamed %d, multicast %d, 128 rows %d, sums %d\n",
                  splits, deep, persistent, teams, streamed, together, wide, sums);
    assert_true(CASES < 100 || (splits >= 10 && deep >= 20 && persistent >= 10 && teams >= 4 && streamed >= 4));
    assert_true(CASES < 100 || (together >= 8 && wide >= 8 && sums >= 12));
}

static void problems_without_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *message;
    } wrong[] = {{"type=f32 tb=1 narrow=i8", "as f16 or bf16"},
                 {"type=bf16 narrow=i8", "stored n x k"},
                 {"type=bf16 tb=1 narrow=i8 ldb=264", "without gaps"},
                 {"type=bf16 tb=1 narrow=i4 batch=2", "once"},
                 {"type=bf16 tb=1 narrow=i4 groups=2", "no groups"},
                 {"type=bf16 tb=1 scales=32", "of a narrow B"},
                 {"type=bf16 tb=1 scale_sums=1", "of a narrow B"},
                 {"type=bf16 tb=1 narrow=i8 scale_sums=1", "no scales"},
                 {"type=bf16 tb=1 narrow=i4 scales=48", "neither 32 nor a multiple of 64"},
                 {"type=bf16 tb=1 narrow=i4 scales=96", "neither 32 nor a multiple of 64"},
                 {"type=bf16 tb=1 narrow=i4 squares=1", "squares"},
                 {"type=bf16 tb=1 narrow=i4 scales=288", "within 0..256"}};
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        tw_gemm_problem p = {.m = 8, .n = 64, .k = 256, .alpha = 1};
        char words[80], *save = NULL;
        tw_diag d;
        tw_status st;
        strcpy(words, wrong[i].words);
        for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
            assert_true(tw_gemm_problem_word(&p, w, &st, &d));
        assert_int_equal(tw_gemm_problem_complete(&p, &d), TW_ERR_USAGE);
        if (!strstr(d.message, wrong[i].message)) fail_msg("%s: %s", wrong[i].words, d.message);
    }
    tw_gemm_problem p = {0};
    tw_diag d;
    tw_status st;
    assert_false(tw_gemm_problem_word(&p, "narrow=i2", &st, &d));
    assert_int_equal(st, TW_ERR_USAGE);
}

static void configurations_without_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        int scales;
        const char *words, *why;
    } wrong[] = {{0, "mma=1", "by warpgroups"},
                 {0, "swap=0", "by warpgroups"},
                 {0, "u=32", "64, 128 or 256 deep"},
                 {192, "u=128", "nor a part"},
                 {0, "ml=128 multicast=2 group=1", "not multicast"}};
    for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
        const tw_gemm_problem p = problem(TW_GEMM_BF16, TW_GEMM_I8, 256, 512, wrong[i].scales);
        tw_gemm_config c = tw_gemm_config_default(&p);
        const char *why;
        assert_true(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why));
        assert_int_equal(tw_gemm_config_parse(&c, wrong[i].words, NULL), TW_OK);
        assert_false(tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why));
        if (!strstr(why, wrong[i].why)) fail_msg("%s: %s", wrong[i].words, why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers_are_found_again),
                                       cmocka_unit_test(scales_have_places),
                                       cmocka_unit_test(all_integers_are_exact),
                                       cmocka_unit_test(random_ones_are_right),
                                       cmocka_unit_test(problems_without_sense_are_refused),
                                       cmocka_unit_test(configurations_without_sense_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
