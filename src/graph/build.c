/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/build.h"

#include <stdio.h>
#include <string.h>

/* Copies n bytes to the graph's arena. NULL: out of memory. */
static void *keep(tw_graph *g, const void *data, size_t n) {
    void *kept = tw_arena_alloc(&g->arena, n + 1);
    if (kept && n) memcpy(kept, data, n);
    return kept;
}

/* Adds a value, which gets a name of its number if it has none. */
static int add(tw_graph *g, const char *name) {
    char number[32];
    snprintf(number, sizeof number, "v%d", g->n_values);
    const char *kept = name ? name : number;
    kept = keep(g, kept, strlen(kept) + 1);
    return kept ? tw_graph_add_value(g, kept) : -1;
}

/* Adds one more number to a list of inputs or outputs. Such lists are short. */
static void append(tw_graph *g, int **list, int *n, int value) {
    int *grown = tw_arena_array(&g->arena, (size_t)*n + 1, sizeof *grown);
    if (!grown) return;
    if (*n) memcpy(grown, *list, (size_t)*n * sizeof *grown);
    grown[(*n)++] = value;
    *list = grown;
}

int tw_graph_op_several(tw_graph *g, const char *op, const int *in, int n_in, const tw_attribute *attributes,
                        int n_attributes, int results) {
    tw_node n = {.op = op, .domain = "", .name = "", .n_in = n_in, .n_out = results, .version = TW_GRAPH_VERSION};
    n.in = keep(g, in, (size_t)n_in * sizeof *in);
    n.out = tw_arena_array(&g->arena, (size_t)results, sizeof *n.out);
    n.attributes = keep(g, attributes, (size_t)n_attributes * sizeof *attributes);
    n.n_attributes = n_attributes;
    if (g->arena.failed) return -1;
    const int producer = g->n_nodes;
    for (int i = 0; i < results; i++) {
        n.out[i] = add(g, NULL);
        if (n.out[i] < 0) return -1;
        g->values[n.out[i]].producer = producer;
    }
    return tw_graph_add_node(g, &n) < 0 ? -1 : n.out[0];
}

int tw_graph_op(tw_graph *g, const char *op, const int *in, int n_in, const tw_attribute *attributes,
                int n_attributes) {
    return tw_graph_op_several(g, op, in, n_in, attributes, n_attributes, 1);
}

int tw_graph_input(tw_graph *g, const char *name, tw_element type, int rank, const tw_dim *dims) {
    const int v = add(g, name);
    if (v < 0) return v;
    g->values[v].type = type;
    g->values[v].rank = rank;
    memcpy(g->values[v].dims, dims, (size_t)rank * sizeof *dims);
    append(g, &g->inputs, &g->n_inputs, v);
    return v;
}

void tw_graph_output(tw_graph *g, int value, const char *name) {
    const char *kept = keep(g, name, strlen(name) + 1);
    if (value < 0 || !kept) return;
    g->values[value].name = kept;
    append(g, &g->outputs, &g->n_outputs, value);
}

int tw_graph_constant(tw_graph *g, const tw_array *content) {
    const int v = add(g, NULL);
    if (v >= 0) tw_graph_set_content(g, v, content);
    return v;
}

/* Adds a constant of n elements, or of one without dimensions. */
static int copied(tw_graph *g, tw_element type, const void *data, int n, int rank) {
    const tw_array a = {.type = type, .rank = rank, .dims = {n}};
    tw_array kept = a;
    kept.data = keep(g, data, (size_t)n * (size_t)tw_element_bits(type) / 8);
    return kept.data ? tw_graph_constant(g, &kept) : -1;
}

int tw_graph_real(tw_graph *g, double x) {
    const float f = (float)x;
    return copied(g, TW_E_f32, &f, 1, 0);
}

int tw_graph_integer(tw_graph *g, int64_t x) {
    return copied(g, TW_E_i64, &x, 1, 0);
}

int tw_graph_integers(tw_graph *g, const int64_t *x, int n) {
    return copied(g, TW_E_i64, x, n, 1);
}
