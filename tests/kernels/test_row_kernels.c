/* SPDX-License-Identifier: Apache-2.0 */
/* Rows in the emulator against values in double precision. */
#include "support/support.h"

#include "kernels/random_points.h"
#include "kernels/rows/rows_kernel.h"

#include <stdio.h>
#include <string.h>

/* A vector along the last dimension, or an operand of its own for each row. */
static tw_point_operand parameter(tw_random *r, const tw_points *p) {
    tw_point_operand o = random_points_result(r, p, TW_CLASS_real);
    o.constant = tw_random_below(r, 2);
    if (tw_random_below(r, 4) == 0) return o;
    for (int d = 0; d + 1 < p->rank; d++) o.strides[d] = 0;
    o.strides[p->rank - 1] = 1;
    o.align = 16;
    return o;
}

static void random_problem(tw_random *r, tw_rows_problem *p, random_points_seen *seen) {
    static const int64_t wide[] = {256, 768, 1000, 1030, 1536, 2048};
    *p = (tw_rows_problem){.of = (tw_rows_of)tw_random_below(r, TW_ROWS_OPS), .eps = 0.01f};
    random_points(r, &p->x, 1, true, seen);
    const bool norm = p->of <= TW_ROWS_rms_norm;
    /* The values of some rows are all the same. What rounding leaves of their deviation is multiplied by 1 / sqrt(eps).
       Wide rows have one operand, which lies densely. */
    if (tw_random_below(r, 4) == 0) {
        const int64_t n = wide[tw_random_below(r, 6)];
        tw_diag d;
        p->eps = 1e-5f;
        p->x = (tw_points){.rank = 2, .dims = {1 + (int64_t)tw_random_below(r, 3), n}, .n_operands = 1};
        p->x.operands[0] = (tw_point_operand){.type = TW_M_f16, .strides = {n, 1}, .align = 16};
        tw_cells_parse(&p->x.cells, "add(x0,0.1)", (tw_memory_type[]){TW_M_f16}, 1, &d);
    }
    p->has_gain = norm && tw_random_below(r, 3);
    p->has_bias = norm && tw_random_below(r, 2);
    p->has_kept = tw_random_below(r, 3) == 0;
    p->early = tw_random_below(r, 2);
    p->gain = parameter(r, &p->x);
    p->bias = parameter(r, &p->x);
    p->out = random_points_result(r, &p->x, TW_CLASS_real);
    p->kept = random_points_result(r, &p->x, TW_CLASS_real);
}

static void random_rows_are_right(void **state) {
    (void)state;
    enum { PROBLEMS = TEST_SANITIZED ? 60 : 400 };
    tw_random r = tw_random_seed(12);
    random_points_seen seen = {0};
    int wide = 0;
    for (int i = 0; i < PROBLEMS; i++) {
        char words[4096];
        tw_rows_problem p;
        tw_diag d;
        random_problem(&r, &p, &seen);
        tw_rows_config c = tw_rows_config_default(&p);
        if (i % 3 == 0) c = (tw_rows_config){1 << tw_random_below(&r, 4), 1 + (int)tw_random_below(&r, 2)};
        if (i % 20 == 0) c = (tw_rows_config){TW_ROWS_LONG_WARPS, 1};
        wide += c.warps > 1;
        tw_rows_print(&p, words, sizeof words);
        if (tw_rows_emulate(&p, &c, tw_target_find("sm_90a"), (uint64_t)i, NULL, &d) != TW_OK)
            fail_msg("%d: warps=%d rows=%d %s: %s", i, c.warps, c.rows, words, d.message);
    }
    assert_true(TEST_SANITIZED ||
                (seen.gathers > 40 && seen.backward > 40 && seen.broadcast > 100 && seen.vectors > 100 && wide > 50));
}

