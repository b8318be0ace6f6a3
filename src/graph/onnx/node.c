/* SPDX-License-Identifier: Apache-2.0 */
/* NodeProto and FunctionProto. Nodes that stand for a function of the model become the function's nodes. */
#include "base/grow.h"
#include "graph/onnx/importer.h"

#include <stdlib.h>
#include <string.h>

enum {
    NODE_INPUT = 1,
    NODE_OUTPUT = 2,
    NODE_NAME = 3,
    NODE_OP = 4,
    NODE_ATTRIBUTE = 5,
    NODE_DOMAIN = 7,
    NODE_OVERLOAD = 8
};
enum { FUNCTION_INPUT = 4, FUNCTION_OUTPUT = 5, FUNCTION_NODE = 7, FUNCTION_DEFAULT = 11 };
enum { LEFT_OUT = -2 };

/* ---- values */

/* Makes a value of the graph around one of this graph's inputs. -1: out of memory, and the reader's arena has failed.
 */
static int capture(tw_onnx_importer *m, tw_onnx_scope *scope, const char *name, int outer) {
    tw_graph *g = scope->graph;
    const int value = tw_graph_add_value(g, name);
    int *inputs = tw_arena_array(m->reader.arena, (size_t)g->n_inputs + 2, sizeof *inputs);
    int *grown = inputs ? tw_grow(scope->captured, scope->n_captured, &scope->room, 8, sizeof *grown) : NULL;
    if (grown) scope->captured = grown;
    if (value < 0 || !grown || !tw_names_add(&scope->names, name, value)) {
        m->reader.arena->failed = true;
        return -1;
    }
    if (g->n_inputs) memcpy(inputs, g->inputs, (size_t)g->n_inputs * sizeof *inputs);
    g->inputs = inputs;
    g->inputs[g->n_inputs++] = value;
    scope->captured[scope->n_captured++] = outer;
    return value;
}

int tw_onnx_find(tw_onnx_importer *m, tw_onnx_scope *scope, const char *name, bool *found) {
    const int value = tw_names_find(&scope->names, name);
    *found = value != -1;
    if (*found || !scope->outer) return value == LEFT_OUT ? -1 : value;
    const int outer = tw_onnx_find(m, scope->outer, name, found);
    return outer < 0 ? -1 : capture(m, scope, name, outer);
}

int tw_onnx_add(tw_onnx_importer *m, const char *name) {
    tw_onnx_scope *s = m->scope;
    const char *own = name;
    /* Names of a function's values are its own, wherever it stands. */
    if (s->function) own = tw_arena_printf(m->reader.arena, "%s~%d", name, s->graph->made++);
    const int value = own ? tw_graph_add_value(s->graph, own) : -1;
    return value >= 0 && tw_names_add(&s->names, name, value) ? value : -1;
}

/* Finds a node's operand. */
static tw_status find_operand(tw_onnx_importer *m, const tw_wire_field *f, const tw_node *n, int *out) {
    tw_onnx_reader *r = &m->reader;
    const char *name = tw_onnx_text(r, f);
    char node[160];
    bool found;
    *out = -1;
    if (!name) return tw_fail_memory(r->diag);
    if (!*name) return TW_OK;
    *out = tw_onnx_find(m, m->scope, name, &found);
    if (r->arena->failed) return tw_fail_memory(r->diag);
    if (found) return TW_OK;
    tw_node_describe(n, node, sizeof node);
    return TW_ONNX_FAIL(r, f->data, "%s needs \"%s\", which nothing before it computes", node, name);
}

static tw_status add_result(tw_onnx_importer *m, const tw_wire_field *f, const tw_node *n, int *out) {
    tw_onnx_reader *r = &m->reader;
    const char *name = tw_onnx_text(r, f);
    char node[160];
    *out = -1;
    if (!name) return tw_fail_memory(r->diag);
    if (!*name) return TW_OK;
    tw_node_describe(n, node, sizeof node);
    if (tw_names_find(&m->scope->names, name) != -1)
        return TW_ONNX_FAIL(r, f->data, "%s computes \"%s\", which there is already", node, name);
    *out = tw_onnx_add(m, name);
    return *out < 0 ? tw_fail_memory(r->diag) : TW_OK;
}

