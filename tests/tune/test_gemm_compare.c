/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel that compares a result with what it should be, in the emulator: it counts each wrong cell once, and finds
 * the worst. */
#include "support/support.h"

#include "base/dtype.h"
#include "base/random.h"
#include "emu/emu.h"
#include "ir/passes/passes.h"
#include "tune/gemm_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 1000, BLOCKS = 3 };

static void put(tw_type type, void *cells, int i, double x) {
    float f = (float)x;
    if (type == TW_T_f64) ((double *)cells)[i] = x;
    if (type == TW_T_f32) ((float *)cells)[i] = f;
    if (type == TW_T_i32) ((int32_t *)cells)[i] = (int32_t)x;
    if (type == TW_T_i8) ((int8_t *)cells)[i] = (int8_t)x;
    if (type == TW_T_f16) tw_from_f32(TW_F16, &f, (uint16_t *)cells + i, 1);
    if (type == TW_T_e4m3) ((uint8_t *)cells)[i] = tw_f32_to_e4m3(f);
    if (type == TW_T_bf16) tw_from_f32(TW_BF16, &f, (uint16_t *)cells + i, 1);
}

typedef struct verdict {
    int32_t wrong;
    float worst;
} verdict;

/* Rows of `columns` cells begin `pitch` elements apart. */
static verdict judge_rows(tw_type type, const void *c, int elements, int columns, int pitch, const double *want,
                          const float *tolerance) {
    tw_diag d;
    tw_emu_report report = {0};
    verdict v = {0};
    tw_kernel *k = tw_gemm_compare_build(type, 80);
    assert_non_null(k);
    assert_int_equal(tw_pipeline_default(k, true, &d), TW_OK);
    tw_emu *e = tw_emu_new();
    const size_t cells = (size_t)((elements + pitch - columns) / pitch * columns);
    const uint64_t arguments[] = {
        tw_emu_alloc(e, "c", c, (size_t)elements * (size_t)tw_type_bits(type) / 8, true),
        tw_emu_alloc(e, "want", want, cells * sizeof *want, true),
        tw_emu_alloc(e, "tolerance", tolerance, cells * sizeof *tolerance, true),
        tw_emu_alloc(e, "verdict", &v, sizeof v, false),
        (uint64_t)elements,
        (uint64_t)columns,
        (uint64_t)pitch,
    };
    const tw_emu_options o = {.grid = {BLOCKS}};
    if (tw_emu_launch(e, k, arguments, &o, &report, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_emu_read(e, arguments[3], &v, sizeof v));
    tw_emu_free(e);
    tw_kernel_free(k);
    return v;
}

static verdict judge(tw_type type, const void *cells, const double *want, const float *tolerance) {
    return judge_rows(type, cells, CELLS, CELLS, CELLS, want, tolerance);
}

static void what_lies_between_rows_stays(void **state) {
    (void)state;
    static const tw_type types[] = {TW_T_f32, TW_T_f64, TW_T_f16, TW_T_bf16, TW_T_i32, TW_T_i8, TW_T_e4m3};
    enum { COLUMNS = 37, PITCH = 40, ROWS = CELLS / COLUMNS, ALL = ROWS * PITCH - (PITCH - COLUMNS) };
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        uint64_t c[ALL];
        double want[CELLS];
        float tolerance[CELLS];
        memset(c, 0xff, sizeof c);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            want[i] = i % 7 - 3;
            tolerance[i] = 1;
            put(types[t], c, i / COLUMNS * PITCH + i % COLUMNS, want[i]);
        }
        verdict v = judge_rows(types[t], c, ALL, COLUMNS, PITCH, want, tolerance);
        assert_int_equal(v.wrong, 0);
        assert_true(v.worst == 0);
        /* A gap's first and last element, and a cell of the last row. */
        put(types[t], c, COLUMNS, 2);
        put(types[t], c, 7 * PITCH - 1, 0);
        put(types[t], c, (ROWS - 1) * PITCH + 3, want[(ROWS - 1) * COLUMNS + 3] + 2);
        v = judge_rows(types[t], c, ALL, COLUMNS, PITCH, want, tolerance);
        assert_int_equal(v.wrong, 3);
        assert_true(v.worst > 1.99f && v.worst < 2.01f);
    }
}

/* What there should be is not read for gaps: it has none, and ends sooner than gaps that are wider than rows. */
static void gaps_may_be_wide(void **state) {
    (void)state;
    enum { COLUMNS = 2, PITCH = 16, ROWS = 3, ALL = (ROWS - 1) * PITCH + COLUMNS };
    const double want[ROWS * COLUMNS] = {1, 2, 3, 4, 5, 6};
    const float tolerance[ROWS * COLUMNS] = {1, 1, 1, 1, 1, 1};
    float c[ALL];
    memset(c, 0xff, sizeof c);
    for (int i = 0; i < ROWS * COLUMNS; i++) c[i / COLUMNS * PITCH + i % COLUMNS] = (float)want[i];
    assert_int_equal(judge_rows(TW_T_f32, c, ALL, COLUMNS, PITCH, want, tolerance).wrong, 0);
    c[2 * PITCH - 1] = 1;
    assert_int_equal(judge_rows(TW_T_f32, c, ALL, COLUMNS, PITCH, want, tolerance).wrong, 1);
}

enum { SUM_ROWS = 300, SUM_COLUMNS = 70, SUM_PITCH = 72, SUM_WIDE = 32, SUM_PARTS = 2, SUM_GROUPS = 3 };

