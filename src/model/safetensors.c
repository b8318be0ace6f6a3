/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "model/safetensors.h"

#include "base/diag.h"
#include "base/json.h"
#include "model/reasons.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The format's own limit on headers, so that a lying length is refused before anything is read. */
enum { HEADER_MAX = 100000000, PREFIX = 8 };

static const struct {
    const char *name;
    int bits;
    bool is_weight;
    tw_dtype dtype;
} types[] = {
    {"F32", 32, true, TW_F32}, {"F16", 16, true, TW_F16}, {"BF16", 16, true, TW_BF16}, {"F64", 64, false, 0},
    {"I64", 64, false, 0},     {"I32", 32, false, 0},     {"I16", 16, false, 0},       {"I8", 8, false, 0},
    {"U64", 64, false, 0},     {"U32", 32, false, 0},     {"U16", 16, false, 0},       {"U8", 8, false, 0},
    {"BOOL", 8, false, 0},     {"F8_E5M2", 8, false, 0},  {"F8_E4M3", 8, false, 0},    {"F8_E8M0", 8, false, 0},
    {"C64", 64, false, 0},     {"F4", 4, false, 0},       {"F6_E2M3", 6, false, 0},    {"F6_E3M2", 6, false, 0},
};

typedef struct parser {
    const char *header; /* the JSON */
    size_t header_size;
    const unsigned char *data; /* the bytes after it */
    int64_t data_size;
    const char *path;
    tw_diag *diag;
} parser;

/* Where in the file `name` stands as a key; the start of the header when it is spelled with escapes. */
static int64_t key_offset(const parser *p, const char *name) {
    size_t n = strlen(name);
    const char *end = p->header + p->header_size;
    for (const char *at = p->header; n && (at = memmem(at, (size_t)(end - at), name, n)); at++) {
        if (at == p->header || at[-1] != '"' || end - at < (ptrdiff_t)n + 2 || at[n] != '"') continue;
        const char *q = at + n + 1;
        while (q < end && (*q == ' ' || *q == '\t' || *q == '\n' || *q == '\r')) q++;
        if (q < end && *q == ':') return PREFIX + (at - 1 - p->header);
    }
    return PREFIX;
}

#define REFUSE(p, name, ...) tw_fail_at((p)->diag, TW_ERR_FORMAT, (p)->path, key_offset((p), (name)), __VA_ARGS__)

static tw_status read_type(const parser *p, tw_tensor *t, const json_t *v, int *bits) {
    const char *s = json_string_value(v);
    char shown[64];
    for (size_t i = 0; s && i < sizeof types / sizeof *types; i++)
        if (!strcmp(s, types[i].name) && strlen(s) == json_string_length(v)) {
            t->type = types[i].name;
            t->is_weight = types[i].is_weight;
            t->dtype = types[i].dtype;
            *bits = types[i].bits;
            return TW_OK;
        }
    return REFUSE(p, t->name, "%s: dtype %s is not one of the format", t->name,
                  v ? tw_show_json(v, shown, sizeof shown) : "(none)");
}

static tw_status read_shape(const parser *p, tw_tensor *t, const json_t *v, int bits) {
    if (!json_is_array(v)) return REFUSE(p, t->name, "%s: shape is not a list", t->name);
    if (json_array_size(v) > TW_TENSOR_RANK)
        return REFUSE(p, t->name, "%s: has %zu dimensions; at most %d are supported", t->name, json_array_size(v),
                      TW_TENSOR_RANK);
    t->rank = (int)json_array_size(v);
    t->elements = 1;
    for (int i = 0; i < t->rank; i++) {
        const json_t *d = json_array_get(v, (size_t)i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return REFUSE(p, t->name, "%s: shape[%d] is not a size", t->name, i);
        t->shape[i] = json_integer_value(d);
        if (__builtin_mul_overflow(t->elements, t->shape[i], &t->elements))
            return REFUSE(p, t->name, "%s: its shape overflows", t->name);
    }
    int64_t total;
    if (__builtin_mul_overflow(t->elements, (int64_t)bits, &total))
        return REFUSE(p, t->name, "%s: its shape overflows", t->name);
    if (total % 8) return REFUSE(p, t->name, "%s: its elements do not fill whole bytes", t->name);
    t->bytes = total / 8;
    return TW_OK;
}

static tw_status read_offsets(const parser *p, tw_tensor *t, const json_t *v) {
    const json_t *b = json_array_get(v, 0), *e = json_array_get(v, 1);
    if (json_array_size(v) != 2 || !json_is_integer(b) || !json_is_integer(e))
        return REFUSE(p, t->name, "%s: data_offsets is not a pair of offsets", t->name);
    int64_t begin = json_integer_value(b), end = json_integer_value(e);
    if (begin < 0 || end < begin)
        return REFUSE(p, t->name, "%s: data_offsets [%lld, %lld] run backwards", t->name, (long long)begin,
                      (long long)end);
    if (end > p->data_size)
        return REFUSE(p, t->name, "%s: ends at data byte %lld, but the file has %lld; is it truncated?", t->name,
                      (long long)end, (long long)p->data_size);
    if (end - begin != t->bytes)
        return REFUSE(p, t->name, "%s: data_offsets hold %lld bytes, its shape and dtype %lld", t->name,
                      (long long)(end - begin), (long long)t->bytes);
    t->data = p->data + begin;
    return TW_OK;
}

static tw_status read_entry(const parser *p, tw_tensor *t, const json_t *v) {
    if (!json_is_object(v)) return REFUSE(p, t->name, "%s: not an object", t->name);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value) {
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0)
            return REFUSE(p, t->name, "%s: unknown field %s", t->name, key);
    }
    int bits = 0;
    tw_status s = read_type(p, t, json_object_get(v, "dtype"), &bits);
    if (s == TW_OK) s = read_shape(p, t, json_object_get(v, "shape"), bits);
    if (s == TW_OK) s = read_offsets(p, t, json_object_get(v, "data_offsets"));
    return s;
}

