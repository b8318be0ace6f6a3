/* SPDX-License-Identifier: Apache-2.0 */
/* checkkernel, maps and rows: every variant under every mask against double, computed in ranges of rows. */
#include "kernels/checkkernel.h"
#include "kernels/pointwise/map_kernel.h"
#include "kernels/pointwise/trial.h"
#include "kernels/random_points.h"
#include "kernels/rows/rows_kernel.h"

#include <stdlib.h>

enum { PROBLEMS = 300 };

/* A problem of either kind. `map` is NULL, or `rows` is. */
typedef struct problem {
    const tw_map_problem *map;
    const tw_rows_problem *rows;
    const tw_points *x;
    tw_point_buffers buffers;
} problem;

static void run(const problem *p, const tw_kernels *k, const tw_point_data *data, int64_t from, int64_t to) {
    if (p->map)
        (k ? k->map : tw_map_run)(p->map, data, from, to);
    else
        (k ? k->rows : tw_rows_run)(p->rows, data, from, to);
}

static void check(const problem *p, const tw_kernels *k, uint64_t seed, tw_random *r, const char *words) {
    tw_point_trial got, want;
    tw_diag d;
    assert_int_equal(tw_point_trial_make(&got, p->x, &p->buffers, seed, &d), TW_OK);
    assert_int_equal(tw_point_trial_make(&want, p->x, &p->buffers, seed, &d), TW_OK);
    const int64_t rows = tw_points_rows(p->x);
    for (int64_t from = 0; from < rows;) {
        const int64_t n = 1 + (int64_t)tw_random_below(r, (uint64_t)rows);
        run(p, k, &got.data, from, from + n < rows ? from + n : rows);
        from += n;
    }
    run(p, NULL, &want.data, 0, rows);
    /* Terms of a sum may cancel. */
    const double error = 0x1p-18 * (p->map ? 1 : 1 + (double)tw_points_columns(p->x) / 32);
    if (tw_point_trial_compare(&got, &want, error, &d) != TW_OK) {
        print_error("mask %x: %s: %s\n", k->isa, words, d.message);
        fail();
    }
    tw_point_trial_free(&got);
    tw_point_trial_free(&want);
}

static void check_all(const problem *p, uint64_t seed, const char *words) {
    tw_random r = tw_random_seed(seed);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++)
        if (check_kernels(m, &k)) check(p, &k, seed, &r, words);
}

/* Rows of more than a block, whose values lie in memory as they are or do not. */
static void widen(tw_random *r, tw_points *x) {
    static const int64_t wide[] = {511, 512, 513, 1000, 3000, 9000};
    const int64_t n = wide[tw_random_below(r, 6)];
    const bool single = tw_random_below(r, 2);
    const tw_memory_type type = single ? TW_M_f32 : TW_M_f16;
    tw_diag d;
    *x = (tw_points){.rank = 2, .dims = {1 + (int64_t)tw_random_below(r, 3), n}, .n_operands = 2};
    x->operands[0] = (tw_point_operand){.type = type, .strides = {n, 1}};
    x->operands[1] = (tw_point_operand){.type = type, .strides = {0, 1}};
    tw_cells_parse(&x->cells, tw_random_below(r, 2) ? "add(x0,mul(x1,0.5))" : "x0", (tw_memory_type[]){type, type}, 2,
                   &d);
}

static void maps_are_right(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    random_points_seen seen = {0};
    for (int i = 0; i < PROBLEMS; i++) {
        char words[4096];
        tw_map_problem p = {.early = false};
        random_points(&r, &p.x, 0, i % 2, &seen);
        if (i % 5 == 0) widen(&r, &p.x);
        p.out = random_points_result(&r, &p.x, tw_cells_class(&p.x.cells));
        tw_map_print(&p, words, sizeof words);
        problem of = {.map = &p, .x = &p.x};
        tw_map_buffers(&p, &of.buffers);
        check_all(&of, (uint64_t)i, words);
    }
}

/* Rows that are copied from one operand or another, gathered or not, or are a number. */
static void rows_are_chosen(void **state) {
    static const char *const of[] = {
        "dims=2x3x9x%d x0=i32[9,0,1,0] x1=%s[0,3,0,1]@0*640/5 x2=i32[0,0,1,0] x3=%s[5000,700,0,1]@2*100/7 "
        "expr=where(less(x0,0),where(less(x2,7),x3,%s),where(less(x0,4),x1,%s)) out=%s",
        "dims=4x7x%d x0=bool[7,1,0] x1=%s[700,-100,1] x2=f32[0,1,0] x3=%s[0,0,0] "
        "expr=where(x0,x1,where(less(mul(x2,2),real(d0)),x3,where(equal(d1,3),%s,%s))) out=%s",
        "dims=5x%d x0=i64[1,0] x1=%s[100,1] x2=%s[0,-1] expr=where(less(x0,d0),x1,where(less(d0,2),add(%s,%s),x2)) "
        "out=%s[210,2]",
        "dims=5x%d x0=i64[0,1] x1=%s[100,1] x2=%s[0,-1] expr=where(less(x0,d0),x1,where(less(d0,2),add(%s,%s),x2)) "
        "out=%s",
    };
    static const char *const types[][2] = {{"f32", "0.5"}, {"f16", "0.5"}, {"bf16", "2.0"}, {"i32", "3"}, {"u8", "7"}};
    static const int wide[] = {1, 3, 64, 100, 600};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (size_t w = TEST_SANITIZED; w < sizeof wide / sizeof *wide; w += TEST_SANITIZED ? 3 : 1) {
                const char *type = types[t][0], *number = types[t][1];
                char words[400], said[400];
                tw_map_problem p;
                tw_diag d;
                snprintf(words, sizeof words, of[i], wide[w], type, type, number, number, type);
                memcpy(said, words, sizeof said);
                if (i == 2 && wide[w] > 100) continue;
                if (tw_map_parse(&p, words, &d) != TW_OK) fail_msg("%s: %s", said, d.message);
                problem map = {.map = &p, .x = &p.x};
                tw_map_buffers(&p, &map.buffers);
                check_all(&map, *(uint64_t *)*state + i, said);
            }
}

