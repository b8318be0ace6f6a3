/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of graphs: what each kind of node becomes, and that programs compute what graphs do. */
#include "base/diag.h"
#include "graph/arrays.h"
#include "graph/build.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "graph/specialize.h"
#include "kernels/rows/rows.h"
#include "support/graphs.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 /* Inputs and outputs. */ };

static void assert_status(tw_status st, const tw_diag *diag) {
    if (st != TW_OK) fail_msg("%s", diag->message);
}

/* Runs a concrete graph, and its programs for both kinds of devices. Returns the GPU's, which is the caller's. */
static tw_program *check(const tw_graph *g, const tw_array *const *in, tw_program_fuse fuse, double most) {
    tw_arena arena = {0};
    tw_array want[MOST], have[MOST];
    tw_program *p = NULL;
    tw_diag diag = {0};
    assert_status(tw_graph_run(g, in, &arena, want, &diag), &diag);
    for (int gpu = 0; gpu < 2; gpu++) {
        const tw_program_options o = {.gpu = gpu, .attention = fuse};
        tw_program_free(p);
        assert_status(tw_program_lower(&p, g, &o, &diag), &diag);
        assert_status(run_program(p, in, &arena, have, &diag), &diag);
        for (int i = 0; i < g->n_outputs; i++) arrays_compare(&want[i], &have[i], most, "planned");
    }
    tw_arena_free(&arena);
    return p;
}

/* Makes a graph concrete, which it frees, and checks it with random inputs. */
static tw_program *check_random(tw_graph *g, const int64_t *const *dims, tw_program_fuse fuse, double most, bool fused,
                                tw_graph **kept) {
    tw_arena arena = {0};
    tw_array in[MOST];
    const tw_array *at[MOST];
    tw_diag diag = {0};
    tw_graph *c = NULL;
    assert_status(tw_graph_resolve(g, "", &diag), &diag);
    for (int i = 0; i < g->n_inputs; i++) {
        in[i] = arrays_random(&arena, &g->values[g->inputs[i]], dims ? dims[i] : g->values[g->inputs[i]].dims,
                              7 + (uint64_t)i, 5);
        at[i] = &in[i];
    }
    assert_status(tw_graph_specialize(&c, g, at, &diag), &diag);
    tw_graph_free(g);
    if (fused) assert_status(tw_graph_fuse(c, NULL, &diag), &diag);
    if (fused) assert_status(tw_graph_resolve(c, "", &diag), &diag);
    tw_program *p = check(c, at, fuse, most);
    tw_arena_free(&arena);
    *kept = c;
    return p;
}

static int count(const tw_program *p, tw_step_kind kind) {
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) n += p->steps[i].kind == kind;
    return n;
}

#define DIMS(...) ((const tw_dim[]){__VA_ARGS__})

static int constant(tw_graph *g, tw_element type, int rank, const int64_t *dims, uint64_t seed) {
    const int v = tw_graph_add_value(g, "w");
    g->values[v].type = type;
    g->values[v].rank = rank;
    const tw_array a = arrays_random(&g->arena, &g->values[v], dims, seed, 5);
    return tw_graph_constant(g, &a);
}

/* ---- tests */

static void chains_are_one_map(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f32, 3, DIMS(2, 3, 8)), y = tw_graph_input(g, "y", TW_E_f32, 1, DIMS(8));
    const int a = tw_graph_op(g, "Add", TW_OPERANDS(x, y), TW_NO_ATTRIBUTES);
    const int b = tw_graph_op(g, "Erf", TW_OPERANDS(a), TW_NO_ATTRIBUTES);
    const int t = tw_graph_op(g, "Transpose", TW_OPERANDS(b), TW_NO_ATTRIBUTES);
    const int r = tw_graph_op(g, "Reshape", TW_OPERANDS(t, tw_graph_integers(g, TW_INTEGERS(8, 6))), TW_NO_ATTRIBUTES);
    const int two = tw_graph_real(g, 2);
    tw_graph_output(g, tw_graph_op(g, "Mul", TW_OPERANDS(r, two), TW_NO_ATTRIBUTES), "out");
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept);
    /* [8, 3, 2] has no strides as [8, 6]: what is transposed is stored. */
    assert_int_equal(p->n_steps, 2);
    tw_program_free(p);
    tw_graph_free(kept);
}

