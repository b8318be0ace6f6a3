/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct printer {
    const tw_graph *g;
    tw_buf *out;
    bool whole; /* Contents of any length. */
    int set;    /* The version of nodes whose version is not shown. */
} printer;

static void print_text(tw_buf *out, const char *s) {
    tw_buf_str(out, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            tw_buf_printf(out, "\\%c", c);
        else if (c < ' ')
            tw_buf_printf(out, "\\%02x", c);
        else
            tw_buf_add(out, s, 1);
    }
    tw_buf_str(out, "\"");
}

/* Prints a name, in quotes if it has characters of the grammar. */
static void print_name(tw_buf *out, const char *name) {
    bool bare = *name != 0 && strcmp(name, "?") != 0;
    for (const char *c = name; *c; c++) bare &= tw_graph_is_bare(*c);
    if (bare)
        tw_buf_str(out, name);
    else
        print_text(out, name);
}

static void print_value(const printer *p, int value) {
    tw_buf_str(p->out, value < 0 ? "_" : "%");
    if (value >= 0) print_name(p->out, p->g->values[value].name);
}

static void print_dims(const printer *p, int rank, const tw_dim *dims) {
    tw_buf_str(p->out, "[");
    for (int i = 0; i < rank; i++) {
        if (i) tw_buf_str(p->out, ", ");
        if (dims[i] >= 0)
            tw_buf_printf(p->out, "%" PRId64, dims[i]);
        else if (dims[i] == TW_DIM_UNKNOWN)
            tw_buf_str(p->out, "?");
        else
            print_name(p->out, p->g->symbols[tw_dim_symbol(dims[i])]);
    }
    tw_buf_str(p->out, "]");
}

static void print_type(const printer *p, const tw_value *v) {
    if (v->type == TW_E_none && v->rank < 0) return;
    tw_buf_printf(p->out, ": %s", v->type == TW_E_none ? "?" : tw_element_name(v->type));
    if (v->rank >= 0) print_dims(p, v->rank, v->dims);
}

void tw_value_describe(const tw_graph *g, const tw_value *v, char *out, size_t size) {
    tw_buf text = {0};
    const printer p = {.g = g, .out = &text};
    print_type(&p, v);
    snprintf(out, size, "%s", text.size > 2 ? text.data + 2 : "of any type");
    tw_buf_free(&text);
}

/* Prints a real so that it is read as one, and as the same. */
static void print_real(tw_buf *out, double x, bool single) {
    char s[40];
    snprintf(s, sizeof s, single ? "%.9g" : "%.17g", x);
    tw_buf_str(out, s);
    if (isfinite(x) && !strpbrk(s, ".e")) tw_buf_str(out, ".0");
}

/* Prints the elements of an array, unless there are many. */
static void print_content(const printer *p, const tw_array *a) {
    enum { MOST = 8 };
    const int64_t n = tw_array_elements(a);
    if (tw_element_kind(a->type) == TW_KIND_other || (n > MOST && !p->whole) || n < 0) {
        tw_buf_str(p->out, "...");
        return;
    }
    tw_buf_str(p->out, "{");
    for (int64_t i = 0; i < n; i++) {
        if (i) tw_buf_str(p->out, ", ");
        if (tw_element_kind(a->type) == TW_KIND_real)
            print_real(p->out, tw_array_real(a, i), a->type != TW_E_f64);
        else if (a->type == TW_E_u64)
            tw_buf_printf(p->out, "%" PRIu64, (uint64_t)tw_array_integer(a, i));
        else
            tw_buf_printf(p->out, "%" PRId64, tw_array_integer(a, i));
    }
    tw_buf_str(p->out, "}");
}

/* Lists of integers are shown without a type. */
static void print_array(const printer *p, const tw_array *a) {
    if (a->type != TW_E_i64 || a->rank != 1) {
        tw_buf_str(p->out, tw_element_name(a->type));
        print_dims(p, a->rank, a->dims);
    }
    print_content(p, a);
}

