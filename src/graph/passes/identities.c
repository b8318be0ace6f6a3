/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"

#include <string.h>

/* Whether a value is a constant all of whose elements are x. */
static bool is_all(const tw_graph *g, int value, double x) {
    const tw_array *a = value < 0 ? NULL : g->values[value].content;
    if (!a || tw_element_kind(a->type) == TW_KIND_other) return false;
    const int64_t n = tw_array_elements(a);
    for (int64_t i = 0; i < n; i++)
        if (tw_array_real(a, i) != x) return false;
    return n > 0;
}

static bool are_all(const tw_graph *g, const tw_node *n, int operand, double x) {
    return operand < n->n_in && is_all(g, n->in[operand], x);
}

static bool is_same_type(const tw_graph *g, int a, int b) {
    const tw_value *x = &g->values[a], *y = &g->values[b];
    bool same = x->type == y->type && x->rank == y->rank && x->rank >= 0;
    for (int i = 0; i < x->rank && same; i++) same = x->dims[i] == y->dims[i] && x->dims[i] >= 0;
    return same;
}

/* Each rule below returns the operand that a node's result equals, supposed that both have the same type and the same
   extents. -1: none. */
typedef int rule(const tw_graph *g, const tw_node *n);

static int first(const tw_graph *g, const tw_node *n) {
    (void)g;
    (void)n;
    return 0;
}

static int only(const tw_graph *g, const tw_node *n) {
    (void)g;
    return n->n_in == 1 ? 0 : -1;
}

static int unsplit(const tw_graph *g, const tw_node *n) {
    (void)g;
    return n->n_out == 1 ? 0 : -1;
}

static int unmoved(const tw_graph *g, const tw_node *n) {
    const tw_attribute *perm = tw_node_attribute(n, "perm");
    const int rank = g->values[n->in[0]].rank;
    for (int i = 0; i < rank; i++)
        if ((perm ? tw_array_integer(perm->array, i) : rank - 1 - i) != i) return -1;
    return 0;
}

/* With steps of 1, as many elements are all elements. */
static int whole(const tw_graph *g, const tw_node *n) {
    return n->n_in < 5 || n->in[4] < 0 || is_all(g, n->in[4], 1) ? 0 : -1;
}

static int unpadded(const tw_graph *g, const tw_node *n) {
    return are_all(g, n, 1, 0) ? 0 : -1;
}

static int plus_0(const tw_graph *g, const tw_node *n) {
    return are_all(g, n, 1, 0) ? 0 : are_all(g, n, 0, 0) ? 1 : -1;
}

static int minus_0(const tw_graph *g, const tw_node *n) {
    return are_all(g, n, 1, 0) ? 0 : -1;
}

static int times_1(const tw_graph *g, const tw_node *n) {
    return are_all(g, n, 1, 1) ? 0 : are_all(g, n, 0, 1) ? 1 : -1;
}

static int by_1(const tw_graph *g, const tw_node *n) {
    return are_all(g, n, 1, 1) ? 0 : -1;
}

static int chosen(const tw_graph *g, const tw_node *n) {
    return are_all(g, n, 0, 1) ? 1 : are_all(g, n, 0, 0) ? 2 : -1;
}

static const struct {
    const char *op;
    rule *rule;
} rules[] = {
    {"Identity", first},    {"Dropout", first},    {"Cast", first},      {"CastLike", first},  {"Reshape", first},
    {"Flatten", first},     {"Squeeze", first},    {"Unsqueeze", first}, {"Expand", first},    {"Tile", first},
    {"ReduceSum", first},   {"ReduceMean", first}, {"ReduceMax", first}, {"ReduceMin", first}, {"ReduceProd", first},
    {"Transpose", unmoved}, {"Slice", whole},      {"Pad", unpadded},    {"Concat", only},     {"Sum", only},
    {"Mean", only},         {"Max", only},         {"Min", only},        {"Split", unsplit},   {"Add", plus_0},
    {"Sub", minus_0},       {"Mul", times_1},      {"Div", by_1},        {"Pow", by_1},        {"And", times_1},
    {"Or", plus_0},         {"Where", chosen},
};

/* Returns the value that a node's first result equals. -1: none. */
static int same_as(const tw_graph *g, const tw_node *n) {
    if (*n->domain || n->n_out < 1 || n->out[0] < 0) return -1;
    for (int i = 1; i < n->n_out; i++)
        if (n->out[i] >= 0) return -1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (strcmp(rules[i].op, n->op) != 0) continue;
        const int operand = rules[i].rule(g, n);
        return operand >= 0 && is_same_type(g, n->in[operand], n->out[0]) ? n->in[operand] : -1;
    }
    return -1;
}

tw_status tw_pass_identities(tw_graph *g, bool *changed, tw_diag *diag) {
    tw_rewrite w;
    if (!tw_rewrite_begin(&w, g)) return tw_fail_memory(diag);
    for (tw_node *n; (n = tw_rewrite_next(&w));) {
        const int same = same_as(g, n);
        if (same < 0 || !tw_rewrite_replace(&w, n->out[0], same)) tw_rewrite_put(&w, n);
    }
    return tw_rewrite_end(&w, changed, diag);
}
