/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays: TensorProto. Its elements are bytes in the file, bytes in a file beside it, or lists of numbers, which are
   the only ones that are copied. */
#include "base/grow.h"
#include "base/utf8.h"
#include "graph/onnx/onnx.h"
#include "graph/onnx/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DIMS = 1,
    TYPE = 2,
    SEGMENT = 3,
    FLOATS = 4,
    INT32S = 5,
    STRINGS = 6,
    INT64S = 7,
    NAME = 8,
    RAW = 9,
    DOUBLES = 10,
    UINT64S = 11,
    EXTERNAL = 13,
    LOCATION = 14
};

/* What a TensorProto says beside its lists of numbers. */
typedef struct tensor {
    const unsigned char *at; /* Its first byte. */
    tw_array array;
    const char *name;
    const unsigned char *raw; /* NULL: it has no bytes of its own. */
    size_t raw_size;
    bool external;
    const char *location;
    int64_t offset, length; /* Of external bytes. length -1: up to the end. */
} tensor;

static tw_status add_dims(const tw_onnx_reader *r, const tw_wire_field *f, tensor *t) {
    tw_wire packed = tw_wire_of(f);
    uint64_t d = f->value;
    while (f->kind == TW_WIRE_BYTES ? tw_wire_number(&packed, TW_WIRE_VARINT, &d) : true) {
        if (t->array.rank == TW_ARRAY_RANK)
            return tw_fail_at(r->diag, TW_ERR_UNSUPPORTED, r->path, t->at - r->begin,
                              "a tensor has more than %d dimensions", TW_ARRAY_RANK);
        if ((int64_t)d < 0) return TW_ONNX_FAIL(r, t->at, "a tensor has a dimension of %" PRId64, (int64_t)d);
        t->array.dims[t->array.rank++] = (int64_t)d;
        if (f->kind != TW_WIRE_BYTES) break;
    }
    return tw_onnx_check(r, &packed);
}

static bool decimal(const char *text, int64_t *out) {
    char *end;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && *out >= 0;
}

static tw_status add_external(const tw_onnx_reader *r, const tw_wire_field *f, tensor *t) {
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    const char *key = "", *value = "";
    while (tw_wire_next(&w, &x)) {
        if (x.kind != TW_WIRE_BYTES) continue;
        if (x.number == 1) key = tw_onnx_text(r, &x);
        if (x.number == 2) value = tw_onnx_text(r, &x);
        if (!key || !value) return tw_fail_memory(r->diag);
    }
    bool good = true;
    if (!strcmp(key, "location")) t->location = value;
    if (!strcmp(key, "offset")) good = decimal(value, &t->offset);
    if (!strcmp(key, "length")) good = decimal(value, &t->length);
    if (!good) return TW_ONNX_FAIL(r, t->at, "external data's %s is \"%s\", which is no size", key, value);
    return tw_onnx_check(r, &w);
}

static tw_status read_fields(const tw_onnx_reader *r, const tw_wire_field *f, tensor *t) {
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    tw_status st = TW_OK;
    while (st == TW_OK && tw_wire_next(&w, &x)) {
        const bool bytes = x.kind == TW_WIRE_BYTES;
        if (x.number == DIMS) st = add_dims(r, &x, t);
        if (x.number == TYPE && !bytes && !tw_element_from_onnx((int64_t)x.value, &t->array.type))
            st = TW_ONNX_FAIL(r, t->at, "a tensor's data_type is %" PRIu64 ", which the format does not have", x.value);
        if (x.number == SEGMENT)
            st = tw_fail_at(r->diag, TW_ERR_UNSUPPORTED, r->path, t->at - r->begin, "a tensor comes in segments");
        if (x.number == NAME && bytes && !(t->name = tw_onnx_text(r, &x))) st = tw_fail_memory(r->diag);
        if (x.number == RAW && bytes) {
            t->raw = x.data;
            t->raw_size = x.size;
        }
        if (x.number == EXTERNAL && bytes) st = add_external(r, &x, t);
        if (x.number == LOCATION && !bytes) t->external = x.value == 1;
    }
    return st == TW_OK ? tw_onnx_check(r, &w) : st;
}

/* Tells whether a path stays within its folder. */
static bool stays(const char *path) {
    if (!*path || *path == '/' || strchr(path, '\\')) return false;
    for (const char *at = path;; at++) {
        const size_t n = strcspn(at, "/");
        if (n == 2 && !strncmp(at, "..", 2)) return false;
        at += n;
        if (!*at) return true;
    }
}

static tw_status map_beside(tw_onnx_reader *r, const tensor *t, tw_map *out) {
    for (int i = 0; i < r->n_external; i++)
        if (!strcmp(r->external[i].location, t->location)) {
            *out = r->external[i].map;
            return TW_OK;
        }
    void *grown = tw_grow(r->external, r->n_external, &r->room_external, 4, sizeof *r->external);
    if (!grown) return tw_fail_memory(r->diag);
    r->external = grown;
    const char *slash = strrchr(r->path, '/');
    const int folder = slash ? (int)(slash - r->path) + 1 : 0;
    const char *path = tw_arena_printf(r->arena, "%.*s%s", folder, r->path, t->location);
    if (!path) return tw_fail_memory(r->diag);
    const tw_status st = tw_graph_map(r->graph, path, out, r->diag);
    if (st == TW_OK) {
        r->external[r->n_external].location = t->location;
        r->external[r->n_external++].map = *out;
    }
    return st;
}