static void print_attribute(const printer *p, const tw_attribute *a) {
    tw_buf_str(p->out, " ");
    print_name(p->out, a->name);
    tw_buf_str(p->out, "=");
    switch (a->kind) {
    case TW_ATTRIBUTE_INT:
        tw_buf_printf(p->out, "%" PRId64, a->integer);
        return;
    case TW_ATTRIBUTE_REAL:
        print_real(p->out, a->real, (double)(float)a->real == a->real);
        return;
    case TW_ATTRIBUTE_TEXT:
        print_text(p->out, a->text);
        return;
    case TW_ATTRIBUTE_ARRAY:
        print_array(p, a->array);
        return;
    case TW_ATTRIBUTE_TEXTS:
        tw_buf_str(p->out, "(");
        for (int i = 0; i < a->n_texts; i++) {
            if (i) tw_buf_str(p->out, ", ");
            print_text(p->out, a->texts[i]);
        }
        tw_buf_str(p->out, ")");
        return;
    case TW_ATTRIBUTE_GRAPH:
        tw_buf_str(p->out, "(a graph)");
        return;
    }
}

static void print_node(const printer *p, const tw_node *n) {
    tw_buf_str(p->out, "  ");
    for (int i = 0; i < n->n_out; i++) {
        if (i) tw_buf_str(p->out, ", ");
        print_value(p, n->out[i]);
        if (n->out[i] >= 0) print_type(p, &p->g->values[n->out[i]]);
    }
    tw_buf_str(p->out, " = ");
    if (*n->domain) {
        print_name(p->out, n->domain);
        tw_buf_str(p->out, "::");
    }
    print_name(p->out, n->op);
    if (n->version != (*n->domain ? 1 : p->set)) tw_buf_printf(p->out, "@%d", n->version);
    tw_buf_str(p->out, "(");
    for (int i = 0; i < n->n_in; i++) {
        if (i) tw_buf_str(p->out, ", ");
        print_value(p, n->in[i]);
    }
    tw_buf_str(p->out, ")");
    for (int i = 0; i < n->n_attributes; i++) print_attribute(p, &n->attributes[i]);
    if (*n->name) {
        tw_buf_str(p->out, " ");
        print_text(p->out, n->name);
    }
    tw_buf_str(p->out, "\n");
}

static void print(const printer *p) {
    const tw_graph *g = p->g;
    tw_buf_str(p->out, "graph ");
    print_name(p->out, g->name ? g->name : "");
    tw_buf_printf(p->out, " @%d\n", p->set);
    for (int i = 0; i < g->n_inputs; i++) {
        tw_buf_str(p->out, "  input ");
        print_value(p, g->inputs[i]);
        print_type(p, &g->values[g->inputs[i]]);
        tw_buf_str(p->out, "\n");
    }
    for (int i = 0; i < g->n_values; i++) {
        const tw_value *v = &g->values[i];
        if (!v->content) continue;
        tw_buf_str(p->out, "  constant ");
        print_value(p, i);
        print_type(p, v);
        tw_buf_str(p->out, " ");
        print_content(p, v->content);
        tw_buf_str(p->out, "\n");
    }
    for (int i = 0; i < g->n_nodes; i++) print_node(p, &g->nodes[i]);
    for (int i = 0; i < g->n_outputs; i++) {
        tw_buf_str(p->out, "  output ");
        print_value(p, g->outputs[i]);
        tw_buf_str(p->out, "\n");
    }
}

/* Returns the version of the graph's first node of the usual set. */
static int set_of(const tw_graph *g) {
    for (int i = 0; i < g->n_nodes; i++)
        if (!*g->nodes[i].domain) return g->nodes[i].version;
    return TW_GRAPH_SET;
}

void tw_graph_print(const tw_graph *g, tw_buf *out) {
    const printer p = {.g = g, .out = out, .set = set_of(g)};
    print(&p);
}

void tw_graph_print_whole(const tw_graph *g, tw_buf *out) {
    const printer p = {.g = g, .out = out, .whole = true, .set = set_of(g)};
    print(&p);
}