/* What decides a row is computed in f32, as elements are, and once for all cells that use it. */
static void rows_are_chosen_alike(void **state) {
    (void)state;
    static const float tenths[] = {0.1f, 0.2f, 0.3f}, x[3] = {1, 2, 3};
    static const char *const of[] = {"where(equal(add(x0,x1),x2),x3,0.0)",
                                     "where(less(c31,2.0),where(equal(add(x0,x1),x2),x3,0.0),0.5)"};
    for (int deep = 0; deep < 2; deep++) {
        char words[1000] = "dims=1x3 x0=f32[0,0] x1=f32[0,0] x2=f32[0,0] x3=f32 expr=";
        size_t n = strlen(words);
        for (int i = 0; deep && i < 32; i++)
            n += (size_t)snprintf(words + n, sizeof words - n, i ? "c%d=mul(c%d,c%d);" : "c0=x0;", i, i - 1, i - 1);
        snprintf(words + n, sizeof words - n, "%s out=f32", of[deep]);
        tw_map_problem p;
        tw_kernels k;
        tw_diag d;
        if (tw_map_parse(&p, words, &d) != TW_OK) fail_msg("%s", d.message);
        for (int m = 0; m < CHECK_MASKS; m++) {
            float y[3] = {0};
            const tw_point_data data = {.operands = {&tenths[0], &tenths[1], &tenths[2], x}, .out = y};
            if (!check_kernels(m, &k)) continue;
            k.map(&p, &data, 0, 1);
            assert_memory_equal(y, x, sizeof y);
        }
    }
}

static void rows_are_right(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    random_points_seen seen = {0};
    for (int i = 0; i < PROBLEMS; i++) {
        char words[4096];
        tw_rows_problem p = {.of = (tw_rows_of)(i % TW_ROWS_OPS), .eps = 0.25f};
        random_points(&r, &p.x, 1, true, &seen);
        if (i % 5 == 0) widen(&r, &p.x);
        p.has_gain = p.of <= TW_ROWS_rms_norm && tw_random_below(&r, 2);
        p.has_bias = p.of <= TW_ROWS_rms_norm && tw_random_below(&r, 2);
        p.has_kept = tw_random_below(&r, 2);
        p.out = random_points_result(&r, &p.x, TW_CLASS_real);
        p.kept = random_points_result(&r, &p.x, TW_CLASS_real);
        p.gain = random_points_result(&r, &p.x, TW_CLASS_real);
        p.bias = random_points_result(&r, &p.x, TW_CLASS_real);
        tw_rows_print(&p, words, sizeof words);
        problem of = {.rows = &p, .x = &p.x};
        tw_rows_buffers(&p, &of.buffers);
        check_all(&of, (uint64_t)i, words);
    }
}

/* The result lies where an operand does. */
static void results_may_replace_operands(void **state) {
    tw_random r = tw_random_seed(*(uint64_t *)*state);
    tw_kernels k;
    for (int m = 0; m < CHECK_MASKS; m++) {
        if (!check_kernels(m, &k)) continue;
        for (int64_t n = 1; n < 3000; n = n * 3 + 1) {
            float *x = guard_make((size_t)n), *y = guard_make((size_t)n);
            tw_map_problem map;
            tw_rows_problem rows;
            char words[200];
            tw_diag d;
            for (int64_t i = 0; i < n; i++) x[i] = y[i] = (float)(4 * tw_random_unit(&r) - 2);
            snprintf(words, sizeof words, "dims=%lld x0=f32 expr=add(mul(x0,x0),x0) out=f32", (long long)n);
            assert_int_equal(tw_map_parse(&map, words, &d), TW_OK);
            k.map(&map, &(tw_point_data){.operands = {x}, .out = x}, 0, 1);
            for (int64_t i = 0; i < n; i++) assert_float_equal(x[i], y[i] * y[i] + y[i], 1e-6f);
            snprintf(words, sizeof words, "of=softmax dims=%lld x0=f32 out=f32", (long long)n);
            assert_int_equal(tw_rows_parse(&rows, words, &d), TW_OK);
            k.rows(&rows, &(tw_point_data){.operands = {y}, .out = y}, 0, 1);
            double sum = 0;
            for (int64_t i = 0; i < n; i++) sum += (double)y[i];
            assert_float_equal(sum, 1, 1e-5f);
            guard_free(x, (size_t)n), guard_free(y, (size_t)n);
        }
    }
}

int main(void) {
    /* Chosen once: drawn constants may cancel beyond the bound of a sum. $CHECKKERNEL_SEED draws others. */
    uint64_t seed = getenv("CHECKKERNEL_SEED") ? check_seed() : 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(maps_are_right, &seed), cmocka_unit_test_prestate(rows_are_chosen, &seed),
        cmocka_unit_test(rows_are_chosen_alike), cmocka_unit_test_prestate(rows_are_right, &seed),
        cmocka_unit_test_prestate(results_may_replace_operands, &seed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
