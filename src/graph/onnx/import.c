/* SPDX-License-Identifier: Apache-2.0 */
/* Models and their graphs: ModelProto, GraphProto, NodeProto, AttributeProto, ValueInfoProto. */
#include "base/grow.h"
#include "graph/names.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/reader.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODEL_GRAPH = 7, MODEL_SETS = 8, MODEL_FUNCTIONS = 25 };
enum {
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_CONSTANT = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_INFO = 13,
    GRAPH_SPARSE = 15
};
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5, NODE_DOMAIN = 7 };
enum {
    ATTRIBUTE_NAME = 1,
    ATTRIBUTE_F = 2,
    ATTRIBUTE_I = 3,
    ATTRIBUTE_S = 4,
    ATTRIBUTE_T = 5,
    ATTRIBUTE_G = 6,
    ATTRIBUTE_FLOATS = 7,
    ATTRIBUTE_INTS = 8,
    ATTRIBUTE_STRINGS = 9,
    ATTRIBUTE_GRAPHS = 11,
    ATTRIBUTE_TYPE = 20
};

/* A set of operators that the model uses. */
typedef struct set {
    const char *domain;
    int64_t version;
} set;

typedef struct importer {
    tw_onnx_reader reader;
    tw_names names;
    set sets[16];
    int n_sets;
} importer;

/* Returns the value of a name. -1: there is none. */
static int find(const importer *m, const char *name) {
    return tw_names_find(&m->names, name);
}

/* Returns a new value. -1: out of memory. */
static int add_value(importer *m, const char *name) {
    const int value = tw_graph_add_value(m->reader.graph, name);
    return value >= 0 && tw_names_add(&m->names, value) ? value : -1;
}

/* ---- attributes */

/* Counts the numbers or texts of a repeated field of a message. */
static int64_t count(const tw_wire_field *f, uint32_t number, tw_wire_kind kind) {
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    int64_t n = 0;
    while (tw_wire_next(&w, &x)) {
        if (x.number != number) continue;
        tw_wire packed = tw_wire_of(&x);
        uint64_t unused;
        const bool many = x.kind == TW_WIRE_BYTES && kind != TW_WIRE_BYTES;
        if (!many) n++;
        while (many && tw_wire_number(&packed, kind, &unused)) n++;
    }
    return n;
}

/* Makes a list of numbers an array of one dimension. */
static tw_status read_numbers(importer *m, const tw_wire_field *f, uint32_t number, tw_attribute *out) {
    const bool reals = number == ATTRIBUTE_FLOATS;
    const tw_wire_kind kind = reals ? TW_WIRE_32 : TW_WIRE_VARINT;
    const size_t wide = reals ? 4 : 8;
    const int64_t n = count(f, number, kind);
    tw_array *array = tw_arena_alloc(m->reader.arena, sizeof *array);
    char *data = tw_arena_alloc(m->reader.arena, (size_t)n * wide + 1);
    if (!array || !data) return tw_fail_memory(m->reader.diag);
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    char *at = data;
    while (tw_wire_next(&w, &x)) {
        if (x.number != number) continue;
        tw_wire packed = tw_wire_of(&x);
        uint64_t value = x.value;
        while (x.kind == TW_WIRE_BYTES ? tw_wire_number(&packed, kind, &value) : true) {
            memcpy(at, &value, wide);
            at += wide;
            if (x.kind != TW_WIRE_BYTES) break;
        }
        const tw_status st = tw_onnx_check(&m->reader, &packed);
        if (st != TW_OK) return st;
    }
    *array = (tw_array){.type = reals ? TW_E_f32 : TW_E_i64, .rank = 1, .dims = {n}, .data = data};
    out->kind = TW_ATTRIBUTE_ARRAY;
    out->array = array;
    return TW_OK;
}

static tw_status read_texts(importer *m, const tw_wire_field *f, tw_attribute *out) {
    const int64_t n = count(f, ATTRIBUTE_STRINGS, TW_WIRE_BYTES);
    out->kind = TW_ATTRIBUTE_TEXTS;
    out->texts = tw_arena_array(m->reader.arena, (size_t)n + 1, sizeof *out->texts);
    if (!out->texts) return tw_fail_memory(m->reader.diag);
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    while (tw_wire_next(&w, &x)) {
        if (x.number != ATTRIBUTE_STRINGS || x.kind != TW_WIRE_BYTES) continue;
        if (!(out->texts[out->n_texts] = tw_onnx_text(&m->reader, &x))) return tw_fail_memory(m->reader.diag);
        out->n_texts++;
    }
    return TW_OK;
}

/* Kinds of AttributeProto.type. */
enum {
    KIND_FLOAT = 1,
    KIND_INT = 2,
    KIND_STRING = 3,
    KIND_TENSOR = 4,
    KIND_GRAPH = 5,
    KIND_FLOATS = 6,
    KIND_INTS = 7,
    KIND_STRINGS = 8
};