/* Doubles are reduced, by few warps and by many, in registers and in a loop. */
static void rows_of_doubles_are_reduced(void **state) {
    (void)state;
    static const char *const of[] = {"sum", "mean", "max", "min", "prod"};
    static const int64_t wide[] = {1, 3, 64, 700, 40000};
    for (int i = 0; i < 5 * 5; i++) {
        const int64_t n = wide[i % 5];
        char words[200];
        tw_rows_problem p;
        tw_diag d;
        snprintf(words, sizeof words,
                 "of=%s dims=3x%lld x0=f64 x1=f64[0,1] expr=add(mul(x0,0.01),mul(x1,0.9)) out=f64%s", of[i / 5],
                 (long long)n, n < 700 ? " kept=f64" : "");
        if (tw_rows_parse(&p, words, &d) != TW_OK) fail_msg("%s: %s", words, d.message);
        for (int warps = 1; warps <= 8; warps *= 4) {
            const tw_rows_config c = n > 16000 ? (tw_rows_config){TW_ROWS_LONG_WARPS, 1} : (tw_rows_config){warps, 1};
            if (n == 700 && warps == 1) continue;
            if (tw_rows_emulate(&p, &c, tw_target_find("sm_90a"), (uint64_t)i, NULL, &d) != TW_OK)
                fail_msg("%s, warps=%d: %s", words, c.warps, d.message);
        }
    }
}

static void words_without_sense_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *words, *why;
    } of[] = {{"dims=4x8 x0=f16 out=f16", "of is missing"},
              {"of=mode dims=4x8 x0=f16 out=f16", "of=mode"},
              {"of=softmax dims=4x8 x0=f16", "out is missing"},
              {"of=softmax dims= x0=f16 out=f16", "needs a dimension"},
              {"of=softmax dims=4x8 x0=i32 out=f16", "no reals"},
              {"of=softmax dims=4x8 x0=f16 out=i32", "are reals"},
              {"of=softmax dims=4x8 x0=f64 out=f64", "reduced, and not normed"},
              {"of=sum dims=4x8 x0=f64 out=f32", "as the values are"},
              {"of=softmax dims=4x8 x0=f16 out=f16 kept=i8", "are reals"},
              {"of=softmax dims=4x8 x0=f16 out=f16 gain=f16", "only norms"},
              {"of=layer_norm dims=4x8 x0=f16 out=f16 eps=-1", "at least 0"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200];
        tw_rows_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        if (tw_rows_parse(&p, words, &d) != TW_ERR_USAGE) fail_msg("%s", of[i].words);
        if (!strstr(d.message, of[i].why)) fail_msg("%s: %s", of[i].words, d.message);
    }
    tw_rows_problem p;
    tw_diag d;
    const tw_target *t = tw_target_find("sm_90a");
    assert_int_equal(tw_rows_parse(&p, (char[]){"of=softmax dims=4x8 x0=f16 out=f16"}, &d), TW_OK);
    assert_null(tw_rows_make(&p, &(tw_rows_config){3, 1}, t, true, &d));
    assert_null(tw_rows_make(&p, &(tw_rows_config){8, 5}, t, true, &d));
    assert_int_equal(tw_rows_parse(&p, (char[]){"of=softmax dims=0x8 x0=f16 out=f16"}, &d), TW_OK);
    assert_null(tw_rows_make(&p, NULL, t, true, &d));
}

/* What rows of models get: enough threads that each keeps a row's part in registers, and few enough to need no more
   turns than the machine has room for. */
static void configurations_fit_the_rows(void **state) {
    (void)state;
    static const struct {
        const char *words;
        int warps, rows;
    } of[] = {{"of=layer_norm dims=512x768 x0=f16 out=f16", 1, 4}, {"of=layer_norm dims=512x1024 x0=f16 out=f16", 4, 2},
              {"of=rms_norm dims=512x4096 x0=f16 out=f16", 4, 2},  {"of=rms_norm dims=1x4096 x0=f16 out=f16", 16, 1},
              {"of=softmax dims=6144x512 x0=f16 out=f16", 1, 8},   {"of=softmax dims=12x16384 x0=f32 out=f32", 16, 1},
              {"of=softmax dims=12x32768 x0=f32 out=f32", 32, 1}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char words[200];
        tw_rows_problem p;
        tw_diag d;
        snprintf(words, sizeof words, "%s", of[i].words);
        assert_int_equal(tw_rows_parse(&p, words, &d), TW_OK);
        const tw_rows_config c = tw_rows_config_default(&p);
        if (c.warps != of[i].warps || c.rows != of[i].rows)
            fail_msg("%s: warps=%d rows=%d", of[i].words, c.warps, c.rows);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows_are_right), cmocka_unit_test(rows_of_doubles_are_reduced),
        cmocka_unit_test(words_without_sense_are_refused), cmocka_unit_test(configurations_fit_the_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
