/* SPDX-License-Identifier: Apache-2.0 */
/* Products of prompts in parts: the norm that adds them up, by itself, and the tiles of such products. */
#include "support/support.h"

#include "base/random.h"
#include "kernels/kernel.h"
#include "vm/prefill/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, COUNT = 3 /* Rows of the step. */, MOST = 5200 /* Columns. */, PARTS = 8, SMS = 132 };

/* What the kernel reads. */
typedef struct rows {
    int32_t step[TW_STEP_TOKENS];
    float x[ROWS * MOST], weight[MOST], bias[MOST], parts[PARTS * ROWS * MOST];
} rows;

static void fill(float *x, int n, tw_random *r) {
    for (int i = 0; i < n; i++) x[i] = (float)(2 * tw_random_unit(r) - 1);
}

static uint64_t upload(tw_gpu *g, const void *from, size_t bytes) {
    uint64_t at;
    tw_diag d;
    if (tw_gpu_alloc(g, bytes, &at, &d) != TW_OK || tw_gpu_upload(g, at, from, bytes, &d) != TW_OK)
        fail_msg("%s", d.message);
    return at;
}

/* Runs the kernel in the emulator. `x` and `y` become rows of as many columns. */
static void run(const tw_prefill_shape *s, const rows *of, float *x, float *y) {
    const size_t bytes = (size_t)(ROWS * s->columns) * sizeof(float), row = (size_t)s->columns * sizeof(float);
    tw_prefill_problem p = {.kind = &tw_prefill_sum_norm};
    tw_gpu *g;
    tw_gpu_kernel *k;
    tw_gpu_launch *l;
    tw_diag d;
    memcpy(&p.shape, s, sizeof *s);
    if (tw_gpu_open(&g, "emulator", &d) != TW_OK || tw_kernel_open_made(&k, g, tw_prefill_make, &p, &d) != TW_OK ||
        tw_gpu_launch_open(&l, k, &d) != TW_OK)
        fail_msg("%s", d.message);
    const struct {
        const char *name;
        uint64_t at;
    } to[] = {{"step", upload(g, of->step, sizeof of->step)},
              {"x", upload(g, of->x, bytes)},
              {"weight", upload(g, of->weight, row)},
              {"y", upload(g, of->x, bytes)},
              {"bias", upload(g, of->bias, row)},
              {"parts", upload(g, of->parts, (size_t)s->parts * bytes)}};
    for (size_t i = 0; i < sizeof to / sizeof *to; i++)
        if (tw_gpu_launch_bind(l, to[i].name, to[i].at, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_gpu_launch_run(l, NULL, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_gpu_download(g, x, to[1].at, bytes, &d) != TW_OK || tw_gpu_download(g, y, to[3].at, bytes, &d) != TW_OK)
        fail_msg("%s", d.message);
    for (size_t i = 0; i < sizeof to / sizeof *to; i++) tw_gpu_release(g, to[i].at);
    tw_gpu_launch_close(l);
    tw_gpu_kernel_close(k);
    tw_gpu_close(g);
}

/* Compares a row with its norm in double precision. */
static void check_row(const tw_prefill_shape *s, const rows *of, int row, const float *x, const float *y) {
    const int n = (int)s->columns;
    const bool centers = s->m->norm == TW_NORM_LAYER;
    double sum[MOST], mean = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum[i] = (double)of->x[row * n + i];
        for (int part = 0; part < s->parts; part++) sum[i] += (double)of->parts[(part * ROWS + row) * n + i];
        mean += sum[i] / n;
    }
    for (int i = 0; i < n; i++) squares += (sum[i] - (centers ? mean : 0)) * (sum[i] - (centers ? mean : 0)) / n;
    for (int i = 0; i < n; i++) {
        const double want =
            (sum[i] - (centers ? mean : 0)) / sqrt(squares + (double)s->m->norm_eps) * (double)of->weight[i] +
            (s->bias ? (double)of->bias[i] : 0);
        if (!(fabs((double)x[row * n + i] - sum[i]) < 1e-5)) fail_msg("x, row %d, column %d of %d", row, i, n);
        if (!(fabs((double)y[row * n + i] - want) < 1e-4)) fail_msg("y, row %d, column %d of %d", row, i, n);
    }
}

/* Rows of few columns, of some that threads do not share evenly, and of more than are kept in registers. Rows behind
   the step's keep what they have. */
static void norms_add_parts_up(void **state) {
    (void)state;
    static const struct {
        int columns, parts;
        tw_norm_kind norm;
    } cases[] = {{64, 2, TW_NORM_RMS}, {520, 8, TW_NORM_LAYER}, {4096, 3, TW_NORM_RMS}, {MOST, 4, TW_NORM_LAYER}};
    rows *of = calloc(1, sizeof *of);
    float *x = calloc(2 * ROWS * MOST, sizeof *x), *y = x + ROWS * MOST;
    tw_model m = {.norm_eps = 1e-2f};
    tw_random r = tw_random_seed(5);
    assert_true(of && x);
    fill(of->x, ROWS * MOST, &r);
    fill(of->weight, MOST, &r);
    fill(of->bias, MOST, &r);
    fill(of->parts, PARTS * ROWS * MOST, &r);
    of->step[TW_STEP_COUNT] = COUNT;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_prefill_shape s;
        memset(&s, 0, sizeof s);
        m.norm = cases[i].norm;
        s.m = &m;
        s.type = TW_T_f32;
        s.tokens = ROWS;
        s.columns = cases[i].columns;
        s.parts = cases[i].parts;
        s.bias = m.norm == TW_NORM_LAYER;
        s.early = true;
        run(&s, of, x, y);
        for (int row = 0; row < COUNT; row++) check_row(&s, of, row, x, y);
        const size_t done = (size_t)(COUNT * cases[i].columns), left = (size_t)((ROWS - COUNT) * cases[i].columns);
        assert_memory_equal(x + done, of->x + done, left * sizeof *x);
        assert_memory_equal(y + done, of->x + done, left * sizeof *y);
    }
    free(of);
    free(x);
}

