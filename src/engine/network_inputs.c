/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of a network's inputs: from files, or drawn. */
#include "base/diag.h"
#include "base/random.h"
#include "base/utf8.h"
#include "device/memory.h"
#include "engine/network.h"
#include "engine/package.h"
#include "graph/inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXTENTS = 64, MUCH = 64 << 20 /* Bytes of an input. Less is there. */ };

struct tw_tensors {
    const tw_network *n;
    tw_arena arena;
    const tw_array **given; /* By input. NULL: none is. */
    tw_array *arrays;
    tw_tensor *list;
    tw_binding extents[EXTENTS];
    int n_extents;
};

tw_status tw_tensors_new(tw_tensors **out, const tw_network *n, tw_diag *diag) {
    tw_tensors *t = *out = calloc(1, sizeof *t);
    const size_t count = (size_t)n->model->n_inputs + 1;
    if (!t) return tw_fail_memory(diag);
    t->n = n;
    t->given = tw_arena_array(&t->arena, count, sizeof *t->given);
    t->arrays = tw_arena_array(&t->arena, count, sizeof *t->arrays);
    t->list = tw_arena_array(&t->arena, count, sizeof *t->list);
    if (t->given && t->arrays && t->list) return TW_OK;
    tw_tensors_free(t);
    *out = NULL;
    return tw_fail_memory(diag);
}

void tw_tensors_free(tw_tensors *t) {
    if (!t) return;
    tw_arena_free(&t->arena);
    free(t);
}

static const char *name_of(const tw_tensors *t, int i) {
    return t->n->model->values[t->n->model->inputs[i]].name;
}

/* Writes names, like "x, mask". */
static void list_names(const tw_tensors *t, char *out, size_t size) {
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < t->n->model->n_inputs && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", name_of(t, i));
}

tw_status tw_tensors_read(tw_tensors *t, const char *input, const char *path, tw_diag *diag) {
    const tw_graph *g = t->n->model;
    tw_npz_entry *entries;
    int n = 0, found = 0;
    tw_status st = tw_arrays_open(&t->arena, path, &entries, &n, diag);
    if (st != TW_OK) return st;
    const tw_array **in = tw_arena_array(&t->arena, (size_t)g->n_inputs + 1, sizeof *in);
    if (!in) return tw_fail_memory(diag);
    tw_graph_pick(g, entries, n, in);
    for (int i = 0; i < g->n_inputs; i++) {
        if (input && strcmp(input, name_of(t, i)) != 0) continue;
        /* A file with one array is meant, whatever it is called. */
        const tw_array *a = !in[i] && input && n == 1 ? &entries[0].array : in[i];
        if (a) t->given[i] = a;
        found += input || a;
        if (input && !a)
            return tw_fail_at(diag, TW_ERR_USAGE, path, -1, "there is no array \"%s\" or \"in_%s\"", input, input);
    }
    if (found) return TW_OK;
    char names[512];
    list_names(t, names, sizeof names);
    return input ? tw_fail_at(diag, TW_ERR_USAGE, t->n->path, -1, "the model has no input \"%s\"; its inputs are %s",
                              input, names)
                 : tw_fail_at(diag, TW_ERR_USAGE, path, -1, "no array has the name of an input; the inputs are %s",
                              names);
}

tw_status tw_tensors_extent(tw_tensors *t, const char *symbol, int64_t extent, tw_diag *diag) {
    char *name = tw_arena_alloc(&t->arena, strlen(symbol) + 1);
    if (!name) return tw_fail_memory(diag);
    if (t->n_extents == EXTENTS) return tw_fail(diag, TW_ERR_USAGE, "no more than %d extents are given", EXTENTS);
    strcpy(name, symbol);
    t->extents[t->n_extents++] = (tw_binding){name, extent};
    return TW_OK;
}

/* Draws reals around 0, and integers within what the model looks up by them; masks are 1. */
static tw_status draw(tw_tensors *t, int i, tw_diag *diag) {
    tw_array *a = &t->arrays[i];
    tw_random r = tw_random_seed((uint64_t)i + 1);
    const int64_t limit = tw_network_input_limit(t->n, i), bytes = tw_array_bytes(a);
    const tw_kind kind = tw_element_kind(a->type);
    if (bytes < 0 || kind == TW_KIND_other)
        return tw_fail_at(diag, TW_ERR_UNSUPPORTED, t->n->path, -1,
                          "input \"%s\" has elements of %s, which cannot be drawn", name_of(t, i),
                          tw_element_name(a->type));
    /* Pages are taken as they are written, and a system that has none left ends processes. */
    const int64_t free_bytes = bytes > MUCH ? tw_memory_available("") : bytes;
    if (free_bytes > 0 && bytes > free_bytes)
        return tw_fail_at(diag, TW_ERR_MEMORY, t->n->path, -1,
                          "input \"%s\" takes %.1f GB, and %.1f GB of memory are free", name_of(t, i),
                          (double)bytes / 1e9, (double)free_bytes / 1e9);
    void *data = tw_arena_alloc(&t->arena, (size_t)bytes + 1);
    if (!data) return tw_fail_memory(diag);
    const bool mask = strstr(name_of(t, i), "mask");
    for (int64_t k = 0; k < tw_array_elements(a); k++) {
        const double x = tw_random_unit(&r), between = mask ? 1 : 2 * x - 1;
        const int64_t whole = mask ? 1 : (int64_t)(x * (double)limit);
        if (kind == TW_KIND_real)
            tw_array_set_reals(a->type, data, k, 1, &between);
        else
            tw_array_set_integers(a->type, data, k, 1, &whole);
    }
    a->data = data;
    return TW_OK;
}

