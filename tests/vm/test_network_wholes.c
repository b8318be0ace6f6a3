/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers at their limits, those without a sign of 64 bits above all: nodes as programs of a GPU in the emulator
   and of a processor, against what the nodes compute plainly or against what is known. */
#include "base/diag.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "support/graphs.h"
#include "support/support.h"
#include "vm/network/cpu.h"
#include "vm/network/network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 4 /* Inputs and outputs. */, TEXT = 600 };

static void good(tw_status st, const tw_diag *diag, const char *text) {
    if (st != TW_OK) fail_msg("%s: %s", text, diag->message);
}

static tw_program *lower(const tw_graph *g, bool gpu, const char *text) {
    tw_program *p = NULL;
    tw_diag diag = {0};
    good(tw_program_lower(&p, g, &(tw_program_options){.gpu = gpu}, &diag), &diag, text);
    return p;
}

static void run_gpu(const tw_graph *g, const void *const *in, void *const *out, const char *text) {
    tw_program *p = lower(g, true, text);
    tw_gpu *gpu = NULL;
    tw_network_weights *w = NULL;
    tw_cuda_network *n = NULL;
    tw_diag diag = {0};
    good(tw_gpu_open(&gpu, "emulator", &diag), &diag, text);
    good(tw_network_weights_open(&w, gpu, &diag), &diag, text);
    good(tw_cuda_network_open(&n, p, w, &(tw_cuda_network_options){0}, NULL, &diag), &diag, text);
    good(tw_cuda_network_run(n, in, out, &diag), &diag, text);
    tw_cuda_network_close(n);
    tw_network_weights_close(w);
    tw_gpu_close(gpu);
    tw_program_free(p);
}

static void run_cpu(const tw_graph *g, const void *const *in, void *const *out, const char *text) {
    tw_program *p = lower(g, false, text);
    tw_cpu_pool *pool = NULL;
    tw_cpu_network *n = NULL;
    tw_diag diag = {0};
    good(tw_cpu_pool_open(&pool, 2, NULL, &diag), &diag, text);
    good(tw_cpu_network_open(&n, p, pool, &diag), &diag, text);
    good(tw_cpu_network_run(n, in, out, &diag), &diag, text);
    tw_cpu_network_close(n);
    tw_cpu_pool_close(pool);
    tw_program_free(p);
}

/* Reals may differ by a share. */
static void compare(const tw_array *want, const void *have, double share, const char *who, const char *text) {
    const tw_array a = {.type = want->type, .rank = want->rank, .data = have};
    for (int64_t i = 0; i < tw_array_elements(want); i++) {
        const double x = tw_array_real(want, i), y = tw_array_real(&a, i);
        const int64_t whole = tw_array_integer(want, i), own = tw_array_integer(&a, i);
        const bool same = share != 0 ? fabs(x - y) <= share * fabs(x) : x == y && whole == own;
        if (!same) fail_msg("%s, %s: element %lld is %.17g, not %.17g", text, who, (long long)i, y, x);
    }
}

/* Runs a graph on a processor and in the emulator. `want` is what the first output is; NULL: what it is plainly. */
static void check(const char *text, const tw_array *in, const tw_array *want, double share) {
    tw_graph *g = test_graph(text), *c = NULL;
    const tw_array *at[MOST];
    const void *inputs[MOST];
    void *outputs[MOST];
    tw_array plain[MOST];
    tw_arena arena = {0};
    tw_diag diag = {0};
    for (int i = 0; i < g->n_inputs; i++) at[i] = &in[i], inputs[i] = in[i].data;
    good(tw_graph_specialize(&c, g, at, &diag), &diag, text);
    good(tw_graph_run(c, at, &arena, plain, &diag), &diag, text);
    for (int gpu = 0; gpu < 2; gpu++) {
        for (int i = 0; i < c->n_outputs; i++)
            outputs[i] = tw_arena_alloc(&arena, (size_t)tw_array_bytes(&plain[i]) + 64);
        (gpu ? run_gpu : run_cpu)(c, inputs, outputs, text);
        /* Processors may compute what is known as plain nodes do, which is not exact. */
        for (int i = 0; i < c->n_outputs && (gpu || !want); i++)
            compare(want ? want : &plain[i], outputs[i], share, gpu ? "emulated" : "processor", text);
    }
    tw_arena_free(&arena);
    tw_graph_free(c);
    tw_graph_free(g);
}

static tw_array list(tw_element type, const void *data, int64_t n) {
    return (tw_array){.type = type, .rank = 1, .dims = {n}, .data = data};
}

static tw_array column(tw_element type, const void *data, int64_t n) {
    return (tw_array){.type = type, .rank = 2, .dims = {n, 1}, .data = data};
}