/* ---- nodes */

static int64_t version_of(const tw_onnx_importer *m, const char *domain) {
    const tw_onnx_sets *sets = m->scope->sets;
    for (int i = 0; i < sets->n; i++)
        if (!strcmp(sets->list[i].domain, domain)) return sets->list[i].version;
    return 0;
}

static tw_status put(tw_onnx_importer *m, const tw_node *n) {
    tw_graph *g = m->scope->graph;
    const int number = tw_graph_add_node(g, n);
    for (int i = 0; i < n->n_out && number >= 0; i++)
        if (n->out[i] >= 0) g->values[n->out[i]].producer = number;
    return number < 0 ? tw_fail_memory(m->reader.diag) : TW_OK;
}

/* Reads a node's names, before its operands are looked for. */
static tw_status read_names(tw_onnx_importer *m, const tw_wire_field *f, tw_node *n, const char **overload) {
    tw_onnx_reader *r = &m->reader;
    tw_wire_field x;
    for (tw_wire w = tw_wire_of(f); tw_wire_next(&w, &x);) {
        if (x.kind != TW_WIRE_BYTES) continue;
        if (x.number == NODE_OP) n->op = tw_onnx_text(r, &x);
        if (x.number == NODE_NAME) n->name = tw_onnx_text(r, &x);
        if (x.number == NODE_DOMAIN) n->domain = tw_onnx_text(r, &x);
        if (x.number == NODE_OVERLOAD) *overload = tw_onnx_text(r, &x);
        if (r->arena->failed) return tw_fail_memory(r->diag);
    }
    n->domain = tw_onnx_plain_domain(n->domain);
    n->version = (int)version_of(m, n->domain);
    return TW_OK;
}

/* Reads a graph of an If, whose values from around become operands. */
static tw_status read_branch(tw_onnx_importer *m, const tw_wire_field *f, tw_node *n, tw_attribute *a) {
    tw_onnx_scope scope = {.outer = m->scope, .sets = m->scope->sets, .call = m->scope->call, .graph = tw_graph_new()};
    a->graph = scope.graph;
    if (!a->graph) return tw_fail_memory(m->reader.diag);
    tw_status st = tw_onnx_read_graph(m, f, &scope);
    int *in = tw_arena_array(m->reader.arena, (size_t)(n->n_in + scope.n_captured) + 1, sizeof *in);
    if (st == TW_OK && !in) st = tw_fail_memory(m->reader.diag);
    if (st == TW_OK && scope.graph->n_inputs != scope.n_captured)
        st = TW_ONNX_FAIL(&m->reader, f->data, "a branch has inputs of its own");
    if (st == TW_OK) {
        if (n->n_in) memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
        if (scope.n_captured) memcpy(in + n->n_in, scope.captured, (size_t)scope.n_captured * sizeof *in);
        n->in = in;
        n->n_in += scope.n_captured;
    }
    free(scope.captured);
    tw_names_free(&scope.names);
    return st;
}

static tw_status read_operands(tw_onnx_importer *m, const tw_wire_field *f, tw_node *n) {
    enum { OF_ATTENTION = 7 /* An eighth operand, sinks, is what graphs have beyond the standard. */ };
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x))
        if (x.kind == TW_WIRE_BYTES && x.number == NODE_INPUT) st = find_operand(m, &x, n, &n->in[n->n_in++]);
    if (st == TW_OK && n->n_in > OF_ATTENTION && !*n->domain && !strcmp(n->op, "Attention"))
        return TW_ONNX_FAIL(&m->reader, f->data, "%s (Attention) has more than %d operands", n->name, OF_ATTENTION);
    return st == TW_OK ? tw_onnx_check(&m->reader, &w) : st;
}

