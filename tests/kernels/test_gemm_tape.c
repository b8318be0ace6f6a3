/* SPDX-License-Identifier: Apache-2.0 */
/* B as a tape: where its elements lie, random products, and what is refused. */
#define _POSIX_C_SOURCE 200809L
#include "support/support.h"

#include "kernels/gemm/generate.h"
#include "kernels/gemm/reference.h"
#include "kernels/random_gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By the words of tw_gemm_tape: elements are found piece by piece, in the order in which the pieces lie. Chunks of a
   unit are equally far from one another, or apart. */
static void elements_are_there(int chunks_apart) {
    enum { N = 20, K = 500, WARPS = 3, BLOCKS = 2, RUN = 4, UNITS = (N + 7) / 8, CHUNK = WARPS * RUN * 32 };
    tw_gemm_problem p = {.type = TW_GEMM_BF16,
                         .m = 8,
                         .n = N,
                         .k = K,
                         .trans_b = true,
                         .alpha = 1,
                         .tape = {WARPS, BLOCKS, RUN, chunks_apart}};
    static uint16_t b[N * K], tape[UNITS * 8 * 2 * CHUNK];
    tw_gemm_unit units[2 * UNITS + 1];
    assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
    assert_int_equal(tw_gemm_depth(&p), 2 * CHUNK);
    assert_int_equal(tw_gemm_tape_entries(&p), chunks_apart ? 2 * UNITS + 1 : UNITS);
    assert_int_equal(tw_gemm_tape_bytes(&p), sizeof tape);
    for (int i = 0; i < N * K; i++) b[i] = (uint16_t)(i + 1);
    tw_gemm_tape_place(&p, 3, 1024, units);
    tw_gemm_tape_pack(&p, b, units, 1024, tape);
    for (int unit = 0; unit < UNITS; unit++)
        for (int chunk = 0; chunk < 2; chunk++) {
            const uint64_t begin = chunks_apart ? units[2 * unit + chunk].address
                                                : units[unit].address + (uint64_t)(chunk * units[unit].stride);
            const uint16_t *at = tape + (begin - 1024) / 2;
            for (int first = 0; first < RUN; first += BLOCKS)
                for (int warp = 0; warp < WARPS; warp++)
                    for (int block = 0; block < BLOCKS; block++, at += 256)
                        for (int i = 0; i < 256; i++) {
                            const int line = i / 32, k = chunk * CHUNK + (warp * RUN + first + block) * 32 + i % 32;
                            const int column = unit * 8 + line,
                                      is = at[line * 32 + (i % 32 / 8 ^ line / 2) % 4 * 8 + i % 8];
                            assert_int_equal(is, column < N && k < K ? b[column * K + k] : 0);
                        }
        }
}

static void elements_have_places(void **state) {
    (void)state;
    elements_are_there(0);
    elements_are_there(1);
}

static void random_ones_are_right(void **state) {
    (void)state;
    enum { CASES = TEST_SANITIZED ? 10 : 100 };
    const gemm_limits most = {.m = 150, .n = 200, .k = 900, .parts = 6, .work = 2e7, .code = 256};
    const tw_target *t = tw_target_find("sm_90a");
    int splits = 0, persistent = 0, teams = 0, streamed = 0, together = 0, swapped = 0, groups = 0, masked = 0,
        ahead = 0;
    int apart = 0, scattered = 0, chunks = 0, gated = 0, boxed = 0;
    for (int i = 0, n = 0; n < CASES; i++) {
        gemm_case c;
        tw_gemm_data d;
        tw_diag diag;
        char text[800];
        assert_true(gemm_case_draw_warpgroups(&c, 9000 + (uint64_t)i, t, &most));
        tw_gemm_tape *tape = &c.problem.tape;
        if (!tape->warps) continue;
        tape->apart = n % 2;
        scattered += tape->apart && c.problem.k > tape->warps * tape->run * 32;
        n++;
        splits += c.config.kg > 1;
        persistent += c.config.persistent > 0;
        teams += c.config.pingpong;
        streamed += c.config.stream > 0;
        together += c.config.multicast > 0;
        swapped += c.config.swap;
        groups += c.problem.groups > 0;
        masked += c.problem.masked;
        gated += c.problem.epilogue.gated;
        boxed += c.config.staged == TW_GEMM_BOXED;
        ahead += c.config.early == TW_GEMM_AHEAD && c.problem.weights;
        apart += c.config.u > tape->blocks * 32;
        chunks += c.problem.k > tape->warps * tape->run * 32;
        assert_int_equal(tw_gemm_data_make(&d, &c.problem, c.seed, &diag), TW_OK);
        if (tw_gemm_emulate(&d, &c.config, t, c.seed, NULL, &diag) != TW_OK) {
            gemm_case_print(&c, text, sizeof text);
            fail_msg("%s --emulate\n  %s", text, diag.message);
        }
        tw_gemm_data_free(&d);
    }
    print_message(
        "splits %d, persistent %d, teams %d, streamed %d, multicast %d, swapped %d, groups %d, masked %d, gated %d, "
        "boxed %d, ahead %d, runs apart %d, chunks %d, apart %d\n",
        splits, persistent, teams, streamed, together, swapped, groups, masked, gated, boxed, ahead, apart, chunks,
        scattered);
    assert_true(CASES < 100 || (splits >= 10 && persistent >= 10 && teams >= 4 && streamed >= 4 && together >= 4));
    assert_true(CASES < 100 || (swapped >= 20 && groups >= 8 && masked >= 3 && gated >= 8 && boxed >= 4 && ahead >= 4));
    assert_true(CASES < 100 || (apart >= 20 && chunks >= 20 && scattered >= 10));
}

