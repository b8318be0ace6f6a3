/* SPDX-License-Identifier: Apache-2.0 */
/* Models and their graphs: ModelProto, GraphProto, ValueInfoProto. */
#include "base/grow.h"
#include "graph/onnx/importer.h"
#include "graph/onnx/onnx.h"
#include "graph/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7, MODEL_SETS = 8, MODEL_FUNCTIONS = 25 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_CONSTANT = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_SPARSE = 15 };
enum { FUNCTION_NAME = 1, FUNCTION_SETS = 9, FUNCTION_DOMAIN = 10, FUNCTION_OVERLOAD = 13 };

size_t tw_onnx_fields(const tw_wire_field *f, uint32_t number) {
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    size_t n = 0;
    while (tw_wire_next(&w, &x)) n += x.number == number && x.kind == TW_WIRE_BYTES;
    return n;
}

const char *tw_onnx_plain_domain(const char *domain) {
    return !strcmp(domain, "ai.onnx") ? "" : domain;
}

/* ---- inputs and outputs */

/* Reads a TensorProto's type: element type and dimensions. */
static tw_status read_tensor_type(tw_onnx_importer *m, const tw_wire_field *f, tw_value *v) {
    enum { SYMBOLS = 4096 };
    tw_onnx_reader *r = &m->reader;
    tw_wire w = tw_wire_of(f);
    tw_wire_field x, d, e;
    while (tw_wire_next(&w, &x)) {
        if (x.number == 1 && x.kind == TW_WIRE_VARINT && !tw_element_from_onnx((int64_t)x.value, &v->type))
            return TW_ONNX_FAIL(r, f->data, "\"%s\" has elements of type %" PRIu64 ", which the format does not have",
                                v->name, x.value);
        if (x.number != 2 || x.kind != TW_WIRE_BYTES) continue;
        v->rank = 0;
        tw_wire shape = tw_wire_of(&x);
        while (tw_wire_next(&shape, &d)) {
            if (d.number != 1 || d.kind != TW_WIRE_BYTES) continue;
            if (v->rank == TW_ARRAY_RANK)
                return tw_fail_at(r->diag, TW_ERR_UNSUPPORTED, r->path, f->data - r->begin,
                                  "\"%s\" has more than %d dimensions", v->name, TW_ARRAY_RANK);
            tw_dim *out = &v->dims[v->rank++];
            *out = TW_DIM_UNKNOWN;
            tw_wire dim = tw_wire_of(&d);
            while (tw_wire_next(&dim, &e)) {
                if (e.number == 1 && e.kind == TW_WIRE_VARINT) *out = (int64_t)e.value;
                if (e.number == 1 && e.kind == TW_WIRE_VARINT && (int64_t)e.value < 0) *out = TW_DIM_UNKNOWN;
                if (e.number == 2 && e.kind == TW_WIRE_BYTES && e.size) {
                    const char *name = tw_onnx_text(r, &e);
                    const int symbol = name ? tw_graph_symbol(m->scope->graph, name) : -1;
                    if (symbol < 0) return tw_fail_memory(r->diag);
                    if (symbol == SYMBOLS) /* They are looked for one after another. */
                        return tw_fail_at(r->diag, TW_ERR_UNSUPPORTED, r->path, f->data - r->begin,
                                          "dimensions have more than %d names", SYMBOLS);
                    *out = tw_dim_of_symbol(symbol);
                }
            }
            const tw_status st = tw_onnx_check(r, &dim);
            if (st != TW_OK) return st;
        }
        const tw_status st = tw_onnx_check(r, &shape);
        if (st != TW_OK) return st;
    }
    return tw_onnx_check(r, &w);
}