/* Processors have no vectors of doubles: nodes of them stay plain, and have the same bits, and what only moves is
   copied as whole numbers. */
static void doubles_stay_plain_on_processors(void **state) {
    (void)state;
    static const char text[] = "graph g @20\n input %x: f64[2, 3]\n input %n: i64[2, 3]\n input %f: f32[2, 3]\n"
                               " constant %k: i64[2] {1, 0}\n constant %two: f64[] {2}\n"
                               " %sinh = Sinh(%x)\n %elu = Elu(%x)\n %sum = ReduceSum(%x)\n"
                               " %rounded = Cast(%n) to=1\n %wide = Cast(%rounded) to=11\n %turned = Transpose(%x)\n"
                               " %some = Gather(%x, %k)\n %square = Pow(%f, %two)\n"
                               " output %sinh\n output %elu\n output %sum\n output %wide\n output %turned\n"
                               " output %some\n output %square\n";
    static const double x[] = {0.1, -1e-9, 0.45, -2, 1e-300, 7};
    static const int64_t n[] = {16777217, 1, -16777219, 0, INT64_MAX, 3};
    static const float f[] = {1, 2, 3, 4, 5, 6};
    const tw_array in[] = {{.type = TW_E_f64, .rank = 2, .dims = {2, 3}, .data = x},
                           {.type = TW_E_i64, .rank = 2, .dims = {2, 3}, .data = n},
                           {.type = TW_E_f32, .rank = 2, .dims = {2, 3}, .data = f}};
    const tw_array *at[] = {&in[0], &in[1], &in[2]};
    tw_array want[MOST], have[MOST];
    tw_graph *g = test_graph(text), *c = NULL;
    tw_program *p = NULL;
    tw_arena arena = {0};
    tw_diag diag = {0};
    assert_status(tw_graph_specialize(&c, g, at, &diag), &diag);
    assert_status(tw_graph_run(c, at, &arena, want, &diag), &diag);
    assert_status(tw_program_lower(&p, c, &(tw_program_options){0}, &diag), &diag);
    assert_status(run_program(p, at, &arena, have, &diag), &diag);
    for (int i = 0; i < c->n_outputs; i++)
        assert_memory_equal(have[i].data, want[i].data, (size_t)tw_array_bytes(&want[i]));
    assert_int_equal(count(p, TW_STEP_PLAIN), 5);
    assert_int_equal(count(p, TW_STEP_MAP), 3);
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].kind == TW_STEP_MAP) assert_int_not_equal(p->steps[i].of.map->out.type, TW_M_f64);
    tw_program_free(p);
    tw_arena_free(&arena);
    tw_graph_free(c);
    tw_graph_free(g);
}

static void norms_take_what_is_before_them(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int ids = tw_graph_input(g, "ids", TW_E_i64, 2, DIMS(2, 3));
    const int words = constant(g, TW_E_f32, 2, DIMS(5, 16), 3), places = constant(g, TW_E_f32, 2, DIMS(3, 16), 4);
    const int gain = constant(g, TW_E_f32, 1, DIMS(16), 5), bias = constant(g, TW_E_f32, 1, DIMS(16), 6);
    const int e = tw_graph_op(g, "Gather", TW_OPERANDS(words, ids), TW_NO_ATTRIBUTES);
    const int x = tw_graph_op(g, "Add", TW_OPERANDS(e, places), TW_NO_ATTRIBUTES);
    const int n = tw_graph_op(g, "LayerNormalization", TW_OPERANDS(x, gain, bias), TW_NO_ATTRIBUTES);
    const int s = tw_graph_op(g, "Softmax", TW_OPERANDS(n), TW_ATTRIBUTES(TW_INT("axis", 1)));
    tw_graph_output(g, tw_graph_op(g, "Add", TW_OPERANDS(s, x), TW_NO_ATTRIBUTES), "out");
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept);
    assert_int_equal(p->n_steps, 3); /* The norm, which keeps the sum; the softmax; the last sum. */
    assert_int_equal(count(p, TW_STEP_ROWS), 2);
    assert_true(p->steps[0].of.rows->has_kept);
    tw_program_free(p);
    tw_graph_free(kept);
}

