/* SPDX-License-Identifier: Apache-2.0 */
/* Random attention in the emulator, with every checker, against double precision; words that make no sense. */
#include "support/support.h"

#include "ir/value.h"
#include "kernels/attention/generate.h"
#include "kernels/random_attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* TEST_ATTENTION=FIRST,COUNT runs other cases. */
static void random_attention_is_right(void **state) {
    (void)state;
    const attention_limits most = {.queries = 70, .keys = 130, .heads = 4, .batch = 2, .blocks = 3};
    static const char *const targets[] = {"sm_90a", "sm_80", "sm_90a", "sm_90a", "sm_120a"};
    enum { TARGETS = sizeof targets / sizeof *targets, FEATURES = 100 };
    const char *other = getenv("TEST_ATTENTION");
    unsigned long long first = 1, count = TEST_SANITIZED ? 25 : 200;
    assert_true(attention_features() <= FEATURES);
    int had[FEATURES] = {0}, legal = 0;
    if (other) sscanf(other, "%llu,%llu", &first, &count);
    for (unsigned long long i = first; i < first + count; i++) {
        attention_case c;
        tw_attention_data d;
        tw_diag diag;
        const tw_target *t = tw_target_find(targets[i % TARGETS]);
        if (!attention_case_draw(&c, i, t, &most)) continue;
        legal++;
        for (int f = 0; f < attention_features(); f++) had[f] += attention_has(&c, f);
        assert_int_equal(tw_attention_data_make(&d, &c.problem, c.seed, &diag), TW_OK);
        if (tw_attention_emulate(&d, &c.config, t, c.seed, NULL, &diag) != TW_OK) {
            char text[900];
            attention_case_print(&c, text, sizeof text);
            fail_msg("case %llu: %s --target %s --emulate\n%s", i, text, t->name, diag.message);
        }
        tw_attention_data_free(&d);
    }
    for (int f = 0; f < attention_features() && !TEST_SANITIZED; f++)
        if (!had[f]) fail_msg("no case has %s", attention_feature_name(f));
    assert_true(legal * 10 >= (int)count * 9);
}

/* Lengths at which a tile's last query stands at a block's first or last key, with windows of a block and a key more.
 */
static void edges_of_masks_are_right(const attention_case *plain) {
    const tw_target *t = tw_target_find("sm_90a");
    static const int64_t windows[] = {0, 1, 16, 17};
    for (int64_t queries = 63; queries <= 65; queries++)
        for (int64_t more = -1; more <= 17; more += more == 2 ? 11 : 1)
            for (int w = 0; w < 8; w += TEST_SANITIZED ? 3 : 1) {
                attention_case c = *plain;
                tw_attention_data d;
                tw_diag diag;
                c.problem = (tw_attention_problem){.heads = 1,
                                                   .head = 32,
                                                   .queries = queries,
                                                   .keys = queries + more,
                                                   .causal = w % 2,
                                                   .window = windows[w / 2]};
                assert_int_equal(tw_attention_complete(&c.problem, &diag), TW_OK);
                assert_int_equal(tw_attention_data_make(&d, &c.problem, 1, &diag), TW_OK);
                if (tw_attention_emulate(&d, &c.config, t, 1, NULL, &diag) != TW_OK) {
                    char text[900];
                    attention_case_print(&c, text, sizeof text);
                    fail_msg("%s --emulate\n%s", text, diag.message);
                }
                tw_attention_data_free(&d);
            }
}

static void edges_of_masks_of_warpgroups(int columns, int slices) {
    edges_of_masks_are_right(&(attention_case){.config = {.rows = 64,
                                                          .columns = columns,
                                                          .stages = 2,
                                                          .overlap = 1,
                                                          .splits = 1,
                                                          .band = 1,
                                                          .mma = 2,
                                                          .strips = 1,
                                                          .slices = slices}});
}

static void edges_of_masks_of_warpgroups_are_right(void **state) {
    (void)state;
    edges_of_masks_of_warpgroups(16, 1);
}