static tw_status read_attribute(importer *m, const tw_wire_field *f, tw_attribute *out) {
    tw_onnx_reader *r = &m->reader;
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_wire_field tensor = {0};
    uint64_t type = 0;
    int seen = 0; /* The kind by what there is, in files without a type. */
    out->name = "";
    out->text = "";
    while (tw_wire_next(&w, &x)) {
        const bool bytes = x.kind == TW_WIRE_BYTES;
        if (x.number == ATTRIBUTE_NAME && bytes && !(out->name = tw_onnx_text(r, &x))) return tw_fail_memory(r->diag);
        if (x.number == ATTRIBUTE_TYPE && !bytes) type = x.value;
        if (x.number == ATTRIBUTE_F && x.kind == TW_WIRE_32)
            out->real = (double)tw_wire_f32(x.value), seen = KIND_FLOAT;
        if (x.number == ATTRIBUTE_I && x.kind == TW_WIRE_VARINT) out->integer = (int64_t)x.value, seen = KIND_INT;
        if (x.number == ATTRIBUTE_S && bytes) {
            if (!(out->text = tw_onnx_text(r, &x))) return tw_fail_memory(r->diag);
            seen = KIND_STRING;
        }
        if (x.number == ATTRIBUTE_T && bytes) tensor = x, seen = KIND_TENSOR;
        if (x.number == ATTRIBUTE_G) seen = KIND_GRAPH;
        if (x.number == ATTRIBUTE_FLOATS) seen = KIND_FLOATS;
        if (x.number == ATTRIBUTE_INTS) seen = KIND_INTS;
        if (x.number == ATTRIBUTE_STRINGS) seen = KIND_STRINGS;
    }
    const tw_status st = tw_onnx_check(r, &w);
    if (st != TW_OK) return st;
    switch (type ? (int)(type < 64 ? type : 64) : seen) {
    case KIND_FLOAT:
        out->kind = TW_ATTRIBUTE_REAL;
        return TW_OK;
    case KIND_INT:
        out->kind = TW_ATTRIBUTE_INT;
        return TW_OK;
    case KIND_STRING:
        out->kind = TW_ATTRIBUTE_TEXT;
        return TW_OK;
    case KIND_FLOATS:
        return read_numbers(m, f, ATTRIBUTE_FLOATS, out);
    case KIND_INTS:
        return read_numbers(m, f, ATTRIBUTE_INTS, out);
    case KIND_STRINGS:
        return read_texts(m, f, out);
    case KIND_TENSOR: {
        tw_array *array = tw_arena_alloc(r->arena, sizeof *array);
        const char *unused;
        if (!array) return tw_fail_memory(r->diag);
        if (!tensor.data) return TW_ONNX_FAIL(r, f->data, "attribute \"%s\" lacks its tensor", out->name);
        out->kind = TW_ATTRIBUTE_ARRAY;
        out->array = array;
        return tw_onnx_tensor(r, &tensor, &unused, array);
    }
    default:
        /* Graphs and the like. Operators that have them are refused by their names. */
        out->kind = TW_ATTRIBUTE_GRAPH;
        return TW_OK;
    }
}

/* ---- nodes */

static int64_t version_of(const importer *m, const char *domain) {
    for (int i = 0; i < m->n_sets; i++)
        if (!strcmp(m->sets[i].domain, domain)) return m->sets[i].version;
    return 0;
}

/* Counts a message's fields of a number, which are bytes. */
static size_t fields(const tw_wire_field *f, uint32_t number) {
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    size_t n = 0;
    while (tw_wire_next(&w, &x)) n += x.number == number && x.kind == TW_WIRE_BYTES;
    return n;
}

static const char *plain_domain(const char *domain) {
    return !strcmp(domain, "ai.onnx") ? "" : domain;
}

/* Finds a node's operand. */
static tw_status find_operand(importer *m, const tw_wire_field *f, const tw_node *n, int *out) {
    tw_onnx_reader *r = &m->reader;
    const char *name = tw_onnx_text(r, f);
    char node[160];
    *out = -1;
    if (!name) return tw_fail_memory(r->diag);
    if (!*name) return TW_OK;
    *out = find(m, name);
    if (*out >= 0) return TW_OK;
    tw_node_describe(n, node, sizeof node);
    return TW_ONNX_FAIL(r, f->data, "%s needs \"%s\", which nothing before it computes", node, name);
}

