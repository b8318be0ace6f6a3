/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/check.h"

#include "graph/names.h"
#include "graph/step.h"

#include <stdlib.h>
#include <string.h>

typedef struct checker {
    const tw_graph *g;
    bool *made; /* Of each value: it is an input, a constant, or the result of a node before. */
    tw_names names;
    tw_diag *diag;
} checker;

static tw_status refuse(const checker *c, const tw_node *n, const char *what, int value) {
    char node[256] = "the graph";
    if (n) tw_node_describe(n, node, sizeof node);
    const bool there = value >= 0 && value < c->g->n_values;
    return tw_fail(c->diag, TW_ERR_REJECTED, "%s: value %d (\"%s\") %s", node, value,
                   there ? c->g->values[value].name : "", what);
}

static bool is_value(const checker *c, int value) {
    return value >= 0 && value < c->g->n_values;
}

static tw_status check_values(checker *c) {
    for (int i = 0; i < c->g->n_values; i++) {
        const tw_value *v = &c->g->values[i];
        if (!v->name) return tw_fail(c->diag, TW_ERR_REJECTED, "value %d has no name", i);
        if (tw_names_find(&c->names, v->name) >= 0) return refuse(c, NULL, "has the name of another", i);
        if (!tw_names_add(&c->names, v->name, i)) return tw_fail_memory(c->diag);
        c->made[i] = v->content;
        if (!v->content) continue;
        bool same = v->content->type == v->type && v->content->rank == v->rank && v->producer < 0;
        for (int d = 0; d < v->rank && same; d++) same = v->content->dims[d] == v->dims[d];
        if (!same) return refuse(c, NULL, "differs from its content", i);
    }
    for (int i = 0; i < c->g->n_inputs; i++) {
        const int v = c->g->inputs[i];
        if (!is_value(c, v)) return refuse(c, NULL, "is an input and none of the graph's values", v);
        if (c->made[v] || c->g->values[v].producer >= 0) return refuse(c, NULL, "is an input and made twice", v);
        c->made[v] = true;
    }
    return TW_OK;
}

/* Compares a node's results with what its operator makes of the operands. */
static tw_status check_results(const checker *c, const tw_node *n) {
    tw_arena scratch = {0};
    tw_call *call;
    tw_diag why = {0};
    tw_array have;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] >= 0 && !tw_value_array(&c->g->values[n->in[i]], &have)) return TW_OK;
    tw_status st = tw_step_of(&call, c->g, n, &scratch, &why);
    if (st == TW_ERR_USAGE) {
        /* Extents depend on a content that only a run knows. */
        tw_arena_free(&scratch);
        return TW_OK;
    }
    if (st != TW_OK) st = tw_fail(c->diag, st == TW_ERR_MEMORY ? st : TW_ERR_REJECTED, "%s", why.message);
    for (int i = 0; i < n->n_out && st == TW_OK; i++) {
        char made[128], kept[128];
        if (n->out[i] < 0) continue;
        if (!tw_value_array(&c->g->values[n->out[i]], &have)) continue;
        tw_array_describe(&call->out[i], made, sizeof made);
        tw_array_describe(&have, kept, sizeof kept);
        if (!strcmp(made, kept)) continue;
        char node[256];
        tw_node_describe(n, node, sizeof node);
        st = tw_fail(c->diag, TW_ERR_REJECTED, "%s makes %s, and \"%s\" is %s", node, made,
                     c->g->values[n->out[i]].name, kept);
    }
    tw_arena_free(&scratch);
    return st;
}

static tw_status check_node(checker *c, int number) {
    const tw_node *n = &c->g->nodes[number];
    if (n->n_in > TW_OP_OPERANDS || n->n_out > TW_OP_OPERANDS) return refuse(c, n, "is one of too many", -1);
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] == -1) continue;
        if (!is_value(c, n->in[i])) return refuse(c, n, "is an operand and none of the graph's values", n->in[i]);
        if (!c->made[n->in[i]]) return refuse(c, n, "is an operand and not made before", n->in[i]);
    }
    for (int i = 0; i < n->n_out; i++) {
        if (n->out[i] == -1) continue;
        if (!is_value(c, n->out[i])) return refuse(c, n, "is a result and none of the graph's values", n->out[i]);
        if (c->made[n->out[i]]) return refuse(c, n, "is made twice", n->out[i]);
        if (c->g->values[n->out[i]].producer != number) return refuse(c, n, "has another producer", n->out[i]);
        c->made[n->out[i]] = true;
    }
    return n->impl ? check_results(c, n) : TW_OK;
}

static tw_status check(checker *c) {
    tw_status st = check_values(c);
    for (int i = 0; i < c->g->n_nodes && st == TW_OK; i++) st = check_node(c, i);
    for (int i = 0; i < c->g->n_outputs && st == TW_OK; i++) {
        const int v = c->g->outputs[i];
        if (!is_value(c, v))
            st = refuse(c, NULL, "is an output and none of the graph's values", v);
        else if (!c->made[v])
            st = refuse(c, NULL, "is an output and not made", v);
    }
    return st;
}

tw_status tw_graph_check(const tw_graph *g, tw_diag *diag) {
    checker c = {.g = g, .diag = diag};
    c.made = calloc((size_t)g->n_values + 1, sizeof *c.made);
    const tw_status st = c.made ? check(&c) : tw_fail_memory(diag);
    free(c.made);
    tw_names_free(&c.names);
    return st;
}