/* Reads a ValueInfoProto. */
static tw_status read_info(tw_onnx_importer *m, const tw_wire_field *f, tw_value *out) {
    tw_onnx_reader *r = &m->reader;
    *out = (tw_value){.name = "", .rank = TW_RANK_UNKNOWN, .producer = -1};
    tw_wire w = tw_wire_of(f);
    tw_wire_field x, t;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES) continue;
        if (x.number == 1 && !(out->name = tw_onnx_text(r, &x))) return tw_fail_memory(r->diag);
        if (x.number != 2) continue;
        tw_wire type = tw_wire_of(&x);
        while (st == TW_OK && tw_wire_next(&type, &t)) {
            static const char *const kinds[] = {"", "", "", "", "a sequence", "a map", "", "", "sparse", "optional"};
            if (t.kind != TW_WIRE_BYTES) continue;
            if (t.number == 1) st = read_tensor_type(m, &t, out);
            if (t.number > 1 && t.number < sizeof kinds / sizeof *kinds && *kinds[t.number])
                st = tw_fail_at(r->diag, TW_ERR_UNSUPPORTED, r->path, f->data - r->begin,
                                "\"%s\" is %s, and only tensors are supported", out->name, kinds[t.number]);
        }
        if (st == TW_OK) st = tw_onnx_check(r, &type);
    }
    return st == TW_OK ? tw_onnx_check(r, &w) : st;
}

/* Old files list their constants among the inputs. */
static tw_status check_constant(tw_onnx_importer *m, const tw_wire_field *f, const tw_value *v, const tw_array *a) {
    bool fits = v->type == TW_E_none || v->type == a->type;
    fits &= v->rank < 0 || v->rank == a->rank;
    for (int d = 0; d < v->rank && fits; d++) fits = v->dims[d] < 0 || v->dims[d] == a->dims[d];
    if (fits) return TW_OK;
    char is[128], said[256];
    tw_array_describe(a, is, sizeof is);
    tw_value_describe(m->scope->graph, v, said, sizeof said);
    return TW_ONNX_FAIL(&m->reader, f->data, "tensor \"%s\" is %s, and as an input %s", v->name, is, said);
}

static tw_status add_input(tw_onnx_importer *m, const tw_wire_field *f) {
    tw_graph *g = m->scope->graph;
    tw_value v;
    const tw_status st = read_info(m, f, &v);
    if (st != TW_OK) return st;
    const int known = tw_names_find(&m->scope->names, v.name);
    if (known >= 0 && g->values[known].content) return check_constant(m, f, &v, g->values[known].content);
    if (!*v.name) return TW_ONNX_FAIL(&m->reader, f->data, "an input has no name");
    if (known >= 0) return TW_ONNX_FAIL(&m->reader, f->data, "two inputs are called \"%s\"", v.name);
    const int i = tw_onnx_add(m, v.name);
    if (i < 0) return tw_fail_memory(m->reader.diag);
    g->values[i] = v;
    g->inputs[g->n_inputs++] = i;
    return TW_OK;
}

static tw_status add_output(tw_onnx_importer *m, const tw_wire_field *f) {
    tw_graph *g = m->scope->graph;
    tw_value v;
    bool found;
    const tw_status st = read_info(m, f, &v);
    if (st != TW_OK) return st;
    const int i = tw_onnx_find(m, m->scope, v.name, &found);
    if (m->reader.arena->failed) return tw_fail_memory(m->reader.diag);
    if (i < 0) return TW_ONNX_FAIL(&m->reader, f->data, "nothing computes the output \"%s\"", v.name);
    g->values[i].said = v.type;
    g->outputs[g->n_outputs++] = i;
    return TW_OK;
}

static tw_status add_constant(tw_onnx_importer *m, const tw_wire_field *f) {
    const char *name;
    tw_array a;
    const tw_status st = tw_onnx_tensor(&m->reader, f, &name, &a);
    if (st != TW_OK) return st;
    if (tw_names_find(&m->scope->names, name) >= 0)
        return TW_ONNX_FAIL(&m->reader, f->data, "two tensors are called \"%s\"", name);
    const int i = tw_onnx_add(m, name);
    if (i >= 0) tw_graph_set_content(m->scope->graph, i, &a);
    return i < 0 || m->scope->graph->arena.failed ? tw_fail_memory(m->reader.diag) : TW_OK;
}

