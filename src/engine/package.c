/* SPDX-License-Identifier: Apache-2.0 */
/* Reading packages. Files may be hostile: nothing that they say is believed before it was looked at. */
#include "engine/package.h"

#include "base/diag.h"
#include "base/hash.h"
#include "graph/check.h"
#include "graph/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYMBOLS = 4096 /* The most symbols of a graph. */ };

static const char no_memory[] = "out of memory";

/* A place in the description. A failure sticks. */
typedef struct reader {
    tw_package *p;
    const unsigned char *at, *end;
    const char *wrong; /* NULL: nothing is, so far. */
} reader;

static void blame(reader *r, const char *what) {
    if (!r->wrong) r->wrong = what;
    r->at = r->end;
}

static int64_t get(reader *r) {
    int64_t x = 0;
    if (r->end - r->at < (ptrdiff_t)sizeof x) {
        blame(r, "the description ends early");
        return 0;
    }
    memcpy(&x, r->at, sizeof x);
    r->at += sizeof x;
    return x;
}

/* Reads how many things of at least `least` bytes follow. */
static int get_count(reader *r, size_t least) {
    const int64_t n = get(r);
    if (n >= 0 && n <= (r->end - r->at) / (ptrdiff_t)least && n < INT32_MAX / 2) return (int)n;
    blame(r, "a list is longer than the description");
    return 0;
}

static const char *get_bytes(reader *r, size_t *size) {
    const int n = get_count(r, 1);
    *size = 0;
    if (r->wrong || r->end - r->at < n + 1 || r->at[n]) {
        blame(r, "a text has no end");
        return "";
    }
    const char *s = (const char *)r->at;
    r->at += n + 1;
    *size = (size_t)n;
    return s;
}

static const char *get_text(reader *r) {
    size_t n;
    const char *s = get_bytes(r, &n);
    if (strlen(s) != n) blame(r, "a text has a NUL in it");
    return s;
}

/* ---- graphs */

static void get_type(reader *r, tw_element *type) {
    *type = TW_E_none;
    const int64_t number = get(r);
    if (number && !tw_element_from_onnx(number, type)) blame(r, "a type is none");
}

/* Reads rank and extents. `symbols` is how many may stand for extents. */
static void get_dims(reader *r, int *rank, int64_t *dims, int symbols) {
    const int64_t n = get(r);
    if (n < TW_RANK_UNKNOWN || n > TW_ARRAY_RANK) {
        blame(r, "an array has too many dimensions");
        *rank = 0;
        return;
    }
    *rank = (int)n;
    for (int i = 0; i < n; i++) {
        dims[i] = get(r);
        if (dims[i] < 0 && dims[i] != TW_DIM_UNKNOWN && dims[i] < -(int64_t)symbols) blame(r, "a symbol is none");
    }
}

static const tw_array *get_array(reader *r, tw_graph *g) {
    tw_array *a = tw_arena_alloc(&g->arena, sizeof *a);
    if (!a) {
        blame(r, no_memory);
        return NULL;
    }
    get_type(r, &a->type);
    get_dims(r, &a->rank, a->dims, 0);
    const int64_t which = get(r), bytes = a->rank < 0 ? -1 : tw_array_bytes(a);
    if (r->wrong) return NULL;
    if (bytes < 0 || which < 0 || which >= r->p->n_constants || (uint64_t)bytes != r->p->constants[which].bytes) {
        blame(r, "a constant has another size than its shape needs");
        return NULL;
    }
    a->data = r->p->data + r->p->constants[which].at;
    return a;
}

static void get_value(reader *r, tw_graph *g) {
    const int i = tw_graph_add_value(g, get_text(r));
    if (i < 0) {
        blame(r, no_memory);
        return;
    }
    tw_value *v = &g->values[i];
    get_type(r, &v->type);
    get_dims(r, &v->rank, v->dims, g->n_symbols);
    if (!get(r)) return;
    const tw_array *a = get_array(r, g);
    if (a) tw_graph_set_content(g, i, a);
}

static int *get_numbers(reader *r, tw_graph *g, int *n, bool optional) {
    *n = get_count(r, sizeof(int64_t));
    int *list = tw_arena_array(&g->arena, (size_t)*n + 1, sizeof *list);
    for (int i = 0; i < *n && list; i++) {
        const int64_t x = get(r);
        if (x < (optional ? -1 : 0) || x >= g->n_values) blame(r, "a value is none of the graph's");
        list[i] = (int)x;
    }
    if (!list) blame(r, no_memory);
    if (r->wrong) *n = 0;
    return list;
}

