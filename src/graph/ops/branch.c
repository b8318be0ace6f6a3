/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/ops/branch.h"

#include "graph/run.h"
#include "graph/specialize.h"

#include <string.h>

static const tw_graph *graph_of(const tw_node *n, const char *name) {
    const tw_attribute *a = tw_node_attribute(n, name);
    return a && a->kind == TW_ATTRIBUTE_GRAPH ? a->graph : NULL;
}

bool tw_is_branch(const tw_node *n) {
    const tw_graph *yes = graph_of(n, "then_branch"), *no = graph_of(n, "else_branch");
    if (!yes || !no || strcmp(n->op, "If") != 0 || *n->domain) return false;
    return n->n_in == 1 + yes->n_inputs + no->n_inputs && n->n_out <= yes->n_outputs && n->n_out <= no->n_outputs;
}

const tw_graph *tw_branch_of(const tw_call *c, int *first) {
    const tw_graph *yes = graph_of(c->node, "then_branch");
    const tw_array *condition = c->in[0];
    *first = 1;
    if (!condition || !condition->data || tw_array_elements(condition) != 1) return NULL;
    if (tw_array_integer(condition, 0)) return yes;
    *first += yes->n_inputs;
    return graph_of(c->node, "else_branch");
}

tw_status tw_if_shape(tw_call *c) {
    int first;
    const tw_array *condition = c->in[0];
    if (!tw_is_branch(c->node)) return tw_call_fail(c, TW_ERR_FORMAT, "has not the branches that its operands are for");
    for (int i = 1; i < c->n_in; i++)
        if (!c->in[i]) return tw_call_fail(c, TW_ERR_FORMAT, "operand %d is left out", i);
    if (!condition || condition->type != TW_E_bool || tw_array_elements(condition) != 1)
        return tw_call_fail(c, TW_ERR_FORMAT, "the condition is no single truth");
    const tw_graph *branch = tw_branch_of(c, &first);
    if (!branch) return tw_call_fail(c, TW_ERR_USAGE, "extents depend on the content of operand 0");
    bool known[TW_OP_OPERANDS] = {0};
    tw_graph *concrete;
    for (int i = 0; i < branch->n_inputs; i++) known[i] = c->in[first + i]->data;
    const tw_status st = tw_graph_specialize_lent(&concrete, branch, &c->in[first], known, c->diag);
    for (int i = 0; i < c->n_out && st == TW_OK; i++)
        tw_value_array(&concrete->values[concrete->outputs[i]], &c->out[i]);
    tw_graph_free(concrete);
    return st;
}

tw_status tw_if_compute(tw_call *c) {
    int first;
    const tw_graph *branch = tw_branch_of(c, &first);
    tw_array *out = tw_arena_array(c->arena, (size_t)branch->n_outputs + 1, sizeof *out);
    if (!out) return tw_fail_memory(c->diag);
    const tw_status st = tw_graph_run(branch, &c->in[first], c->arena, out, c->diag);
    for (int i = 0; i < c->n_out && st == TW_OK; i++) {
        const int64_t bytes = tw_array_bytes(&c->out[i]);
        if (bytes != tw_array_bytes(&out[i])) return tw_call_fail(c, TW_ERR_FORMAT, "a branch has two results");
        if (bytes) memcpy(tw_call_out(c, i), out[i].data, (size_t)bytes);
    }
    return st;
}