/* ---- the graph and the model */

typedef tw_status add_field(tw_onnx_importer *m, const tw_wire_field *f);

static tw_status each(tw_onnx_importer *m, const tw_wire_field *graph, uint32_t number, add_field *add) {
    tw_wire w = tw_wire_of(graph);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x))
        if (x.number == number && x.kind == TW_WIRE_BYTES) st = add(m, &x);
    return st == TW_OK ? tw_onnx_check(&m->reader, &w) : st;
}

static tw_status set_name(tw_onnx_importer *m, const tw_wire_field *f) {
    m->scope->graph->name = tw_onnx_text(&m->reader, f);
    return m->scope->graph->name ? TW_OK : tw_fail_memory(m->reader.diag);
}

static tw_status refuse_sparse(tw_onnx_importer *m, const tw_wire_field *f) {
    return tw_fail_at(m->reader.diag, TW_ERR_UNSUPPORTED, m->reader.path, f->data - m->reader.begin,
                      "the model has sparse constants");
}

static tw_status read_graph(tw_onnx_importer *m, const tw_wire_field *f) {
    tw_graph *g = m->scope->graph;
    enum { MOST = 1 << 20 };
    const size_t inputs = tw_onnx_fields(f, GRAPH_INPUT), outputs = tw_onnx_fields(f, GRAPH_OUTPUT);
    if (inputs > MOST || outputs > MOST)
        return TW_ONNX_FAIL(&m->reader, f->data, "the graph has more than %d inputs or outputs", MOST);
    g->inputs = tw_arena_array(m->reader.arena, inputs + 1, sizeof(int));
    g->outputs = tw_arena_array(m->reader.arena, outputs + 1, sizeof(int));
    if (m->reader.arena->failed) return tw_fail_memory(m->reader.diag);
    tw_status st = each(m, f, GRAPH_NAME, set_name);
    if (st == TW_OK) st = each(m, f, GRAPH_SPARSE, refuse_sparse);
    if (st == TW_OK) st = each(m, f, GRAPH_CONSTANT, add_constant);
    if (st == TW_OK) st = each(m, f, GRAPH_INPUT, add_input);
    if (st == TW_OK) st = each(m, f, GRAPH_NODE, tw_onnx_read_node);
    return st == TW_OK ? each(m, f, GRAPH_OUTPUT, add_output) : st;
}

tw_status tw_onnx_read_graph(tw_onnx_importer *m, const tw_wire_field *f, tw_onnx_scope *scope) {
    tw_onnx_scope *around = m->scope;
    if (m->depth == TW_ONNX_DEEPEST)
        return TW_ONNX_FAIL(&m->reader, f->data, "graphs are nested deeper than %d", TW_ONNX_DEEPEST);
    m->scope = scope;
    m->depth++;
    const tw_status st = read_graph(m, f);
    m->depth--;
    m->scope = around;
    return st;
}

tw_status tw_onnx_read_set(tw_onnx_importer *m, const tw_wire_field *f, tw_onnx_sets *sets) {
    enum { MOST = sizeof sets->list / sizeof *sets->list, KNOWN = 27 };
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_onnx_set s = {.domain = ""};
    while (tw_wire_next(&w, &x)) {
        if (x.number == 1 && x.kind == TW_WIRE_BYTES && !(s.domain = tw_onnx_text(&m->reader, &x)))
            return tw_fail_memory(m->reader.diag);
        if (x.number == 2 && x.kind == TW_WIRE_VARINT) s.version = (int64_t)x.value;
    }
    s.domain = tw_onnx_plain_domain(s.domain);
    if (s.version < 0 || s.version > 1000)
        return TW_ONNX_FAIL(&m->reader, f->data, "a set of operators has no version");
    if (!*s.domain && s.version > KNOWN)
        return tw_fail_at(m->reader.diag, TW_ERR_UNSUPPORTED, m->reader.path, f->data - m->reader.begin,
                          "operators are of set %" PRId64 ", and sets up to %d are known", s.version, KNOWN);
    if (sets->n == MOST) return TW_ONNX_FAIL(&m->reader, f->data, "more than %d sets of operators", MOST);
    sets->list[sets->n++] = s;
    return tw_onnx_check(&m->reader, &w);
}