/* ---- */

static const uint64_t edges[] = {
    0,
    1,
    2,
    3,
    7,
    63,
    64,
    65,
    (1ull << 24) + 1,
    UINT32_MAX,
    (1ull << 53) + 1,
    INT64_MAX,
    1ull << 63,
    (1ull << 63) + 1,
    (1ull << 63) + (1ull << 39),
    UINT64_MAX - 1,
    UINT64_MAX,
};
enum { EDGES = sizeof edges / sizeof *edges };

/* Every number with every other. */
static void pairs_have_no_sign(void **state) {
    (void)state;
    static const char *const of[] = {
        "Add(%x, %y)",
        "Sub(%x, %y)",
        "Mul(%x, %y)",
        "Div(%x, %y)",
        "Mod(%x, %y)",
        "Mod(%x, %y) fmod=1",
        "Min(%x, %y)",
        "Max(%x, %y)",
        "Max(%y, %x, %y)",
        "Sum(%x, %y)",
        "Sum(%x, %y, %x)",
        "Equal(%x, %y)",
        "Less(%x, %y)",
        "LessOrEqual(%x, %y)",
        "Greater(%x, %y)",
        "GreaterOrEqual(%x, %y)",
        "BitShift(%x, %y) direction=\"LEFT\"",
        "BitShift(%x, %y) direction=\"RIGHT\"",
        "BitwiseAnd(%x, %y)",
        "BitwiseOr(%x, %y)",
        "BitwiseXor(%x, %y)",
        "Pow(%x, %y)",
    };
    const tw_array in[] = {column(TW_E_u64, edges, EDGES), list(TW_E_u64, edges, EDGES)};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[TEXT];
        snprintf(text, sizeof text,
                 "graph g @20\n input %%x: u64[%d, 1]\n input %%y: u64[%d]\n %%z = %s\n output %%z\n", EDGES, EDGES,
                 of[i]);
        check(text, in, NULL, 0);
    }
}

static void single_numbers_have_no_sign(void **state) {
    (void)state;
    static const char *const of[] = {
        "%z = Abs(%x)",
        "%z = Sign(%x)",
        "%z = Relu(%x)",
        "%z = BitwiseNot(%x)",
        "constant %a: u64[] {5}\n constant %b: u64[] {9223372036854775809}\n %z = Clip(%x, %a, %b)",
        "constant %b: u64[] {9223372036854775809}\n %z = Less(%x, %b)",
        "%z = Cast(%x) to=1", /* f32 */
        "%z = Cast(%x) to=11", /* f64 */
        "%z = Cast(%x) to=7", /* i64 */
        "%z = Cast(%x) to=6", /* i32 */
        "%z = Cast(%x) to=2", /* u8 */
        "%z = Cast(%x) to=9", /* bool */
        "%z = ReduceSum(%x) keepdims=0",
        "constant %k: i64[1] {5}\n %z, %i = TopK(%x, %k)\n output %i",
        "constant %k: i64[1] {17}\n %z, %i = TopK(%x, %k) largest=0\n output %i",
    };
    const tw_array in[] = {list(TW_E_u64, edges, EDGES)};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[TEXT];
        snprintf(text, sizeof text, "graph g @20\n input %%x: u64[%d]\n %s\n output %%z\n", EDGES, of[i]);
        check(text, in, NULL, 0);
    }
}

static void numbers_without_a_sign_are_moved(void **state) {
    (void)state;
    static const char *const of[] = {
        "constant %k: i64[3] {-1, 12, 0}\n %z = Gather(%x, %k)",
        "constant %k: i64[2] {1, 2}\n constant %a: u64[] {18446744073709551614}\n %z = Pad(%x, %k, %a)",
        "constant %k: i64[2] {2, 17}\n %y = Expand(%x, %k)\n %z = Trilu(%y)",
        "constant %k: i64[2] {-1, 3}\n constant %a: u64[2] {9223372036854775808, 5}\n"
        " %z = ScatterElements(%x, %k, %a)",
        "constant %k: i64[2] {-1, 3}\n constant %a: u64[2] {9223372036854775808, 5}\n constant %d: i64[] {6}\n"
        " %z = OneHot(%k, %d, %a)",
        "constant %a: u64[2] {9223372036854775808, 5}\n constant %e: u64[] {9223372036854775809}\n"
        " %y = Concat(%x, %a) axis=0\n %l = Less(%y, %e)\n %z = Where(%l, %y, %e)",
    };
    const tw_array in = list(TW_E_u64, edges, EDGES);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char text[TEXT];
        snprintf(text, sizeof text, "graph g @20\n input %%x: u64[%d]\n %s\n output %%z\n", EDGES, of[i]);
        check(text, &in, NULL, 0);
    }
}