static tw_status read_attributes(tw_onnx_importer *m, const tw_wire_field *f, tw_node *n) {
    const bool branches = !*n->domain && !strcmp(n->op, "If");
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES || x.number != NODE_ATTRIBUTE) continue;
        tw_wire_field graph = {0};
        tw_attribute *a = &n->attributes[n->n_attributes];
        st = tw_onnx_read_attribute(m, &x, a, &graph);
        n->n_attributes += a->name != NULL;
        if (st == TW_OK && branches && graph.data) st = read_branch(m, &graph, n, a);
    }
    return st;
}

static void free_branches(const tw_node *n) {
    for (int i = 0; i < n->n_attributes; i++) tw_graph_free(n->attributes[i].graph);
}

/* ---- functions */

static const tw_onnx_function *function_of(const tw_onnx_importer *m, const tw_node *n, const char *overload) {
    for (int i = 0; i < m->n_functions; i++) {
        const tw_onnx_function *f = &m->functions[i];
        if (!strcmp(f->name, n->op) && !strcmp(f->domain, n->domain) && !strcmp(f->overload, overload)) return f;
    }
    return NULL;
}

/* Adds attributes that a function has, and its node leaves out. */
static tw_status add_defaults(tw_onnx_importer *m, const tw_onnx_function *f, tw_node *call) {
    tw_attribute *all = tw_arena_array(
        m->reader.arena, (size_t)call->n_attributes + tw_onnx_fields(&f->body, FUNCTION_DEFAULT) + 1, sizeof *all);
    if (!all) return tw_fail_memory(m->reader.diag);
    if (call->n_attributes) memcpy(all, call->attributes, (size_t)call->n_attributes * sizeof *all);
    call->attributes = all;
    tw_wire w = tw_wire_of(&f->body);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES || x.number != FUNCTION_DEFAULT) continue;
        tw_wire_field graph = {0};
        tw_attribute *a = &all[call->n_attributes];
        st = tw_onnx_read_attribute(m, &x, a, &graph);
        if (st == TW_OK && a->name && !tw_node_attribute(call, a->name)) call->n_attributes++;
    }
    return st;
}

/* Gives names of a function's operands to those of its node. */
static tw_status name_operands(tw_onnx_importer *m, const tw_onnx_function *f, const tw_node *call,
                               tw_onnx_scope *scope) {
    tw_wire w = tw_wire_of(&f->body);
    tw_wire_field x;
    int i = 0;
    while (tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES || x.number != FUNCTION_INPUT) continue;
        const char *name = tw_onnx_text(&m->reader, &x);
        const int value = i < call->n_in && call->in[i] >= 0 ? call->in[i] : LEFT_OUT;
        i++;
        if (!name) return tw_fail_memory(m->reader.diag);
        if (tw_names_find(&scope->names, name) != -1)
            return TW_ONNX_FAIL(&m->reader, x.data, "two operands of the function %s are called \"%s\"", f->name, name);
        if (!tw_names_add(&scope->names, name, value)) return tw_fail_memory(m->reader.diag);
    }
    if (call->n_in <= i) return TW_OK;
    return TW_ONNX_FAIL(&m->reader, f->body.data, "the function %s has %d operands, and a node has %d", f->name, i,
                        call->n_in);
}

/* Makes the results of a function's node from those of its nodes. */
static tw_status name_results(tw_onnx_importer *m, const tw_onnx_function *f, const tw_wire_field *node,
                              const tw_node *call, tw_onnx_scope *inner) {
    tw_wire results = tw_wire_of(node), w = tw_wire_of(&f->body);
    tw_wire_field x, y;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES || x.number != FUNCTION_OUTPUT) continue;
        const char *name = tw_onnx_text(&m->reader, &x);
        int *in = tw_arena_array(m->reader.arena, 2, sizeof *in), *out = in ? in + 1 : NULL;
        bool found, more = tw_wire_next(&results, &y);
        while (more && (y.kind != TW_WIRE_BYTES || y.number != NODE_OUTPUT)) more = tw_wire_next(&results, &y);
        if (!more) break;
        if (!name || !in) return tw_fail_memory(m->reader.diag);
        *in = tw_onnx_find(m, inner, name, &found);
        if (*in < 0)
            return TW_ONNX_FAIL(&m->reader, x.data, "nothing in the function %s computes \"%s\"", f->name, name);
        st = add_result(m, &y, call, out);
        const tw_node identity = {.op = "Identity",
                                  .domain = "",
                                  .name = call->name,
                                  .version = (int)version_of(m, "") > 0 ? (int)version_of(m, "") : 13,
                                  .in = in,
                                  .out = out,
                                  .n_in = 1,
                                  .n_out = 1};
        if (st == TW_OK && *out >= 0) st = put(m, &identity);
    }
    return st;
}