static double time_of(const char *words, int addends) {
    char text[256];
    tw_gemm_problem p;
    tw_gemm_config c = {0};
    tw_diag d;
    const tw_target *t = tw_target_find("sm_90a");
    snprintf(text, sizeof text, addends ? "%s addends=%d" : "%s beta=1 squares=1 scaled=1", words, addends);
    if (tw_gemm_problem_parse(&p, text, &d) != TW_OK) fail_msg("%s: %s", words, d.message);
    const double time = tw_prefill_tile_time(&p, NULL, t, SMS);
    assert_true(tw_prefill_tile(&p, NULL, t, SMS, &c) == (time < 1e30));
    if (time < 1e30 && addends) assert_int_equal(c.kg, addends);
    return time;
}

/* Of few rows parts take less time than the whole product, which few blocks compute. There are tiles for any number of
   parts. */
static void parts_have_tiles(void **state) {
    (void)state;
    static const char *const products[] = {
        "type=bf16 m=64 n=2048 k=8192 tb=1 out=f32 weights=1 tape=8x4x32",
        "type=bf16 m=128 n=2048 k=8192 tb=1 out=f32 weights=1 tape=8x4x32",
        "type=bf16 m=192 n=2048 k=8192 tb=1 out=f32 weights=1 tape=8x4x32",
        "type=bf16 m=128 n=2048 k=2048 tb=1 out=f32 weights=1 tape=8x4x8",
        "type=bf16 m=128 n=4096 k=14336 tb=1 out=f32 weights=1 tape=8x4x56",
        "type=bf16 m=128 n=4096 k=4096 tb=1 out=f32 weights=1 tape=8x4x16",
        "type=bf16 m=128 n=1024 k=3072 tb=1 out=f32 weights=1 tape=8x4x12",
        "type=bf16 m=128 n=1024 k=2048 tb=1 out=f32 weights=1 tape=8x4x8",
    };
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const double whole = time_of(products[i], 0);
        double best = 1e30;
        for (int parts = 2; parts <= PARTS; parts++) best = fmin(best, time_of(products[i], parts));
        assert_true(best < whole);
    }
    assert_true(time_of("type=bf16 m=64 n=64 k=64 tb=1 out=f32", 2) == 1e30);
}

