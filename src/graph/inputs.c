/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/inputs.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "graph/onnx/onnx.h"
#include "graph/run.h"
#include "graph/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files */

static tw_status read_one(tw_arena *arena, const tw_buf *file, const char *path, tw_npz_entry *out, tw_diag *diag) {
    unsigned char *data = tw_arena_alloc(arena, file->size + 1);
    if (!data) return tw_fail_memory(diag);
    if (file->size) memcpy(data, file->data, file->size);
    out->name = "";
    if (file->size > 5 && !memcmp(data, "\x93NUMPY", 6)) return tw_npy_read(data, file->size, path, &out->array, diag);
    return tw_onnx_read_tensor(arena, data, file->size, path, &out->name, &out->array, diag);
}

tw_status tw_arrays_open(tw_arena *arena, const char *path, tw_npz_entry **out, int *n, tw_diag *diag) {
    tw_buf file = {0};
    *n = 0;
    tw_status st = tw_file_read(&file, path, diag);
    const bool zip = file.size > 3 && (!memcmp(file.data, "PK\3\4", 4) || !memcmp(file.data, "PK\5\6", 4));
    if (st == TW_OK && zip) {
        st = tw_npz_open(arena, path, out, n, diag);
    } else if (st == TW_OK) {
        *out = tw_arena_alloc(arena, sizeof **out);
        st = *out ? read_one(arena, &file, path, *out, diag) : tw_fail_memory(diag);
        *n = st == TW_OK;
    }
    tw_buf_free(&file);
    return st;
}

void tw_graph_pick(const tw_graph *g, const tw_npz_entry *entries, int n, const tw_array **in) {
    for (int i = 0; i < g->n_inputs; i++) {
        const char *name = g->values[g->inputs[i]].name;
        in[i] = NULL;
        for (int j = 0; j < n && !in[i]; j++) {
            const char *have = entries[j].name;
            if (!strcmp(have, name) || (!strncmp(have, "in_", 3) && !strcmp(have + 3, name))) in[i] = &entries[j].array;
        }
    }
}

/* ---- extents */

typedef struct binder {
    const tw_graph *g;
    int64_t *extents;  /* Of each symbol. -1: not known so far. */
    const char **from; /* Of each symbol: the input that gave its extent. NULL: a binding did. */
    tw_diag *diag;
} binder;

/* Refuses a name that no dimension has, and says which there are. */
static tw_status refuse_symbol(const binder *b, const char *symbol) {
    tw_buf names = {0};
    for (int i = 0; i < b->g->n_symbols; i++) tw_buf_printf(&names, "%s\"%s\"", i ? ", " : "", b->g->symbols[i]);
    const tw_status st = tw_fail(b->diag, TW_ERR_USAGE, "no dimension of the model is called \"%s\"; it has %.2000s",
                                 symbol, names.data ? names.data : "none that has a name");
    tw_buf_free(&names);
    return st;
}

static tw_status take_bindings(binder *b, const tw_binding *bindings, int n) {
    for (int i = 0; i < n; i++) {
        int symbol = 0;
        while (symbol < b->g->n_symbols && strcmp(b->g->symbols[symbol], bindings[i].symbol) != 0) symbol++;
        if (symbol == b->g->n_symbols) return refuse_symbol(b, bindings[i].symbol);
        if (bindings[i].extent < 0)
            return tw_fail(b->diag, TW_ERR_USAGE, "dimension \"%s\" cannot be %" PRId64, bindings[i].symbol,
                           bindings[i].extent);
        if (b->extents[symbol] >= 0 && b->extents[symbol] != bindings[i].extent)
            return tw_fail(b->diag, TW_ERR_USAGE, "dimension \"%s\" is given twice, as %" PRId64 " and as %" PRId64,
                           bindings[i].symbol, b->extents[symbol], bindings[i].extent);
        b->extents[symbol] = bindings[i].extent;
    }
    return TW_OK;
}

