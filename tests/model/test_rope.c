/* SPDX-License-Identifier: Apache-2.0 */
/* Inverse frequencies against those of transformers (tests/data/rope.json, by tools/make_model_cases.py). */
#include "support/support.h"

#include "base/json.h"
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const json_t *row, int number) {
    char *rope = json_dumps(json_object_get(row, "rope_parameters"), 0), text[1024];
    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"head_dim\":%lld,\"max_position_embeddings\":%lld,\"rope_parameters\":%s}",
             json_integer_value(json_object_get(row, "head_dim")),
             json_integer_value(json_object_get(row, "max_position_embeddings")), rope);
    free(rope);
    tw_config c;
    tw_arena arena = {0};
    tw_diag diag;
    tw_diag_clear(&diag);
    tw_reasons reasons = {.diag = &diag};
    bool usable;
    tw_rope r;
    assert_int_equal(tw_config_parse(&c, &arena, text, strlen(text), "x", &reasons, &usable), TW_OK);
    if (reasons.count) fail_msg("row %d: %s", number, diag.message);
    assert_true(tw_rope_init(&r, &arena, &c.rope));
    double factor = json_number_value(json_object_get(row, "attention_factor"));
    assert_true(fabs((double)r.attention_factor - factor) <= 1e-6 * factor);
    const json_t *want = json_object_get(row, "inv_freq"), *length = json_object_get(row, "length");
    assert_int_equal(json_array_size(want), r.dims / 2);
    float got[256];
    tw_rope_frequencies(&r, json_is_integer(length) ? json_integer_value(length) : 1, got);
    for (int64_t i = 0; i < r.dims / 2; i++) {
        double w = json_number_value(json_array_get(want, (size_t)i));
        if (!(fabs((double)got[i] - w) <= 4e-7 * w))
            fail_msg("row %d, pair %lld: %.9g, not %.9g", number, (long long)i, (double)got[i], w);
    }
    tw_arena_free(&arena);
}

static void test_against_transformers(void **state) {
    (void)state;
    json_t *rows;
    tw_diag diag;
    if (tw_json_load(&rows, TEST_DATA "/rope.json", &diag) != TW_OK) fail_msg("%s", diag.message);
    assert_true(json_array_size(rows) >= 15);
    for (size_t i = 0; i < json_array_size(rows); i++) check(json_array_get(rows, i), (int)i);
    json_decref(rows);
}

/* Up to the trained length the table is the plain one; beyond it the waves grow with the length. */
static void test_dynamic(void **state) {
    (void)state;
    tw_arena arena = {0};
    tw_rope_spec spec = {.type = TW_ROPE_TYPE_DYNAMIC, .dims = 16, .theta = 10000, .factor = 2, .original_max = 64};
    tw_rope r;
    float before[8], at[8], beyond[8], far[8];
    assert_true(tw_rope_init(&r, &arena, &spec));
    assert_int_equal(r.kind, TW_ROPE_DYNAMIC);
    tw_rope_frequencies(&r, 1, before);
    tw_rope_frequencies(&r, 64, at);
    tw_rope_frequencies(&r, 65, beyond);
    tw_rope_frequencies(&r, 1000, far);
    assert_memory_equal(before, at, sizeof at);
    assert_memory_equal(before, r.inv_freq, sizeof at);
    assert_true(beyond[0] == 1 && far[0] == 1);
    for (int i = 1; i < 8; i++) assert_true(far[i] < beyond[i] && beyond[i] < at[i]);
    tw_arena_free(&arena);
}

/* A context that is not stretched keeps its scale, whatever its scales are; stretched ones are as the paper has them.
 */
static void test_yarn_scale(void **state) {
    (void)state;
    static const struct {
        double factor, given, mscale, all, want;
    } cases[] = {
        {1, -1, 0, 0, 1},         {0.5, -1, 0, 0, 1}, {1, -1, 0.7, 0.3, 1},        {4, 0.25, 0, 0, 0.25},
        {4, 0, 0, 0, 0},          {4, -1, 1, 1, 1},   {4, -1, 0.5, 0, 1.13862944}, {4, -1, 0, 0, 1.13862944},
        {4, -1, 1, 0.5, 1.06481},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_arena arena = {0};
        tw_rope r;
        const tw_rope_spec spec = {.type = TW_ROPE_TYPE_YARN,
                                   .dims = 32,
                                   .theta = 10000,
                                   .factor = cases[i].factor,
                                   .beta_fast = 32,
                                   .beta_slow = 1,
                                   .attention_factor = cases[i].given,
                                   .mscale = cases[i].mscale,
                                   .mscale_all_dim = cases[i].all,
                                   .truncate = true,
                                   .original_max = 256};
        assert_true(tw_rope_init(&r, &arena, &spec));
        if (fabs((double)r.attention_factor - cases[i].want) > 1e-4)
            fail_msg("case %zu: %g", i, (double)r.attention_factor);
        tw_arena_free(&arena);
    }
}

/* Half as many frequencies as elements are rotated, and nothing behind them. */
static void test_table_ends(void **state) {
    (void)state;
    for (int type = TW_ROPE_TYPE_DEFAULT; type <= TW_ROPE_TYPE_YARN; type++) {
        tw_arena arena = {0};
        tw_rope r;
        const tw_rope_spec spec = {.type = (tw_rope_type)type,
                                   .dims = 32,
                                   .theta = 10000,
                                   .factor = 4,
                                   .low_freq = 1,
                                   .high_freq = 4,
                                   .beta_fast = 32,
                                   .beta_slow = 1,
                                   .attention_factor = -1,
                                   .original_max = 256};
        assert_true(tw_rope_init(&r, &arena, &spec));
        const float *behind = tw_arena_array(&arena, 16, sizeof *behind);
        assert_ptr_equal(behind, r.inv_freq + 16);
        for (int i = 0; i < 16; i++) assert_true(r.inv_freq[i] > 0 && behind[i] == 0);
        tw_arena_free(&arena);
    }
}

static void test_out_of_memory(void **state) {
    (void)state;
    tw_arena arena = {.failed = true};
    tw_rope_spec spec = {.dims = 16, .theta = 10000};
    tw_rope r;
    assert_false(tw_rope_init(&r, &arena, &spec));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_transformers), cmocka_unit_test(test_dynamic),
        cmocka_unit_test(test_yarn_scale),           cmocka_unit_test(test_table_ends),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
