/* SPDX-License-Identifier: Apache-2.0 */
#include "base/diag.h"
#include "base/hash.h"
#include "base/sum.h"
#include "engine/package.h"

#include <stdlib.h>
#include <string.h>

/* A package in the making. Failures of the buffer and of lists stick. */
typedef struct writer {
    tw_buf out;
    tw_package_constant *constants;
    const void **contents; /* Of each constant: where it lies. */
    int64_t n, room;
    uint64_t bytes; /* Of constants so far, with what aligns them. */
    bool failed;
    const char *refused; /* What packages do not have. */
} writer;

static uint64_t aligned(uint64_t x) {
    return (x + TW_PACKAGE_ALIGN - 1) / TW_PACKAGE_ALIGN * TW_PACKAGE_ALIGN;
}

static void put(writer *w, int64_t x) {
    tw_buf_add(&w->out, &x, sizeof x);
}

static void put_bytes(writer *w, const void *data, size_t n) {
    put(w, (int64_t)n);
    tw_buf_add(&w->out, data, n);
    tw_buf_add(&w->out, "", 1);
}

static void put_text(writer *w, const char *s) {
    put_bytes(w, s ? s : "", s ? strlen(s) : 0);
}

/* Returns the number of a constant, which is a new one if there is none with the same bytes. */
static int64_t constant_of(writer *w, const void *data, uint64_t bytes) {
    for (int64_t i = 0; i < w->n; i++)
        if (w->contents[i] == data && w->constants[i].bytes == bytes) return i;
    tw_package_constant c = {.bytes = bytes, .sum = tw_sum(data, bytes)};
    for (int64_t i = 0; i < w->n; i++)
        if (w->constants[i].bytes == bytes && w->constants[i].sum == c.sum &&
            (!bytes || !memcmp(w->contents[i], data, bytes)))
            return i;
    if (w->n == w->room) {
        const int64_t room = w->room ? 2 * w->room : 64;
        tw_package_constant *constants = realloc(w->constants, (size_t)room * sizeof *constants);
        if (constants) w->constants = constants;
        const void **contents = realloc(w->contents, (size_t)room * sizeof *contents);
        if (contents) w->contents = contents;
        if (!constants || !contents) {
            w->failed = true;
            return -1;
        }
        w->room = room;
    }
    c.at = w->bytes;
    w->bytes = aligned(w->bytes + bytes);
    w->contents[w->n] = data;
    w->constants[w->n] = c;
    return w->n++;
}

static void put_array(writer *w, const tw_array *a) {
    const int64_t bytes = tw_array_bytes(a);
    if (bytes < 0) {
        w->refused = "constants without a size";
        return;
    }
    put(w, tw_element_onnx(a->type));
    put(w, a->rank);
    for (int i = 0; i < a->rank; i++) put(w, a->dims[i]);
    put(w, constant_of(w, a->data, (uint64_t)bytes));
}

static void put_value(writer *w, const tw_value *v) {
    put_text(w, v->name);
    put(w, tw_element_onnx(v->type));
    put(w, v->rank);
    for (int i = 0; i < v->rank; i++) put(w, v->dims[i]);
    put(w, !!v->content);
    if (v->content) put_array(w, v->content);
}

static void put_attribute(writer *w, const tw_attribute *a) {
    put_text(w, a->name);
    put(w, a->kind);
    switch (a->kind) {
    case TW_ATTRIBUTE_INT:
        put(w, a->integer);
        return;
    case TW_ATTRIBUTE_REAL:
        tw_buf_add(&w->out, &a->real, sizeof a->real);
        return;
    case TW_ATTRIBUTE_TEXT:
        put_text(w, a->text);
        return;
    case TW_ATTRIBUTE_ARRAY:
        put_array(w, a->array);
        return;
    case TW_ATTRIBUTE_TEXTS:
        put(w, a->n_texts);
        for (int i = 0; i < a->n_texts; i++) put_text(w, a->texts[i]);
        return;
    case TW_ATTRIBUTE_GRAPH:
        w->refused = "graphs within nodes";
    }
}

static void put_numbers(writer *w, const int *list, int n) {
    put(w, n);
    for (int i = 0; i < n; i++) put(w, list[i]);
}

static void put_graph(writer *w, const tw_graph *g) {
    put_text(w, g->name);
    put(w, g->n_symbols);
    for (int i = 0; i < g->n_symbols; i++) put_text(w, g->symbols[i]);
    put(w, g->n_values);
    for (int i = 0; i < g->n_values; i++) put_value(w, &g->values[i]);
    put_numbers(w, g->inputs, g->n_inputs);
    put_numbers(w, g->outputs, g->n_outputs);
    put(w, g->n_nodes);
    for (int i = 0; i < g->n_nodes; i++) {
        const tw_node *n = &g->nodes[i];
        put_text(w, n->op);
        put_text(w, n->domain);
        put_text(w, n->name);
        put(w, n->version);
        put_numbers(w, n->in, n->n_in);
        put_numbers(w, n->out, n->n_out);
        put(w, n->n_attributes);
        for (int k = 0; k < n->n_attributes; k++) put_attribute(w, &n->attributes[k]);
    }
}

