/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/specialize.h"

#include "graph/run.h"
#include "graph/step.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Results of more bytes than this are folded only if they have no more than so many times the bytes of operands. */
enum { LARGE = 64 << 20, TIMES = 2 };

typedef struct folder {
    const tw_graph *g;
    tw_graph *out;
    tw_array *values; /* What is known of the source's values: `data` only of constants. */
    bool *needed;     /* Of each value: an output depends on it. */
    bool *lost;       /* Of each value: extents depend on what is not known. */
    bool *owned;      /* Of each value: its data are the folder's, to be freed. */
    bool *wanted;     /* Of each value: it stays in the new graph. */
    int *uses;        /* Of each value: how many nodes still want its content. */
    int64_t most;     /* The machine's memory. */
    tw_diag *diag;
    tw_status st; /* TW_ERR_UNSUPPORTED once extents of a node are not known. */
} folder;

static bool is_known(const tw_array *a) {
    return !a || a->data || !tw_array_bytes(a);
}

/* Decides whether a node is computed now. */
static bool folds(const tw_call *c) {
    const int64_t bytes = tw_step_bytes(c);
    int64_t from = 0;
    bool known = true;
    for (int i = 0; i < c->n_in; i++) {
        const tw_array *a = c->in[i];
        if (c->node->impl->extents >> i & 1) continue;
        known &= is_known(a);
        from += a ? tw_array_bytes(a) : 0;
    }
    return !bytes || (known && (bytes <= LARGE || bytes / TIMES <= from));
}

static void drop(folder *f, int value) {
    if (value < 0 || --f->uses[value] > 0 || !f->owned[value] || f->wanted[value]) return;
    free((void *)f->values[value].data);
    f->values[value].data = NULL;
    f->owned[value] = false;
}

/* Copies a node that stays. Its operands stay with it. */
static tw_status keep(folder *f, const tw_node *n) {
    tw_node kept = *n;
    kept.in = tw_arena_array(&f->out->arena, (size_t)n->n_in + 1, sizeof(int));
    kept.out = tw_arena_array(&f->out->arena, (size_t)n->n_out + 1, sizeof(int));
    if (!kept.in || !kept.out) return tw_fail_memory(f->diag);
    for (int i = 0; i < n->n_in; i++) {
        kept.in[i] = n->in[i];
        if (n->in[i] >= 0) f->wanted[n->in[i]] = true;
    }
    memcpy(kept.out, n->out, (size_t)n->n_out * sizeof(int));
    return tw_graph_add_node(f->out, &kept) < 0 ? tw_fail_memory(f->diag) : TW_OK;
}

static tw_status take_results(folder *f, const tw_node *n, tw_call *c) {
    tw_status st = TW_OK;
    const bool fold = folds(c);
    if (fold) st = tw_step_compute(c, f->most);
    for (int i = 0; i < n->n_out && st == TW_OK; i++) {
        const int value = n->out[i];
        if (value < 0 || !f->needed[value]) {
            free((void *)c->out[i].data);
            continue;
        }
        f->values[value] = c->out[i];
        f->owned[value] = fold;
    }
    return st == TW_OK && !fold ? keep(f, n) : st;
}

static tw_status fold_node(folder *f, const tw_node *n) {
    tw_arena scratch = {0};
    tw_diag why = {0};
    tw_call *c;
    bool needed = false, lost = false;
    for (int i = 0; i < n->n_out; i++) needed |= n->out[i] >= 0 && f->needed[n->out[i]];
    if (!needed) return TW_OK;
    for (int i = 0; i < n->n_in; i++) lost |= n->in[i] >= 0 && f->lost[n->in[i]];
    tw_status st = lost ? TW_ERR_USAGE : tw_step_begin(&c, n, f->values, &scratch, &why);
    if (st == TW_OK) {
        c->diag = f->diag;
        st = take_results(f, n, c);
    } else if (st == TW_ERR_USAGE) {
        /* Nodes behind one that is listed are not. */
        if (!lost) tw_diag_add(f->diag, f->st = TW_ERR_UNSUPPORTED, NULL, "%s", why.message);
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] >= 0) f->lost[n->out[i]] = true;
        st = TW_OK;
    } else if (f->diag) {
        *f->diag = why;
    }
    for (int i = 0; i < n->n_in; i++) drop(f, n->in[i]);
    tw_arena_free(&scratch);
    return st;
}

/* Counts what each value is needed for. Nodes that no output needs count nothing. */
static void count_uses(folder *f) {
    const tw_graph *g = f->g;
    for (int i = 0; i < g->n_outputs; i++) {
        f->needed[g->outputs[i]] = f->wanted[g->outputs[i]] = true;
        f->uses[g->outputs[i]]++;
    }
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const tw_node *n = &g->nodes[i];
        bool live = false;
        for (int j = 0; j < n->n_out; j++) live |= n->out[j] >= 0 && f->needed[n->out[j]];
        for (int j = 0; j < n->n_in && live; j++) {
            if (n->in[j] < 0) continue;
            f->needed[n->in[j]] = true;
            f->uses[n->in[j]]++;
        }
    }
}