static void get_attribute(reader *r, tw_graph *g, tw_attribute *a) {
    a->name = get_text(r);
    const int64_t kind = get(r);
    a->kind = (tw_attribute_kind)kind;
    switch (kind) {
    case TW_ATTRIBUTE_INT:
        a->integer = get(r);
        return;
    case TW_ATTRIBUTE_REAL: {
        const int64_t bits = get(r);
        memcpy(&a->real, &bits, sizeof bits);
        return;
    }
    case TW_ATTRIBUTE_TEXT:
        a->text = get_text(r);
        return;
    case TW_ATTRIBUTE_ARRAY:
        a->array = get_array(r, g);
        return;
    case TW_ATTRIBUTE_TEXTS:
        a->n_texts = get_count(r, sizeof(int64_t) + 1);
        a->texts = tw_arena_array(&g->arena, (size_t)a->n_texts + 1, sizeof *a->texts);
        if (!a->texts) blame(r, no_memory);
        for (int i = 0; i < a->n_texts && a->texts; i++) a->texts[i] = get_text(r);
        return;
    default:
        a->kind = TW_ATTRIBUTE_INT;
        blame(r, "an attribute is of no kind");
    }
}

static void get_node(reader *r, tw_graph *g) {
    tw_node n = {.op = get_text(r)};
    n.domain = get_text(r);
    n.name = get_text(r);
    const int64_t version = get(r);
    n.version = version > 0 && version < 1 << 20 ? (int)version : 0;
    n.in = get_numbers(r, g, &n.n_in, true);
    n.out = get_numbers(r, g, &n.n_out, true);
    n.n_attributes = get_count(r, 3 * sizeof(int64_t));
    n.attributes = tw_arena_array(&g->arena, (size_t)n.n_attributes + 1, sizeof *n.attributes);
    if (!n.attributes) blame(r, no_memory);
    for (int i = 0; i < n.n_attributes && !r->wrong; i++) get_attribute(r, g, &n.attributes[i]);
    if (r->wrong) return;
    const int number = tw_graph_add_node(g, &n);
    if (number < 0) blame(r, no_memory);
    for (int i = 0; i < n.n_out && number >= 0; i++)
        if (n.out[i] >= 0) g->values[n.out[i]].producer = number;
}

/* A package's names and constants lie in its mapping. */
static tw_graph *get_graph(reader *r) {
    tw_graph *g = r->wrong ? NULL : tw_graph_new();
    if (!g) {
        blame(r, no_memory);
        return NULL;
    }
    g->name = get_text(r);
    const int symbols = get_count(r, sizeof(int64_t) + 1);
    if (symbols > SYMBOLS) blame(r, "there are too many symbols");
    for (int i = 0; i < symbols && !r->wrong; i++)
        if (tw_graph_symbol(g, get_text(r)) != i) blame(r, "a symbol is there twice");
    const int values = get_count(r, 4 * sizeof(int64_t));
    for (int i = 0; i < values && !r->wrong; i++) get_value(r, g);
    g->inputs = get_numbers(r, g, &g->n_inputs, false);
    g->outputs = get_numbers(r, g, &g->n_outputs, false);
    const int nodes = get_count(r, 7 * sizeof(int64_t));
    for (int i = 0; i < nodes && !r->wrong; i++) get_node(r, g);
    /* Whatever seemed to be wrong then, it was this. */
    if (g->arena.failed) r->wrong = no_memory;
    return g;
}

/* ---- the file */

/* Whether inputs and outputs of a graph are those of the model. */
static bool fits_interface(const tw_package *p, const tw_graph *g) {
    if (g->n_inputs != p->interface->n_inputs || g->n_outputs != p->interface->n_outputs) return false;
    for (int i = 0; i < g->n_inputs; i++)
        if (strcmp(g->values[g->inputs[i]].name, p->interface->values[p->interface->inputs[i]].name) != 0) return false;
    return true;
}

static bool has_extents(const tw_graph *g, int value) {
    tw_array a;
    return value < 0 || (tw_value_array(&g->values[value], &a) && tw_array_elements(&a) >= 0);
}

/* Tells whether all types and extents are known, as programs need them. */
static bool is_concrete(const tw_graph *g) {
    bool all = true;
    for (int i = 0; i < g->n_inputs; i++) all &= has_extents(g, g->inputs[i]);
    for (int i = 0; i < g->n_outputs; i++) all &= has_extents(g, g->outputs[i]);
    for (int i = 0; i < g->n_nodes; i++) {
        for (int k = 0; k < g->nodes[i].n_in; k++) all &= has_extents(g, g->nodes[i].in[k]);
        for (int k = 0; k < g->nodes[i].n_out; k++) all &= has_extents(g, g->nodes[i].out[k]);
    }
    return all;
}

