/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are drawn: what is known of extents holds in concrete graphs, passes change no result, text comes back,
   and what is converted runs. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/check.h"
#include "graph/names.h"
#include "graph/passes/passes.h"
#include "graph/run.h"
#include "graph/shapes/infer.h"
#include "graph/specialize.h"
#include "graph/step.h"
#include "graph/text.h"
#include "support/graphs.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 14, GRAPHS = TEST_SANITIZED ? 300 : 3000, MOST = 4096 /* Elements of a value. */ };

typedef struct maker {
    tw_graph *g;
    tw_random r;
    tw_array values[256]; /* Of each value: its content for the first extents and inputs that are drawn. */
    bool fixed[256];      /* Of each value: its content does not depend on inputs. */
    void *blocks[256];
    int n_blocks;
} maker;

static int below(maker *m, int n) {
    return (int)tw_random_below(&m->r, (uint64_t)n);
}

static int new_value(maker *m) {
    char *name = tw_arena_printf(&m->g->arena, "v%d", m->g->n_values);
    return tw_graph_add_value(m->g, name);
}

static int integers(maker *m, int rank, int n, const int64_t *x) {
    int64_t *data = tw_arena_array(&m->g->arena, (size_t)n + 1, sizeof *data);
    memcpy(data, x, (size_t)n * sizeof *data);
    const int v = new_value(m);
    m->values[v] = (tw_array){.type = TW_E_i64, .rank = rank, .dims = {n}, .data = data};
    m->fixed[v] = true;
    tw_graph_set_content(m->g, v, &m->values[v]);
    return v;
}

static int few(maker *m) {
    static const int64_t some[] = {-1, -1, 0, 1, 1, 2, 3, 5, -2, INT64_MAX};
    return (int)some[below(m, 9)];
}

/* Adds a list of small numbers. */
static int list(maker *m, int n) {
    int64_t x[4];
    for (int i = 0; i < n; i++) x[i] = few(m);
    return integers(m, 1, n, x);
}

static int any(maker *m) {
    return below(m, m->g->n_values);
}

/* Returns a list of integers that does not depend on inputs, preferably one that was computed. */
static int shape_like(maker *m) {
    for (int i = 0; i < 8; i++) {
        const int v = m->g->n_values - 1 - below(m, m->g->n_values < 12 ? m->g->n_values : 12);
        if (m->fixed[v] && m->values[v].type == TW_E_i64 && m->values[v].rank == 1 && m->values[v].dims[0] < 5)
            return v;
    }
    return list(m, 1 + below(m, 3));
}

static tw_attribute integer(const char *name, int64_t x) {
    return (tw_attribute){.name = name, .kind = TW_ATTRIBUTE_INT, .integer = x};
}

/* Draws a node. False: there is none this time. */
static bool draw_node(maker *m, tw_node *n, int *in, tw_attribute *a) {
    static const char *const unary[] = {"Neg", "Relu", "Identity", "Tanh", "Abs", "Shape", "Size", "Not", "Softmax"};
    static const char *const binary[] = {"Add", "Sub", "Mul", "Max", "Div", "Equal", "Min", "And", "MatMul"};
    static const char *const shaped[] = {"Reshape", "Reshape", "Expand", "Tile"};
    *n = (tw_node){.domain = "", .name = "", .version = 18, .in = in, .n_in = 1, .n_out = 1, .attributes = a};
    in[0] = any(m);
    const int rank = m->values[in[0]].rank;
    switch (below(m, 14)) {
    case 0:
    case 1:
        n->op = unary[below(m, 9)];
        return true;
    case 2:
    case 3:
        n->op = binary[below(m, 9)];
        in[n->n_in++] = any(m);
        return true;
    case 4:
        n->op = shaped[below(m, 4)];
        in[n->n_in++] = shape_like(m);
        return true;
    case 5:
        n->op = "Transpose";
        return true;
    case 6:
        n->op = "Concat";
        a[n->n_attributes++] = integer("axis", rank ? below(m, rank) : 0);
        in[n->n_in++] = below(m, 2) ? any(m) : in[0];
        return true;
    case 7:
        n->op = "Slice";
        in[n->n_in++] = list(m, 1);
        in[n->n_in++] = below(m, 3) ? list(m, 1) : shape_like(m);
        in[n->n_in++] = integers(m, 1, 1, &(int64_t){rank ? below(m, rank) : 0});
        if (below(m, 4)) return true;
        in[n->n_in++] = list(m, 1);
        return true;
    case 8:
        n->op = below(m, 2) ? "Unsqueeze" : "Squeeze";
        in[n->n_in++] = integers(m, 1, 1, &(int64_t){rank ? below(m, rank) : 0});
        return true;
    case 9:
        n->op = "Gather";
        in[n->n_in++] = integers(m, below(m, 2), 1, &(int64_t){below(m, 3) - 1});
        a[n->n_attributes++] = integer("axis", rank ? below(m, rank) : 0);
        return true;
    case 10:
        n->op = below(m, 2) ? "ReduceSum" : "ReduceMax";
        if (below(m, 2)) in[n->n_in++] = integers(m, 1, 1, &(int64_t){rank ? below(m, rank) : 0});
        a[n->n_attributes++] = integer("keepdims", below(m, 2));
        return n->n_in == 1 || !strcmp(n->op, "ReduceSum");
    case 11:
        n->op = "Cast";
        a[n->n_attributes++] = integer("to", (int64_t[]){1, 7, 9, 10, 11}[below(m, 5)]);
        return true;
    case 12:
        n->op = below(m, 2) ? "ConstantOfShape" : "Flatten";
        if (!strcmp(n->op, "ConstantOfShape")) in[0] = shape_like(m);
        return true;
    default:
        n->op = "Split";
        a[n->n_attributes++] = integer("axis", rank ? below(m, rank) : 0);
        a[n->n_attributes++] = integer("num_outputs", 2);
        n->n_out = 2;
        return true;
    }
}