/* Learns the extents of symbols from an array. */
static tw_status take_array(binder *b, const tw_value *v, const tw_array *a) {
    for (int d = 0; d < v->rank && v->rank == a->rank; d++) {
        if (v->dims[d] >= 0 || v->dims[d] == TW_DIM_UNKNOWN) continue;
        const int symbol = tw_dim_symbol(v->dims[d]);
        if (b->extents[symbol] >= 0 && b->extents[symbol] != a->dims[d])
            return tw_fail(b->diag, TW_ERR_USAGE,
                           "dimension \"%s\" is %" PRId64 " in input \"%s\", and %" PRId64 " in %s%s%s",
                           b->g->symbols[symbol], a->dims[d], v->name, b->extents[symbol],
                           b->from[symbol] ? "input \"" : "what is asked for", b->from[symbol] ? b->from[symbol] : "",
                           b->from[symbol] ? "\"" : "");
        b->extents[symbol] = a->dims[d];
        b->from[symbol] = v->name;
    }
    return TW_OK;
}

static tw_status fill(const binder *b, const tw_value *v, tw_array *out) {
    if (v->type == TW_E_none || v->rank < 0)
        return tw_fail(b->diag, TW_ERR_USAGE, "input \"%s\" has no type of its own, and no array", v->name);
    char shown[256];
    tw_value_describe(b->g, v, shown, sizeof shown);
    *out = (tw_array){.type = v->type, .rank = v->rank};
    for (int d = 0; d < v->rank; d++) {
        out->dims[d] = v->dims[d];
        if (v->dims[d] == TW_DIM_UNKNOWN)
            return tw_fail(b->diag, TW_ERR_USAGE,
                           "dimension %d of input \"%s\", %s, has no name, so that only a content tells its extent", d,
                           v->name, shown);
        if (v->dims[d] < 0) out->dims[d] = b->extents[tw_dim_symbol(v->dims[d])];
        if (out->dims[d] < 0)
            return tw_fail(
                b->diag, TW_ERR_USAGE,
                "dimension \"%s\" of input \"%s\", %s, has no extent; \"%s=N\" or the input's content gives it",
                b->g->symbols[tw_dim_symbol(v->dims[d])], v->name, shown, b->g->symbols[tw_dim_symbol(v->dims[d])]);
    }
    if (tw_element_bits(v->type) <= 0)
        return tw_fail(b->diag, TW_ERR_UNSUPPORTED, "input \"%s\" has elements of type %s, which are not supported",
                       v->name, tw_element_name(v->type));
    if (tw_array_bytes(out) < 0) {
        tw_array_describe(out, shown, sizeof shown);
        return tw_fail(b->diag, TW_ERR_USAGE, "input \"%s\" would be %s, and arrays have fewer than 2^48 elements",
                       v->name, shown);
    }
    return TW_OK;
}

static tw_status bind(binder *b, const tw_binding *bindings, int n, const tw_array *const *given, tw_array *out) {
    const tw_graph *g = b->g;
    for (int i = 0; i < g->n_symbols; i++) b->extents[i] = -1;
    tw_status st = take_bindings(b, bindings, n);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++)
        if (given && given[i]) st = take_array(b, &g->values[g->inputs[i]], given[i]);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) {
        if (given && given[i])
            out[i] = *given[i];
        else
            st = fill(b, &g->values[g->inputs[i]], &out[i]);
        if (st == TW_OK) st = tw_graph_check_input(g, i, &out[i], b->diag);
    }
    return st;
}

tw_status tw_graph_bind(const tw_graph *g, const tw_binding *bindings, int n, const tw_array *const *given,
                        tw_array *out, tw_diag *diag) {
    const size_t symbols = (size_t)g->n_symbols + 1;
    binder b = {
        .g = g, .extents = calloc(symbols, sizeof *b.extents), .from = calloc(symbols, sizeof *b.from), .diag = diag};
    const tw_status st = b.extents && b.from ? bind(&b, bindings, n, given, out) : tw_fail_memory(diag);
    free(b.extents);
    free(b.from);
    return st;
}