static tw_status check_graph(const tw_package *p, tw_graph *g, const char *name, const char *path, tw_diag *diag) {
    tw_diag why = {0};
    tw_status st = tw_graph_resolve(g, path, diag);
    if (st != TW_OK) return st;
    if (!fits_interface(p, g))
        return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s has other inputs than the package", name);
    st = tw_graph_check(g, &why);
    if (st == TW_ERR_MEMORY) return tw_fail_memory(diag);
    return st == TW_OK ? st : tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s: %s", name, why.message);
}

static tw_status check_graphs(const tw_package *p, const char *path, tw_diag *diag) {
    tw_status st = p->model ? check_graph(p, p->model, "the model", path, diag) : TW_OK;
    for (int i = 0; i < p->n_graphs && st == TW_OK; i++) {
        char name[32];
        snprintf(name, sizeof name, "graph %d", i);
        st = check_graph(p, p->graphs[i], name, path, diag);
        if (st == TW_OK && !is_concrete(p->graphs[i]))
            st = tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s has values without extents", name);
    }
    return st;
}

static void get_constants(reader *r) {
    tw_package *p = r->p;
    p->n_constants = get_count(r, sizeof *p->constants);
    p->constants = tw_arena_array(&p->arena, (size_t)p->n_constants + 1, sizeof *p->constants);
    p->checked = tw_arena_array(&p->arena, (size_t)p->n_constants + 1, sizeof *p->checked);
    if (!p->constants || !p->checked) blame(r, no_memory);
    if (r->wrong) return;
    if (p->n_constants) memcpy(p->constants, r->at, (size_t)p->n_constants * sizeof *p->constants);
    r->at += (size_t)p->n_constants * sizeof *p->constants;
    for (int64_t i = 0; i < p->n_constants; i++) {
        const tw_package_constant *c = &p->constants[i];
        if (c->at % TW_PACKAGE_ALIGN || c->at > p->data_bytes || c->bytes > p->data_bytes - c->at)
            blame(r, "a constant lies beyond the file's end");
    }
}

/* Reads the number of a constant. NULL: there is none. */
static const tw_package_constant *get_constant(reader *r) {
    const int64_t which = get(r);
    if (!r->wrong && (which < 0 || which >= r->p->n_constants)) blame(r, "a constant is none of the package's");
    return r->wrong ? NULL : &r->p->constants[which];
}

static void get_code(reader *r) {
    tw_package *p = r->p;
    const int n = get_count(r, 6 * sizeof(int64_t) + 1);
    p->code = tw_arena_array(&p->arena, (size_t)n + 1, sizeof *p->code);
    if (!p->code) blame(r, no_memory);
    for (int i = 0; i < n && !r->wrong; i++) {
        tw_machine_code *c = &p->code[i];
        for (int k = 0; k < 2; k++) c->key.word[k] = (uint64_t)get(r);
        c->registers = (int)get(r);
        c->spill_bytes = (int)get(r);
        const tw_package_constant *of = get_constant(r);
        c->target = get_text(r);
        if (!of || r->wrong) return;
        c->data = p->data + of->at;
        c->bytes = of->bytes;
        if (!tw_is_machine_code(c->data, c->bytes)) blame(r, "a kernel is no machine code");
        p->n_code++;
    }
}

static void get_panels(reader *r) {
    tw_package *p = r->p;
    const int n = get_count(r, 3 * sizeof(int64_t));
    p->panels = tw_arena_array(&p->arena, (size_t)n + 1, sizeof *p->panels);
    if (!p->panels) blame(r, no_memory);
    for (int i = 0; i < n && !r->wrong; i++) {
        tw_cpu_panels *x = &p->panels[i];
        for (int k = 0; k < 2; k++) x->name[k] = (uint64_t)get(r);
        const tw_package_constant *of = get_constant(r);
        if (!of) return;
        x->data = p->data + of->at;
        x->bytes = of->bytes;
        p->n_panels++;
    }
}

static tw_status get_package(tw_package *p, reader *r, const char *path, tw_diag *diag) {
    p->dtype = get_text(r);
    p->plan = get_bytes(r, &p->plan_bytes);
    get_constants(r);
    get_code(r);
    get_panels(r);
    const bool has_model = get(r);
    const int n = get_count(r, 7 * sizeof(int64_t));
    p->interface = get_graph(r);
    if (has_model) p->model = get_graph(r);
    p->graphs = tw_arena_array(&p->arena, (size_t)n + 1, sizeof *p->graphs);
    if (!p->graphs) blame(r, no_memory);
    while (p->n_graphs < n && !r->wrong) {
        p->graphs[p->n_graphs] = get_graph(r);
        p->n_graphs += !!p->graphs[p->n_graphs];
    }
    if (!r->wrong && r->at != r->end) blame(r, "the description goes on behind its end");
    if (r->wrong == no_memory) return tw_fail_memory(diag);
    if (r->wrong) return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "%s", r->wrong);
    return TW_OK;
}

