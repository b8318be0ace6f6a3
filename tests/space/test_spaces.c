/* SPDX-License-Identifier: Apache-2.0 */
/* The spaces that there are: each passes what holds of every space, and judges as those do who use its configurations.
 */
#include "space/space_checks.h"

#include "kernels/cpu/tiled.h"
#include "kernels/gemm/space.h"
#include "model/model.h"
#include "schedule/config.h"
#include "support/llama.h"
#include "vm/cpu/choice.h"

static void products(void **state) {
    (void)state;
    static const tw_gemm_problem problems[] = {
        {.type = TW_GEMM_F32, .m = 512, .n = 512, .k = 512, .alpha = 1},
        {.type = TW_GEMM_F16, .m = 256, .n = 64, .k = 4096, .trans_a = true, .alpha = 1},
        {.type = TW_GEMM_F64, .m = 35, .n = 77, .k = 131, .alpha = 1},
    };
    const tw_cuda_info device = {.target = tw_target_find("sm_90a"),
                                 .sms = 132,
                                 .clock_khz = 1980000,
                                 .memory_clock_khz = 2600000,
                                 .memory_bus_bits = 5120};
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        tw_gemm_problem p = problems[i];
        assert_int_equal(tw_gemm_problem_complete(&p, NULL), TW_OK);
        const tw_gemm_space_context of = {&p, device.target, &device};
        const tw_gemm_config usual = tw_gemm_config_default(&p);
        check_space(&tw_gemm_space, &of, &usual, 40, 20000);
        tw_random r = tw_random_seed(31 + i);
        int refused = 0;
        for (int j = 0; j < 20000; j++) {
            tw_gemm_config c;
            const char *why = NULL;
            tw_diag d;
            tw_space_point(&tw_gemm_space, tw_random_below(&r, tw_space_points(&tw_gemm_space, TW_SPACE_ROLES)), &c);
            const tw_gemm_config plain = tw_gemm_config_plain(&p, c);
            const tw_status st = tw_space_judge(&tw_gemm_space, &of, &c, j % 2 ? &d : NULL);
            assert_memory_equal(&c, &plain, sizeof c);
            assert_true((st == TW_OK) == tw_gemm_legal(&p, &c, of.target, NULL, &why));
            if (st != TW_OK && j % 2) assert_string_equal(d.message, why);
            refused += st != TW_OK;
            if (st == TW_OK) assert_true(tw_gemm_space.estimate(&of, &c) == tw_gemm_estimate(&p, &c, &device));
        }
        assert_true(refused > 10000 && refused < 20000);
    }
}

/* What is legal is lowered, to so many workers; what the lowering refuses is not legal. */
static void schedules(void **state) {
    (void)state;
    const test_llama shape = {.dim = 64, .heads = 4, .kv_heads = 2, .head_dim = 16, .ffn = 96};
    tw_model *m = test_open_llama(&shape);
    const tw_schedule_space_context of = {m, 12};
    const tw_schedule_config given = {
        {.tokens = 4, .kv = TW_F16, .exact_kv = true, .weights = TW_I8}, {0}, TW_PROMPTS_AUTO, 0, 0};
    check_space(&tw_schedule_space, &of, &given, 40, 1000);
    tw_random r = tw_random_seed(41);
    int refused = 0;
    for (int i = 0; i < 300; i++) {
        tw_schedule_config c = given;
        tw_schedule *s = NULL;
        tw_schedule_info info;
        tw_diag d;
        tw_space_point(&tw_schedule_space, tw_random_below(&r, tw_space_points(&tw_schedule_space, TW_SPACE_ROLES)),
                       &c);
        const tw_status st = tw_space_judge(&tw_schedule_space, &of, &c, &d);
        if (c.lowering.workers > 12) assert_int_equal(st, TW_ERR_USAGE);
        if (st != TW_OK) {
            refused++;
            continue;
        }
        if (!c.lowering.workers) c.lowering.workers = 12;
        if (tw_schedule_lower(&s, m, &c.lowering, &d) != TW_OK) fail_msg("legal, yet %s", d.message);
        tw_schedule_describe(s, &info);
        assert_true(info.workers == c.lowering.workers && info.tokens == 4);
        tw_schedule_free(s);
    }
    assert_true(refused > 50 && refused < 250);
    /* What is given may be what cannot be lowered. */
    static const struct {
        tw_lowering l;
        const char *why;
    } bad[] = {{{.tokens = 1000}, "tokens: 1000"},
               {{.row_unit = 3}, "row_unit: 3"},
               {{.group = 48}, "group: 48"},
               {{.sequences = 3, .tokens = 2}, "sequences: 3"},
               {{.workers = 13}, "workers: 13 are more than the machine's 12"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tw_schedule_config c = {.lowering = bad[i].l};
        tw_schedule *s = NULL;
        tw_diag d;
        assert_int_equal(tw_space_judge(&tw_schedule_space, &of, &c, &d), TW_ERR_USAGE);
        if (!strstr(d.message, bad[i].why)) fail_msg("\"%s\" is not of %s", d.message, bad[i].why);
        if (!c.lowering.workers) c.lowering.workers = 12;
        if (c.lowering.workers == 12) assert_int_equal(tw_schedule_lower(&s, m, &c.lowering, NULL), TW_ERR_USAGE);
    }
    tw_model_close(m);
}

static void processors(void **state) {
    (void)state;
    tw_vendor *v = tw_vendor_open();
    assert_non_null(v);
    const tw_choice_config own = {0};
    for (int vendors = 0; vendors <= 2; vendors++) {
        const tw_choice_space_context of = {vendors};
        tw_random r = tw_random_seed(1);
        check_space(&tw_choice_space, &of, &own, 20, 100);
        const tw_space_size legal = tw_space_count_legal(&tw_choice_space, &of, &own, 10, &r);
        assert_true(legal.exact && (int)legal.legal == 1 + vendors);
    }
    /* Words are the vendors' own names, in their order: what a file remembers says who they are. */
    assert_string_equal(tw_choice_space.params[0].words[0], "own");
    for (int i = 0; i < tw_vendor_count(v); i++)
        assert_string_equal(tw_choice_space.params[0].words[1 + i], tw_vendor_name(v, i));
    tw_vendor_close(v);
    tw_choice_config c = {2};
    const tw_choice_space_context one = {1};
    tw_diag d;
    assert_int_equal(tw_space_judge(&tw_choice_space, &one, &c, &d), TW_ERR_UNSUPPORTED);
    assert_string_equal(d.message, "onednn is not installed");
}

static void tiles(void **state) {
    (void)state;
    tw_kernels k;
    tw_kernels_choose_products(&k, TW_CPU_AVX2);
    const tw_tiled_config usual = {0, 64, 64, 2048, 48, 0};
    for (int vendors = 0; vendors <= 2; vendors++) {
        const tw_tiled_context of = {&k, vendors, {100, 512, 1000, {TW_BF16, 0}}};
        check_space(&tw_tiled_space, &of, &usual, 40, 2000);
        tw_random r = tw_random_seed(1);
        const tw_space_size legal = tw_space_count_legal(&tw_tiled_space, &of, &usual, 10000, &r);
        /* Four heights are below 200, and four widths below 1024. */
        assert_true(legal.exact && (int)legal.legal == (1 + vendors) * 4 * 4 * 16);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(schedules),
                                       cmocka_unit_test(processors), cmocka_unit_test(tiles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