static void reductions_of_any_axes(void **state) {
    (void)state;
    static const char *const ops[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"};
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f32, 3, DIMS(4, 3, 5));
    for (int i = 0; i < 4; i++) {
        const int axes = i % 2 ? tw_graph_integers(g, TW_INTEGERS(0, -1)) : tw_graph_integers(g, TW_INTEGERS(1));
        tw_graph_output(g, tw_graph_op(g, ops[i], TW_OPERANDS(x, axes), TW_ATTRIBUTES(TW_INT("keepdims", i < 2))),
                        ops[i]);
    }
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept);
    assert_int_equal(count(p, TW_STEP_ROWS), 4);
    tw_program_free(p);
    tw_graph_free(kept);
}

static void parts_and_wholes(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f32, 2, DIMS(6, 8)), w = constant(g, TW_E_f32, 2, DIMS(8, 8), 9);
    const int y = tw_graph_op(g, "MatMul", TW_OPERANDS(x, w), TW_NO_ATTRIBUTES);
    const int z = tw_graph_op(g, "Neg", TW_OPERANDS(x), TW_NO_ATTRIBUTES);
    const int all = tw_graph_op(g, "Concat", TW_OPERANDS(y, z, x), TW_ATTRIBUTES(TW_INT("axis", 0)));
    const int halves = tw_graph_op_several(g, "Split", TW_OPERANDS(all),
                                           TW_ATTRIBUTES(TW_INT("axis", 1), TW_INT("num_outputs", 2)), 2);
    const int cut =
        tw_graph_op(g, "Slice",
                    TW_OPERANDS(halves, tw_graph_integers(g, TW_INTEGERS(-2)), tw_graph_integers(g, TW_INTEGERS(-100)),
                                tw_graph_integers(g, TW_INTEGERS(0)), tw_graph_integers(g, TW_INTEGERS(-3))),
                    TW_NO_ATTRIBUTES);
    tw_graph_output(g, cut, "cut");
    tw_graph_output(g,
                    tw_graph_op(g, "Expand", TW_OPERANDS(halves + 1, tw_graph_integers(g, TW_INTEGERS(2, 18, 4))),
                                TW_NO_ATTRIBUTES),
                    "wide");
    tw_graph_output(g, all, "all");
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept);
    /* The product and two maps store the concatenation's parts, and two maps store what is cut from it. */
    assert_int_equal(p->n_steps, 5);
    tw_program_free(p);
    tw_graph_free(kept);
}

static const int64_t last_swapped[] = {0, 1, 3, 2};
static const tw_array swap = {.type = TW_E_i64, .rank = 1, .dims = {4}, .data = last_swapped};

static int swapped(tw_graph *g, int x) {
    const tw_attribute perm = {.name = "perm", .kind = TW_ATTRIBUTE_ARRAY, .array = &swap};
    return tw_graph_op(g, "Transpose", TW_OPERANDS(x), &perm, 1);
}

static void products_of_all_shapes(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f32, 4, DIMS(2, 3, 4, 8)),
              v = tw_graph_input(g, "v", TW_E_f32, 1, DIMS(8));
    const int w = constant(g, TW_E_f32, 2, DIMS(8, 5), 9), t = swapped(g, x);
    const int one = tw_graph_op(g, "Slice",
                                TW_OPERANDS(x, tw_graph_integers(g, TW_INTEGERS(1)),
                                            tw_graph_integers(g, TW_INTEGERS(2)), tw_graph_integers(g, TW_INTEGERS(1))),
                                TW_NO_ATTRIBUTES);
    const int in[][2] = {{x, w}, {x, v}, {v, w}, {x, t}, {t, x}, {one, t}, {t, one}, {v, t}};
    const int n = sizeof in / sizeof *in;
    for (int i = 0; i < n; i++)
        tw_graph_output(g, tw_graph_op(g, "MatMul", TW_OPERANDS(in[i][0], in[i][1]), TW_NO_ATTRIBUTES), "out");
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept);
    assert_int_equal(count(p, TW_STEP_PRODUCT), n);
    assert_int_equal(count(p, TW_STEP_PLAIN), 0);
    tw_program_free(p);
    tw_graph_free(kept);
}