static void edges_of_masks_of_shared_queries_are_right(void **state) {
    (void)state;
    edges_of_masks_of_warpgroups(32, 2);
}

static void edges_of_masks_of_warps_are_right(void **state) {
    (void)state;
    edges_of_masks_are_right(&(attention_case){
        .config = {
            .rows = 64, .columns = 16, .stages = 2, .splits = 1, .band = 1, .mma = 1, .strips = 2, .slices = 1}});
}

/* Answers that are kept are those that are computed anew, and a wrong element is found wherever it is. */
static void kept_answers_find_what_is_wrong(void **state) {
    (void)state;
    tw_attention_problem p = {.type = TW_T_f16,
                              .heads = 2,
                              .kv_heads = 1,
                              .head = 64,
                              .queries = 10,
                              .keys = 4000,
                              .batch = 2,
                              .scale = 0.125};
    tw_attention_data d;
    tw_attention_answer *a;
    tw_diag diag = {0};
    assert_int_equal(tw_attention_complete(&p, &diag), TW_OK);
    assert_int_equal(tw_attention_data_make(&d, &p, 3, &diag), TW_OK);
    assert_int_equal(tw_attention_answer_make(&a, &d, 1, &diag), TW_OK);
    const size_t n = d.bytes[TW_ATTENTION_OUT] / 2;
    uint16_t *out = calloc(n, sizeof *out);
    /* A query's result is found by asking: the judge says what an element should be. */
    for (size_t i = 0; i < n; i++) {
        double is, should;
        const char *at;
        if (tw_attention_answer_judge(a, out, NULL, &diag) == TW_OK) break;
        at = strstr(diag.message, "element ");
        long long sequence, row, head, element;
        assert_non_null(at);
        assert_int_equal(sscanf(diag.message,
                                "sequence %lld, row %lld, head %lld, element %lld is %lf, and should be %lf", &sequence,
                                &row, &head, &element, &is, &should),
                         6);
        out[row * p.ldo + head * p.head + element] = tw_f32_to_f16((float)should);
    }
    assert_int_equal(tw_attention_answer_judge(a, out, NULL, &diag), TW_OK);
    assert_int_equal(tw_attention_data_judge(&d, out, NULL, 1, &diag), TW_OK);
    for (size_t i = 0; i < n; i += n / 7) {
        out[i] ^= 0x2000;
        assert_int_equal(tw_attention_answer_judge(a, out, NULL, &diag), TW_ERR_MISMATCH);
        assert_int_equal(tw_attention_data_judge(&d, out, NULL, 1, &diag), TW_ERR_MISMATCH);
        out[i] ^= 0x2000;
    }
    free(out);
    tw_attention_answer_free(a);
    tw_attention_data_free(&d);
}

/* Blocks of wgmma that begin and end within pages of an odd number of eights. */
static void blocks_across_pages_are_right(void **state) {
    (void)state;
    static const int of[][2] = {{24, 32}, {24, 16}, {40, 48}, {40, 16}, {72, 64}};
    const tw_target *t = tw_target_find("sm_90a");
    for (int i = 0; i < 10; i++) {
        attention_case c = {.seed = 1};
        tw_attention_data d;
        tw_diag diag;
        c.problem = (tw_attention_problem){.heads = 2,
                                           .kv_heads = 1,
                                           .head = 40,
                                           .queries = 20,
                                           .keys = 150,
                                           .batch = 2,
                                           .page = of[i / 2][0],
                                           .ragged = i % 2};
        assert_int_equal(tw_attention_complete(&c.problem, &diag), TW_OK);
        c.config = tw_attention_config_default(&c.problem, t, 0);
        c.config.columns = of[i / 2][1];
        c.config.splits = 1 + i % 2;
        assert_int_equal(tw_attention_data_make(&d, &c.problem, c.seed, &diag), TW_OK);
        if (tw_attention_emulate(&d, &c.config, t, c.seed, NULL, &diag) != TW_OK) {
            char text[900];
            attention_case_print(&c, text, sizeof text);
            fail_msg("%s --emulate\n%s", text, diag.message);
        }
        tw_attention_data_free(&d);
    }
}