/* Reals beyond what has a place become what they do plainly. */
static void reals_become_numbers_without_a_sign(void **state) {
    (void)state;
    static const float x[] = {
        0,         -0.0f,          1.9f,    -1.5f, -3,       0x1p31f, 0x1.fffffep62f, 0x1p63f,   0x1.000002p63f,
        0x1.8p63f, 0x1.fffffep63f, 0x1p64f, 1e30f, -0x1p63f, -1e30f,  INFINITY,       -INFINITY, NAN};
    enum { N = sizeof x / sizeof *x };
    char text[TEXT];
    const tw_array in = list(TW_E_f32, x, N);
    snprintf(text, sizeof text, "graph g @20\n input %%x: f32[%d]\n %%z = Cast(%%x) to=13\n output %%z\n", N);
    check(text, &in, NULL, 0);
    double wide[N + 3] = {0x1.fffffffffffffp62, 0x1.fffffffffffffp63, 0x1.0000000000001p63};
    for (int i = 0; i < N; i++) wide[3 + i] = (double)x[i];
    const tw_array doubles = list(TW_E_f64, wide, N + 3);
    snprintf(text, sizeof text, "graph g @20\n input %%x: f64[%d]\n %%z = Cast(%%x) to=13\n output %%z\n", N + 3);
    check(text, &doubles, NULL, 0);
}

/* What lies between two reals of 32 bits becomes the nearer one, by however little that is. */
static void numbers_without_a_sign_are_rounded_once(void **state) {
    (void)state;
    static const uint64_t x[] = {(1ull << 63) + (1ull << 39) + 1, (1ull << 63) + (1ull << 39), UINT64_MAX};
    static const float y[] = {0x1.000002p63f, 0x1p63f, 0x1p64f};
    const tw_array in = list(TW_E_u64, x, 3);
    const tw_array want = list(TW_E_f32, y, 3);
    check("graph g @20\n input %x: u64[3]\n %z = Cast(%x) to=1\n output %z\n", &in, &want, 0);
    static const uint64_t more[] = {(1ull << 63) + (1ull << 10) + 1, (1ull << 63) + (1ull << 10), UINT64_MAX};
    static const double doubles[] = {0x1.0000000000001p63, 0x1p63, 0x1p64};
    const tw_array wide = list(TW_E_u64, more, 3), nearest = list(TW_E_f64, doubles, 3);
    check("graph g @20\n input %x: u64[3]\n %z = Cast(%x) to=11\n output %z\n", &wide, &nearest, 0);
}