static int f16(tw_graph *g, int64_t rows, int64_t columns, uint64_t seed) {
    return constant(g, TW_E_f16, 2, DIMS(rows, columns), seed);
}

static void gates_are_joined(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f16, 3, DIMS(2, 3, 16));
    const int gate = tw_graph_op(g, "MatMul", TW_OPERANDS(x, f16(g, 16, 24, 3)), TW_NO_ATTRIBUTES),
              up = tw_graph_op(g, "MatMul", TW_OPERANDS(x, f16(g, 16, 24, 4)), TW_NO_ATTRIBUTES);
    const int sigmoid = tw_graph_op(g, "Sigmoid", TW_OPERANDS(gate), TW_NO_ATTRIBUTES);
    const int silu = tw_graph_op(g, "Mul", TW_OPERANDS(gate, sigmoid), TW_NO_ATTRIBUTES);
    const int h = tw_graph_op(g, "Mul", TW_OPERANDS(silu, up), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "MatMul", TW_OPERANDS(h, f16(g, 24, 8, 5)), TW_NO_ATTRIBUTES), "out");
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-2, true, &kept);
    assert_int_equal(p->n_steps, 2);
    assert_true(p->steps[0].of.product.gated);
    tw_program_free(p);
    tw_graph_free(kept);
}

/* Attention by parts: heads that share keys, what is past, and a mask. */
static void attention_of_all_kinds(void **state) {
    (void)state;
    for (int fuse = 0; fuse < 3; fuse++) {
        tw_graph *g = tw_graph_new(), *kept;
        const int q = tw_graph_input(g, "q", TW_E_f32, 3, DIMS(2, 5, 64)),
                  k = tw_graph_input(g, "k", TW_E_f32, 3, DIMS(2, 5, 32)),
                  v = tw_graph_input(g, "v", TW_E_f32, 3, DIMS(2, 5, 32));
        const int old_k = tw_graph_input(g, "old_k", TW_E_f32, 4, DIMS(2, 2, 3, 16)),
                  old_v = tw_graph_input(g, "old_v", TW_E_f32, 4, DIMS(2, 2, 3, 16));
        const int mask = tw_graph_input(g, "mask", TW_E_f32, 2, DIMS(5, 8));
        const int a = tw_graph_op_several(g, "Attention", TW_OPERANDS(q, k, v, mask, old_k, old_v),
                                          TW_ATTRIBUTES(TW_INT("q_num_heads", 4), TW_INT("kv_num_heads", 2),
                                                        TW_INT("is_causal", 1), TW_REAL("softcap", 3.0)),
                                          3);
        for (int i = 0; i < 3; i++) tw_graph_output(g, a + i, "out");
        tw_program *p = check_random(g, NULL, (tw_program_fuse)fuse, 1e-5, false, &kept);
        assert_int_equal(count(p, TW_STEP_ATTENTION), 0); /* A GPU has no kernel of f32. */
        tw_program_free(p);
        tw_graph_free(kept);
    }
}

