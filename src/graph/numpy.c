/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/numpy.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"

#include <inttypes.h>
#include <minizip/unzip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- .npy */

static const struct {
    const char *descr;
    tw_element type;
} types[] = {
    {"<f4", TW_E_f32}, {"<f8", TW_E_f64}, {"<f2", TW_E_f16}, {"<i8", TW_E_i64}, {"<i4", TW_E_i32}, {"<i2", TW_E_i16},
    {"|i1", TW_E_i8},  {"<u8", TW_E_u64}, {"<u4", TW_E_u32}, {"<u2", TW_E_u16}, {"|u1", TW_E_u8},  {"|b1", TW_E_bool},
};

const char *tw_npy_type(tw_element type) {
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return types[i].descr;
    return NULL;
}

/* Finds the value of a key in the header, which is a dictionary of Python. */
static const char *value_of(const char *header, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(header, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static bool read_type(const char *value, tw_element *out) {
    for (size_t i = 0; value && i < sizeof types / sizeof *types; i++)
        if (*value == '\'' && !strncmp(value + 1, types[i].descr, 3) && value[4] == '\'') {
            *out = types[i].type;
            return true;
        }
    return false;
}

static bool read_dims(const char *value, tw_array *out) {
    if (!value || *value++ != '(') return false;
    for (;;) {
        value += strspn(value, " ,");
        if (*value == ')') return true;
        char *end;
        const long long d = strtoll(value, &end, 10);
        if (end == value || d < 0 || out->rank == TW_ARRAY_RANK) return false;
        out->dims[out->rank++] = d;
        value = end;
    }
}

tw_status tw_npy_read(const void *data, size_t size, const char *path, tw_array *out, tw_diag *diag) {
    static const char magic[] = "\x93NUMPY";
    enum { MAGIC = sizeof magic - 1, MOST = 4096 };
    const unsigned char *p = data;
    *out = (tw_array){0};
    if (size < MAGIC + 4 || memcmp(p, magic, MAGIC) != 0)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, 0, "the file is no array of NumPy");
    const bool wide = p[MAGIC] > 1; /* Version 2 and 3 have four bytes of length. */
    const size_t first = MAGIC + (wide ? 6 : 4);
    const size_t length =
        p[8] | (size_t)p[9] << 8 | (wide && size >= first ? (size_t)p[10] << 16 | (size_t)p[11] << 24 : 0);
    if (size < first || length > size - first || length > MOST)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, MAGIC, "the file ends within its header");
    char header[MOST + 1];
    memcpy(header, p + first, length);
    header[length] = 0;
    const char *descr = value_of(header, "descr"), *fortran = value_of(header, "fortran_order");
    if (!read_type(descr, &out->type))
        return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, (int64_t)first, "elements of type %.*s are not supported",
                          descr ? (int)strcspn(descr, ",}") : 6, descr ? descr : "(none)");
    if (!read_dims(value_of(header, "shape"), out))
        return tw_fail_at(diag, TW_ERR_FORMAT, path, (int64_t)first, "the header has no shape of up to %d dimensions",
                          TW_ARRAY_RANK);
    if (out->rank > 1 && fortran && !strncmp(fortran, "True", 4))
        return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, (int64_t)first,
                          "columns come before rows; numpy.ascontiguousarray changes that");
    const int64_t bytes = tw_array_bytes(out);
    if (bytes < 0) return tw_fail_at(diag, TW_ERR_FORMAT, path, (int64_t)first, "the shape has too many elements");
    if ((size_t)bytes != size - first - length)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, (int64_t)(first + length),
                          "there are %zu bytes of elements where the shape needs %" PRId64, size - first - length,
                          bytes);
    out->data = p + first + length;
    return TW_OK;
}

/* ---- .npz */

/* Reads the current file of a zip. */
static tw_status read_entry(tw_arena *arena, unzFile zip, const char *path, tw_npz_entry *out, tw_diag *diag) {
    enum { PART = 1 << 28 };
    unz_file_info64 info = {0};
    const bool there = unzGetCurrentFileInfo64(zip, &info, NULL, 0, NULL, 0, NULL, 0) == UNZ_OK;
    char *name = tw_arena_alloc(arena, info.size_filename + 1); /* Zeros, the last of which ends it. */
    if (!name) return tw_fail_memory(diag);
    if (!there || unzGetCurrentFileInfo64(zip, &info, name, info.size_filename, NULL, 0, NULL, 0) != UNZ_OK ||
        info.uncompressed_size >> 40 || unzOpenCurrentFile(zip) != UNZ_OK)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "the zip is damaged");
    const size_t size = (size_t)info.uncompressed_size, length = strlen(name);
    char *data = tw_arena_alloc(arena, size + 1);
    size_t at = 0;
    int got = 1;
    while (data && at < size && got > 0) {
        const size_t left = size - at;
        got = unzReadCurrentFile(zip, data + at, (unsigned)(left < PART ? left : PART));
        if (got > 0) at += (size_t)got;
    }
    const bool whole = unzCloseCurrentFile(zip) == UNZ_OK && at == size; /* Closing compares the checksum. */
    if (!data) return tw_fail_memory(diag);
    if (!whole) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "the zip's file %s is damaged", name);
    if (length > 4 && !strcmp(name + length - 4, ".npy")) name[length - 4] = 0;
    out->name = name;
    const char *place = tw_arena_printf(arena, "%s/%s", path, name);
    return place ? tw_npy_read(data, size, place, &out->array, diag) : tw_fail_memory(diag);
}

tw_status tw_npz_open(tw_arena *arena, const char *path, tw_npz_entry **out, int *n, tw_diag *diag) {
    unz_global_info64 info;
    tw_map map;
    tw_status st = tw_map_open(&map, path, diag); /* Says why a file cannot be read. */
    if (st != TW_OK) return st;
    tw_map_close(&map);
    unzFile zip = unzOpen64(path);
    if (!zip || unzGetGlobalInfo64(zip, &info) != UNZ_OK || info.number_entry > 1 << 20) {
        if (zip) unzClose(zip);
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "the file is no zip of arrays, as numpy.savez writes it");
    }
    *n = 0;
    *out = tw_arena_array(arena, (size_t)info.number_entry + 1, sizeof **out);
    if (!*out) st = tw_fail_memory(diag);
    for (ZPOS64_T i = 0; i < info.number_entry && st == TW_OK; i++) {
        if ((i ? unzGoToNextFile(zip) : unzGoToFirstFile(zip)) != UNZ_OK)
            st = tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "the zip is damaged");
        if (st == TW_OK) st = read_entry(arena, zip, path, &(*out)[(*n)++], diag);
    }
    unzClose(zip);
    return st;
}

const tw_array *tw_npz_find(const tw_npz_entry *entries, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (!strcmp(entries[i].name, name)) return &entries[i].array;
    return NULL;
}