static const int64_t bases[] = {0, 1, -1, 2, -2, 3, -3, 10, 255, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
static const int64_t exponents[] = {0, 1, 2, 3, 4, 5, 31, 62, 63, 64, 65, 100, -1, -2, INT32_MAX, INT64_MAX, INT64_MIN};
enum { BASES = sizeof bases / sizeof *bases, EXPONENTS = sizeof exponents / sizeof *exponents };

static void whole_powers_wrap(void **state) {
    (void)state;
    static const tw_element types[][2] = {{TW_E_i64, TW_E_i64}, {TW_E_i32, TW_E_i32}, {TW_E_i32, TW_E_u64},
                                          {TW_E_u64, TW_E_i64}, {TW_E_u8, TW_E_i64},  {TW_E_i64, TW_E_i8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const tw_element a = types[i][0], b = types[i][1];
        int64_t x[BASES], y[EXPONENTS];
        char text[TEXT];
        tw_array_set_integers(a, x, 0, BASES, bases);
        tw_array_set_integers(b, y, 0, EXPONENTS, exponents);
        const tw_array in[] = {column(a, x, BASES), list(b, y, EXPONENTS)};
        snprintf(text, sizeof text,
                 "graph g @20\n input %%x: %s[%d, 1]\n input %%y: %s[%d]\n %%z = Pow(%%x, %%y)\n"
                 " output %%z\n",
                 tw_element_name(a), BASES, tw_element_name(b), EXPONENTS);
        check(text, in, NULL, 0);
    }
    /* Bits beyond the type's are gone also where a power is not stored. */
    const int32_t x[] = {65536, 46341, 3, -7}, y[] = {2, 3, 21, 12};
    const tw_array both[] = {list(TW_E_i32, x, 4), list(TW_E_i32, y, 4)};
    check("graph g @20\n input %x: i32[4]\n input %y: i32[4]\n %p = Pow(%x, %y)\n %z = Less(%p, %x)\n output %z\n",
          both, NULL, 0);
    const tw_array in = list(TW_E_i64, bases, BASES);
    for (int n = -1; n < 5; n++) {
        char text[TEXT];
        snprintf(text, sizeof text,
                 "graph g @20\n input %%x: i64[%d]\n constant %%n: i64[] {%d}\n %%z = Pow(%%x, %%n)\n"
                 " output %%z\n",
                 BASES, n);
        check(text, &in, NULL, 0);
    }
}

/* Powers with exponents that are reals: exact where they are whole, and otherwise without the fraction. */
static void powers_of_reals_are_cut(void **state) {
    (void)state;
    static const struct {
        int64_t base;
        float exponent;
        int64_t power;
    } of[] = {{2, 62, (int64_t)1 << 62},
              {3, 39, 4052555153018976267},
              {-2, 3, -8},
              {7, 0, 1},
              {10, -1, 0},
              {-1, -3, -1},
              {4, 0.5f, 2},
              {9, 1.5f, 27},
              {100, 2.5f, 100000},
              {2, 0.5f, 1},
              {3, 0.5f, 1},
              {5, 2.5f, 55},
              {6, 2.5f, 88},
              {1000, 1.5f, 31622},
              {8, -0.5f, 0},
              {125, 0.33333334f, 5},
              {10, 0.30103f, 2},
              {0, 0.5f, 0},
              {10000, 0.25f, 10}};
    enum { N = sizeof of / sizeof *of };
    static int64_t x[N], y[N];
    static float by[N];
    char text[TEXT];
    for (int i = 0; i < N; i++) x[i] = of[i].base, by[i] = of[i].exponent, y[i] = of[i].power;
    const tw_array in[] = {list(TW_E_i64, x, N), list(TW_E_f32, by, N)};
    const tw_array want = list(TW_E_i64, y, N);
    snprintf(text, sizeof text,
             "graph g @20\n input %%x: i64[%d]\n input %%y: f32[%d]\n %%z = Pow(%%x, %%y)\n"
             " output %%z\n",
             N, N);
    check(text, in, &want, 0);
    /* Of numbers without a sign, and to the power of these. */
    static const uint64_t large[] = {1ull << 63, 1ull << 63, UINT64_MAX, 81};
    static const float roots[] = {0.5f, 1, 1, 0.25f};
    const tw_array of_large[] = {list(TW_E_u64, large, 4), list(TW_E_f32, roots, 4)};
    static const uint64_t found[] = {3037000499, 1ull << 63, UINT64_MAX, 3};
    const tw_array want_large = list(TW_E_u64, found, 4);
    check("graph g @20\n input %x: u64[4]\n input %y: f32[4]\n %z = Pow(%x, %y)\n output %z\n", of_large, &want_large,
          1e-6);
    static const float reals[] = {1.5f, -2, 0.5f, 0.5f};
    static const uint64_t times[] = {3, 5, 20, UINT64_MAX};
    const tw_array by_large[] = {list(TW_E_f32, reals, 4), list(TW_E_u64, times, 4)};
    check("graph g @20\n input %x: f32[4]\n input %y: u64[4]\n %z = Pow(%x, %y)\n output %z\n", by_large, NULL, 1e-6);
}

/* Sums and products up to each element of lines of any extent, along an axis that is not the last. */
static void lines_are_accumulated(void **state) {
    (void)state;
    static const tw_element types[] = {TW_E_u64, TW_E_i64, TW_E_i32};
    for (int extent = 1; extent < 12; extent += 1 + (extent > 5))
        for (int way = 0; way < 8; way++) {
            const tw_element t = types[(extent + way) % 3];
            int64_t numbers[3 * 12 * 2], x[3 * 12 * 2];
            char text[TEXT];
            for (int i = 0; i < 6 * extent; i++) numbers[i] = i % 5 == 4 ? -3 : 2 + i % 9;
            tw_array_set_integers(t, x, 0, 6 * extent, numbers);
            const tw_array in = {.type = t, .rank = 3, .dims = {3, extent, 2}, .data = x};
            snprintf(text, sizeof text,
                     "graph g @26\n input %%x: %s[3, %d, 2]\n constant %%a: i64[] {1}\n"
                     " %%z = %s(%%x, %%a) exclusive=%d reverse=%d\n output %%z\n",
                     tw_element_name(t), extent, way & 4 ? "CumSum" : "CumProd", way & 1, way >> 1 & 1);
            check(text, &in, NULL, 0);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_have_no_sign),
        cmocka_unit_test(single_numbers_have_no_sign),
        cmocka_unit_test(numbers_without_a_sign_are_moved),
        cmocka_unit_test(reals_become_numbers_without_a_sign),
        cmocka_unit_test(numbers_without_a_sign_are_rounded_once),
        cmocka_unit_test(whole_powers_wrap),
        cmocka_unit_test(powers_of_reals_are_cut),
        cmocka_unit_test(lines_are_accumulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