static bool has_extent(const tw_tensors *t, const char *symbol) {
    for (int i = 0; i < t->n_extents; i++)
        if (!strcmp(t->extents[i].symbol, symbol)) return true;
    return false;
}

/* Where no extent and no array is given, a package of one shape has that. */
static tw_status take_shape(tw_tensors *t, tw_diag *diag) {
    const tw_package *p = t->n->package;
    const tw_graph *g = t->n->model;
    tw_status st = TW_OK;
    bool given = t->n_extents > 0;
    for (int i = 0; i < g->n_inputs; i++) given |= t->given[i] != NULL;
    for (int i = 0; p && p->n_graphs == 1 && !given && i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        tw_array shape;
        if (!tw_value_array(&p->graphs[0]->values[p->graphs[0]->inputs[i]], &shape)) continue;
        for (int d = 0; d < v->rank && st == TW_OK; d++) {
            if (v->dims[d] >= 0 || v->dims[d] == TW_DIM_UNKNOWN) continue;
            const char *symbol = g->symbols[tw_dim_symbol(v->dims[d])];
            if (!has_extent(t, symbol)) st = tw_tensors_extent(t, symbol, shape.dims[d], diag);
        }
    }
    return st;
}

tw_status tw_tensors_complete(tw_tensors *t, bool random, tw_diag *diag) {
    const tw_graph *g = t->n->model;
    tw_status st = take_shape(t, diag);
    if (st == TW_OK) st = tw_graph_bind(g, t->extents, t->n_extents, t->given, t->arrays, diag);
    if (st != TW_OK && diag && !*diag->path) snprintf(diag->path, sizeof diag->path, "%s", t->n->path);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) {
        if (random && !t->arrays[i].data) st = draw(t, i, diag);
        const tw_array *a = &t->arrays[i];
        t->list[i] =
            (tw_tensor){.name = name_of(t, i), .type = tw_element_name(a->type), .rank = a->rank, .data = a->data};
        for (int d = 0; d < a->rank; d++) t->list[i].dims[d] = a->dims[d];
    }
    return st;
}

const tw_tensor *tw_tensors_list(const tw_tensors *t) {
    return t->list;
}

void tw_tensors_describe(const tw_tensors *t, char *out, size_t size) {
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < t->n->model->n_inputs && at < size; i++) {
        char text[128];
        tw_array_describe(&t->arrays[i], text, sizeof text);
        at += (size_t)snprintf(out + at, size - at, "%s%s %s", i ? ", " : "", name_of(t, i), text);
    }
    tw_utf8_mend(out); /* Where it does not fit it may end within a character. */
}

/* ---- tensors by themselves */

static bool array_of(const tw_tensor *t, tw_array *a) {
    *a = (tw_array){.rank = t->rank, .data = t->data};
    for (int i = 0; i < t->rank && i < TW_ARRAY_RANK; i++) a->dims[i] = t->dims[i];
    return t->rank <= TW_ARRAY_RANK && tw_element_from_name(t->type, &a->type);
}

int64_t tw_tensor_elements(const tw_tensor *t) {
    tw_array a;
    return array_of(t, &a) ? tw_array_elements(&a) : -1;
}

double tw_tensor_real(const tw_tensor *t, int64_t i) {
    tw_array a;
    return array_of(t, &a) ? tw_array_real(&a, i) : 0;
}

tw_status tw_tensors_write(const char *path, const tw_tensor *list, int n, tw_diag *diag) {
    tw_npz_entry *entries = calloc((size_t)n + 1, sizeof *entries);
    if (!entries) return tw_fail_memory(diag);
    for (int i = 0; i < n; i++) {
        entries[i].name = list[i].name;
        array_of(&list[i], &entries[i].array);
    }
    const tw_status st = tw_npz_write(path, entries, n, diag);
    free(entries);
    return st;
}