static tw_gemm_config tile_of(int64_t m, int64_t n, int64_t k, int parts) {
    char text[256];
    tw_gemm_problem p;
    tw_gemm_config c = {0};
    tw_diag d;
    snprintf(text, sizeof text, "type=bf16 m=%d n=%d k=%d tb=1 out=f32 weights=1 tape=8x4x%d addends=%d", (int)m,
             (int)n, (int)k, (int)(k / 256), parts);
    if (tw_gemm_problem_parse(&p, text, &d) != TW_OK) fail_msg("%s: %s", text, d.message);
    assert_true(tw_prefill_tile(&p, NULL, tw_target_find("sm_90a"), SMS, &c));
    return c;
}

/* Tiles that were the fastest measured, or at most 1 % slower. */
static void measured_parts_get_fast_tiles(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
        int parts, ml, nl, multicast, swap;
    } cases[] = {{64, 2048, 8192, 4, 64, 64, 2, 0},     {128, 2048, 8192, 4, 128, 80, 4, 0},
                 {192, 2048, 8192, 4, 64, 192, 2, 1},   {256, 2048, 8192, 4, 256, 80, 4, 0},
                 {128, 4096, 14336, 2, 128, 80, 4, 0},  {192, 4096, 14336, 2, 64, 192, 2, 1},
                 {256, 4096, 14336, 4, 128, 256, 2, 1}, {128, 4096, 4096, 2, 128, 80, 4, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tw_gemm_config c = tile_of(cases[i].m, cases[i].n, cases[i].k, cases[i].parts);
        if (c.ml != cases[i].ml || c.nl != cases[i].nl || c.multicast != cases[i].multicast || c.swap != cases[i].swap)
            fail_msg("case %d: %d x %d, multicast %d, swap %d", (int)i, c.ml, c.nl, c.multicast, c.swap);
    }
}

/* Not all multiprocessors have room for clusters of four, so that no wave has one block for each. */
static void clusters_have_room(void **state) {
    (void)state;
    enum { ROOM = SMS * 10 / 11 };
    for (int64_t m = 16; m <= 384; m += 16)
        for (int64_t n = 1024; n <= 8192; n += 1024)
            for (int parts = 2; parts <= PARTS; parts++) {
                const tw_gemm_config c = tile_of(m, n, 8192, parts);
                const int of_a = c.swap ? c.nl : c.ml, of_b = c.swap ? c.ml : c.nl;
                const int64_t blocks = ((n + of_b - 1) / of_b + 3) / 4 * 4 * ((m + of_a - 1) / of_a) * parts;
                if (c.multicast == 4 && blocks > ROOM && blocks <= SMS)
                    fail_msg("%d x %d in %d parts: %d blocks of %d x %d", (int)m, (int)n, parts, (int)blocks, c.ml,
                             c.nl);
            }
}

/* A device of one multiprocessor has no room for a cluster of four, and its tiles have times all the same. */
static void few_multiprocessors_have_waves(void **state) {
    (void)state;
    char text[] = "type=bf16 m=64 n=2048 k=8192 tb=1 out=f32 addends=4";
    tw_gemm_problem p;
    tw_gemm_config c;
    tw_diag d;
    if (tw_gemm_problem_parse(&p, text, &d) != TW_OK) fail_msg("%s", d.message);
    assert_true(tw_prefill_tile(&p, NULL, tw_target_find("sm_90a"), 1, &c));
    assert_int_equal(c.kg, 4);
}

/* Makes what a product's parts are chosen by. */
static tw_prefill prefill_of(tw_cuda_vm *vm, tw_model *m, tw_type type, int64_t dim) {
    m->dim = dim;
    vm->m = m;
    return (tw_prefill){.vm = vm, .type = type, .gpu = {.target = tw_target_find("sm_90a")}, .info = {.sms = SMS}};
}