static const char *why_not(const char *words, const char *configuration) {
    static tw_diag d;
    char text[400];
    tw_gemm_problem p;
    const char *why = NULL;
    snprintf(text, sizeof text, "%s", words);
    if (tw_gemm_problem_parse(&p, text, &d) != TW_OK) return d.message;
    tw_gemm_config c = tw_gemm_config_default(&p);
    assert_int_equal(tw_gemm_config_parse(&c, configuration, &d), TW_OK);
    tw_gemm_legal(&p, &c, tw_target_find("sm_90a"), NULL, &why);
    return why ? why : "";
}

#define PLAIN  "m=64 n=64 k=512 tb=1 tape=4x2x4 "
#define CONFIG "mma=2 ms=64 ns=64 ml=64 nl=64 vec=16 kg=1 stages=2 "

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *configuration, *why;
    } of[] = {{PLAIN "type=bf16", CONFIG "u=64", ""},
              {PLAIN "type=bf16", "", ""},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=4x2x4a", CONFIG "u=64", ""},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=4x2x4b", CONFIG "u=64", "no such value"},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=4x2x4ab", CONFIG "u=64", "no such value"},
              {PLAIN "type=bf16", CONFIG "u=64 multicast=2 group=1", ""},
              {PLAIN "type=bf16", CONFIG "u=64 multicast=2 group=2", "not multicast"},
              {PLAIN "type=bf16", CONFIG "u=64 multicast=2 group=1 swap=1", "not multicast"},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=3x1x4", CONFIG "u=64", "whole number of a tape's blocks"},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=3x1x4", CONFIG "u=32", ""},
              {PLAIN "type=bf16", CONFIG "u=16", "less than a tape's piece"},
              {PLAIN "type=bf16", CONFIG "u=64 mma=1 ms=32 ns=32", "by warpgroups"},
              {PLAIN "type=e4m3", CONFIG "u=64", "f16 or bf16"},
              {PLAIN "type=bf16 ta=1", CONFIG "u=64", "not transposed"},
              {PLAIN "type=bf16 batch=2", CONFIG "u=64", "once or in groups"},
              {PLAIN "type=bf16 ldb=520", CONFIG "u=64", "without gaps"},
              {PLAIN "type=bf16 groups=2 gather=1", CONFIG "u=64 persistent=2", "gathered"},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=4x2x3", CONFIG "u=64", "whole blocks"},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=4x2", CONFIG "u=64", "no such value"},
              {"type=bf16 m=64 n=64 k=512 tb=1 tape=0x0x0", CONFIG "u=64", "no such value"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *why = why_not(of[i].words, of[i].configuration);
        if (*of[i].why ? !strstr(why, of[i].why) : *why)
            fail_msg("%s %s: \"%s\"", of[i].words, of[i].configuration, why);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_have_places), cmocka_unit_test(random_ones_are_right),
                                       cmocka_unit_test(what_cannot_be_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