static tw_status take_inputs(folder *f, const tw_array *const *in, const bool *known) {
    const tw_graph *g = f->g;
    const tw_status st = tw_graph_check_inputs(g, in, f->diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < g->n_values; i++)
        if (g->values[i].content) f->values[i] = *g->values[i].content;
    for (int i = 0; i < g->n_inputs; i++) {
        tw_array *a = &f->values[g->inputs[i]];
        *a = *in[i];
        a->data = NULL;
        if (!known || !known[i]) continue;
        const int64_t bytes = tw_array_bytes(in[i]);
        if (bytes < 0 || !in[i]->data)
            return tw_fail(f->diag, TW_ERR_USAGE, "input \"%s\" has no content", g->values[g->inputs[i]].name);
        void *copy = tw_arena_alloc(&f->out->arena, (size_t)bytes + 1);
        if (!copy) return tw_fail_memory(f->diag);
        memcpy(copy, in[i]->data, (size_t)bytes);
        a->data = copy;
    }
    return TW_OK;
}

/* Makes the new graph's inputs, outputs and values, which have the source's numbers for now. */
static tw_status make_values(folder *f) {
    const tw_graph *g = f->g;
    tw_graph *out = f->out;
    out->name = g->name;
    out->made = g->made;
    out->n_inputs = g->n_inputs;
    out->n_outputs = g->n_outputs;
    out->inputs = tw_arena_array(&out->arena, (size_t)g->n_inputs + 1, sizeof(int));
    out->outputs = tw_arena_array(&out->arena, (size_t)g->n_outputs + 1, sizeof(int));
    for (int i = 0; i < g->n_values && !out->arena.failed; i++) tw_graph_add_value(out, g->values[i].name);
    if (out->arena.failed) return tw_fail_memory(f->diag);
    if (g->n_inputs) memcpy(out->inputs, g->inputs, (size_t)g->n_inputs * sizeof(int));
    if (g->n_outputs) memcpy(out->outputs, g->outputs, (size_t)g->n_outputs * sizeof(int));
    return TW_OK;
}

/* Gives the new graph's values their types, and constants their contents. */
static tw_status fill_values(folder *f) {
    tw_graph *out = f->out;
    for (int i = 0; i < f->g->n_values; i++) {
        const tw_array *a = &f->values[i];
        tw_value *v = &out->values[i];
        v->type = a->type;
        v->rank = a->rank;
        memcpy(v->dims, a->dims, sizeof v->dims);
        const bool constant = a->data || f->g->values[i].content; /* Data of no elements may lie nowhere. */
        if (!constant || !f->wanted[i]) continue;
        if (f->owned[i] && !tw_graph_own(out, (void *)a->data)) f->values[i].data = NULL;
        f->owned[i] = false;
        tw_graph_set_content(out, i, &f->values[i]);
    }
    return out->arena.failed ? tw_fail_memory(f->diag) : TW_OK;
}

/* Puts a constant in the place of an input whose content is known, wherever a node wants it. */
static tw_status replace_input(folder *f, int input) {
    tw_graph *out = f->out;
    const char *name = tw_arena_printf(&out->arena, "%s.known", out->values[input].name);
    const int constant = name ? tw_graph_add_value(out, name) : -1;
    if (constant < 0) return tw_fail_memory(f->diag);
    tw_value *from = &out->values[input], *to = &out->values[constant];
    *to = *from;
    to->name = name;
    from->content = NULL;
    for (int i = 0; i < out->n_nodes; i++)
        for (int j = 0; j < out->nodes[i].n_in; j++)
            if (out->nodes[i].in[j] == input) out->nodes[i].in[j] = constant;
    return TW_OK;
}

static tw_status specialize(folder *f, const tw_array *const *in, const bool *known) {
    const tw_graph *g = f->g;
    tw_status st = take_inputs(f, in, known);
    if (st == TW_OK) st = make_values(f);
    if (st != TW_OK) return st;
    count_uses(f);
    for (int i = 0; i < g->n_nodes && st == TW_OK; i++) st = fold_node(f, &g->nodes[i]);
    if (st == TW_OK) st = f->st;
    if (st == TW_OK) st = fill_values(f);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++)
        if (f->out->values[g->inputs[i]].content) st = replace_input(f, g->inputs[i]);
    return st == TW_OK ? tw_graph_compact(f->out, f->diag) : st;
}

tw_status tw_graph_specialize_known(tw_graph **out, const tw_graph *g, const tw_array *const *in, const bool *known,
                                    tw_diag *diag) {
    const size_t n = (size_t)g->n_values + 1;
    folder f = {.g = g,
                .diag = diag,
                .out = tw_graph_new(),
                .most = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                .values = calloc(n, sizeof *f.values),
                .needed = calloc(n, sizeof(bool)),
                .lost = calloc(n, sizeof(bool)),
                .owned = calloc(n, sizeof(bool)),
                .wanted = calloc(n, sizeof(bool)),
                .uses = calloc(n, sizeof(int))};
    const bool enough = f.out && f.values && f.needed && f.lost && f.owned && f.wanted && f.uses;
    if (f.out) f.out->base = tw_graph_keep(g);
    const tw_status st = enough ? specialize(&f, in, known) : tw_fail_memory(diag);
    for (size_t i = 0; enough && i < n; i++)
        if (f.owned[i]) free((void *)f.values[i].data);
    free(f.values);
    free(f.needed);
    free(f.lost);
    free(f.owned);
    free(f.wanted);
    free(f.uses);
    *out = st == TW_OK ? f.out : NULL;
    if (st != TW_OK) tw_graph_free(f.out);
    return st;
}

tw_status tw_graph_specialize(tw_graph **out, const tw_graph *g, const tw_array *const *in, tw_diag *diag) {
    return tw_graph_specialize_known(out, g, in, NULL, diag);
}
