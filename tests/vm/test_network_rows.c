/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that layer norms find hard, in the emulator: norms that are parts of products beside those that are steps. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/build.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "support/support.h"
#include "vm/network/network.h"

#include <math.h>
#include <string.h>

/* y = norm(x I) v w + norm(x I): a norm of what a product computes, as the next one's A and as a residual. I has a
   diagonal of one number, so that rows are what tests say. */
enum { ROWS = 24, DIM = 64, WIDE = 96 };

static void good(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

#define DIMS(...) ((const tw_dim[]){__VA_ARGS__})

static int matrix(tw_graph *g, tw_element type, int rank, const int64_t *dims, const double *x) {
    tw_array a = {.type = type, .rank = rank};
    memcpy(a.dims, dims, (size_t)rank * sizeof *dims);
    void *data = tw_arena_alloc(&g->arena, (size_t)tw_array_bytes(&a) + 1);
    assert_non_null(data);
    tw_array_set_reals(type, data, 0, tw_array_elements(&a), x);
    a.data = data;
    return tw_graph_constant(g, &a);
}

static int drawn(tw_graph *g, tw_element type, int64_t rows, int64_t columns, double middle, double spread,
                 uint64_t seed) {
    double x[WIDE * WIDE];
    tw_random r = tw_random_seed(seed);
    for (int64_t i = 0; i < rows * columns; i++) x[i] = middle + spread * (2 * tw_random_unit(&r) - 1);
    return rows > 1 ? matrix(g, type, 2, (int64_t[]){rows, columns}, x) : matrix(g, type, 1, &columns, x);
}

/* `scale` is the number on the diagonal. */
static tw_graph *network(tw_element type, double scale, double eps) {
    static double identity[DIM * DIM];
    tw_graph *g = tw_graph_new();
    for (int i = 0; i < DIM; i++) identity[i * DIM + i] = scale;
    const int x = tw_graph_input(g, "x", type, 2, DIMS(ROWS, DIM)),
              p = tw_graph_op(g, "MatMul", TW_OPERANDS(x, matrix(g, type, 2, (int64_t[]){DIM, DIM}, identity)),
                              TW_NO_ATTRIBUTES),
              n = tw_graph_op(g, "LayerNormalization",
                              TW_OPERANDS(p, drawn(g, type, 1, DIM, 1, 0.25, 5), drawn(g, type, 1, DIM, 0, 0.5, 6)),
                              TW_ATTRIBUTES(TW_INT("axis", -1), TW_REAL("epsilon", eps))),
              a = tw_graph_op(g, "MatMul", TW_OPERANDS(n, drawn(g, type, DIM, WIDE, 0, 0.2, 7)), TW_NO_ATTRIBUTES),
              b = tw_graph_op(g, "MatMul", TW_OPERANDS(a, drawn(g, type, WIDE, DIM, 0, 0.02, 8)), TW_NO_ATTRIBUTES);
    tw_graph_output(g, a, "a");
    tw_graph_output(g, tw_graph_op(g, "Add", TW_OPERANDS(b, n), TW_NO_ATTRIBUTES), "y");
    return g;
}

/* What a network makes of rows: plainly, with norms as steps, and with norms as parts of products. */
typedef struct made {
    double a[3][ROWS * WIDE], y[3][ROWS * DIM];
} made;

static void run_gpu(const tw_graph *c, const tw_array *in, bool norms, double *a, double *y) {
    static char of_a[ROWS * WIDE * 2], of_y[ROWS * DIM * 2];
    const void *inputs[] = {in->data};
    void *outputs[] = {of_a, of_y};
    tw_diag diag = {0};
    tw_program *p;
    tw_gpu *gpu;
    tw_network_weights *w;
    tw_cuda_network *n;
    good(tw_program_lower(&p, c, &(tw_program_options){.gpu = true, .norms = norms}, &diag), &diag);
    int normed = 0;
    for (int i = 0; i < p->n_steps; i++) normed += p->steps[i].kind == TW_STEP_PRODUCT && p->steps[i].of.product.norm;
    assert_int_equal(normed, norms ? 2 : 0);
    good(tw_gpu_open(&gpu, "emulator", &diag), &diag);
    good(tw_network_weights_open(&w, gpu, &diag), &diag);
    good(tw_cuda_network_open(&n, p, w, &(tw_cuda_network_options){0}, NULL, &diag), &diag);
    good(tw_cuda_network_run(n, inputs, outputs, &diag), &diag);
    const tw_array all[] = {{.type = in->type, .data = of_a}, {.type = in->type, .data = of_y}};
    for (int i = 0; i < ROWS * WIDE; i++) a[i] = tw_array_real(&all[0], i);
    for (int i = 0; i < ROWS * DIM; i++) y[i] = tw_array_real(&all[1], i);
    tw_cuda_network_close(n);
    tw_network_weights_close(w);
    tw_gpu_close(gpu);
    tw_program_free(p);
}

static void run(tw_graph *g, tw_element type, const double *x, made *m) {
    static char data[ROWS * DIM * 2];
    tw_array in = {.type = type, .rank = 2, .dims = {ROWS, DIM}, .data = data}, want[2];
    const tw_array *const at[] = {&in};
    tw_arena arena = {0};
    tw_diag diag = {0};
    tw_graph *c;
    tw_array_set_reals(type, data, 0, ROWS * DIM, x);
    good(tw_graph_resolve(g, "", &diag), &diag);
    good(tw_graph_specialize(&c, g, at, &diag), &diag);
    tw_graph_free(g);
    good(tw_graph_fuse(c, NULL, &diag), &diag);
    good(tw_graph_resolve(c, "", &diag), &diag);
    good(tw_graph_run(c, at, &arena, want, &diag), &diag);
    for (int i = 0; i < ROWS * WIDE; i++) m->a[0][i] = tw_array_real(&want[0], i);
    for (int i = 0; i < ROWS * DIM; i++) m->y[0][i] = tw_array_real(&want[1], i);
    for (int norms = 0; norms < 2; norms++) run_gpu(c, &in, norms, m->a[1 + norms], m->y[1 + norms]);
    tw_arena_free(&arena);
    tw_graph_free(c);
}

/* The root of the mean square of what is off, as a share of that of what is wanted. */
static double off(const double *want, const double *have, int n) {
    double errors = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        errors += (have[i] - want[i]) * (have[i] - want[i]);
        squares += want[i] * want[i];
    }
    return sqrt(errors / squares);
}