/* Pages of any size have a default. By wgmma blocks have whole sixteens of keys, which few pages do. */
static void any_page_has_a_default(void **state) {
    (void)state;
    static const int64_t heads[] = {64, 80, 128, 200, 256};
    const tw_target *t = tw_target_find("sm_90a");
    for (int64_t i = 0; i < 256 * 5 * 2; i++) {
        tw_attention_problem p = {.heads = 8,
                                  .kv_heads = 2,
                                  .head = heads[i / 2 % 5],
                                  .queries = i % 2 ? 200 : 1,
                                  .keys = 500,
                                  .page = 1 + i / 10,
                                  .causal = i % 3 == 0,
                                  .ragged = i % 7 == 0};
        if (!p.ragged && i % 4 == 0) p.mask = TW_T_f32;
        tw_diag d;
        const char *why;
        assert_int_equal(tw_attention_complete(&p, &d), TW_OK);
        const tw_attention_config c = tw_attention_config_default(&p, t, 0);
        if (!tw_attention_legal(&p, &c, t, NULL, &why))
            fail_msg("pages of %d, heads of %d: %s", (int)p.page, (int)p.head, why);
    }
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
              {"heads=4 head=64 queries=4 mask=i32", "no such value"},
              {"heads=4 head=64 queries=4 ldm=8", "are of a mask"},
              {"heads=4 head=64 queries=4 mask=f32 ldm=12", "multiple of 8"},
              {"heads=4 head=64 queries=4 keys=9 mask=f32 ldm=8", "a row has all keys"},
              {"heads=4 head=64 queries=4 mask=i8 mask_heads=2", "all sequences and heads, or of each"},
              {"heads=4 head=64 queries=4 mask=i8 ragged=1", "ragged sequences have no mask"},
              {"heads=4 head=64 queries=1073741824", "queries = 1073741824 is not within 1..1073741823"},
              {"heads=4 head=64 queries=4 page=1 keys=100000000000 batch=100000000000", "keys = 100000000000 is"},
              {"heads=1 head=32 queries=33554432 batch=16384 keys=8 ldq=33554432 ldo=33554432", "2^40 elements"},
              {"heads=4 head=64 queries=4 page=65536 pool=1073741823 ldk=1073741816", "2^40 elements"},
              {"heads=64 kv_heads=1 head=32 queries=536870912 mask=i8 mask_heads=64", "2^40 elements"},
              {"heads=4 head=64 queries=4 kv=i8", "no such value"},
              {"heads=4 head=80 queries=4 kv=e4m3", "multiples of 32"},
              {"heads=4 head=64 queries=4 kv=e4m3 ldk=264", "rows of 16"},
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

/* Checks what is chosen for a target where nothing is said. `keys` describes keys and values. */
static void is_legal(const char *target, int64_t head, int64_t shared, int64_t queries, const char *keys) {
    const tw_target *t = tw_target_find(target);
    char words[200];
    tw_attention_problem p;
    tw_attention_plan plan;
    tw_diag d;
    snprintf(words, sizeof words, "kv_heads=2 heads=%d head=%d queries=%d keys=4000 batch=3 %s", (int)(2 * shared),
             (int)head, (int)queries, keys);
    if (tw_attention_parse(&p, words, &d) != TW_OK) fail_msg("%s", d.message);
    for (int warps = t->sm != 90; warps < 2; warps++) {
        const tw_attention_config c = tw_attention_config_default(&p, t, warps ? TW_ATTENTION_BY_WARPS : 0);
        const char *why = tw_attention_plan_of(&p, &c, t, &plan);
        if (why) fail_msg("%s for %s: %s", words, target, why);
    }
}

/* What is chosen where nothing is said is legal, for every target. */
static void defaults_are_legal(void **state) {
    (void)state;
    static const char *const targets[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"},
                             *const keys[] = {"causal=1",         "ragged=1 capacity=4096",
                                              "page=16",          "page=1",
                                              "mask=bf16",        "kv=e4m3",
                                              "kv=e4m3 mask=f32", "kv=e4m3 ragged=1 page=16"};
    static const int64_t heads[] = {32, 64, 80, 96, 128, 160, 192, 256},
                         queries[] = {1, 8, 16, 17, 32, 33, 64, 65, 129}, shared[] = {1, 2, 3, 4, 8};
    enum { TARGETS = 5, KEYS = 8, HEADS = 8, QUERIES = 9, SHARED = 5 };
    for (int t = 0; t < TARGETS; t++)
        for (int k = 0; k < KEYS; k++)
            for (int h = 0; h < HEADS; h++)
                for (int i = 0; i < QUERIES * SHARED && (heads[h] % 32 == 0 || !strstr(keys[k], "kv=")); i++)
                    is_legal(targets[t], heads[h], shared[i % SHARED], queries[i / SHARED], keys[k]);
}

static void programs_open_it_by_words(void **state) {
    (void)state;
    static const char *const names[] = {"q", "k", "v", "out", "lse", "starts", "lengths", "workspace", "counters"};
    tw_gpu *g;
    tw_gpu_kernel *k;
    tw_diag d;
    assert_int_equal(tw_gpu_open(&g, "emulator", &d), TW_OK);
    assert_int_equal(tw_gpu_kernel_open(&k, g,
                                        "attention heads=4 kv_heads=2 head=64 queries=9 keys=40 batch=2 capacity=40 "
                                        "ragged=1 lse=1",
                                        "splits=2 columns=16", &d),
                     TW_OK);
    assert_int_equal(tw_gpu_kernel_buffers(k), sizeof names / sizeof *names);
    for (int i = 0; i < tw_gpu_kernel_buffers(k); i++) {
        const tw_gpu_buffer *b = tw_gpu_kernel_buffer(k, i);
        assert_string_equal(b->name, names[i]);
        assert_int_equal(b->written, i == 3 || i == 4 || i >= 7);
        assert_int_equal(b->zeroed, i == 8);
    }
    tw_gpu_kernel_close(k);
    assert_int_equal(tw_gpu_kernel_open(&k, g, "attention heads=4 head=64 queries=9", "rows=100", &d), TW_ERR_USAGE);
    assert_int_equal(tw_gpu_kernel_open(&k, g, "attention heads=4 head=64 queries=9 kv=e4m3", "mma=2", &d),
                     TW_ERR_USAGE);
    assert_non_null(strstr(d.message, "e4m3 need mma=1"));
    tw_gpu_close(g);
}

/* Whatever is measured shows what it makes of a query without keys. */
static void a_mask_hides_all_keys_of_a_query(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        char words[] = "type=f16 mask=f32 heads=1 head=64 queries=2 keys=8";
        tw_attention_problem p;
        tw_attention_data d;
        bool sees = false;
        assert_int_equal(tw_attention_parse(&p, words, NULL), TW_OK);
        assert_int_equal(tw_attention_data_make(&d, &p, seed, NULL), TW_OK);
        const float *last = (const float *)d.of[TW_ATTENTION_MASK] + p.ldm;
        for (int i = 0; i < 8; i++) sees |= last[i] > -INFINITY;
        assert_false(sees);
        tw_attention_data_free(&d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_attention_is_right),
                                       cmocka_unit_test(edges_of_masks_of_warpgroups_are_right),
                                       cmocka_unit_test(edges_of_masks_of_shared_queries_are_right),
                                       cmocka_unit_test(edges_of_masks_of_warps_are_right),
                                       cmocka_unit_test(kept_answers_find_what_is_wrong),
                                       cmocka_unit_test(a_mask_hides_all_keys_of_a_query),
                                       cmocka_unit_test(words_without_sense_are_refused),
                                       cmocka_unit_test(any_page_has_a_default),
                                       cmocka_unit_test(blocks_across_pages_are_right),
                                       cmocka_unit_test(printed_problems_are_read_again),
                                       cmocka_unit_test(defaults_are_legal),
                                       cmocka_unit_test(programs_open_it_by_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
