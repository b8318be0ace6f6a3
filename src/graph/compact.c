/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "graph/graph.h"

#include <stdlib.h>

/* Marks what outputs need, from the last node to the first. */
static void mark(const tw_graph *g, bool *used, bool *live) {
    for (int i = 0; i < g->n_outputs; i++) used[g->outputs[i]] = true;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const tw_node *n = &g->nodes[i];
        for (int j = 0; j < n->n_out; j++) live[i] |= n->out[j] >= 0 && used[n->out[j]];
        for (int j = 0; j < n->n_in && live[i]; j++)
            if (n->in[j] >= 0) used[n->in[j]] = true;
    }
}

static void renumber(int *list, int n, const int *to) {
    for (int i = 0; i < n; i++)
        if (list[i] >= 0) list[i] = to[list[i]];
}

static void move(tw_graph *g, const bool *live, const int *to) {
    int n = 0;
    for (int i = 0; i < g->n_values; i++) {
        if (to[i] < 0) continue;
        g->values[to[i]] = g->values[i];
        g->values[to[i]].producer = -1;
        n++;
    }
    g->n_values = n;
    n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        if (!live[i]) continue;
        tw_node *node = &g->nodes[n];
        *node = g->nodes[i];
        renumber(node->in, node->n_in, to);
        renumber(node->out, node->n_out, to);
        for (int j = 0; j < node->n_out; j++)
            if (node->out[j] >= 0) g->values[node->out[j]].producer = n;
        n++;
    }
    g->n_nodes = n;
    renumber(g->inputs, g->n_inputs, to);
    renumber(g->outputs, g->n_outputs, to);
}

tw_status tw_graph_compact(tw_graph *g, tw_diag *diag) {
    bool *used = calloc((size_t)g->n_values + 1, sizeof *used), *live = calloc((size_t)g->n_nodes + 1, sizeof *live);
    int *to = calloc((size_t)g->n_values + 1, sizeof *to), n = 0;
    const bool enough = used && live && to;
    if (enough) {
        mark(g, used, live);
        for (int i = 0; i < g->n_inputs; i++) used[g->inputs[i]] = true;
        for (int i = 0; i < g->n_values; i++) to[i] = used[i] ? n++ : -1;
        move(g, live, to);
    }
    free(used);
    free(live);
    free(to);
    return enough ? TW_OK : tw_fail_memory(diag);
}
