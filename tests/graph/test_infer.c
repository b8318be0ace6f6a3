/* SPDX-License-Identifier: Apache-2.0 */
/* Extents with symbols: what is found, and that it is what concrete graphs have. */
#include "base/diag.h"
#include "graph/names.h"
#include "graph/run.h"
#include "graph/shapes/formula.h"
#include "graph/shapes/infer.h"
#include "graph/specialize.h"
#include "graph/text.h"
#include "support/graphs.h"
#include "support/support.h"
#include "tilewright/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- formulas */

static void is(const tw_formula *f, const char *want) {
    static const char *const names[] = {"a", "b", "c"};
    tw_buf out = {0};
    tw_formula_print(f, names, &out);
    assert_string_equal(out.data, want);
    tw_buf_free(&out);
}

static void formulas_are_sums_of_products(void **state) {
    (void)state;
    tw_arena m = {0};
    const tw_formula *a = tw_formula_symbol(&m, 0), *b = tw_formula_symbol(&m, 1), *two = tw_formula_number(&m, 2);
    const tw_formula *sum = tw_formula_add(&m, a, b), *ab = tw_formula_multiply(&m, b, a);
    is(sum, "a+b");
    is(tw_formula_add(&m, b, a), "a+b");
    is(ab, "a*b");
    is(tw_formula_multiply(&m, sum, sum), "a*a+2*a*b+b*b");
    is(tw_formula_subtract(&m, sum, b), "a");
    is(tw_formula_subtract(&m, a, a), "0");
    is(tw_formula_subtract(&m, two, a), "-a+2");
    is(tw_formula_subtract(&m, a, tw_formula_multiply(&m, two, b)), "a-2*b");
    is(tw_formula_divide(&m, tw_formula_multiply(&m, tw_formula_multiply(&m, two, ab), a), a), "2*a*b");
    is(tw_formula_divide(&m, tw_formula_multiply(&m, sum, two), two), "a+b");
    is(tw_formula_divide(&m, sum, sum), "1");
    is(tw_formula_divide(&m, sum, a), "?");
    is(tw_formula_divide(&m, a, two), "?");
    is(tw_formula_divide(&m, a, tw_formula_number(&m, 0)), "?");
    is(tw_formula_divide(&m, tw_formula_number(&m, INT64_MIN), tw_formula_number(&m, -1)), "?");
    is(tw_formula_add(&m, a, NULL), "?");
    is(tw_formula_multiply(&m, tw_formula_number(&m, INT64_MAX), two), "?");
    is(tw_formula_add(&m, tw_formula_number(&m, INT64_MAX), two), "?");
    const tw_formula *power = a;
    for (int i = 0; i < TW_FORMULA_FACTORS; i++) power = tw_formula_multiply(&m, power, a);
    is(power, "?");
    int64_t x;
    assert_true(tw_formula_at(tw_formula_multiply(&m, sum, sum), (const int64_t[]){3, 4}, &x) && x == 49);
    assert_false(tw_formula_at(ab, (const int64_t[]){INT64_MAX, 2}, &x));
    assert_true(tw_formula_equal(tw_formula_multiply(&m, a, b), ab));
    assert_false(tw_formula_equal(NULL, NULL));
    tw_arena_free(&m);
}

/* ---- graphs */

/* Compares what was found with a concrete graph, for some extents of the symbols. */
static int hold(const tw_graph *g, int symbols, const int64_t *extents) {
    int64_t all[64] = {0};
    tw_array in[16];
    const tw_array *list[16];
    tw_graph *c;
    tw_diag d = {0};
    tw_names names = {0};
    int compared = 0;
    for (int i = 0; i < symbols; i++) all[i] = extents[i % 3];
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        in[i] = (tw_array){.type = v->type, .rank = v->rank};
        list[i] = &in[i];
        for (int k = 0; k < v->rank; k++) in[i].dims[k] = tw_graph_extent(g, v->dims[k], all);
    }
    /* Not all extents are any for the graph. */
    if (tw_graph_specialize(&c, g, list, &d) != TW_OK) return 0;
    for (int i = 0; i < c->n_values; i++) assert_true(tw_names_add(&names, c->values[i].name, i));
    for (int i = 0; i < g->n_values; i++) {
        const tw_value *v = &g->values[i], *w;
        const int j = tw_names_find(&names, v->name);
        if (j < 0) continue;
        w = &c->values[j];
        compared++;
        assert_true(v->type == TW_E_none || v->type == w->type);
        assert_true(v->rank < 0 || v->rank == w->rank);
        for (int k = 0; k < v->rank; k++) {
            const int64_t extent = tw_graph_extent(g, v->dims[k], all);
            if (v->dims[k] != TW_DIM_UNKNOWN && extent != w->dims[k])
                fail_msg("%s: dimension %d is %lld, and %lld was found", v->name, k, (long long)w->dims[k],
                         (long long)extent);
        }
    }
    tw_names_free(&names);
    tw_graph_free(c);
    return compared;
}

