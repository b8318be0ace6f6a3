/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "graph/passes/passes.h"
#include "graph/rewrite.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHORT = 4096 /* Bytes of reals that are compared. Longer ones are the same if they lie at the same place. */
};

/* Entries by hashes: numbers of nodes, or of constants. -1: empty. */
typedef struct table {
    int *slots;
    uint32_t mask;
} table;

static bool make_table(table *t, int entries) {
    size_t room = 16;
    while (room < 2 * (size_t)entries) room *= 2;
    t->slots = malloc(room * sizeof *t->slots);
    t->mask = (uint32_t)room - 1;
    for (size_t i = 0; t->slots && i < room; i++) t->slots[i] = -1;
    return t->slots != NULL;
}

static uint32_t mix(uint32_t h, const void *data, size_t n) {
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++) h = (h ^ p[i]) * 16777619u;
    return h ^ h >> 15;
}

/* ---- constants */

static bool is_same_array(const tw_array *a, const tw_array *b) {
    if (a->type != b->type || a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    const int64_t bytes = tw_array_bytes(a);
    if (a->data == b->data || bytes == 0) return true;
    return bytes > 0 && a->data && b->data && !memcmp(a->data, b->data, (size_t)bytes);
}

static uint32_t hash_array(const tw_array *a) {
    const int64_t bytes = tw_array_bytes(a);
    const bool places = a->type == TW_E_i32 || a->type == TW_E_i64; /* Few are long, and layers have them alike. */
    uint32_t h = mix(2166136261u, &a->type, sizeof a->type);
    h = mix(h, a->dims, (size_t)a->rank * sizeof *a->dims);
    if (bytes < 0 || (bytes > SHORT && !places)) return mix(h, &a->data, sizeof a->data);
    return bytes ? mix(h, a->data, bytes < SHORT ? (size_t)bytes : SHORT) : h;
}

/* Lets constants stand for those that are the same. */
static bool join_constants(tw_rewrite *w) {
    tw_graph *g = w->g;
    const int n = g->n_values;
    table t;
    if (!make_table(&t, n)) return false;
    for (int i = 0; i < n; i++) {
        const tw_array *a = g->values[i].content;
        if (!a) continue;
        uint32_t at = hash_array(a) & t.mask;
        while (t.slots[at] >= 0 && !is_same_array(g->values[t.slots[at]].content, a)) at = (at + 1) & t.mask;
        if (t.slots[at] < 0)
            t.slots[at] = i;
        else
            tw_rewrite_replace(w, i, t.slots[at]);
    }
    free(t.slots);
    return true;
}

/* ---- nodes */

static bool is_same_attribute(const tw_attribute *a, const tw_attribute *b) {
    if (strcmp(a->name, b->name) != 0 || a->kind != b->kind) return false;
    switch (a->kind) {
    case TW_ATTRIBUTE_INT:
        return a->integer == b->integer;
    case TW_ATTRIBUTE_REAL:
        return !memcmp(&a->real, &b->real, sizeof a->real);
    case TW_ATTRIBUTE_TEXT:
        return !strcmp(a->text, b->text);
    case TW_ATTRIBUTE_ARRAY:
        return is_same_array(a->array, b->array);
    default:
        return false;
    }
}

static bool is_same_node(const tw_node *a, const tw_node *b) {
    bool same = !strcmp(a->op, b->op) && !strcmp(a->domain, b->domain) && a->version == b->version;
    same = same && a->n_in == b->n_in && a->n_out == b->n_out && a->n_attributes == b->n_attributes;
    for (int i = 0; i < a->n_in && same; i++) same = a->in[i] == b->in[i];
    /* The one that stays must make what the other does. */
    for (int i = 0; i < a->n_out && same; i++) same = a->out[i] >= 0 || b->out[i] < 0;
    for (int i = 0; i < a->n_attributes && same; i++) same = is_same_attribute(&a->attributes[i], &b->attributes[i]);
    return same;
}

static uint32_t hash_node(const tw_node *n) {
    uint32_t h = mix(2166136261u, n->op, strlen(n->op));
    return mix(mix(h, n->in, (size_t)n->n_in * sizeof *n->in), &n->n_attributes, sizeof n->n_attributes);
}

/* Replaces the results of a node by those of an equal node before it. False: not all of them can be replaced. */
static bool join(tw_rewrite *w, const tw_node *kept, const tw_node *n) {
    bool all = true;
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) all &= tw_rewrite_replace(w, n->out[i], kept->out[i]);
    return all;
}

tw_status tw_pass_common_nodes(tw_graph *g, bool *changed, tw_diag *diag) {
    tw_rewrite w;
    table t;
    if (!tw_rewrite_begin(&w, g)) return tw_fail_memory(diag);
    if (!make_table(&t, w.n_old)) w.st = TW_ERR_MEMORY;
    if (w.st == TW_OK && !join_constants(&w)) w.st = TW_ERR_MEMORY;
    for (tw_node *n; (n = tw_rewrite_next(&w));) {
        uint32_t at = hash_node(n) & t.mask;
        while (t.slots[at] >= 0 && !is_same_node(&g->nodes[t.slots[at]], n)) at = (at + 1) & t.mask;
        if (t.slots[at] >= 0 && join(&w, &g->nodes[t.slots[at]], n)) continue;
        if (t.slots[at] < 0) t.slots[at] = g->n_nodes;
        tw_rewrite_put(&w, n);
    }
    free(t.slots);
    return tw_rewrite_end(&w, changed, diag);
}