/* Adds a node, if its operator takes what was drawn. */
static void try_node(maker *m) {
    tw_arena scratch = {0};
    tw_diag why = {0};
    tw_call *c;
    int in[8], out[2];
    tw_attribute a[4], *attributes;
    tw_node n;
    if (!draw_node(m, &n, in, a)) return;
    n.impl = tw_op_find("", n.op, n.version);
    bool fixed = true, good = n.impl && tw_step_begin(&c, &n, m->values, &scratch, &why) == TW_OK;
    for (int i = 0; i < n.n_in && good; i++) fixed &= m->fixed[n.in[i]] || (n.impl->extents >> i & 1);
    for (int i = 0; i < n.n_out && good; i++) good = tw_array_elements(&c->out[i]) <= MOST;
    good = good && tw_step_compute(c, 1 << 20) == TW_OK;
    if (good) {
        attributes = tw_arena_array(&m->g->arena, 4, sizeof a[0]);
        memcpy(attributes, a, (size_t)n.n_attributes * sizeof a[0]);
        n.attributes = attributes;
        n.in = memcpy(tw_arena_array(&m->g->arena, 8, sizeof *in), in, (size_t)n.n_in * sizeof *in);
        n.out = tw_arena_array(&m->g->arena, 2, sizeof *out);
        for (int i = 0; i < n.n_out; i++) {
            const int v = n.out[i] = new_value(m);
            m->values[v] = c->out[i];
            m->fixed[v] = fixed;
            m->blocks[m->n_blocks++] = (void *)c->out[i].data;
            m->g->values[v].producer = m->g->n_nodes;
        }
        assert_true(tw_graph_add_node(m->g, &n) >= 0);
    }
    tw_arena_free(&scratch);
}

static void add_input(maker *m, const char *name, tw_element type, int rank, const char *const *dims) {
    const int v = tw_graph_add_value(m->g, name);
    tw_array *a = &m->values[v];
    *a = (tw_array){.type = type, .rank = rank};
    m->g->values[v].type = type;
    m->g->values[v].rank = rank;
    for (int i = 0; i < rank; i++) {
        const bool symbol = dims[i][0] >= 'a';
        a->dims[i] = symbol ? (dims[i][0] == 'b' ? 2 : 3) : atoi(dims[i]);
        m->g->values[v].dims[i] = symbol ? tw_dim_of_symbol(tw_graph_symbol(m->g, dims[i])) : a->dims[i];
    }
    const int64_t n = tw_array_elements(a);
    char *data = tw_arena_alloc(&m->g->arena, (size_t)tw_array_bytes(a) + 1);
    for (int64_t i = 0; i < n; i++) tw_array_set_reals(type, data, i, 1, &(double){(double)below(m, 5) - 2});
    a->data = data;
    m->g->inputs[m->g->n_inputs++] = v;
}

/* Draws a graph, whose outputs are the last of its values. */
static tw_graph *draw(uint64_t seed) {
    maker *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->g = tw_graph_new();
    m->r = tw_random_seed(seed);
    m->g->inputs = tw_arena_array(&m->g->arena, 4, sizeof(int));
    m->g->outputs = tw_arena_array(&m->g->arena, 4, sizeof(int));
    add_input(m, "x", TW_E_f32, 3, (const char *const[]){"b", "s", "4"});
    add_input(m, "y", TW_E_f32, 2, (const char *const[]){"s", "4"});
    add_input(m, "z", TW_E_i64, 2, (const char *const[]){"b", "s"});
    for (int i = 0; i < 200 && m->g->n_nodes < NODES; i++) try_node(m);
    for (int i = m->g->n_nodes - 1; i >= 0 && m->g->n_outputs < 3; i--)
        m->g->outputs[m->g->n_outputs++] = m->g->nodes[i].out[0];
    tw_graph *g = m->g;
    for (int i = 0; i < m->n_blocks; i++) free(m->blocks[i]);
    free(m);
    return g;
}

