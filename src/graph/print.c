/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/graph.h"

#include <inttypes.h>

static void print_dims(const tw_graph *g, int rank, const tw_dim *dims, tw_buf *out) {
    tw_buf_str(out, "[");
    for (int i = 0; i < rank; i++) {
        if (i) tw_buf_str(out, ", ");
        if (dims[i] >= 0)
            tw_buf_printf(out, "%" PRId64, dims[i]);
        else
            tw_buf_str(out, dims[i] == TW_DIM_UNKNOWN ? "?" : g->symbols[tw_dim_symbol(dims[i])]);
    }
    tw_buf_str(out, "]");
}

static void print_type(const tw_graph *g, const tw_value *v, tw_buf *out) {
    if (v->type == TW_E_none && v->rank < 0) return;
    tw_buf_printf(out, ": %s", v->type == TW_E_none ? "?" : tw_element_name(v->type));
    if (v->rank >= 0) print_dims(g, v->rank, v->dims, out);
}

/* Prints up to so many elements of an array. */
static void print_content(const tw_array *a, tw_buf *out) {
    enum { MOST = 8 };
    const int64_t n = tw_array_elements(a);
    if (tw_element_kind(a->type) == TW_KIND_other || n > MOST || n < 0) {
        tw_buf_str(out, "...");
        return;
    }
    tw_buf_str(out, "{");
    for (int64_t i = 0; i < n; i++) {
        if (i) tw_buf_str(out, ", ");
        if (tw_element_kind(a->type) == TW_KIND_real)
            tw_buf_printf(out, "%.9g", tw_array_real(a, i));
        else
            tw_buf_printf(out, "%" PRId64, tw_array_integer(a, i));
    }
    tw_buf_str(out, "}");
}

static void print_attribute(const tw_attribute *a, tw_buf *out) {
    tw_buf_printf(out, " %s=", a->name);
    switch (a->kind) {
    case TW_ATTRIBUTE_INT:
        tw_buf_printf(out, "%" PRId64, a->integer);
        return;
    case TW_ATTRIBUTE_REAL:
        tw_buf_printf(out, "%.9g", a->real);
        return;
    case TW_ATTRIBUTE_TEXT:
        tw_buf_printf(out, "\"%s\"", a->text);
        return;
    case TW_ATTRIBUTE_ARRAY:
        print_content(a->array, out);
        return;
    case TW_ATTRIBUTE_TEXTS:
        tw_buf_printf(out, "(%d texts)", a->n_texts);
        return;
    case TW_ATTRIBUTE_GRAPH:
        tw_buf_str(out, "(a graph)");
        return;
    }
}

static void print_node(const tw_graph *g, const tw_node *n, tw_buf *out) {
    tw_buf_str(out, "  ");
    for (int i = 0; i < n->n_out; i++) {
        if (i) tw_buf_str(out, ", ");
        if (n->out[i] < 0) {
            tw_buf_str(out, "_");
            continue;
        }
        const tw_value *v = &g->values[n->out[i]];
        tw_buf_printf(out, "%%%s", v->name);
        print_type(g, v, out);
    }
    tw_buf_printf(out, " = %s%s%s(", n->domain, *n->domain ? "." : "", n->op);
    for (int i = 0; i < n->n_in; i++) {
        if (i) tw_buf_str(out, ", ");
        if (n->in[i] < 0)
            tw_buf_str(out, "_");
        else
            tw_buf_printf(out, "%%%s", g->values[n->in[i]].name);
    }
    tw_buf_str(out, ")");
    for (int i = 0; i < n->n_attributes; i++) print_attribute(&n->attributes[i], out);
    tw_buf_str(out, "\n");
}

void tw_graph_print(const tw_graph *g, tw_buf *out) {
    tw_buf_printf(out, "graph %s\n", g->name ? g->name : "");
    for (int i = 0; i < g->n_inputs; i++) {
        tw_buf_printf(out, "  input %%%s", g->values[g->inputs[i]].name);
        print_type(g, &g->values[g->inputs[i]], out);
        tw_buf_str(out, "\n");
    }
    for (int i = 0; i < g->n_values; i++) {
        const tw_value *v = &g->values[i];
        if (!v->content) continue;
        tw_buf_printf(out, "  constant %%%s", v->name);
        print_type(g, v, out);
        tw_buf_str(out, " ");
        print_content(v->content, out);
        tw_buf_str(out, "\n");
    }
    for (int i = 0; i < g->n_nodes; i++) print_node(g, &g->nodes[i], out);
    for (int i = 0; i < g->n_outputs; i++) tw_buf_printf(out, "  output %%%s\n", g->values[g->outputs[i]].name);
}
