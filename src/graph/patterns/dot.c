/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/patterns/fuse.h"

#include <inttypes.h>
#include <string.h>

/* Writes text within quotes. */
static void quoted(const char *text, tw_buf *out) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') tw_buf_str(out, "\\");
        tw_buf_add(out, text, 1);
    }
}

static void describe(const tw_graph *g, int value, tw_buf *out) {
    const tw_value *v = &g->values[value];
    tw_buf_str(out, tw_element_name(v->type));
    for (int i = 0; i < v->rank; i++) tw_buf_printf(out, "%s%" PRId64, i ? "x" : " ", v->dims[i]);
}

static void attributes(const tw_node *n, tw_buf *out) {
    for (int i = 0; i < n->n_attributes; i++) {
        const tw_attribute *a = &n->attributes[i];
        if (a->kind == TW_ATTRIBUTE_INT) tw_buf_printf(out, "\\n%s %" PRId64, a->name, a->integer);
        if (a->kind == TW_ATTRIBUTE_REAL) tw_buf_printf(out, "\\n%s %.6g", a->name, a->real);
        if (a->kind != TW_ATTRIBUTE_TEXT) continue;
        tw_buf_printf(out, "\\n%s ", a->name);
        quoted(a->text, out);
    }
}

static void edges(const tw_graph *g, int node, tw_buf *out) {
    const tw_node *n = &g->nodes[node];
    for (int j = 0; j < n->n_in; j++) {
        if (n->in[j] < 0 || g->values[n->in[j]].content) continue;
        const int from = g->values[n->in[j]].producer;
        if (from < 0)
            tw_buf_printf(out, "  v%d -> n%d", n->in[j], node);
        else
            tw_buf_printf(out, "  n%d -> n%d", from, node);
        tw_buf_str(out, " [label=\"");
        describe(g, n->in[j], out);
        tw_buf_str(out, "\"];\n");
    }
}

void tw_graph_dot(const tw_graph *g, tw_buf *out) {
    tw_buf_str(out, "digraph model {\n  node [shape=box, fontname=\"Helvetica\"];\n");
    for (int i = 0; i < g->n_inputs; i++) {
        tw_buf_printf(out, "  v%d [shape=ellipse, label=\"", g->inputs[i]);
        quoted(g->values[g->inputs[i]].name, out);
        tw_buf_str(out, "\"];\n");
    }
    for (int i = 0; i < g->n_nodes; i++) {
        tw_buf_printf(out, "  n%d [label=\"", i);
        quoted(g->nodes[i].op, out);
        attributes(&g->nodes[i], out);
        tw_buf_str(out, "\"];\n");
        edges(g, i, out);
    }
    for (int i = 0; i < g->n_outputs; i++) {
        const int value = g->outputs[i], from = g->values[value].producer;
        tw_buf_printf(out, "  o%d [shape=ellipse, label=\"", i);
        quoted(g->values[value].name, out);
        tw_buf_str(out, "\"];\n");
        if (from >= 0) tw_buf_printf(out, "  n%d -> o%d;\n", from, i);
    }
    tw_buf_str(out, "}\n");
}