/* ---- what must hold */

static void text_comes_back(const tw_graph *g) {
    tw_buf once = {0}, twice = {0};
    tw_graph *back;
    tw_diag d = {0};
    tw_graph_print_whole(g, &once);
    if (tw_graph_parse(&back, once.data, once.size, "t", &d) != TW_OK) fail_msg("%s\n%s", once.data, d.message);
    tw_graph_print_whole(back, &twice);
    assert_string_equal(once.data, twice.data);
    tw_buf_free(&once);
    tw_buf_free(&twice);
    tw_graph_free(back);
}

/* Compares what is known of extents with a concrete graph. */
static void extents_hold(const tw_graph *g, const tw_graph *c, const int64_t *symbols) {
    tw_names names = {0};
    for (int i = 0; i < c->n_values; i++) assert_true(tw_names_add(&names, c->values[i].name, i));
    for (int i = 0; i < g->n_values; i++) {
        const tw_value *v = &g->values[i];
        const int j = tw_names_find(&names, v->name);
        if (j < 0) continue;
        bool same = v->type == TW_E_none || v->type == c->values[j].type;
        same = same && (v->rank < 0 || v->rank == c->values[j].rank);
        for (int k = 0; k < v->rank && same; k++)
            same = v->dims[k] == TW_DIM_UNKNOWN || tw_graph_extent(g, v->dims[k], symbols) == c->values[j].dims[k];
        if (same) continue;
        tw_buf shown = {0};
        tw_graph_print(g, &shown);
        fail_msg("%s\n%s does not hold for b=%d, s=%d", shown.data, v->name, (int)symbols[0], (int)symbols[1]);
    }
    tw_names_free(&names);
}

/* Makes the graph concrete, simplifies it and converts it. False: it is none for these extents. */
static bool all_holds(const tw_graph *g, const int64_t *symbols, uint64_t seed) {
    tw_diag d = {0};
    tw_graph *before, *after;
    tw_arena arena = {0};
    char extents[40];
    tw_array in[3];
    const tw_array *list[3];
    for (int i = 0; i < 3; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        in[i] = (tw_array){.type = v->type, .rank = v->rank};
        list[i] = &in[i];
        for (int k = 0; k < v->rank; k++) in[i].dims[k] = tw_graph_extent(g, v->dims[k], symbols);
    }
    if (tw_graph_specialize(&before, g, list, &d) != TW_OK) return false;
    const tw_array **drawn = test_draw(before, &arena, seed);
    tw_array out[3];
    /* Some extents have no place that a node asks for. */
    if (tw_graph_run(g, drawn, &arena, out, &d) != TW_OK) {
        tw_arena_free(&arena);
        tw_graph_free(before);
        return false;
    }
    snprintf(extents, sizeof extents, "b=%d s=%d", (int)symbols[0], (int)symbols[1]);
    after = test_concrete(g, extents);
    extents_hold(g, before, symbols);
    if (tw_graph_check(before, &d) != TW_OK) fail_msg("%s", d.message);
    if (tw_graph_simplify(after, &d) != TW_OK) fail_msg("%s", d.message);
    test_same_outputs(g, before, drawn, 0);
    test_same_outputs(before, after, drawn, 0);
    if (tw_graph_convert(after, TW_E_bf16, &d) != TW_OK || tw_graph_check(after, &d) != TW_OK)
        fail_msg("%s", d.message);
    if (tw_graph_run(after, drawn, &arena, out, &d) != TW_OK) fail_msg("%s", d.message);
    text_comes_back(after);
    tw_arena_free(&arena);
    tw_graph_free(before);
    tw_graph_free(after);
    return true;
}

static void drawn_graphs_hold(void **state) {
    (void)state;
    static const int64_t sets[][2] = {{2, 3}, {1, 1}, {3, 5}, {1, 4}, {2, 0}, {0, 3}, {5, 2}, {4, 4}};
    int held = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        tw_diag d = {0};
        tw_graph *g = draw(seed);
        text_comes_back(g);
        if (tw_graph_resolve(g, "g", &d) != TW_OK || tw_graph_infer(g, &d) != TW_OK) fail_msg("%s", d.message);
        if (tw_graph_check(g, &d) != TW_OK) fail_msg("%s", d.message);
        int64_t all[64] = {0};
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
            memcpy(all, sets[i], sizeof sets[i]);
            held += all_holds(g, all, seed);
        }
        tw_graph_free(g);
    }
    assert_true(held > GRAPHS);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_graphs_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