/* Indices from the end count from the end of the part that is gathered from. */
static void parts_of_a_table_are_tables(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f32, 2, DIMS(5, 8)), ids = tw_graph_input(g, "ids", TW_E_i64, 1, DIMS(4));
    const int part =
        tw_graph_op(g, "Slice",
                    TW_OPERANDS(x, tw_graph_integers(g, TW_INTEGERS(0)), tw_graph_integers(g, TW_INTEGERS(3)),
                                tw_graph_integers(g, TW_INTEGERS(0))),
                    TW_NO_ATTRIBUTES);
    const int few = tw_graph_op(g, "Min", TW_OPERANDS(ids, tw_graph_integers(g, TW_INTEGERS(2))), TW_NO_ATTRIBUTES);
    const int last = tw_graph_op(g, "Sub", TW_OPERANDS(few, tw_graph_integers(g, TW_INTEGERS(3))), TW_NO_ATTRIBUTES);
    const int a = tw_graph_op(g, "Gather", TW_OPERANDS(part, last), TW_NO_ATTRIBUTES),
              b = tw_graph_op(g, "Gather", TW_OPERANDS(x, last), TW_NO_ATTRIBUTES);
    tw_graph_output(g, tw_graph_op(g, "Sub", TW_OPERANDS(a, b), TW_NO_ATTRIBUTES), "out");
    tw_program_free(check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept));
    tw_graph_free(kept);
}

/* What is gathered is read where a part of it begins, and a part of a Split that nobody wants is passed over. */
static void parts_of_what_is_gathered(void **state) {
    (void)state;
    tw_graph *g = tw_graph_new(), *kept;
    const int x = tw_graph_input(g, "x", TW_E_f32, 2, DIMS(5, 8)), ids = tw_graph_input(g, "ids", TW_E_i64, 1, DIMS(4));
    const int rows = tw_graph_op(g, "Gather", TW_OPERANDS(x, ids), TW_NO_ATTRIBUTES);
    const int back = tw_graph_op(
        g, "Slice",
        TW_OPERANDS(rows, tw_graph_integers(g, TW_INTEGERS(-1, 5)), tw_graph_integers(g, TW_INTEGERS(-100, 0)),
                    tw_graph_integers(g, TW_INTEGERS(0, 1)), tw_graph_integers(g, TW_INTEGERS(-1, -2))),
        TW_NO_ATTRIBUTES);
    tw_graph_output(g, back, "back");
    const int thirds =
        tw_graph_op_several(g, "Split", TW_OPERANDS(x), TW_ATTRIBUTES(TW_INT("axis", 1), TW_INT("num_outputs", 3)), 3);
    tw_graph_output(g, tw_graph_op(g, "Neg", TW_OPERANDS(thirds), TW_NO_ATTRIBUTES), "first");
    tw_graph_output(g, tw_graph_op(g, "Neg", TW_OPERANDS(thirds + 2), TW_NO_ATTRIBUTES), "last");
    const int halves = tw_graph_op_several(g, "Split", TW_OPERANDS(x, tw_graph_integers(g, TW_INTEGERS(3, 5))),
                                           TW_ATTRIBUTES(TW_INT("axis", 1)), 2);
    tw_graph_output(g, tw_graph_op(g, "Neg", TW_OPERANDS(halves + 1), TW_NO_ATTRIBUTES), "half");
    tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_GPU, 1e-5, false, &kept);
    assert_int_equal(count(p, TW_STEP_MAP), 4);
    tw_program_free(p);
    tw_graph_free(kept);
}

/* Queries that see no key get zeros, if they are asked for, also from two products. */
static void hidden_rows_are_zeros(void **state) {
    (void)state;
    for (int zero = 0; zero < 2; zero++) {
        tw_graph *g = tw_graph_new(), *kept;
        const int q = tw_graph_input(g, "q", TW_E_f32, 4, DIMS(1, 2, 5, 8)),
                  k = tw_graph_input(g, "k", TW_E_f32, 4, DIMS(1, 2, 3, 8)),
                  v = tw_graph_input(g, "v", TW_E_f32, 4, DIMS(1, 2, 3, 8));
        const int seen = tw_graph_input(g, "seen", TW_E_i64, 2, DIMS(5, 1));
        const int mask = tw_graph_op(g, "Cast", TW_OPERANDS(seen), TW_ATTRIBUTES(TW_INT("to", 9)));
        const int wide =
            tw_graph_op(g, "Expand", TW_OPERANDS(mask, tw_graph_integers(g, TW_INTEGERS(5, 3))), TW_NO_ATTRIBUTES);
        tw_graph_output(
            g, tw_graph_op(g, "Attention", TW_OPERANDS(q, k, v, wide), TW_ATTRIBUTES(TW_INT("zero_rows", zero))),
            "out");
        tw_program *p = check_random(g, NULL, TW_PROGRAM_FUSE_NONE, 1e-5, false, &kept);
        assert_int_equal(count(p, TW_STEP_PRODUCT), 2);
        tw_program_free(p);
        tw_graph_free(kept);
    }
}