/* Rows with a standard deviation of 1 and a mean. What columns of weights are off a mean of 0, since they are rounded,
   is multiplied by the rows' means. */
static void means_are_taken_out(void **state) {
    (void)state;
    static const struct {
        tw_element type;
        double mean, a, y; /* The most that the results are off. */
    } all[] = {{TW_E_f16, 0, 1e-3, 1e-3},
               {TW_E_f16, 50, 2.5e-3, 1e-3},
               {TW_E_bf16, 0, 8e-3, 8e-3},
               {TW_E_bf16, 50, 0.02, 6e-3}};
    static made m;
    static double x[ROWS * DIM];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tw_random r = tw_random_seed(3);
        for (int k = 0; k < ROWS * DIM; k++) x[k] = all[i].mean + sqrt(3) * (2 * tw_random_unit(&r) - 1);
        run(network(all[i].type, 1, 1e-5), all[i].type, x, &m);
        assert_true(off(m.a[0], m.a[2], ROWS * WIDE) < all[i].a);
        assert_true(off(m.y[0], m.y[2], ROWS * DIM) < all[i].y);
    }
}

/* Rows with one element that is no number, or leaves the range. In f16 it leaves it when it is rounded, behind the
   sums, in bf16 before. */
static void nothing_is_hidden(void **state) {
    (void)state;
    enum { BAD = 4 };
    static made m;
    static double x[ROWS * DIM];
    for (int wide = 0; wide < 2; wide++) {
        for (int k = 0; k < ROWS * DIM; k++) x[k] = sin(7.1 * k);
        x[0 * DIM + 5] = NAN;
        x[1 * DIM + 6] = INFINITY;
        x[2 * DIM + 7] = -INFINITY;
        x[3 * DIM + 8] = wide ? 3e38 : 60000;
        run(network(wide ? TW_E_bf16 : TW_E_f16, 2, 1e-5), wide ? TW_E_bf16 : TW_E_f16, x, &m);
        for (int of = 0; of < 3; of++) {
            const int none = (wide || of < 2 ? BAD : BAD - 1) * WIDE; /* Elements of `a` that are no number. */
            for (int k = 0; k < ROWS * WIDE; k++)
                assert_true(k < none ? isnan(m.a[of][k]) : !isfinite(m.a[of][k]) == (k < BAD * WIDE));
            for (int k = 0; k < ROWS * DIM; k++) assert_true(k < BAD * DIM ? isnan(m.y[of][k]) : isfinite(m.y[of][k]));
        }
    }
}

/* Rows of equal elements have no variance, of which f32 may make one that is below 0. */
static void equal_elements_are_normed(void **state) {
    (void)state;
    static made m;
    static double x[ROWS * DIM];
    for (int k = DIM; k < ROWS * DIM; k++) x[k] = 0.37 * exp(0.4 * (k / DIM));
    run(network(TW_E_f16, 1, 1e-5), TW_E_f16, x, &m);
    for (int k = 0; k < ROWS * WIDE; k++) assert_true(isfinite(m.a[2][k]));
    for (int k = 0; k < ROWS * DIM; k++) assert_true(isfinite(m.y[2][k]));
    /* Nothing is off where the elements are 0. */
    assert_true(off(m.a[0], m.a[2], WIDE) < 1e-3 && off(m.y[0], m.y[2], DIM) < 1e-3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(means_are_taken_out), cmocka_unit_test(nothing_is_hidden),
                                       cmocka_unit_test(equal_elements_are_normed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
