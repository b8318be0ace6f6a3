/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/passes/stays.h"

#include <string.h>

static bool is_one_of(const tw_node *n, const char *const *ops) {
    for (int i = 0; ops[i] && !*n->domain; i++)
        if (!strcmp(ops[i], n->op)) return true;
    return false;
}

static bool leaves_range(const tw_node *n) {
    static const char *const ops[] = {"Pow",       "Exp",          "Log",
                                      "ReduceSum", "ReduceMean",   "ReduceProd",
                                      "ReduceL1",  "ReduceL2",     "CumSum",
                                      "CumProd",   "Range",        "Sin",
                                      "Cos",       "Tan",          "ReduceSumSquare",
                                      "Softplus",  "ReduceLogSum", "ReduceLogSumExp",
                                      NULL};
    return is_one_of(n, ops);
}

static bool is_elementwise(const tw_node *n) {
    static const char *const ops[] = {"Add",        "Sub", "Mul", "Div",  "Neg",  "Abs", "Sqrt", "Max", "Min",
                                      "Reciprocal", "Erf", "Sum", "Mean", "Clip", "Log", "Tanh", NULL};
    return is_one_of(n, ops);
}

static bool is_angle(const tw_node *n) {
    static const char *const ops[] = {"Sin", "Cos", "Tan", NULL};
    return is_one_of(n, ops);
}

/* Marks the nodes that a node's operands of f32 and f64 come from, back to casts of integers. */
static void mark_angles(const tw_graph *g, bool *stays, const tw_node *n) {
    for (int i = 0; i < n->n_in; i++) {
        const tw_value *v = n->in[i] < 0 ? NULL : &g->values[n->in[i]];
        if (v && v->producer >= 0 && (v->type == TW_E_f32 || v->type == TW_E_f64)) stays[v->producer] = true;
    }
}

void tw_find_stays(const tw_graph *g, bool *stays) {
    for (int i = 0; i < g->n_nodes; i++) stays[i] = is_angle(&g->nodes[i]);
    for (int i = g->n_nodes - 1; i >= 0; i--)
        if (stays[i]) mark_angles(g, stays, &g->nodes[i]);
    for (int i = 0; i < g->n_nodes; i++) {
        const tw_node *n = &g->nodes[i];
        bool all = is_elementwise(n), any = false;
        for (int j = 0; j < n->n_in && all; j++) {
            const tw_value *v = n->in[j] < 0 ? NULL : &g->values[n->in[j]];
            if (!v || v->type != TW_E_f32 || v->content) continue;
            any = true;
            all = v->producer >= 0 && stays[v->producer];
        }
        stays[i] |= leaves_range(n) || (all && any);
    }
}