static tw_status add_set(tw_onnx_importer *m, const tw_wire_field *f) {
    return tw_onnx_read_set(m, f, &m->sets);
}

static tw_status add_function(tw_onnx_importer *m, const tw_wire_field *f) {
    enum { MOST = 4096 }; /* They are looked for one after another. */
    tw_onnx_function *grown = tw_grow(m->functions, m->n_functions, &m->room_functions, 16, sizeof *grown);
    if (!grown) return tw_fail_memory(m->reader.diag);
    m->functions = grown;
    if (m->n_functions == MOST) return TW_ONNX_FAIL(&m->reader, f->data, "the model has more than %d functions", MOST);
    tw_onnx_function *new = &grown[m->n_functions++];
    *new = (tw_onnx_function){.name = "", .domain = "", .overload = "", .body = *f};
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES) continue;
        if (x.number == FUNCTION_NAME) new->name = tw_onnx_text(&m->reader, &x);
        if (x.number == FUNCTION_DOMAIN) new->domain = tw_onnx_text(&m->reader, &x);
        if (x.number == FUNCTION_OVERLOAD) new->overload = tw_onnx_text(&m->reader, &x);
        if (m->reader.arena->failed) return tw_fail_memory(m->reader.diag);
        if (x.number == FUNCTION_SETS) st = tw_onnx_read_set(m, &x, &new->sets);
    }
    new->domain = tw_onnx_plain_domain(new->domain);
    return st == TW_OK ? tw_onnx_check(&m->reader, &w) : st;
}

static tw_status read_model(tw_onnx_importer *m, const tw_wire_field *all) {
    tw_status st = each(m, all, MODEL_SETS, add_set);
    if (st == TW_OK) st = each(m, all, MODEL_FUNCTIONS, add_function);
    if (st != TW_OK) return st;
    if (tw_onnx_fields(all, MODEL_GRAPH) != 1)
        return TW_ONNX_FAIL(&m->reader, all->data, "the file has no graph of the ONNX format");
    return each(m, all, MODEL_GRAPH, read_graph);
}

static tw_status read_into(tw_graph *g, const void *data, size_t size, const char *path, tw_diag *diag) {
    tw_onnx_importer m = {.reader = {.graph = g, .arena = &g->arena, .begin = data, .path = path, .diag = diag}};
    tw_onnx_scope scope = {.graph = g, .sets = &m.sets};
    const tw_wire_field all = {.data = data, .size = size};
    m.scope = &scope;
    const tw_status st = read_model(&m, &all);
    tw_names_free(&scope.names);
    free(m.functions);
    free(m.reader.external);
    return st;
}

tw_status tw_onnx_read(tw_graph **out, const void *data, size_t size, const char *path, tw_diag *diag) {
    tw_graph *g = tw_graph_new();
    *out = NULL;
    if (!g) return tw_fail_memory(diag);
    const tw_status st = read_into(g, data, size, path, diag);
    if (st == TW_OK)
        *out = g;
    else
        tw_graph_free(g);
    return st;
}

tw_status tw_onnx_open(tw_graph **out, const char *path, tw_diag *diag) {
    tw_graph *g = tw_graph_new();
    tw_map map = {0};
    *out = NULL;
    if (!g) return tw_fail_memory(diag);
    tw_status st = tw_graph_map(g, path, &map, diag);
    if (st == TW_OK) st = read_into(g, map.data, map.size, path, diag);
    if (st == TW_OK)
        *out = g;
    else
        tw_graph_free(g);
    return st;
}
