/* SPDX-License-Identifier: Apache-2.0 */
/* AttributeProto. */
#include "graph/onnx/importer.h"

#include <string.h>

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
    ATTRIBUTE_TYPE = 20,
    ATTRIBUTE_REFERENCE = 21
};

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
static tw_status read_numbers(tw_onnx_importer *m, const tw_wire_field *f, uint32_t number, tw_attribute *out) {
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

static tw_status read_texts(tw_onnx_importer *m, const tw_wire_field *f, tw_attribute *out) {
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

/* Finds the attribute that a function's node has for one of the function's own. */
static tw_status take_reference(const tw_onnx_importer *m, const char *reference, tw_attribute *out) {
    const char *name = out->name;
    const tw_attribute *given = m->scope->call ? tw_node_attribute(m->scope->call, reference) : NULL;
    if (given) *out = *given;
    out->graph = NULL;
    out->name = given ? name : NULL;
    return TW_OK;
}

tw_status tw_onnx_read_attribute(tw_onnx_importer *m, const tw_wire_field *f, tw_attribute *out, tw_wire_field *graph) {
    tw_onnx_reader *r = &m->reader;
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_wire_field tensor = {0};
    uint64_t type = 0;
    int seen = 0; /* The kind by what there is, in files without a type. */
    const char *reference = NULL;
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
        if (x.number == ATTRIBUTE_G && bytes) *graph = x;
        if (x.number == ATTRIBUTE_REFERENCE && bytes && x.size && !(reference = tw_onnx_text(r, &x)))
            return tw_fail_memory(r->diag);
        if (x.number == ATTRIBUTE_FLOATS) seen = KIND_FLOATS;
        if (x.number == ATTRIBUTE_INTS) seen = KIND_INTS;
        if (x.number == ATTRIBUTE_STRINGS) seen = KIND_STRINGS;
    }
    const tw_status st = tw_onnx_check(r, &w);
    if (st != TW_OK) return st;
    if (reference) return take_reference(m, reference, out);
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
        /* Graphs and the like. Operators that have them are refused by their names, unless they are If. */
        out->kind = TW_ATTRIBUTE_GRAPH;
        return TW_OK;
    }
}
