/* SPDX-License-Identifier: Apache-2.0 */
/* Random attention in the emulator, with every checker, against double precision; words that make no sense. */
#include "support/support.h"

#include "kernels/random_attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TEST_ATTENTION=FIRST,COUNT runs other cases. */
static void random_attention_is_right(void **state) {
    (void)state;
    const attention_limits most = {.queries = 110, .keys = 170, .heads = 4, .batch = 2, .blocks = 3};
    const tw_target *t = tw_target_find("sm_90a");
    const char *other = getenv("TEST_ATTENTION");
    unsigned long long first = 1, count = 100;
    int had[64] = {0}, legal = 0;
    if (other) sscanf(other, "%llu,%llu", &first, &count);
    for (unsigned long long i = first; i < first + count; i++) {
        attention_case c;
        tw_attention_data d;
        tw_diag diag;
        if (!attention_case_draw(&c, i, t, &most)) continue;
        legal++;
        for (int f = 0; f < attention_features(); f++) had[f] += attention_has(&c, f);
        assert_int_equal(tw_attention_data_make(&d, &c.problem, c.seed, &diag), TW_OK);
        if (tw_attention_emulate(&d, &c.config, t, c.seed, NULL, &diag) != TW_OK) {
            char text[900];
            attention_case_print(&c, text, sizeof text);
            fail_msg("case %llu: %s --emulate\n%s", i, text, diag.message);
        }
        tw_attention_data_free(&d);
    }
    for (int f = 0; f < attention_features(); f++)
        if (!had[f]) fail_msg("no case has %s", attention_feature_name(f));
    assert_true(legal * 10 >= (int)count * 9);
}

static void words_without_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *why;
    } of[] = {{"heads=4 head=64", "queries = 0"},
              {"head=64 queries=4", "heads = 0"},
              {"heads=4 head=24 queries=4", "head = 24"},
              {"heads=4 head=264 queries=4", "head = 264"},
              {"heads=4 head=68 queries=4", "multiples of 8"},
              {"heads=4 kv_heads=3 head=64 queries=4", "no multiple"},
              {"heads=4 head=64 queries=4 ldq=128", "rows overlap"},
              {"heads=4 head=64 queries=4 keys=9 capacity=8", "more than capacity"},
              {"heads=4 head=64 queries=4 causal=2", "no such value"},
              {"heads=4 head=64 queries=4 type=f32", "no such value"},
              {"heads=4 head=64 queries=4 scale=-1", "scale = -1"},
              {"heads=4 head=64 queries=4 m=3", "says nothing of attention"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[100];
        tw_attention_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        assert_int_equal(tw_attention_parse(&p, words, &d), TW_ERR_USAGE);
        if (!strstr(d.message, of[i].why)) fail_msg("%s: %s", of[i].words, d.message);
    }
}

static void printed_problems_are_read_again(void **state) {
    (void)state;
    const attention_limits most = {.queries = 5000, .keys = 9000, .heads = 8, .batch = 5, .blocks = 3};
    for (uint64_t i = 0; i < 200; i++) {
        attention_case c;
        char text[512], again[512];
        tw_attention_problem p;
        tw_diag d;
        if (!attention_case_draw(&c, i, tw_target_find("sm_90a"), &most)) continue;
        tw_attention_print(&c.problem, text, sizeof text);
        memcpy(again, text, sizeof again);
        if (tw_attention_parse(&p, again, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
        tw_attention_print(&p, again, sizeof again);
        assert_string_equal(again, text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_attention_is_right),
                                       cmocka_unit_test(words_without_sense_are_refused),
                                       cmocka_unit_test(printed_problems_are_read_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
