/* SPDX-License-Identifier: Apache-2.0 */
/* Concrete graphs: what folds, what stays, and what is refused. */
#include "base/diag.h"
#include "graph/numpy.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <stdlib.h>
#include <string.h>

/* A graph of a few nodes. All has to outlive nothing: a concrete graph keeps its source. */
typedef struct made {
    tw_graph *g;
    tw_diag diag;
} made;

static made begin(void) {
    made m = {.g = tw_graph_new()};
    m.g->inputs = tw_arena_array(&m.g->arena, 8, sizeof(int));
    m.g->outputs = tw_arena_array(&m.g->arena, 8, sizeof(int));
    return m;
}

static int input(made *m, const char *name) {
    return m->g->inputs[m->g->n_inputs++] = tw_graph_add_value(m->g, name);
}

static int integers(made *m, const char *name, int n, const int64_t *x) {
    const tw_array a = {.type = TW_E_i64, .rank = 1, .dims = {n}, .data = x};
    const int v = tw_graph_add_value(m->g, name);
    tw_graph_set_content(m->g, v, &a);
    return v;
}

static int node(made *m, const char *op, const char *result, int a, int b) {
    int *operands = tw_arena_array(&m->g->arena, 3, sizeof(int));
    const int y = tw_graph_add_value(m->g, result);
    operands[0] = a;
    operands[1] = b;
    operands[2] = y;
    const tw_node n = {.op = op,
                       .domain = "",
                       .name = result,
                       .version = 20,
                       .in = operands,
                       .n_in = b < 0 ? 1 : 2,
                       .out = operands + 2,
                       .n_out = 1};
    m->g->values[y].producer = tw_graph_add_node(m->g, &n);
    return y;
}

static void output(made *m, int v) {
    m->g->outputs[m->g->n_outputs++] = v;
}

/* Makes the graph concrete, and frees the source. */
static tw_graph *concrete(made *m, const tw_array *const *in, const bool *known) {
    tw_graph *out;
    assert_int_equal(tw_graph_resolve(m->g, "m", &m->diag), TW_OK);
    const tw_status st = tw_graph_specialize_known(&out, m->g, in, known, &m->diag);
    tw_graph_free(m->g);
    if (st != TW_OK) assert_null(out);
    return out;
}

static void extents_fold(void **state) {
    (void)state;
    made m = begin();
    const tw_array x = {.type = TW_E_f32, .rank = 2, .dims = {3, 4}};
    const tw_array *in[] = {&x};
    static const int64_t two[] = {2};
    const int shape = node(&m, "Shape", "shape", input(&m, "x"), -1);
    output(&m, node(&m, "Mul", "twice", shape, integers(&m, "two", 1, two)));
    output(&m, node(&m, "ConstantOfShape", "zeros", shape, -1));
    node(&m, "Neg", "dead", 0, -1);
    tw_graph *g = concrete(&m, in, NULL);
    assert_non_null(g);
    assert_int_equal(g->n_nodes, 0);
    assert_int_equal(g->n_values, 3);
    const tw_value *twice = &g->values[g->outputs[0]], *zeros = &g->values[g->outputs[1]];
    assert_string_equal(twice->name, "twice");
    assert_int_equal(tw_array_integer(twice->content, 0), 6);
    assert_int_equal(tw_array_integer(twice->content, 1), 8);
    assert_int_equal(zeros->type, TW_E_f32);
    assert_int_equal(zeros->dims[1], 4);
    assert_true(tw_array_real(zeros->content, 11) == 0);
    assert_int_equal(g->values[g->inputs[0]].dims[0], 3);
    tw_graph_free(g);
}

/* A constant that a node needs stays, and what made it is gone. */
static void operands_stay(void **state) {
    (void)state;
    made m = begin();
    const tw_array x = {.type = TW_E_i64, .rank = 1, .dims = {2}};
    const tw_array *in[] = {&x};
    static const int64_t some[] = {5, 7};
    const int a = input(&m, "x"), c = node(&m, "Neg", "minus", integers(&m, "some", 2, some), -1);
    output(&m, node(&m, "Add", "y", a, node(&m, "Neg", "plus", c, -1)));
    tw_graph *g = concrete(&m, in, NULL);
    assert_non_null(g);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->n_values, 3);
    const tw_value *plus = &g->values[g->nodes[0].in[1]];
    assert_string_equal(plus->name, "plus");
    assert_int_equal(tw_array_integer(plus->content, 1), 7);
    assert_int_equal(plus->producer, -1);
    assert_int_equal(g->values[g->outputs[0]].producer, 0);
    tw_graph_free(g);
}

/* What is large and made of little is not made. */
static void large_results_stay(void **state) {
    (void)state;
    made m = begin();
    static const int64_t extents[] = {1 << 20, 1 << 10}, one[] = {1};
    const int much = integers(&m, "extents", 2, extents);
    output(&m, node(&m, "Expand", "y", integers(&m, "one", 1, one), much));
    tw_graph *g = concrete(&m, NULL, NULL);
    assert_non_null(g);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->values[g->outputs[0]].dims[0], 1 << 20);
    assert_null(g->values[g->outputs[0]].content);
    tw_graph_free(g);
}

