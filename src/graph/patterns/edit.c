/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/edit.h"

#include "base/diag.h"
#include "base/grow.h"

#include <stdlib.h>
#include <string.h>

bool tw_edit_is_gone(const tw_graph *g, int node) {
    return !g->nodes[node].n_out;
}

static bool grow(tw_edit *r) {
    while (r->n_values < r->g->n_values) {
        int *uses = tw_grow(r->uses, r->n_values, &r->room_uses, 256, sizeof *uses);
        if (!uses) return false;
        r->uses = uses;
        r->uses[r->n_values++] = 0;
    }
    return true;
}

bool tw_edit_add(tw_edit *r, int at) {
    if (!grow(r)) return false;
    for (; r->n_nodes < r->g->n_nodes; r->n_nodes++) {
        int *keys = tw_grow(r->keys, r->n_nodes, &r->room_keys, 256, sizeof *keys);
        if (!keys) return false;
        r->keys = keys;
        r->keys[r->n_nodes] = at < 0 ? r->n_nodes : r->keys[at];
        const tw_node *n = &r->g->nodes[r->n_nodes];
        for (int j = 0; j < n->n_in; j++)
            if (n->in[j] >= 0) r->uses[n->in[j]]++;
    }
    return true;
}

bool tw_edit_begin(tw_edit *r, tw_graph *g) {
    *r = (tw_edit){.g = g};
    if (!tw_edit_add(r, -1)) return false;
    for (int i = 0; i < g->n_outputs; i++) r->uses[g->outputs[i]]++;
    return true;
}

static bool is_wanted(const tw_edit *r, int node) {
    const tw_node *n = &r->g->nodes[node];
    for (int j = 0; j < n->n_out; j++)
        if (n->out[j] >= 0 && r->uses[n->out[j]] && r->g->values[n->out[j]].producer == node) return true;
    return false;
}

void tw_edit_drop(tw_edit *r, int node) {
    tw_node *n = &r->g->nodes[node];
    if (tw_edit_is_gone(r->g, node)) return;
    const int n_in = n->n_in;
    n->n_in = n->n_out = 0;
    for (int j = 0; j < n_in; j++) {
        if (n->in[j] < 0) continue;
        const int p = r->g->values[n->in[j]].producer;
        if (!--r->uses[n->in[j]] && p >= 0 && !is_wanted(r, p)) tw_edit_drop(r, p);
    }
}

void tw_edit_replace(tw_edit *r, int from, int to) {
    tw_graph *g = r->g;
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i].n_in; j++)
            if (g->nodes[i].in[j] == from) g->nodes[i].in[j] = to;
    for (int i = 0; i < g->n_outputs; i++)
        if (g->outputs[i] == from) g->outputs[i] = to;
    r->uses[to] += r->uses[from];
    r->uses[from] = 0;
}

/* ---- order */

typedef struct place {
    int key, node;
} place;

static int compare(const void *a, const void *b) {
    const place *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->node > y->node) - (x->node < y->node);
}

typedef struct order {
    const tw_graph *g;
    tw_node *out;
    int n;
    char *state; /* Of each node: 1 while what it needs is put before it, 2 once it has its place. */
} order;

/* Puts a node behind those that it needs. New nodes alone lack their place by then, so that this is not deep. */
static void put(order *o, int node) {
    const tw_node *n = &o->g->nodes[node];
    if (o->state[node] || !n->n_out) return;
    o->state[node] = 1;
    for (int j = 0; j < n->n_in; j++) {
        const int p = n->in[j] < 0 ? -1 : o->g->values[n->in[j]].producer;
        if (p >= 0) put(o, p);
    }
    o->out[o->n++] = *n;
}

tw_status tw_edit_end(tw_edit *r, tw_diag *diag) {
    tw_graph *g = r->g;
    const size_t n = (size_t)g->n_nodes + 1;
    place *places = calloc(n, sizeof *places);
    order o = {.g = g, .out = calloc(n, sizeof *o.out), .state = calloc(n, 1)};
    const bool enough = places && o.out && o.state;
    for (int i = 0; i < g->n_nodes && enough; i++) places[i] = (place){r->keys[i], i};
    if (enough && g->n_nodes) qsort(places, (size_t)g->n_nodes, sizeof *places, compare);
    for (int i = 0; i < g->n_nodes && enough; i++) put(&o, places[i].node);
    if (enough && o.n) memcpy(g->nodes, o.out, (size_t)o.n * sizeof *o.out);
    if (enough) g->n_nodes = o.n;
    free(places);
    free(o.out);
    free(o.state);
    return enough ? tw_graph_compact(g, diag) : tw_fail_memory(diag);
}

void tw_edit_free(tw_edit *r) {
    free(r->uses);
    free(r->keys);
    *r = (tw_edit){0};
}