static void holds(const tw_graph *g, int symbols) {
    static const int64_t sets[][3] = {{2, 7, 3}, {1, 1, 1}, {3, 2, 0}, {1, 33, 5}, {0, 4, 1},
                                      {4, 0, 2}, {2, 3, 6}, {5, 1, 2}, {1, 2, 40}};
    int compared = 0;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) compared += hold(g, symbols, sets[i]);
    assert_true(compared > 0);
}

static tw_graph *inferred(const char *text, int *symbols) {
    tw_diag d = {0};
    tw_graph *g = test_graph(text);
    *symbols = g->n_symbols;
    if (tw_graph_infer(g, &d) != TW_OK) fail_msg("%s", d.message);
    return g;
}

/* Infers a graph of nodes from x: f32[b, s, 6], c: i64[b, s], p: f32[b, p, 6] to %y, and compares its type. */
static void gives(const char *constants, const char *nodes, const char *want) {
    char text[2000], line[200];
    int symbols;
    snprintf(
        text, sizeof text,
        "graph g @20\n input %%x: f32[b, s, 6]\n input %%c: i64[b, s]\n input %%p: f32[b, p, 6]\n%s%s output %%y\n",
        constants, nodes);
    tw_graph *g = inferred(text, &symbols);
    tw_buf shown = {0};
    tw_graph_print(g, &shown);
    snprintf(line, sizeof line, *want ? "%%y: %s" : "%%y", want);
    const char *found = strstr(shown.data, line);
    if (!found || !strchr(" ,", found[strlen(line)])) fail_msg("%s\nlacks %s", shown.data, line);
    holds(g, symbols);
    tw_buf_free(&shown);
    tw_graph_free(g);
}

static void extents_are_found(void **state) {
    (void)state;
    static const char k[] = " constant %zero: i64[] {0}\n constant %one: i64[1] {1}\n constant %two: i64[1] {2}\n"
                            " constant %minus: i64[1] {-1}\n constant %w: f32[6, 4] random 1\n"
                            " constant %six: f32[6] random 2\n constant %most: i64[1] {9223372036854775807}\n"
                            " constant %o: i64[1] {0}\n";
    gives(k, " %y = Exp(%x)\n", "f32[b, s, 6]");
    gives(k, " %y = Add(%x, %six)\n", "f32[b, s, 6]");
    gives(k, " %y = Equal(%c, %zero)\n", "bool[b, s]");
    gives(k, " %y = MatMul(%x, %w)\n", "f32[b, s, 4]");
    gives(k, " %t = Transpose(%p) perm={0, 2, 1}\n %y = MatMul(%x, %t)\n", "f32[b, s, p]");
    gives(k, " %y = Concat(%p, %x) axis=1\n", "f32[b, s+p, 6]");
    gives(k, " %y = Flatten(%x) axis=2\n", "f32[b*s, 6]");
    gives(k, " %y = Unsqueeze(%x, %one)\n", "f32[b, 1, s, 6]");
    gives(k, " %u = Unsqueeze(%x, %one)\n %y = Squeeze(%u, %one)\n", "f32[b, s, 6]");
    gives(k, " %y = ReduceSum(%x, %minus) keepdims=0\n", "f32[b, s]");
    gives(k, " %y = ArgMax(%x) axis=1\n", "i64[b, 1, 6]");
    gives(k, " %y, %z = Split(%x) axis=2 num_outputs=2\n", "f32[b, s, 3]");
    gives(k, " %y = Gather(%w, %c)\n", "f32[b, s, 4]");
    gives(k, " %y = Shape(%x)\n", "i64[3]");
    gives(k, " %y = Shape(%x) start=1\n", "i64[2]");
    gives(k, " %s = Shape(%x) start=0 end=2\n %y = ConstantOfShape(%s)\n", "f32[b, s]");
    gives(k, " %n = Size(%x)\n %r = Reshape(%n, %minus)\n %y = ConstantOfShape(%r)\n", "f32[6*b*s]");
    /* A shape that is computed. */
    gives(k,
          " %s = Shape(%x)\n %n = Gather(%s, %zero)\n %u = Unsqueeze(%n, %o)\n %v = Concat(%u, %minus) axis=0\n"
          " %y = Reshape(%x, %v)\n",
          "f32[b, 6*s]");
    gives(k, " %s = Shape(%c)\n %d = Mul(%s, %two)\n %y = ConstantOfShape(%d)\n", "f32[2*b, 2*s]");
    gives(k,
          " %s = Shape(%c)\n %f = ConstantOfShape(%o) value=i64[1]{1}\n %e = Equal(%s, %minus)\n"
          " %v = Where(%e, %two, %s)\n %m = Expand(%six, %o)\n %y = ConstantOfShape(%v)\n",
          "f32[b, s]");
    gives(" constant %v: i64[4] {0, 0, 2, 3}\n", " %y = Reshape(%x, %v)\n", "f32[b, s, 2, 3]");
    gives(" constant %v: i64[2] {-1, 3}\n", " %y = Reshape(%x, %v)\n", "f32[2*b*s, 3]");
    gives(" constant %v: i64[1] {-1}\n", " %y = Reshape(%c, %v)\n", "i64[b*s]");
}