static tw_status find_external(tw_onnx_reader *r, tensor *t, int64_t bytes) {
    tw_map map;
    if (!t->location) return TW_ONNX_FAIL(r, t->at, "tensor \"%s\": external data have no location", t->name);
    if (!r->graph || !stays(t->location))
        return TW_ONNX_FAIL(r, t->at, "tensor \"%s\": external data in \"%s\", which is not in the model's folder",
                            t->name, t->location);
    const tw_status st = map_beside(r, t, &map);
    if (st != TW_OK) return st;
    const int64_t size = (int64_t)map.size, length = t->length < 0 ? size - t->offset : t->length;
    int64_t end;
    if (__builtin_add_overflow(t->offset, length < 0 ? 0 : length, &end)) end = INT64_MAX;
    if (t->offset > size || length > size - t->offset || length < 0)
        return TW_ONNX_FAIL(r, t->at, "tensor \"%s\": external data end at byte %" PRId64 " of %s, which has %" PRId64,
                            t->name, end, t->location, size);
    if (length != bytes)
        return TW_ONNX_FAIL(r, t->at,
                            "tensor \"%s\": %" PRId64 " bytes of external data where its shape needs %" PRId64, t->name,
                            length, bytes);
    t->array.data = map.data ? map.data + t->offset : NULL;
    return TW_OK;
}

/* The list that has the elements of a type, and the kind of its numbers. */
typedef struct list {
    uint32_t number;
    tw_wire_kind kind;
} list;

static list list_of(tw_element t) {
    switch (t) {
    case TW_E_f32:
        return (list){FLOATS, TW_WIRE_32};
    case TW_E_f64:
        return (list){DOUBLES, TW_WIRE_64};
    case TW_E_i64:
        return (list){INT64S, TW_WIRE_VARINT};
    case TW_E_u32:
    case TW_E_u64:
        return (list){UINT64S, TW_WIRE_VARINT};
    case TW_E_c64:
    case TW_E_c128:
    case TW_E_string:
        return (list){0, TW_WIRE_VARINT};
    default:
        return (list){INT32S, TW_WIRE_VARINT};
    }
}

/* Copies the elements of lists of numbers. Types of less than 8 bits have a number for each byte. */
static tw_status copy_list(const tw_onnx_reader *r, const tw_wire_field *f, tensor *t, int64_t bytes) {
    const list from = list_of(t->array.type);
    const int64_t wide = tw_element_bits(t->array.type) < 8 ? 1 : tw_element_bits(t->array.type) / 8, n = bytes / wide;
    tw_wire w = tw_wire_of(f);
    tw_wire_field x;
    int64_t found = 0;
    /* A number has a byte at least: what is not there is not allocated for. */
    if (n > (int64_t)f->size) return TW_ONNX_FAIL(r, t->at, "tensor \"%s\" has fewer elements than its shape", t->name);
    char *out = tw_arena_alloc(r->arena, (size_t)bytes + 1);
    if (!out) return tw_fail_memory(r->diag);
    while (tw_wire_next(&w, &x)) {
        if (x.number != from.number) continue;
        tw_wire packed = tw_wire_of(&x);
        uint64_t value = x.value;
        while (x.kind == TW_WIRE_BYTES ? tw_wire_number(&packed, from.kind, &value) : true) {
            if (found < n) memcpy(out + found * wide, &value, (size_t)wide);
            found++;
            if (x.kind != TW_WIRE_BYTES) break;
        }
        const tw_status st = tw_onnx_check(r, &packed);
        if (st != TW_OK) return st;
    }
    if (found != n)
        return TW_ONNX_FAIL(r, t->at, "tensor \"%s\" has %" PRId64 " elements where its shape has %" PRId64, t->name,
                            found, n);
    t->array.data = out;
    return TW_OK;
}

tw_status tw_onnx_tensor(tw_onnx_reader *r, const tw_wire_field *f, const char **name, tw_array *out) {
    tensor t = {.at = f->data, .name = "", .length = -1};
    tw_status st = read_fields(r, f, &t);
    if (st != TW_OK) return st;
    *name = t.name;
    if (t.array.type == TW_E_none) return TW_ONNX_FAIL(r, t.at, "tensor \"%s\" has no data_type", t.name);
    const int64_t bytes = tw_array_bytes(&t.array);
    if (tw_array_elements(&t.array) < 0) return TW_ONNX_FAIL(r, t.at, "tensor \"%s\" has too many elements", t.name);
    if (bytes < 0) {
        *out = t.array; /* Of texts. Whoever uses them refuses their type by its name. */
        return TW_OK;
    }
    if (t.external) {
        st = find_external(r, &t, bytes);
    } else if (t.raw) {
        if ((int64_t)t.raw_size != bytes)
            return TW_ONNX_FAIL(r, t.at, "tensor \"%s\" has %zu bytes where its shape needs %" PRId64, t.name,
                                t.raw_size, bytes);
        t.array.data = t.raw;
    } else {
        st = copy_list(r, f, &t, bytes);
    }
    *out = t.array;
    return st;
}

tw_status tw_onnx_check(const tw_onnx_reader *r, const tw_wire *w) {
    return w->wrong ? TW_ONNX_FAIL(r, w->at, "%s", w->wrong) : TW_OK;
}

const char *tw_onnx_text(const tw_onnx_reader *r, const tw_wire_field *f) {
    const char *zero = f->size ? memchr(f->data, 0, f->size) : NULL;
    char *text =
        tw_arena_strndup(r->arena, (const char *)f->data, zero ? (size_t)(zero - (const char *)f->data) : f->size);
    if (!text) return NULL;
    tw_utf8_mend(text);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    return text;
}

tw_status tw_onnx_read_tensor(tw_arena *arena, const void *data, size_t size, const char *path, const char **name,
                              tw_array *out, tw_diag *diag) {
    tw_onnx_reader r = {.arena = arena, .begin = data, .path = path, .diag = diag};
    const tw_wire_field all = {.data = data, .size = size};
    return tw_onnx_tensor(&r, &all, name, out);
}