/* ---- whole models */

/* Reads a model, and checks its programs before and after patterns are found. */
static tw_program *check_model(const char *path, const int64_t *const *dims, bool fused, tw_program_fuse attention,
                               tw_graph **kept) {
    tw_arena arena = {0};
    tw_array in[MOST];
    const tw_array *at[MOST];
    tw_diag diag = {0};
    tw_graph *g = NULL, *c = NULL;
    assert_status(tw_onnx_open(&g, path, &diag), &diag);
    assert_status(tw_graph_resolve(g, path, &diag), &diag);
    for (int i = 0; i < g->n_inputs; i++) {
        in[i] = arrays_random(&arena, &g->values[g->inputs[i]], dims[i], 7 + (uint64_t)i, 2);
        at[i] = &in[i];
    }
    assert_status(tw_graph_specialize(&c, g, at, &diag), &diag);
    tw_graph_free(g);
    assert_status(tw_graph_simplify(c, &diag), &diag);
    if (fused) assert_status(tw_graph_fuse(c, NULL, &diag), &diag);
    if (fused) assert_status(tw_graph_simplify(c, &diag), &diag);
    assert_status(tw_graph_resolve(c, path, &diag), &diag);
    tw_program *p = check(c, at, attention, 1e-4);
    tw_arena_free(&arena);
    *kept = c;
    return p;
}

/* Places are reals of 32 bits on the way, which are not those of longer lines. */
static void places_are_exact(void **state) {
    (void)state;
    tw_graph *before = test_graph("graph g @20\n input %x: f32[16777217]\n %y = ArgMax(%x) axis=0\n output %y\n"),
             *g = test_concrete(before, "");
    tw_program *p = NULL;
    tw_diag d = {0};
    assert_int_equal(tw_program_lower(&p, g, &(tw_program_options){.gpu = true}, &d), TW_ERR_UNSUPPORTED);
    assert_non_null(strstr(d.message, "ArgMax: no kernel computes it"));
    tw_graph_free(g);
    tw_graph_free(before);
}

static void show(const char *path) {
    static const int64_t dims[3][2] = {{2, 7}, {2, 7}, {2, 7}};
    const int64_t *const all[] = {dims[0], dims[1], dims[2]};
    for (int fused = 0; fused < 2; fused++) {
        tw_graph *g;
        tw_program *p = check_model(path, all, fused, fused ? TW_PROGRAM_FUSE_ALL : TW_PROGRAM_FUSE_GPU, &g);
        tw_buf text = {0};
        tw_program_print(p, &text);
        fprintf(stderr, "%s fused %d: %d steps, %lld bytes\n%.*s\n", path, fused, p->n_steps,
                (long long)p->scratch_bytes, (int)text.size, text.data);
        tw_buf_free(&text);
        tw_program_free(p);
        tw_graph_free(g);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return show(argv[1]), 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_one_map),
        cmocka_unit_test(doubles_stay_plain_on_processors),
        cmocka_unit_test(norms_take_what_is_before_them),
        cmocka_unit_test(reductions_of_any_axes),
        cmocka_unit_test(parts_and_wholes),
        cmocka_unit_test(products_of_all_shapes),
        cmocka_unit_test(gates_are_joined),
        cmocka_unit_test(attention_of_all_kinds),
        cmocka_unit_test(parts_of_a_table_are_tables),
        cmocka_unit_test(hidden_rows_are_zeros),
        cmocka_unit_test(parts_of_what_is_gathered),
        cmocka_unit_test(places_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