/* Slices have no more than there is, and operands are broadcast where one of them is 1. */
static void nothing_is_wrong(void **state) {
    (void)state;
    static const char k[] = " constant %o: i64[1] {0}\n constant %one: i64[1] {1}\n constant %five: i64[1] {5}\n"
                            " constant %minus: i64[1] {-1}\n constant %most: i64[1] {9223372036854775807}\n"
                            " constant %table: f32[1, 16, 6] random 1\n constant %zero: i64[] {0}\n";
    gives(k, " %y = Slice(%x, %o, %most, %one)\n", "f32[b, s, 6]");
    gives(k, " %y = Slice(%x, %o, %five, %one)\n", "f32[b, \"min(5,s)\", 6]");
    gives(k, " %y = Slice(%x, %one, %most, %one)\n", "f32[b, \"s-min(1,s)\", 6]");
    gives(k, " %y = Slice(%x, %minus, %most, %one)\n", "f32[b, \"min(1,s)\", 6]");
    gives(k, " %y = Slice(%x, %o, %minus, %one)\n", "f32[b, \"s-min(1,s)\", 6]");
    gives(k, " %y = Slice(%x, %one, %five, %one)\n", "f32[b, \"-min(1,s)+min(5,s)\", 6]");
    gives(k, " %y = Slice(%x, %five, %one, %one)\n", "f32[b, ?, 6]");
    gives(k, " %y = Slice(%x, %minus, %o, %one, %minus)\n", "f32[b, ?, 6]");
    /* Positions of as many tokens as there are: the sum has them all, or there is none. */
    gives(k, " %s = Shape(%x) start=1 end=2\n %t = Slice(%table, %o, %s, %one)\n %y = Add(%x, %t)\n", "f32[b, s, 6]");
    gives(k, " %y = Add(%x, %p)\n", "f32[b, ?, 6]");
    gives(k, " %s = Shape(%x)\n %t = Slice(%s, %o, %one)\n %d = Div(%t, %five)\n %y = ConstantOfShape(%d)\n", "");
}

static void unknown_types_stay_unknown(void **state) {
    (void)state;
    int symbols;
    tw_graph *g = inferred("graph g @20\n input %x\n input %q: f32[?, 3]\n %y = Neg(%x)\n %z = Neg(%q)\n output %y\n"
                           " output %z\n",
                           &symbols);
    test_prints(g, "graph g @20\n  input %x\n  input %q: f32[?, 3]\n  %y = Neg(%x)\n  %z: f32[?, 3] = Neg(%q)\n"
                   "  output %y\n  output %z\n");
    tw_graph_free(g);
}

/* A symbol of the model's own that is called like a sum is another one. */
static void names_are_not_meanings(void **state) {
    (void)state;
    int symbols;
    tw_graph *g = inferred("graph g @20\n input %x: f32[a, \"a+b\"]\n input %y: f32[b, \"a+b\"]\n"
                           " %z = Concat(%x, %y) axis=0\n output %z\n",
                           &symbols);
    assert_int_equal(g->values[g->outputs[0]].dims[0], TW_DIM_UNKNOWN);
    tw_graph_free(g);
}

static void models_are_known(void **state) {
    (void)state;
    static const char *const files[] = {"graphs/bert.graph", "graphs/gpt2.graph"};
    for (int i = 0; i < 3; i++) {
        tw_graph *g = NULL;
        tw_diag d = {0};
        tw_buf text = {0};
        int symbols = 2;
        if (i < 2) {
            char path[1024];
            snprintf(path, sizeof path, TEST_DATA "/%s", files[i]);
            assert_int_equal(tw_file_read(&text, path, &d), TW_OK);
            g = inferred(text.data, &symbols);
            tw_buf_free(&text);
        } else {
            assert_int_equal(tw_graph_open(&g, TEST_DATA "/onnx/encoder/model.onnx", &d), TW_OK);
        }
        for (int v = 0; v < g->n_values; v++) {
            assert_true(g->values[v].type != TW_E_none && g->values[v].rank >= 0);
            for (int k = 0; k < g->values[v].rank; k++)
                if (g->values[v].dims[k] == TW_DIM_UNKNOWN) fail_msg("%s is not known", g->values[v].name);
        }
        holds(g, symbols);
        tw_graph_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_are_sums_of_products),
        cmocka_unit_test(extents_are_found),
        cmocka_unit_test(nothing_is_wrong),
        cmocka_unit_test(unknown_types_stay_unknown),
        cmocka_unit_test(names_are_not_meanings),
        cmocka_unit_test(models_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