static int32_t judge_sums(tw_type type, bool means, const void *c, const float *sums, size_t bytes) {
    tw_diag d;
    tw_emu_report report = {0};
    int32_t wrong = 0;
    tw_kernel *k = tw_gemm_compare_sums_build(type, means, 80);
    assert_non_null(k);
    assert_int_equal(tw_pipeline_default(k, true, &d), TW_OK);
    tw_emu *e = tw_emu_new();
    const size_t elements = (SUM_ROWS - 1) * SUM_PITCH + SUM_COLUMNS;
    const uint64_t arguments[] = {tw_emu_alloc(e, "c", c, elements * (size_t)tw_type_bits(type) / 8, true),
                                  tw_emu_alloc(e, "sums", sums, bytes, true),
                                  tw_emu_alloc(e, "verdict", &wrong, sizeof wrong, false),
                                  SUM_ROWS,
                                  SUM_COLUMNS,
                                  SUM_PITCH,
                                  SUM_WIDE,
                                  SUM_PARTS};
    const tw_emu_options o = {.grid = {(SUM_ROWS + TW_GEMM_COMPARE_THREADS - 1) / TW_GEMM_COMPARE_THREADS, SUM_GROUPS}};
    if (tw_emu_launch(e, k, arguments, &o, &report, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_emu_read(e, arguments[2], &wrong, sizeof wrong));
    tw_emu_free(e);
    tw_kernel_free(k);
    return wrong;
}

/* Sums of rows in parts, the last of which are of fewer columns. Even columns are in the first part, odd ones in the
   second. */
static void wrong_sums_are_counted(void **state) {
    (void)state;
    static const tw_type types[] = {TW_T_f32, TW_T_f16, TW_T_bf16};
    for (int t = 0; t < 6; t++) {
        const tw_type type = types[t % 3];
        const int kinds = 1 + t / 3;
        static uint64_t c[SUM_ROWS * SUM_PITCH];
        static float sums[SUM_GROUPS * SUM_PARTS * SUM_ROWS * 2];
        memset(c, 0xff, sizeof c);
        memset(sums, 0, sizeof sums);
        for (int i = 0; i < SUM_ROWS * SUM_COLUMNS; i++) {
            const int row = i / SUM_COLUMNS, column = i % SUM_COLUMNS;
            const float x = (float)((7 * row + 3 * column) % 17 - 5);
            float *of = sums + kinds * ((column / SUM_WIDE * SUM_PARTS + column % 2) * SUM_ROWS + row);
            put(type, c, row * SUM_PITCH + column, (double)x);
            of[0] += x * x;
            if (kinds > 1) of[1] += x;
        }
        const size_t bytes = sizeof *sums * (size_t)(SUM_GROUPS * SUM_PARTS * SUM_ROWS * kinds);
        assert_int_equal(judge_sums(type, kinds > 1, c, sums, bytes), 0);
        /* The first row's first sum, the last row's last, and one that is no number. */
        sums[kinds - 1] += 1;
        sums[SUM_GROUPS * SUM_PARTS * SUM_ROWS * kinds - 1] *= 1.1f;
        sums[(2 * SUM_ROWS + 77) * kinds] = NAN;
        assert_int_equal(judge_sums(type, kinds > 1, c, sums, bytes), 3);
    }
}

static void wrong_cells_are_counted(void **state) {
    (void)state;
    static const tw_type types[] = {TW_T_f32, TW_T_f64, TW_T_f16, TW_T_bf16, TW_T_i32, TW_T_i8, TW_T_e4m3};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        tw_random r = tw_random_seed(t + 1);
        uint64_t cells[CELLS];
        double want[CELLS];
        float tolerance[CELLS];
        for (int i = 0; i < CELLS; i++) {
            /* Every type has these numbers, and those that are as far off as is allowed. */
            const int most = types[t] == TW_T_e4m3 ? 8 : 100;
            want[i] = (double)tw_random_below(&r, 2 * (uint64_t)most + 1) - most;
            tolerance[i] = 1 + (float)tw_random_below(&r, 3);
            /* Half of them are off by less than what is allowed, either way. */
            put(types[t], cells, i, want[i] + (i % 2 ? (i % 4 == 1 ? 1 : -1) * (tolerance[i] - 1) : 0));
        }
        verdict v = judge(types[t], cells, want, tolerance);
        assert_int_equal(v.wrong, 0);
        assert_true(v.worst > 0.66f && v.worst < 0.67f); /* 2 off, where 3 are allowed. */
        /* The first and the last cell, the bounds of blocks, and some in between. As far off as is allowed is wrong. */
        static const int wrong[] = {0, 1, 255, 256, 511, 512, 700, 767, 768, 998, 999};
        enum { N = sizeof wrong / sizeof *wrong };
        for (int i = 0; i < N; i++)
            put(types[t], cells, wrong[i], want[wrong[i]] + (i % 2 ? -1 : 1) * (double)tolerance[wrong[i]]);
        v = judge(types[t], cells, want, tolerance);
        assert_int_equal(v.wrong, N);
        assert_true(v.worst > 0.99f && v.worst < 1.01f);
        if (types[t] == TW_T_i32 || types[t] == TW_T_i8) continue;
        put(types[t], cells, 300, (double)NAN);
        put(types[t], cells, 301, (double)INFINITY);
        v = judge(types[t], cells, want, tolerance);
        assert_int_equal(v.wrong, N + 2);
        /* e4m3 has no infinity, but 448 instead. */
        assert_true(types[t] == TW_T_e4m3 ? v.worst > 100 : isinf(v.worst));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_cells_are_counted),
                                       cmocka_unit_test(what_lies_between_rows_stays),
                                       cmocka_unit_test(gaps_may_be_wide), cmocka_unit_test(wrong_sums_are_counted)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
