/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graft.h"

#include "graph/ops/op.h"

#include <stdlib.h>
#include <string.h>

typedef struct grafter {
    tw_graph *to;
    const tw_graph *from;
    int *map; /* Of each value of `from`: the one of `to`. -1: none so far. */
} grafter;

/* Adds a value like one of `from`. */
static int add(grafter *g, int value) {
    const tw_value *v = &g->from->values[value];
    char *name = tw_arena_printf(&g->to->arena, "%.*s~%d", (int)strcspn(v->name, "~"), v->name, g->to->made++);
    const int made = name ? tw_graph_add_value(g->to, name) : -1;
    if (made < 0) return -1;
    tw_value *w = &g->to->values[made];
    w->type = v->type;
    w->rank = v->rank;
    memcpy(w->dims, v->dims, sizeof w->dims);
    if (v->content) tw_graph_set_content(g->to, made, v->content);
    return g->map[value] = made;
}

static bool map_list(grafter *g, const int *list, int n, int **out) {
    *out = tw_arena_array(&g->to->arena, (size_t)n + 1, sizeof **out);
    for (int i = 0; i < n && *out; i++) {
        (*out)[i] = list[i] < 0 ? -1 : g->map[list[i]] >= 0 ? g->map[list[i]] : add(g, list[i]);
        if (list[i] >= 0 && (*out)[i] < 0) return false;
    }
    return *out != NULL;
}

static bool put(grafter *g, const tw_node *n) {
    tw_node node = *n;
    if (!map_list(g, n->in, n->n_in, &node.in) || !map_list(g, n->out, n->n_out, &node.out)) return false;
    return tw_graph_add_node(g->to, &node) >= 0;
}

static bool put_identity(grafter *g, int from, int to) {
    int *list = tw_arena_array(&g->to->arena, 2, sizeof *list);
    if (!list) return false;
    list[0] = from;
    list[1] = to;
    const tw_node n = {.op = "Identity",
                       .domain = "",
                       .name = "",
                       .version = 13,
                       .impl = tw_op_find("", "Identity", 13),
                       .in = list,
                       .out = list + 1,
                       .n_in = 1,
                       .n_out = 1};
    return tw_graph_add_node(g->to, &n) >= 0;
}

static void map_inputs(grafter *g, const int *in, const void *const *lent) {
    const tw_graph *from = g->from;
    for (int i = 0; i < from->n_values; i++) g->map[i] = -1;
    for (int i = 0; i < from->n_inputs; i++) g->map[from->inputs[i]] = in[i];
    for (int i = 0; i < from->n_values; i++)
        for (int j = 0; j < from->n_inputs && from->values[i].content; j++)
            if (lent[j] && lent[j] == from->values[i].content->data) g->map[i] = in[j];
}

static bool graft(grafter *g, const int *out, int n_out, const tw_array **constants) {
    const tw_graph *from = g->from;
    for (int i = 0; i < n_out; i++) {
        const int value = from->outputs[i];
        constants[i] = from->values[value].content;
        if (out[i] >= 0 && !constants[i] && g->map[value] < 0) g->map[value] = out[i];
    }
    for (int i = 0; i < from->n_nodes; i++)
        if (!put(g, &from->nodes[i])) return false;
    for (int i = 0; i < n_out; i++) {
        const int value = from->outputs[i];
        if (out[i] < 0 || constants[i] || g->map[value] == out[i]) continue;
        if (!put_identity(g, g->map[value], out[i])) return false;
    }
    return true;
}

tw_status tw_graph_graft(tw_graph *to, tw_graph *from, const int *in, const void *const *lent, const int *out,
                         int n_out, const tw_array **constants, tw_diag *diag) {
    grafter g = {.to = to, .from = from, .map = malloc(((size_t)from->n_values + 1) * sizeof *g.map)};
    bool good = g.map != NULL;
    if (good) {
        map_inputs(&g, in, lent);
        good = graft(&g, out, n_out, constants);
    }
    while (from->n_blocks && good) good = tw_graph_own(to, from->blocks[--from->n_blocks]);
    free(g.map);
    return good && !to->arena.failed ? TW_OK : tw_fail_memory(diag);
}
