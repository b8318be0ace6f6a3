/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/match.h"

#include <math.h>
#include <string.h>

/* What is still to be matched: a list, of which the first comes first. */
typedef struct goal {
    const tw_term *term;
    int value; /* -1: an operand that is left out. */
    const struct goal *next;
} goal;

static bool satisfy(tw_match *m, const goal *goals);

/* Counts how often nodes that go away use a value. */
static int uses_within(const tw_match *m, int value) {
    int n = 0;
    for (int i = 0; i < m->n_nodes; i++) {
        const tw_node *node = &m->g->nodes[m->nodes[i]];
        for (int j = 0; j < node->n_in && !m->shared[i]; j++) n += node->in[j] == value;
    }
    return n;
}

/* Tells whether nodes within are used by nobody else. */
static bool is_closed(const tw_match *m) {
    for (int i = 1; i < m->n_nodes; i++) {
        const tw_node *node = &m->g->nodes[m->nodes[i]];
        for (int j = 0; j < node->n_out && !m->shared[i]; j++)
            if (node->out[j] >= 0 && m->uses[node->out[j]] != uses_within(m, node->out[j])) return false;
    }
    return true;
}

static bool hold(const tw_match *m, const tw_term *t, int value) {
    for (int i = 0; i < t->n_checks; i++)
        if (!t->checks[i](m->g, value)) return false;
    return true;
}

static bool bind(tw_match *m, int slot, int value) {
    if (slot < 0) return true;
    if (m->bound[slot] < 0) m->bound[slot] = value;
    return m->bound[slot] == value;
}

static bool add_node(tw_match *m, int node, bool shared) {
    for (int i = 0; i < m->n_nodes; i++)
        if (m->nodes[i] == node) return true;
    if (m->n_nodes == TW_MATCH_NODES) return false;
    m->nodes[m->n_nodes] = node;
    m->shared[m->n_nodes++] = shared;
    return true;
}

/* Tells whether operands from the second on say the result's extents alone, which are known. */
static bool shapes(const tw_node *n) {
    static const char *const ops[] = {"Reshape",    "Expand",    "Squeeze", "Unsqueeze",
                                      "ReduceMean", "ReduceSum", "Slice",   "Split"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i], n->op)) return true;
    return false;
}

static bool commutes(const tw_node *n) {
    return !*n->domain && (!strcmp(n->op, "Add") || !strcmp(n->op, "Mul") || !strcmp(n->op, "And"));
}

static bool match_operands(tw_match *m, const tw_term *t, const tw_node *n, bool swapped, const goal *next) {
    goal chain[TW_TERM_ARGS];
    int n_args = t->n_args, n_in = n->n_in;
    const bool rest = n_args && t->args[n_args - 1]->kind == TW_TERM_REST;
    n_args -= rest;
    while (n_in && n->in[n_in - 1] < 0) n_in--;
    if (n_in > n_args && !rest && !shapes(n)) return false;
    for (int i = n_args - 1; i >= 0; i--) {
        const int at = swapped ? 1 - i : i;
        chain[i] = (goal){t->args[i], at < n_in ? n->in[at] : -1, next};
        next = &chain[i];
    }
    return satisfy(m, next);
}

static bool match_node(tw_match *m, const tw_term *t, int value, const goal *next) {
    const tw_node *n = tw_value_node(m->g, value);
    if (!n || n->out[0] != value || strcmp(n->op, t->op) != 0 || strcmp(n->domain, t->domain) != 0) return false;
    if (!hold(m, t, value) || !bind(m, t->slot, value)) return false;
    if (!add_node(m, m->g->values[value].producer, t->shared)) return false;
    const tw_match saved = *m;
    if (match_operands(m, t, n, false, next)) return true;
    *m = saved;
    return n->n_in == 2 && t->n_args == 2 && commutes(n) && match_operands(m, t, n, true, next);
}

/* Numbers of narrow types are rounded. */
static bool is_number(const tw_graph *g, int value, double want) {
    const tw_element t = g->values[value].type;
    const double allowed = t == TW_E_bf16 ? 4e-3 : t == TW_E_f16 ? 1e-3 : 1e-6;
    double x;
    return tw_value_uniform(g, value, &x) && fabs(x - want) <= allowed * fabs(want);
}

static bool satisfy(tw_match *m, const goal *goals) {
    if (!goals) return is_closed(m);
    const tw_term *t = goals->term;
    const int value = goals->value;
    const tw_match saved = *m;
    if (value < 0) return t->kind == TW_TERM_ANY && !t->n_checks && satisfy(m, goals->next);
    switch (t->kind) {
    case TW_TERM_ANY:
        return hold(m, t, value) && satisfy(m, goals->next);
    case TW_TERM_VALUE:
        return hold(m, t, value) && bind(m, t->slot, value) && satisfy(m, goals->next);
    case TW_TERM_NUMBER:
        return is_number(m->g, value, t->number) && bind(m, t->slot, value) && satisfy(m, goals->next);
    case TW_TERM_EITHER:
        for (int i = 0; i < t->n_args; i++) {
            if (satisfy(m, &(goal){t->args[i], value, goals->next})) return true;
            *m = saved;
        }
        return false;
    case TW_TERM_NODE:
        if (match_node(m, t, value, goals->next)) return true;
        *m = saved;
        return t->optional && satisfy(m, &(goal){t->args[0], value, goals->next});
    default:
        return false;
    }
}

bool tw_match_find(tw_match *m, const tw_graph *g, const int *uses, const tw_term *t, int value) {
    *m = (tw_match){.g = g, .uses = uses};
    for (int i = 0; i < TW_TERM_SLOTS; i++) m->bound[i] = -1;
    return satisfy(m, &(goal){t, value, NULL});
}
