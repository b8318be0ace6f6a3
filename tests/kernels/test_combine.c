/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of neighbouring rows in the emulator against sums in double precision, and words that make no sense. */
#include "support/support.h"

#include "base/random.h"
#include "kernels/combine/combine.h"

#include <stdio.h>
#include <string.h>

static void random_sums_are_right(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f16", "bf16"};
    tw_random r = tw_random_seed(7);
    int wide = 0, narrow = 0;
    for (int i = 0; i < 60; i++) {
        char words[200], copy[200];
        tw_combine_problem p;
        tw_diag d;
        const int n = 1 + (int)tw_random_below(&r, i % 2 ? 40 : 300), whole = i % 3 ? (n + 7) / 8 * 8 : n;
        snprintf(words, sizeof words, "type=%s tokens=%d top=%d n=%d early=%d", types[i % 3],
                 1 + (int)tw_random_below(&r, 30), 1 + (int)tw_random_below(&r, i % 5 ? 8 : TW_COMBINE_TOP), whole,
                 i / 2 % 2);
        snprintf(copy, sizeof copy, "%s", words);
        if (tw_combine_parse(&p, copy, &d) != TW_OK) fail_msg("%s: %s", words, d.message);
        if (tw_combine_emulate(&p, tw_target_find("sm_90a"), (uint64_t)i, NULL, &d) != TW_OK)
            fail_msg("%s: %s", words, d.message);
        wide += whole % 8 == 0;
        narrow += whole % 2;
    }
    assert_true(wide >= 20 && narrow >= 5);
}

static void words_without_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *why;
    } of[] = {{"tokens=4 top=2", "n = 0"},
              {"tokens=4 top=33 n=8", "top = 33"},
              {"tokens=0 top=3 n=8", "tokens = 0"},
              {"tokens=4 top=2 n=8 early=2", "early = 2"},
              {"tokens=4 top=2 n=8 type=f64", "f32, f16 or bf16"},
              {"tokens=4 top=2 n=x", "no such value"},
              {"tokens=4 top=2 n=8 m=3", "says nothing of sums"},
              {"tokens=1000000 top=2 n=100001", "more threads"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[100];
        tw_combine_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        assert_int_equal(tw_combine_parse(&p, words, &d), TW_ERR_USAGE);
        if (!strstr(d.message, of[i].why)) fail_msg("%s: %s", of[i].words, d.message);
    }
    tw_combine_problem p = {.type = TW_T_f32, .tokens = 1, .top = 1, .n = 1, .early = true};
    tw_diag d;
    assert_null(tw_combine_make(&p, tw_target_find("sm_80"), true, &d));
    assert_int_equal(d.status, TW_ERR_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_sums_are_right),
                                       cmocka_unit_test(words_without_sense_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