static tw_status add_result(importer *m, const tw_wire_field *f, const tw_node *n, int number, int *out) {
    tw_onnx_reader *r = &m->reader;
    const char *name = tw_onnx_text(r, f);
    char node[160];
    *out = -1;
    if (!name) return tw_fail_memory(r->diag);
    if (!*name) return TW_OK;
    tw_node_describe(n, node, sizeof node);
    if (find(m, name) >= 0) return TW_ONNX_FAIL(r, f->data, "%s computes \"%s\", which there is already", node, name);
    *out = add_value(m, name);
    if (*out < 0) return tw_fail_memory(r->diag);
    r->graph->values[*out].producer = number;
    return TW_OK;
}

static tw_status read_node(importer *m, const tw_wire_field *f) {
    tw_onnx_reader *r = &m->reader;
    tw_node n = {.op = "", .domain = "", .name = ""};
    enum { MOST = 1 << 20 };
    const size_t attributes = fields(f, NODE_ATTRIBUTE), in = fields(f, NODE_INPUT), out = fields(f, NODE_OUTPUT);
    const int number = r->graph->n_nodes;
    if (attributes > MOST || in > MOST || out > MOST)
        return TW_ONNX_FAIL(r, f->data, "a node has more than %d operands, results or attributes", MOST);
    n.in = tw_arena_array(r->arena, in + 1, sizeof *n.in);
    n.out = tw_arena_array(r->arena, out + 1, sizeof *n.out);
    n.attributes = tw_arena_array(r->arena, attributes + 1, sizeof *n.attributes);
    if (r->arena->failed) return tw_fail_memory(r->diag);
    tw_status st = TW_OK;
    tw_wire_field x;
    for (tw_wire w = tw_wire_of(f); st == TW_OK && tw_wire_next(&w, &x);) {
        if (x.kind != TW_WIRE_BYTES) continue;
        if (x.number == NODE_OP) n.op = tw_onnx_text(r, &x);
        if (x.number == NODE_NAME) n.name = tw_onnx_text(r, &x);
        if (x.number == NODE_DOMAIN) n.domain = tw_onnx_text(r, &x);
        if (r->arena->failed) return tw_fail_memory(r->diag);
    }
    n.domain = plain_domain(n.domain);
    n.version = (int)version_of(m, n.domain);
    tw_wire w = tw_wire_of(f);
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES) continue;
        if (x.number == NODE_INPUT) st = find_operand(m, &x, &n, &n.in[n.n_in++]);
        if (x.number == NODE_ATTRIBUTE) st = read_attribute(m, &x, &n.attributes[n.n_attributes++]);
    }
    if (st == TW_OK) st = tw_onnx_check(r, &w);
    for (w = tw_wire_of(f); st == TW_OK && tw_wire_next(&w, &x);)
        if (x.kind == TW_WIRE_BYTES && x.number == NODE_OUTPUT) {
            st = add_result(m, &x, &n, number, &n.out[n.n_out]);
            n.n_out++;
        }
    if (st == TW_OK && tw_graph_add_node(r->graph, &n) < 0) st = tw_fail_memory(r->diag);
    return st;
}

/* ---- inputs and outputs */

/* Reads a TensorProto's type: element type and dimensions. */
static tw_status read_tensor_type(importer *m, const tw_wire_field *f, tw_value *v) {
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
                    const int symbol = name ? tw_graph_symbol(r->graph, name) : -1;
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
static tw_status read_info(importer *m, const tw_wire_field *f, tw_value *out) {
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

static tw_status add_input(importer *m, const tw_wire_field *f) {
    tw_graph *g = m->reader.graph;
    tw_value v;
    const tw_status st = read_info(m, f, &v);
    if (st != TW_OK) return st;
    const int known = find(m, v.name);
    /* Old files list their constants among the inputs. */
    if (known >= 0 && g->values[known].content) return TW_OK;
    if (known >= 0 || !*v.name) return TW_ONNX_FAIL(&m->reader, f->data, "two inputs are called \"%s\"", v.name);
    const int i = add_value(m, v.name);
    if (i < 0) return tw_fail_memory(m->reader.diag);
    g->values[i] = v;
    g->inputs[g->n_inputs++] = i;
    return TW_OK;
}

static tw_status add_output(importer *m, const tw_wire_field *f) {
    tw_graph *g = m->reader.graph;
    tw_value v;
    const tw_status st = read_info(m, f, &v);
    if (st != TW_OK) return st;
    const int i = find(m, v.name);
    if (i < 0) return TW_ONNX_FAIL(&m->reader, f->data, "nothing computes the output \"%s\"", v.name);
    g->outputs[g->n_outputs++] = i;
    return TW_OK;
}

static tw_status add_constant(importer *m, const tw_wire_field *f) {
    const char *name;
    tw_array a;
    const tw_status st = tw_onnx_tensor(&m->reader, f, &name, &a);
    if (st != TW_OK) return st;
    if (find(m, name) >= 0) return TW_ONNX_FAIL(&m->reader, f->data, "two tensors are called \"%s\"", name);
    const int i = add_value(m, name);
    if (i >= 0) tw_graph_set_content(m->reader.graph, i, &a);
    return i < 0 || m->reader.arena->failed ? tw_fail_memory(m->reader.diag) : TW_OK;
}

/* ---- the graph and the model */

typedef tw_status add_field(importer *m, const tw_wire_field *f);

static tw_status each(importer *m, const tw_wire_field *graph, uint32_t number, add_field *add) {
    tw_wire w = tw_wire_of(graph);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x))
        if (x.number == number && x.kind == TW_WIRE_BYTES) st = add(m, &x);
    return st == TW_OK ? tw_onnx_check(&m->reader, &w) : st;
}