/* Those whose parts, with the norm, take less time than the whole product by what was measured. */
static void long_products_of_few_rows_are_in_parts(void **state) {
    (void)state;
    static const struct {
        int64_t rows, dim, columns;
        int asked, parts;
        tw_type type;
    } cases[] = {
        {64, 2048, 8192, 0, 4, TW_T_bf16},   {128, 2048, 8192, 0, 4, TW_T_bf16},  {128, 2048, 8192, 0, 4, TW_T_f16},
        {192, 2048, 8192, 0, 4, TW_T_bf16},  {250, 2048, 8192, 0, 4, TW_T_bf16},  {64, 4096, 14336, 0, 2, TW_T_bf16},
        {128, 4096, 14336, 0, 2, TW_T_bf16}, {192, 4096, 14336, 0, 4, TW_T_bf16}, {256, 4096, 14336, 0, 4, TW_T_bf16},
        {257, 4096, 14336, 0, 1, TW_T_bf16}, {8, 2048, 8192, 0, 1, TW_T_bf16},    {128, 4096, 4096, 0, 1, TW_T_bf16},
        {128, 2048, 8192, 0, 1, TW_T_f32},   {384, 4096, 4096, 2, 2, TW_T_bf16},  {385, 2048, 8192, 2, 1, TW_T_bf16},
        {128, 2048, 8192, 1, 1, TW_T_bf16},  {64, 2048, 128, 8, 1, TW_T_bf16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tw_model m = {0};
        tw_cuda_vm vm = {0};
        const tw_prefill p = prefill_of(&vm, &m, cases[i].type, cases[i].dim);
        const tw_prefill_list list = {.tokens = cases[i].rows};
        const tw_prefill_matrix matrix = {.columns = cases[i].columns};
        const int parts = tw_prefill_parts(&p, &list, &matrix, cases[i].asked);
        if (parts != cases[i].parts)
            fail_msg("%d rows of %d columns: %d parts", (int)cases[i].rows, (int)cases[i].columns, parts);
    }
}

/* There is room for both products in as many parts as they are in, of any number of rows, and none where they are
   whole. */
static void parts_have_room(void **state) {
    (void)state;
    enum { DIM = 1024, SHORT = 128, TALL = 384, WIDE = 8192, SMALL = 512, CASES = 9 };
    static const struct {
        tw_type type;
        int64_t heads, ffn; /* Columns of both products. */
        int o, down, asked; /* What is asked, and the most of it. */
        bool any;
    } cases[CASES] = {{TW_T_bf16, SMALL, WIDE, 0, 0, 0, true},   {TW_T_bf16, WIDE, SMALL, 0, 0, 0, true},
                      {TW_T_bf16, SMALL, SMALL, 0, 0, 0, false}, {TW_T_bf16, WIDE, WIDE, 1, 1, 1, false},
                      {TW_T_bf16, WIDE, WIDE, 1, 2, 2, true},    {TW_T_bf16, WIDE, WIDE, 0, 2, 0, true},
                      {TW_T_bf16, SMALL, WIDE, 8, 1, 8, true},   {TW_T_f32, WIDE, WIDE, 0, 0, 0, false},
                      {TW_T_f32, WIDE, WIDE, 0, 2, 2, true}};
    for (size_t i = 0; i < CASES; i++) {
        tw_model m = {.n_heads = cases[i].heads / 64, .head_dim = 64, .ffn_dim = cases[i].ffn};
        tw_cuda_vm vm = {0};
        tw_prefill p = prefill_of(&vm, &m, cases[i].type, DIM);
        p.options.o_parts = cases[i].o;
        p.options.down_parts = cases[i].down;
        assert_int_equal(tw_prefill_parts_bytes(&p, SHORT) > 0, cases[i].any);
        if (cases[i].asked > 1) {
            assert_int_equal(tw_prefill_parts_bytes(&p, 4096), cases[i].asked * TALL * DIM * 4);
            assert_int_equal(tw_prefill_parts_bytes(&p, SHORT), cases[i].asked * SHORT * DIM * 4);
        }
        for (int64_t n = 9; n <= TALL; n += n % 16 ? 7 : 1) {
            const tw_prefill_list list = {.tokens = n};
            const tw_prefill_matrix o = {.columns = cases[i].heads}, down = {.columns = cases[i].ffn};
            const int of_o = tw_prefill_parts(&p, &list, &o, cases[i].o),
                      of_down = tw_prefill_parts(&p, &list, &down, cases[i].down),
                      parts = of_o > of_down ? of_o : of_down;
            if (parts > 1) assert_true(parts * n * DIM * 4 <= tw_prefill_parts_bytes(&p, n));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms_add_parts_up),
                                       cmocka_unit_test(parts_have_tiles),
                                       cmocka_unit_test(measured_parts_get_fast_tiles),
                                       cmocka_unit_test(clusters_have_room),
                                       cmocka_unit_test(few_multiprocessors_have_waves),
                                       cmocka_unit_test(long_products_of_few_rows_are_in_parts),
                                       cmocka_unit_test(parts_have_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
