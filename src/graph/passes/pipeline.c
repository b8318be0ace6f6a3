/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "graph/check.h"
#include "graph/passes/passes.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 16 /* Each pass shortens the graph, so that few are enough. */ };

/* What is promised of a graph's inputs and outputs. */
typedef struct interface {
    tw_value *values;
    int n_inputs, n_outputs;
} interface;

static void note(const tw_graph *g, interface *f) {
    f->n_inputs = g->n_inputs;
    f->n_outputs = g->n_outputs;
    for (int i = 0; i < g->n_inputs; i++) f->values[i] = g->values[g->inputs[i]];
    for (int i = 0; i < g->n_outputs; i++) f->values[g->n_inputs + i] = g->values[g->outputs[i]];
}

static bool is_same(const tw_value *a, const tw_value *b) {
    bool same = !strcmp(a->name, b->name) && a->type == b->type && a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static tw_status check_interface(const tw_graph *g, const interface *f, tw_diag *diag) {
    bool same = g->n_inputs == f->n_inputs && g->n_outputs == f->n_outputs;
    for (int i = 0; i < f->n_inputs && same; i++) same = is_same(&f->values[i], &g->values[g->inputs[i]]);
    for (int i = 0; i < f->n_outputs && same; i++)
        same = is_same(&f->values[f->n_inputs + i], &g->values[g->outputs[i]]);
    return same ? TW_OK : tw_fail(diag, TW_ERR_REJECTED, "an input or output is another");
}

static tw_status check(const tw_graph *g, const interface *f, const tw_graph_pass *pass, tw_diag *diag) {
    tw_diag why = {0};
    tw_status st = tw_graph_check(g, &why);
    if (st == TW_OK && pass->keeps & TW_KEEPS_INTERFACE) st = check_interface(g, f, &why);
    return st == TW_OK ? st : tw_fail(diag, st, "after pass %s: %s", pass->name, why.message);
}

static tw_status run(tw_graph *g, const tw_graph_pass *passes, int n, interface *f, tw_diag *diag) {
    tw_status st = tw_graph_check(g, diag);
    bool any = true;
    for (int round = 0; round < ROUNDS && any && st == TW_OK; round++) {
        any = false;
        for (int i = 0; i < n && st == TW_OK; i++) {
            bool changed = false;
            note(g, f);
            st = passes[i].run(g, &changed, diag);
            if (st == TW_OK && changed) st = check(g, f, &passes[i], diag);
            any |= changed;
        }
    }
    return st;
}

tw_status tw_graph_passes(tw_graph *g, const tw_graph_pass *passes, int n, tw_diag *diag) {
    interface f = {.values = calloc((size_t)g->n_inputs + (size_t)g->n_outputs + 1, sizeof *f.values)};
    const tw_status st = f.values ? run(g, passes, n, &f, diag) : tw_fail_memory(diag);
    free(f.values);
    return st;
}

tw_status tw_graph_simplify(tw_graph *g, tw_diag *diag) {
    static const tw_graph_pass passes[] = {{"identities", tw_pass_identities, TW_KEEPS_ALL},
                                           {"merges", tw_pass_merges, TW_KEEPS_ALL},
                                           {"common_nodes", tw_pass_common_nodes, TW_KEEPS_ALL}};
    return tw_graph_passes(g, passes, sizeof passes / sizeof *passes, diag);
}