static tw_status read_metadata(const parser *p, const json_t *v) {
    if (!json_is_object(v)) return REFUSE(p, "__metadata__", "__metadata__ is not an object");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)v, key, value) {
        if (!json_is_string(value)) return REFUSE(p, "__metadata__", "__metadata__: %s is not a string", key);
    }
    return TW_OK;
}

static int by_place(const void *a, const void *b) {
    const tw_tensor *x = a, *y = b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* The entries, one after the other, are the whole data: no byte twice, none unowned. */
static tw_status check_cover(const parser *p, tw_tensors *t) {
    if (t->count) qsort(t->items, t->count, sizeof *t->items, by_place);
    int64_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        const tw_tensor *x = &t->items[i];
        int64_t begin = x->data - p->data;
        if (begin < at) return REFUSE(p, x->name, "%s: overlaps %s", x->name, t->items[i - 1].name);
        if (begin > at)
            return REFUSE(p, x->name, "%s: data bytes %lld to %lld before it belong to no tensor", x->name,
                          (long long)at, (long long)begin);
        at = begin + x->bytes;
    }
    if (at != p->data_size)
        return tw_fail_at(p->diag, TW_ERR_FORMAT, p->path, PREFIX + (int64_t)p->header_size + at,
                          "%lld bytes at the end belong to no tensor", (long long)(p->data_size - at));
    return TW_OK;
}

static tw_status read_header(const parser *p, tw_tensors *out, tw_arena *arena, const json_t *root) {
    if (!json_is_object(root))
        return tw_fail_at(p->diag, TW_ERR_FORMAT, p->path, PREFIX, "the header is not an object");
    out->items = tw_arena_array(arena, json_object_size(root), sizeof *out->items);
    if (arena->failed) return tw_fail_memory(p->diag);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value) {
        tw_status s;
        if (!strcmp(key, "__metadata__"))
            s = read_metadata(p, value);
        else {
            tw_tensor *t = &out->items[out->count++];
            t->name = tw_arena_strdup(arena, key);
            if (!t->name) return tw_fail_memory(p->diag);
            s = read_entry(p, t, value);
        }
        if (s != TW_OK) return s;
    }
    return check_cover(p, out);
}

tw_status tw_safetensors_parse(tw_tensors *out, tw_arena *arena, const void *data, size_t size, const char *path,
                               tw_diag *diag) {
    *out = (tw_tensors){0};
    const unsigned char *bytes = data;
    if (size < PREFIX)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, 0, "%zu bytes are too few for a safetensors file", size);
    uint64_t n = 0;
    for (int i = 0; i < PREFIX; i++) n |= (uint64_t)bytes[i] << (8 * i);
    if (n > HEADER_MAX)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, 0, "a header of %llu bytes; the format allows %d",
                          (unsigned long long)n, HEADER_MAX);
    if (n > size - PREFIX)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, 0, "a header of %llu bytes in a file of %zu; is it truncated?",
                          (unsigned long long)n, size);
    if (!n || bytes[PREFIX] != '{')
        return tw_fail_at(diag, TW_ERR_FORMAT, path, PREFIX, "the header does not start with {");
    parser p = {(const char *)bytes + PREFIX, (size_t)n, bytes + PREFIX + n, (int64_t)(size - PREFIX - n), path, diag};
    json_t *root;
    tw_status s = tw_json_parse(&root, p.header, p.header_size, path, PREFIX, diag);
    if (s != TW_OK) return s;
    s = read_header(&p, out, arena, root);
    json_decref(root);
    if (s == TW_OK) tw_tensors_sort(out);
    return s;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const tw_tensor *)a)->name, ((const tw_tensor *)b)->name);
}

void tw_tensors_sort(tw_tensors *t) {
    if (t->count) qsort(t->items, t->count, sizeof *t->items, by_name);
}

tw_tensor *tw_tensors_find(const tw_tensors *t, const char *name) {
    tw_tensor key = {.name = name};
    return t->count ? bsearch(&key, t->items, t->count, sizeof *t->items, by_name) : NULL;
}
