/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include "base/diag.h"
#include "base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tw_graph *tw_graph_new(void) {
    return calloc(1, sizeof(tw_graph));
}

static void free_attributes(const tw_node *n) {
    for (int i = 0; i < n->n_attributes; i++) tw_graph_free(n->attributes[i].graph);
}

tw_graph *tw_graph_keep(const tw_graph *g) {
    tw_graph *kept = (tw_graph *)(uintptr_t)g;
    atomic_fetch_add(&kept->keepers, 1);
    return kept;
}

void tw_graph_free(tw_graph *g) {
    if (!g || atomic_fetch_sub(&g->keepers, 1) > 0) return;
    /* A graph with a base has its attributes from there. */
    for (int i = 0; i < g->n_nodes && !g->base; i++) free_attributes(&g->nodes[i]);
    for (int i = 0; i < g->n_maps; i++) tw_map_close(&g->maps[i]);
    for (int i = 0; i < g->n_blocks; i++) free(g->blocks[i]);
    tw_graph_free(g->base);
    free(g->values);
    free(g->nodes);
    free(g->symbols);
    free(g->meanings);
    free(g->maps);
    free(g->blocks);
    tw_arena_free(&g->arena);
    free(g);
}

/* Makes room for one more element of a list. */
static bool grow(tw_graph *g, void *list, int n, int *room, size_t size) {
    void **at = list;
    void *grown = g->arena.failed ? NULL : tw_grow(*at, n, room, 16, size);
    if (!grown) {
        g->arena.failed = true;
        return false;
    }
    *at = grown;
    return true;
}

int tw_graph_add_value(tw_graph *g, const char *name) {
    if (!grow(g, &g->values, g->n_values, &g->room_values, sizeof *g->values)) return -1;
    g->values[g->n_values] = (tw_value){.name = name, .rank = TW_RANK_UNKNOWN, .producer = -1};
    return g->n_values++;
}

int tw_graph_add_node(tw_graph *g, const tw_node *node) {
    if (!grow(g, &g->nodes, g->n_nodes, &g->room_nodes, sizeof *g->nodes)) return -1;
    g->nodes[g->n_nodes] = *node;
    return g->n_nodes++;
}

int tw_graph_symbol(tw_graph *g, const char *name) {
    for (int i = 0; i < g->n_symbols; i++)
        if (!strcmp(g->symbols[i], name)) return i;
    if (!grow(g, &g->symbols, g->n_symbols, &g->room_symbols, sizeof *g->symbols)) return -1;
    if (!grow(g, &g->meanings, g->n_symbols, &g->room_meanings, sizeof *g->meanings)) return -1;
    g->meanings[g->n_symbols] = (tw_meaning){0};
    g->symbols[g->n_symbols] = name;
    return g->n_symbols++;
}

tw_status tw_graph_map(tw_graph *g, const char *path, tw_map *out, tw_diag *diag) {
    if (!grow(g, &g->maps, g->n_maps, &g->room_maps, sizeof *g->maps)) return tw_fail_memory(diag);
    const tw_status st = tw_map_open(&g->maps[g->n_maps], path, diag);
    if (st == TW_OK) *out = g->maps[g->n_maps++];
    return st;
}

bool tw_graph_own(tw_graph *g, void *block) {
    if (!grow(g, &g->blocks, g->n_blocks, &g->room_blocks, sizeof *g->blocks)) {
        free(block);
        return false;
    }
    g->blocks[g->n_blocks++] = block;
    return true;
}

void tw_graph_set_content(tw_graph *g, int value, const tw_array *content) {
    tw_array *kept = tw_arena_alloc(&g->arena, sizeof *kept);
    if (!kept) return;
    *kept = *content;
    tw_value *v = &g->values[value];
    v->content = kept;
    v->type = content->type;
    v->rank = content->rank;
    memcpy(v->dims, content->dims, sizeof v->dims);
}

bool tw_value_array(const tw_value *v, tw_array *out) {
    *out = (tw_array){.type = v->type, .rank = v->rank};
    bool known = v->type != TW_E_none && v->rank >= 0;
    for (int i = 0; i < v->rank; i++) {
        out->dims[i] = v->dims[i];
        known &= v->dims[i] >= 0;
    }
    if (v->content) out->data = v->content->data;
    return known;
}

const tw_attribute *tw_node_attribute(const tw_node *n, const char *name) {
    for (int i = 0; i < n->n_attributes; i++)
        if (!strcmp(n->attributes[i].name, name)) return &n->attributes[i];
    return NULL;
}

int64_t tw_node_integer(const tw_node *n, const char *name, int64_t usual) {
    const tw_attribute *a = tw_node_attribute(n, name);
    return a && a->kind == TW_ATTRIBUTE_INT ? a->integer : usual;
}

double tw_node_real(const tw_node *n, const char *name, double usual) {
    const tw_attribute *a = tw_node_attribute(n, name);
    return a && a->kind == TW_ATTRIBUTE_REAL ? a->real : usual;
}

const char *tw_node_text(const tw_node *n, const char *name, const char *usual) {
    const tw_attribute *a = tw_node_attribute(n, name);
    return a && a->kind == TW_ATTRIBUTE_TEXT ? a->text : usual;
}

void tw_node_describe(const tw_node *n, char *out, size_t size) {
    const char *point = *n->domain ? "." : "";
    if (*n->name)
        snprintf(out, size, "%s (%s%s%s)", n->name, n->domain, point, n->op);
    else
        snprintf(out, size, "%s%s%s", n->domain, point, n->op);
}