/* Puts a function's nodes in the place of one. */
static tw_status put_function(tw_onnx_importer *m, const tw_onnx_function *f, const tw_wire_field *node,
                              tw_node *call) {
    tw_onnx_scope *around = m->scope, inner = {.graph = around->graph, .function = f, .call = call, .sets = &f->sets};
    if (m->depth == TW_ONNX_DEEPEST)
        return TW_ONNX_FAIL(&m->reader, node->data, "functions are nested deeper than %d", TW_ONNX_DEEPEST);
    tw_status st = add_defaults(m, f, call);
    if (st == TW_OK) st = name_operands(m, f, call, &inner);
    tw_wire w = tw_wire_of(&f->body);
    tw_wire_field x;
    m->scope = &inner;
    m->depth++;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (around->graph->n_nodes > TW_ONNX_MOST_NODES)
            st = TW_ONNX_FAIL(&m->reader, node->data, "functions stand for more than %d nodes", TW_ONNX_MOST_NODES);
        else if (x.kind == TW_WIRE_BYTES && x.number == FUNCTION_NODE)
            st = tw_onnx_read_node(m, &x);
    }
    m->depth--;
    m->scope = around;
    if (st == TW_OK) st = name_results(m, f, node, call, &inner);
    tw_names_free(&inner.names);
    return st;
}

/* Reads a node's results, and puts it, or what it stands for. */
static tw_status finish(tw_onnx_importer *m, const tw_wire_field *f, tw_node *n, const char *overload) {
    const tw_onnx_function *function = function_of(m, n, overload);
    if (function) {
        const tw_status put = put_function(m, function, f, n);
        free_branches(n);
        n->n_attributes = 0;
        return put;
    }
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x))
        if (x.kind == TW_WIRE_BYTES && x.number == NODE_OUTPUT) st = add_result(m, &x, n, &n->out[n->n_out++]);
    return st == TW_OK ? put(m, n) : st;
}

tw_status tw_onnx_read_node(tw_onnx_importer *m, const tw_wire_field *f) {
    tw_onnx_reader *r = &m->reader;
    tw_node n = {.op = "", .domain = "", .name = ""};
    enum { MOST = 1 << 20 };
    const size_t attributes = tw_onnx_fields(f, NODE_ATTRIBUTE), in = tw_onnx_fields(f, NODE_INPUT),
                 out = tw_onnx_fields(f, NODE_OUTPUT);
    const char *overload = "";
    if (attributes > MOST || in > MOST || out > MOST)
        return TW_ONNX_FAIL(r, f->data, "a node has more than %d operands, results or attributes", MOST);
    n.in = tw_arena_array(r->arena, in + 1, sizeof *n.in);
    n.out = tw_arena_array(r->arena, out + 1, sizeof *n.out);
    n.attributes = tw_arena_array(r->arena, attributes + 1, sizeof *n.attributes);
    if (r->arena->failed) return tw_fail_memory(r->diag);
    tw_status st = read_names(m, f, &n, &overload);
    if (st == TW_OK) st = read_operands(m, f, &n);
    if (st == TW_OK) st = read_attributes(m, f, &n);
    if (st == TW_OK) st = finish(m, f, &n, overload);
    if (st != TW_OK) free_branches(&n);
    return st;
}