static tw_status set_name(importer *m, const tw_wire_field *f) {
    m->reader.graph->name = tw_onnx_text(&m->reader, f);
    return m->reader.graph->name ? TW_OK : tw_fail_memory(m->reader.diag);
}

static tw_status refuse_sparse(importer *m, const tw_wire_field *f) {
    return tw_fail_at(m->reader.diag, TW_ERR_UNSUPPORTED, m->reader.path, f->data - m->reader.begin,
                      "the model has sparse constants");
}

static tw_status read_graph(importer *m, const tw_wire_field *f) {
    tw_graph *g = m->reader.graph;
    enum { MOST = 1 << 20 };
    const size_t inputs = fields(f, GRAPH_INPUT), outputs = fields(f, GRAPH_OUTPUT);
    if (inputs > MOST || outputs > MOST)
        return TW_ONNX_FAIL(&m->reader, f->data, "the graph has more than %d inputs or outputs", MOST);
    g->inputs = tw_arena_array(&g->arena, inputs + 1, sizeof(int));
    g->outputs = tw_arena_array(&g->arena, outputs + 1, sizeof(int));
    if (g->arena.failed) return tw_fail_memory(m->reader.diag);
    tw_status st = each(m, f, GRAPH_NAME, set_name);
    if (st == TW_OK) st = each(m, f, GRAPH_SPARSE, refuse_sparse);
    if (st == TW_OK) st = each(m, f, GRAPH_CONSTANT, add_constant);
    if (st == TW_OK) st = each(m, f, GRAPH_INPUT, add_input);
    if (st == TW_OK) st = each(m, f, GRAPH_NODE, read_node);
    return st == TW_OK ? each(m, f, GRAPH_OUTPUT, add_output) : st;
}

static tw_status add_set(importer *m, const tw_wire_field *f) {
    enum { MOST = sizeof m->sets / sizeof *m->sets, KNOWN = 27 };
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    set s = {.domain = ""};
    while (tw_wire_next(&w, &x)) {
        if (x.number == 1 && x.kind == TW_WIRE_BYTES && !(s.domain = tw_onnx_text(&m->reader, &x)))
            return tw_fail_memory(m->reader.diag);
        if (x.number == 2 && x.kind == TW_WIRE_VARINT) s.version = (int64_t)x.value;
    }
    s.domain = plain_domain(s.domain);
    if (s.version < 0 || s.version > 1000)
        return TW_ONNX_FAIL(&m->reader, f->data, "a set of operators has no version");
    if (!*s.domain && s.version > KNOWN)
        return tw_fail_at(m->reader.diag, TW_ERR_UNSUPPORTED, m->reader.path, f->data - m->reader.begin,
                          "operators are of set %" PRId64 ", and sets up to %d are known", s.version, KNOWN);
    if (m->n_sets == MOST) return TW_ONNX_FAIL(&m->reader, f->data, "more than %d sets of operators", MOST);
    m->sets[m->n_sets++] = s;
    return tw_onnx_check(&m->reader, &w);
}

static tw_status refuse_function(importer *m, const tw_wire_field *f) {
    return tw_fail_at(m->reader.diag, TW_ERR_UNSUPPORTED, m->reader.path, f->data - m->reader.begin,
                      "the model has functions of its own, which are not supported yet");
}

static tw_status read_model(importer *m, const tw_wire_field *all) {
    tw_status st = each(m, all, MODEL_SETS, add_set);
    if (st == TW_OK) st = each(m, all, MODEL_FUNCTIONS, refuse_function);
    if (st != TW_OK) return st;
    if (fields(all, MODEL_GRAPH) != 1)
        return TW_ONNX_FAIL(&m->reader, all->data, "the file has no graph of the ONNX format");
    return each(m, all, MODEL_GRAPH, read_graph);
}

static tw_status read_into(tw_graph *g, const void *data, size_t size, const char *path, tw_diag *diag) {
    importer m = {.reader = {.graph = g, .arena = &g->arena, .begin = data, .path = path, .diag = diag},
                  .names.graph = g};
    const tw_wire_field all = {.data = data, .size = size};
    const tw_status st = read_model(&m, &all);
    tw_names_free(&m.names);
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