/* What graphs say of shapes and axes is in small constants, and is looked at next. */
static tw_status check_small(tw_package *p, const char *path, tw_diag *diag) {
    bool *which = calloc((size_t)p->n_constants + 1, sizeof *which);
    if (!which) return tw_fail_memory(diag);
    for (int64_t i = 0; i < p->n_constants; i++) which[i] = p->constants[i].bytes <= TW_PACKAGE_SMALL;
    const tw_status st = tw_package_check(p, which, path, diag);
    free(which);
    return st;
}

static tw_status check_header(const unsigned char *data, size_t size, tw_package_header *h, const char *path,
                              tw_diag *diag) {
    if (size < sizeof *h || memcmp(data, TW_PACKAGE_MAGIC, 8) != 0)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, 0, "the file is no package");
    memcpy(h, data, sizeof *h);
    if (h->version != TW_PACKAGE_VERSION)
        return tw_fail_at(diag, TW_ERR_UNSUPPORTED, path, 8,
                          "the package is of version %u; this build reads version %d", h->version, TW_PACKAGE_VERSION);
    if (h->meta_bytes > size - sizeof *h || h->data_at < sizeof *h + h->meta_bytes || h->data_at % TW_PACKAGE_ALIGN ||
        h->data_at > size || h->data_bytes != size - h->data_at)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, 16, "the file has %zu bytes, and its header says otherwise", size);
    uint64_t found[2];
    tw_hash hash = tw_hash_begin();
    tw_hash_add(&hash, data + sizeof *h, h->meta_bytes);
    tw_hash_end(&hash, found);
    if (memcmp(found, h->hash, sizeof found) != 0)
        return tw_fail_at(diag, TW_ERR_FORMAT, path, sizeof *h, "the description does not have its checksum");
    return TW_OK;
}

tw_status tw_package_read(tw_package **out, const void *data, size_t size, const char *path, tw_diag *diag) {
    tw_package_header h;
    *out = NULL;
    tw_status st = check_header(data, size, &h, path, diag);
    if (st != TW_OK) return st;
    tw_package *p = calloc(1, sizeof *p);
    if (!p) return tw_fail_memory(diag);
    const unsigned char *at = (const unsigned char *)data + sizeof h;
    reader r = {.p = p, .at = at, .end = at + h.meta_bytes};
    p->data = (const unsigned char *)data + h.data_at;
    p->data_bytes = h.data_bytes;
    p->data_at = h.data_at;
    st = get_package(p, &r, path, diag);
    if (st == TW_OK) st = check_small(p, path, diag);
    if (st == TW_OK) st = check_graphs(p, path, diag);
    if (st == TW_OK)
        *out = p;
    else
        tw_package_close(p);
    return st;
}

tw_status tw_package_open(tw_package **out, const char *path, tw_diag *diag) {
    tw_map map;
    *out = NULL;
    tw_status st = tw_map_open(&map, path, diag);
    if (st != TW_OK) return st;
    st = tw_package_read(out, map.data, map.size, path, diag);
    if (st == TW_OK)
        (*out)->map = map;
    else
        tw_map_close(&map);
    return st;
}

void tw_package_close(tw_package *p) {
    if (!p) return;
    for (int i = 0; i < p->n_graphs; i++) tw_graph_free(p->graphs[i]);
    tw_graph_free(p->model);
    tw_graph_free(p->interface);
    tw_arena_free(&p->arena);
    tw_map_close(&p->map);
    free(p);
}

bool tw_is_package(const char *path) {
    const size_t n = strlen(path);
    return n > 3 && !strcmp(path + n - 3, ".tw");
}

void tw_package_describe_shapes(const tw_package *p, int graph, char *out, size_t size) {
    const tw_graph *g = p->graphs[graph];
    size_t at = 0;
    *out = 0;
    for (int i = 0; i < g->n_inputs && at < size; i++) {
        tw_array a;
        char text[128] = "?";
        if (tw_value_array(&g->values[g->inputs[i]], &a)) tw_array_describe(&a, text, sizeof text);
        at += (size_t)snprintf(out + at, size - at, "%s%s %s", i ? ", " : "", g->values[g->inputs[i]].name, text);
    }
}
