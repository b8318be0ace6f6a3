/* SPDX-License-Identifier: Apache-2.0 */
/* A product whose columns are gates and values: each of both becomes a product of its own, which takes in what is done
   with it. */
#include "graph/patterns/part.h"

#include "graph/ops/op.h"
#include "graph/patterns/checks.h"

#include <stdlib.h>
#include <string.h>

/* Columns of a product's result. */
typedef struct part {
    const tw_node *product;
    int64_t from, count, all;
} part;

/* The product by constants alone whose result a node takes parts of. NULL: there is none. */
static const tw_node *whole_of(const tw_graph *g, const tw_node *n) {
    const tw_node *p = tw_value_node(g, n->in[0]);
    if (!p || strcmp(p->op, "Product") != 0 || tw_node_has(p, 3) || tw_node_has(p, 4)) return NULL;
    if (strcmp(tw_node_text(p, "activation", "none"), "none") != 0) return NULL;
    const tw_value *b = &g->values[p->in[1]], *bias = tw_node_has(p, 2) ? &g->values[p->in[2]] : NULL;
    if (!b->content || b->rank != 2 || tw_element_bits(b->type) % 8 || !tw_array_elements(b->content)) return NULL;
    const int64_t columns = b->dims[!tw_node_integer(p, "trans_b", 0)];
    return !bias || (bias->content && bias->rank == 1 && bias->dims[0] == columns) ? p : NULL;
}

static bool find_part(const tw_graph *g, int value, part *p) {
    const tw_node *n = tw_value_node(g, value);
    if (!n || (strcmp(n->op, "Slice") != 0 && strcmp(n->op, "Split") != 0) || !(p->product = whole_of(g, n)))
        return false;
    const tw_value *x = &g->values[n->in[0]], *y = &g->values[value];
    const int last = x->rank - 1;
    p->all = x->dims[last];
    p->count = y->dims[last];
    if (!strcmp(n->op, "Slice")) {
        if (!tw_is_end(g, value, false) && !tw_is_end(g, value, true)) return false;
        p->from = tw_is_end(g, value, false) ? 0 : p->all - p->count;
        return true;
    }
    p->from = value == n->out[0] ? 0 : p->all - p->count;
    return n->n_out == 2 && tw_axis(tw_node_integer(n, "axis", 0), x->rank) == last;
}

/* Counts the nodes that use a value. */
static int users_of(const tw_graph *g, int value) {
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) n += g->nodes[i].in[k] == value;
    for (int i = 0; i < g->n_outputs; i++) n += g->outputs[i] == value;
    return n;
}

bool tw_is_half_of_product(const tw_graph *g, int value) {
    part p;
    if (!find_part(g, value, &p) || 2 * p.count != p.all || users_of(g, value) != 1) return false;
    return users_of(g, p.product->out[0]) == (strcmp(tw_value_node(g, value)->op, "Split") != 0 ? 2 : 1);
}

/* Adds rows, or columns, of a constant. */
static int cut(tw_maker *k, int value, bool columns, const part *p) {
    const tw_value v = k->g->values[value];
    const size_t element = (size_t)tw_element_bits(v.type) / 8;
    tw_array a = {.type = v.type, .rank = v.rank};
    memcpy(a.dims, v.dims, sizeof a.dims);
    const int64_t blocks = columns ? tw_array_elements(v.content) / p->all : 1;
    const size_t row = element * (size_t)(tw_array_elements(v.content) / blocks / p->all);
    a.dims[columns ? v.rank - 1 : 0] = p->count;
    char *data = calloc((size_t)(blocks * p->count) + 1, row);
    if (!data || !tw_graph_own(k->g, data)) return -1;
    for (int64_t i = 0; i < blocks; i++)
        memcpy(data + (size_t)(i * p->count) * row,
               (const char *)v.content->data + (size_t)(i * p->all + p->from) * row, (size_t)p->count * row);
    a.data = data;
    return tw_make_constant(k, &a);
}

int tw_make_part(tw_maker *k, const int *args, int n, int want) {
    part p;
    (void)n;
    if (!find_part(k->g, args[0], &p)) return -1;
    tw_node product = *p.product;
    int *lists = tw_arena_array(&k->g->arena, 4, sizeof *lists);
    if (!lists) return -1;
    product.in = lists;
    product.out = lists + 3;
    product.n_in = tw_node_has(p.product, 2) ? 3 : 2;
    memcpy(lists, p.product->in, (size_t)product.n_in * sizeof *lists);
    for (int i = 1; i < product.n_in; i++) {
        lists[i] = cut(k, lists[i], i == 2 || !tw_node_integer(&product, "trans_b", 0), &p);
        if (lists[i] < 0) return -1;
    }
    return tw_make_node(k, &product, want);
}
