/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/rewrite.h"

#include "graph/step.h"

#include <stdlib.h>
#include <string.h>

bool tw_rewrite_begin(tw_rewrite *w, tw_graph *g) {
    *w = (tw_rewrite){.g = g, .old = g->nodes, .n_old = g->n_nodes, .n_with = g->n_values};
    w->with = malloc(((size_t)g->n_values + 1) * sizeof *w->with);
    if (!w->with) return false;
    for (int i = 0; i < g->n_values; i++) w->with[i] = -1;
    g->nodes = NULL;
    g->n_nodes = g->room_nodes = 0;
    return true;
}

/* Returns what stands for a value in the end. */
static int find(const tw_rewrite *w, int value) {
    while (value >= 0 && value < w->n_with && w->with[value] >= 0) value = w->with[value];
    return value;
}

tw_node *tw_rewrite_next(tw_rewrite *w) {
    if (w->at == w->n_old || w->st != TW_OK) return NULL;
    tw_node *n = &w->old[w->at++];
    for (int i = 0; i < n->n_in; i++) n->in[i] = find(w, n->in[i]);
    return n;
}

void tw_rewrite_put(tw_rewrite *w, const tw_node *n) {
    const int number = tw_graph_add_node(w->g, n);
    if (number < 0) w->st = TW_ERR_MEMORY;
    for (int i = 0; i < n->n_out && number >= 0; i++)
        if (n->out[i] >= 0) w->g->values[n->out[i]].producer = number;
}

/* Whether a value has a name that must stay: it is an input, or is or stands for an output. */
static bool is_named(const tw_rewrite *w, int value) {
    const tw_graph *g = w->g;
    for (int i = 0; i < g->n_inputs; i++)
        if (g->inputs[i] == value) return true;
    for (int i = 0; i < g->n_outputs; i++)
        if (find(w, g->outputs[i]) == value) return true;
    return false;
}

bool tw_rewrite_replace(tw_rewrite *w, int value, int by) {
    bool output = false;
    by = find(w, by);
    if (value == by || value >= w->n_with) return false;
    for (int i = 0; i < w->g->n_outputs; i++) output |= w->g->outputs[i] == value;
    if (output && is_named(w, by)) return false;
    w->with[value] = by;
    w->changed = true;
    return true;
}

void tw_rewrite_operands(tw_rewrite *w, tw_node *n, const int *in, int n_in) {
    int *list = tw_arena_array(&w->g->arena, (size_t)n_in + 1, sizeof *list);
    w->changed = true;
    n->n_in = list ? n_in : 0;
    if (list && n_in) memcpy(list, in, (size_t)n_in * sizeof *list);
    if (list) n->in = list;
    if (!list) w->st = TW_ERR_MEMORY;
}

void tw_rewrite_op(tw_rewrite *w, tw_node *n, const char *op) {
    n->op = op;
    n->impl = tw_op_find(n->domain, op, n->version);
    w->changed = true;
    if (!n->impl) w->st = tw_fail(&w->why, TW_ERR_UNSUPPORTED, "there is no operator %s", op);
}

static int new_value(tw_rewrite *w, const char *what) {
    const size_t n = strcspn(what, "~");
    char *name = tw_arena_printf(&w->g->arena, "%.*s~%d", (int)n, what, w->g->made++);
    const int value = name ? tw_graph_add_value(w->g, name) : -1;
    if (value < 0) w->st = TW_ERR_MEMORY;
    return value;
}

int tw_rewrite_value(tw_rewrite *w, const char *like, const tw_array *type) {
    const int value = new_value(w, like);
    if (value < 0) return -1;
    tw_value *v = &w->g->values[value];
    v->type = type->type;
    v->rank = type->rank;
    memcpy(v->dims, type->dims, sizeof v->dims);
    return value;
}

int tw_rewrite_borrow(tw_rewrite *w, const char *like, const tw_array *content) {
    const int value = new_value(w, like);
    if (value >= 0) tw_graph_set_content(w->g, value, content);
    if (w->g->arena.failed) w->st = TW_ERR_MEMORY;
    return w->st == TW_OK ? value : -1;
}

int tw_rewrite_make(tw_rewrite *w, const tw_node *like, const int *in, int n_in) {
    tw_arena scratch = {0};
    tw_call *c;
    tw_node n = *like;
    int *out = tw_arena_array(&w->g->arena, 1, sizeof *out);
    tw_attribute *attributes = tw_arena_array(&w->g->arena, (size_t)like->n_attributes + 1, sizeof *attributes);
    if (!out || !attributes) w->st = TW_ERR_MEMORY;
    if (w->st != TW_OK) return -1;
    if (n.n_attributes) memcpy(attributes, like->attributes, (size_t)n.n_attributes * sizeof *attributes);
    n.attributes = attributes;
    n.out = out;
    n.n_out = 1;
    tw_rewrite_operands(w, &n, in, n_in);
    tw_rewrite_op(w, &n, n.op);
    if (w->st == TW_OK) w->st = tw_step_of(&c, w->g, &n, &scratch, &w->why);
    const int value = w->st == TW_OK ? out[0] = tw_rewrite_value(w, n.op, &c->out[0]) : -1;
    if (value >= 0) tw_rewrite_put(w, &n);
    tw_arena_free(&scratch);
    return value;
}

int tw_rewrite_constant(tw_rewrite *w, const tw_array *content) {
    const int64_t bytes = tw_array_bytes(content);
    tw_array a = *content;
    void *data = tw_arena_alloc(&w->g->arena, (size_t)bytes + 1);
    if (!data) {
        w->st = TW_ERR_MEMORY;
        return -1;
    }
    if (bytes) memcpy(data, content->data, (size_t)bytes);
    a.data = data;
    return tw_rewrite_borrow(w, "constant", &a);
}

int tw_rewrite_integers(tw_rewrite *w, const int64_t *x, int n) {
    const tw_array a = {.type = TW_E_i64, .rank = 1, .dims = {n}, .data = x};
    return tw_rewrite_constant(w, &a);
}

const tw_node *tw_rewrite_producer(const tw_rewrite *w, int value) {
    const int producer = value < 0 ? -1 : w->g->values[value].producer;
    return producer < 0 || producer >= w->g->n_nodes ? NULL : &w->g->nodes[producer];
}

/* Gives outputs that are replaced the names that they had. */
static void replace_outputs(tw_rewrite *w) {
    tw_graph *g = w->g;
    for (int i = 0; i < g->n_outputs; i++) {
        const int value = g->outputs[i], by = find(w, value);
        if (by == value) continue;
        const char *name = g->values[by].name;
        g->values[by].name = g->values[value].name;
        g->values[value].name = name;
        for (int j = i; j < g->n_outputs; j++)
            if (g->outputs[j] == value) g->outputs[j] = by;
    }
}

tw_status tw_rewrite_end(tw_rewrite *w, bool *changed, tw_diag *diag) {
    replace_outputs(w);
    /* Nodes that were not looked at are lost: the graph is of no more use then. */
    free(w->old);
    free(w->with);
    *changed |= w->changed;
    if (w->st == TW_ERR_MEMORY || w->g->arena.failed) return tw_fail_memory(diag);
    if (w->st != TW_OK) return tw_fail(diag, w->st, "%s", w->why.message);
    return tw_graph_compact(w->g, diag);
}
