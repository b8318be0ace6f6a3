/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/join.h"

#include "graph/ops/op.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 8 /* Products that are joined at most. */ };

typedef struct group {
    tw_graph *g;
    int nodes[MOST], n;
    int64_t columns[MOST], all; /* Of each B, and of them together. */
    bool biased;                /* One of them has a bias, at least. */
} group;

static const tw_value *operand(const tw_graph *g, const tw_node *n, int i) {
    return i < n->n_in && n->in[i] >= 0 ? &g->values[n->in[i]] : NULL;
}

static bool is_candidate(const tw_graph *g, const tw_node *n) {
    if (strcmp(n->op, "Product") != 0 || n->out[0] < 0) return false;
    const tw_value *a = operand(g, n, 0), *b = operand(g, n, 1), *bias = operand(g, n, 2);
    if (!b->content || b->rank != 2 || a->rank < 2 || tw_element_bits(b->type) % 8) return false;
    if (bias && (!bias->content || bias->rank != 1 || bias->dims[0] != g->values[n->out[0]].dims[a->rank - 1]))
        return false;
    return !operand(g, n, 3) && !operand(g, n, 4) && !strcmp(tw_node_text(n, "activation", "none"), "none");
}

static bool fit(const tw_node *x, const tw_node *y) {
    return x->in[0] == y->in[0] && tw_node_integer(x, "trans_a", 0) == tw_node_integer(y, "trans_a", 0) &&
           tw_node_integer(x, "trans_b", 0) == tw_node_integer(y, "trans_b", 0) &&
           tw_node_real(x, "alpha", 1) == tw_node_real(y, "alpha", 1);
}

static void gather(group *u, int node) {
    const tw_graph *g = u->g;
    for (int i = node; i < g->n_nodes && u->n < MOST; i++) {
        const tw_node *n = &g->nodes[i];
        if (tw_edit_is_gone(g, i) || !is_candidate(g, n) || !fit(&g->nodes[node], n)) continue;
        const tw_value *y = &g->values[n->out[0]];
        u->nodes[u->n] = i;
        u->columns[u->n++] = y->dims[y->rank - 1];
        u->all += y->dims[y->rank - 1];
        u->biased |= operand(g, n, 2) != NULL;
    }
}

/* Puts lists of constants beside one another: each has `rows` rows of as many elements as its columns, or none, which
   is zeros. */
static void *beside(const group *u, int which, int64_t rows, size_t element) {
    char *data = calloc((size_t)(rows * u->all) + 1, element);
    size_t at = 0;
    for (int i = 0; i < u->n && data; i++) {
        const tw_value *x = operand(u->g, &u->g->nodes[u->nodes[i]], which);
        const size_t bytes = (size_t)u->columns[i] * element;
        for (int64_t r = 0; r < rows && x; r++)
            memcpy(data + at + (size_t)(r * u->all) * element, (const char *)x->content->data + (size_t)r * bytes,
                   bytes);
        at += bytes;
    }
    return data;
}

static int constant(tw_maker *k, tw_array a, void *data) {
    if (!data || !tw_graph_own(k->g, data)) return -1;
    a.data = data;
    return tw_make_constant(k, &a);
}

/* Makes B of all, and the bias. */
static bool make_operands(tw_maker *k, const group *u, int in[3]) {
    const tw_node *first = &u->g->nodes[u->nodes[0]];
    const tw_value b = *operand(u->g, first, 1);
    const bool tb = tw_node_integer(first, "trans_b", 0);
    const size_t element = (size_t)tw_element_bits(b.type) / 8;
    const int64_t depth = b.dims[tb];
    in[0] = first->in[0];
    if (tb) { /* Rows of B are columns of what is multiplied: they lie after one another. */
        group whole = *u;
        for (int i = 0; i < u->n; i++) whole.columns[i] *= depth;
        whole.all *= depth;
        in[1] =
            constant(k, (tw_array){.type = b.type, .rank = 2, .dims = {u->all, depth}}, beside(&whole, 1, 1, element));
    } else {
        in[1] =
            constant(k, (tw_array){.type = b.type, .rank = 2, .dims = {depth, u->all}}, beside(u, 1, depth, element));
    }
    in[2] = -1;
    if (u->biased && in[1] >= 0)
        in[2] = constant(k, (tw_array){.type = b.type, .rank = 1, .dims = {u->all}}, beside(u, 2, 1, element));
    return in[1] >= 0 && (in[2] >= 0 || !u->biased);
}

/* Makes the Product, and the Split that gives the results of those that are joined. */
static bool make(tw_maker *k, const group *u, int *in) {
    tw_graph *g = k->g;
    tw_attribute *axis = tw_arena_alloc(&g->arena, sizeof *axis);
    int64_t *sizes = tw_arena_array(&g->arena, MOST, sizeof *sizes);
    int *lists = tw_arena_array(&g->arena, MOST + 8, sizeof *lists);
    if (!axis || !sizes || !lists || !make_operands(k, u, in)) return false;
    tw_node product = g->nodes[u->nodes[0]];
    product.in = in;
    product.n_in = u->biased ? 3 : 2;
    product.out = lists;
    memcpy(sizes, u->columns, sizeof u->columns);
    *axis = (tw_attribute){.name = "axis", .kind = TW_ATTRIBUTE_INT, .integer = -1};
    tw_node split = {.op = "Split",
                     .domain = "",
                     .name = k->name,
                     .version = TW_MAKE_VERSION,
                     .in = lists + 1,
                     .n_in = 2,
                     .out = lists + 3,
                     .n_out = u->n,
                     .attributes = axis,
                     .n_attributes = 1};
    for (int i = 0; i < u->n; i++) split.out[i] = g->nodes[u->nodes[i]].out[0];
    split.in[0] = tw_make_node(k, &product, -1);
    split.in[1] = tw_make_constant(k, &(tw_array){.type = TW_E_i64, .rank = 1, .dims = {u->n}, .data = sizes});
    return split.in[0] >= 0 && split.in[1] >= 0 && tw_make_node(k, &split, split.out[0]) >= 0;
}

int tw_join_products(tw_edit *r, int node, int *serial) {
    group u = {.g = r->g};
    if (tw_edit_is_gone(r->g, node) || !is_candidate(r->g, &r->g->nodes[node])) return 0;
    gather(&u, node);
    if (u.n < 2) return 0;
    tw_maker k = {.g = r->g, .root = node, .name = r->g->nodes[node].name, .serial = serial};
    int *in = tw_arena_array(&r->g->arena, 3, sizeof *in);
    if (!in || !make(&k, &u, in) || !tw_edit_add(r, node)) return -1;
    for (int i = 0; i < u.n; i++) tw_edit_drop(r, u.nodes[i]);
    return u.n;
}