/* Each node whose extents depend on contents is listed, and those behind are not. */
static void unknown_extents_are_listed(void **state) {
    (void)state;
    for (int known = 0; known < 2; known++) {
        made m = begin();
        static const int64_t six[] = {2, 3, 2, 3, 2, 3}, extents[] = {3, 2};
        const tw_array a = {.type = TW_E_i64, .rank = 1, .dims = {6}, .data = six},
                       b = {.type = TW_E_i64, .rank = 1, .dims = {2}, .data = extents};
        const tw_array *in[] = {&a, &b};
        const bool all[] = {false, known};
        const int x = input(&m, "x"), to = input(&m, "to");
        const int p = node(&m, "Reshape", "first", x, to);
        output(&m, node(&m, "Neg", "behind", p, -1));
        output(&m, node(&m, "Reshape", "second", x, to));
        tw_graph *g = concrete(&m, in, all);
        if (known) {
            assert_non_null(g);
            assert_int_equal(g->n_inputs, 2);
            assert_int_equal(g->n_nodes, 3);
            const tw_value *taken = &g->values[g->nodes[0].in[1]];
            assert_string_equal(taken->name, "to.known");
            assert_int_equal(tw_array_integer(taken->content, 0), 3);
            assert_ptr_not_equal(taken->content->data, extents);
            assert_null(g->values[g->inputs[1]].content);
        } else {
            assert_int_equal(m.diag.status, TW_ERR_UNSUPPORTED);
            assert_non_null(
                strstr(m.diag.message, "Reshape, 2 nodes (first, second): extents depend on the content of operand 1"));
            assert_null(strstr(m.diag.message, "behind"));
        }
        tw_graph_free(g);
    }
}

/* Nothing needs to be computed of what has no elements, whatever made it. */
static void no_elements_are_known(void **state) {
    (void)state;
    made m = begin();
    const tw_array x = {.type = TW_E_f32, .rank = 2, .dims = {0, 4}};
    const tw_array *in[] = {&x};
    output(&m, node(&m, "Neg", "y", input(&m, "x"), -1));
    tw_graph *g = concrete(&m, in, NULL);
    assert_non_null(g);
    assert_int_equal(g->n_nodes, 0);
    assert_non_null(g->values[g->outputs[0]].content);
    assert_int_equal(g->values[g->outputs[0]].dims[1], 4);
    tw_graph_free(g);
}

static void wrong_inputs_are_refused(void **state) {
    (void)state;
    made m = begin();
    const tw_array x = {.type = TW_E_f32, .rank = 1, .dims = {4}};
    const tw_array *in[] = {&x};
    const int v = input(&m, "x");
    m.g->values[v].type = TW_E_i64;
    output(&m, v);
    assert_null(concrete(&m, in, NULL));
    assert_int_equal(m.diag.status, TW_ERR_USAGE);
}

/* A model that was exported, at the extents of its case: all extents are numbers, and its outputs are the same. */
static void a_model_is_the_same(void **state) {
    (void)state;
    tw_graph *g, *c;
    tw_diag diag = {0};
    tw_arena arena = {0};
    tw_npz_entry *entries;
    int n;
    const tw_array *in[8];
    tw_array plain[8], ours[8];
    assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/encoder/model.onnx", &diag), TW_OK);
    assert_int_equal(tw_npz_open(&arena, TEST_DATA "/onnx/encoder/case.npz", &entries, &n, &diag), TW_OK);
    assert_in_range(g->n_inputs, 1, 8);
    for (int i = 0; i < g->n_inputs; i++) {
        char *key = tw_arena_printf(&arena, "in_%s", g->values[g->inputs[i]].name);
        in[i] = tw_npz_find(entries, n, key);
        assert_non_null(in[i]);
    }
    assert_int_equal(tw_graph_run(g, in, &arena, plain, &diag), TW_OK);
    assert_int_equal(tw_graph_specialize(&c, g, in, &diag), TW_OK);
    assert_true(c->n_nodes <= g->n_nodes);
    tw_graph_free(g);
    for (int i = 0; i < c->n_values; i++) {
        const tw_value *v = &c->values[i];
        assert_true(v->type != TW_E_none && v->rank >= 0);
        for (int d = 0; d < v->rank; d++) assert_true(v->dims[d] >= 0);
    }
    for (int i = 0; i < c->n_nodes; i++) assert_string_not_equal(c->nodes[i].op, "Shape");
    assert_int_equal(tw_graph_run(c, in, &arena, ours, &diag), TW_OK);
    for (int i = 0; i < c->n_outputs; i++) {
        assert_int_equal(tw_array_bytes(&ours[i]), tw_array_bytes(&plain[i]));
        assert_memory_equal(ours[i].data, plain[i].data, (size_t)tw_array_bytes(&ours[i]));
    }
    tw_graph_free(c);
    tw_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(extents_fold),          cmocka_unit_test(operands_stay),
        cmocka_unit_test(large_results_stay),    cmocka_unit_test(unknown_extents_are_listed),
        cmocka_unit_test(no_elements_are_known), cmocka_unit_test(wrong_inputs_are_refused),
        cmocka_unit_test(a_model_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