static void put_code(writer *w, const tw_machine_code *c) {
    for (int i = 0; i < 2; i++) put(w, (int64_t)c->key.word[i]);
    put(w, c->registers);
    put(w, c->spill_bytes);
    put(w, constant_of(w, c->data, c->bytes));
    put_text(w, c->target);
}

static void put_panels(writer *w, const tw_cpu_panels *x) {
    for (int i = 0; i < 2; i++) put(w, (int64_t)x->name[i]);
    put(w, constant_of(w, x->data, x->bytes));
}

/* Writes the inputs and outputs of a model as a graph without nodes. */
static void put_interface(writer *w, const tw_graph *g) {
    put_text(w, g->name);
    put(w, g->n_symbols);
    for (int i = 0; i < g->n_symbols; i++) put_text(w, g->symbols[i]);
    put(w, g->n_inputs + g->n_outputs);
    for (int i = 0; i < g->n_inputs + g->n_outputs; i++) {
        tw_value v = g->values[i < g->n_inputs ? g->inputs[i] : g->outputs[i - g->n_inputs]];
        v.content = NULL;
        put_value(w, &v);
    }
    put(w, g->n_inputs);
    for (int i = 0; i < g->n_inputs; i++) put(w, i);
    put(w, g->n_outputs);
    for (int i = 0; i < g->n_outputs; i++) put(w, g->n_inputs + i);
    put(w, 0);
}

static tw_status write(writer *w, const writer *graphs, const char *path, tw_diag *diag) {
    static const char zeros[TW_PACKAGE_ALIGN];
    const size_t meta = w->out.size + graphs->out.size;
    tw_package_header h = {.magic = TW_PACKAGE_MAGIC,
                           .version = TW_PACKAGE_VERSION,
                           .meta_bytes = meta,
                           .data_at = aligned(sizeof h + meta),
                           .data_bytes = graphs->bytes};
    tw_hash hash = tw_hash_begin();
    tw_hash_add(&hash, w->out.data, w->out.size);
    tw_hash_add(&hash, graphs->out.data, graphs->out.size);
    tw_hash_end(&hash, h.hash);
    const size_t n = 4 + 2 * (size_t)graphs->n;
    tw_file_piece *pieces = calloc(n, sizeof *pieces);
    if (!pieces) return tw_fail_memory(diag);
    pieces[0] = (tw_file_piece){&h, sizeof h};
    pieces[1] = (tw_file_piece){w->out.data, w->out.size};
    pieces[2] = (tw_file_piece){graphs->out.data, graphs->out.size};
    pieces[3] = (tw_file_piece){zeros, h.data_at - sizeof h - meta};
    for (int64_t i = 0; i < graphs->n; i++) {
        const tw_package_constant *c = &graphs->constants[i];
        pieces[4 + 2 * i] = (tw_file_piece){graphs->contents[i], c->bytes};
        pieces[5 + 2 * i] = (tw_file_piece){zeros, aligned(c->bytes) - c->bytes};
    }
    const tw_status st = tw_file_write_pieces(path, pieces, n, diag);
    free(pieces);
    return st;
}

tw_status tw_package_write(const tw_package_parts *p, const char *path, tw_diag *diag) {
    writer w = {0}, graphs = {0}; /* Which constants there are is known behind the rest, and stands before it. */
    put(&graphs, p->n_code);
    for (int i = 0; i < p->n_code; i++) put_code(&graphs, &p->code[i]);
    put(&graphs, p->n_panels);
    for (int i = 0; i < p->n_panels; i++) put_panels(&graphs, &p->panels[i]);
    put(&graphs, !!p->model);
    put(&graphs, p->n_graphs);
    put_interface(&graphs, p->interface);
    if (p->model) put_graph(&graphs, p->model);
    for (int i = 0; i < p->n_graphs; i++) put_graph(&graphs, p->graphs[i]);
    put_text(&w, p->dtype);
    put_bytes(&w, p->plan, p->plan_bytes);
    put(&w, graphs.n);
    tw_buf_add(&w.out, graphs.constants, (size_t)graphs.n * sizeof *graphs.constants);
    tw_status st = TW_OK;
    if (w.out.failed || graphs.out.failed || graphs.failed) st = tw_fail_memory(diag);
    if (st == TW_OK && graphs.refused)
        st = tw_fail(diag, TW_ERR_UNSUPPORTED, "a package has no %s, and the model has", graphs.refused);
    if (st == TW_OK) st = write(&w, &graphs, path, diag);
    tw_buf_free(&w.out);
    tw_buf_free(&graphs.out);
    free(graphs.constants);
    free(graphs.contents);
    return st;
}
