/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/specialize.h"

#include "graph/graft.h"
#include "graph/ops/branch.h"
#include "graph/reasons.h"
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
    bool lent;        /* Contents of inputs are not copied. */
    tw_diag *diag;
    tw_reasons reasons; /* Nodes whose extents are not known. */
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

/* Puts the branch of an If in its place. */
static tw_status put_branch(folder *f, const tw_node *n, tw_call *c) {
    int first;
    const tw_graph *branch = tw_branch_of(c, &first);
    const void *lent[TW_OP_OPERANDS] = {0};
    const tw_array *constants[TW_OP_OPERANDS];
    bool known[TW_OP_OPERANDS] = {0};
    tw_graph *concrete;
    for (int i = 0; i < branch->n_inputs; i++) {
        lent[i] = c->in[first + i]->data;
        known[i] = lent[i];
    }
    tw_status st = tw_graph_specialize_lent(&concrete, branch, &c->in[first], known, f->diag);
    if (st != TW_OK) return st;
    st = tw_graph_graft(f->out, concrete, n->in + first, lent, n->out, n->n_out, constants, f->diag);
    for (int i = 0; i < branch->n_inputs; i++) f->wanted[n->in[first + i]] = true;
    for (int i = 0; i < n->n_out && st == TW_OK; i++)
        if (n->out[i] >= 0 && constants[i]) f->values[n->out[i]].data = constants[i]->data;
    tw_graph_free(concrete);
    return st;
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
    if (st != TW_OK || fold) return st;
    return tw_is_branch(n) ? put_branch(f, n, c) : keep(f, n);
}

/* Returns what an operator says, without the node that it begins with. */
static const char *without_node(const tw_node *n, const char *message) {
    char node[256];
    tw_node_describe(n, node, sizeof node);
    const size_t length = strlen(node);
    return !strncmp(message, node, length) && !strncmp(message + length, ": ", 2) ? message + length + 2 : message;
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
        if (!lost) tw_reasons_add(&f->reasons, n, without_node(n, why.message));
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
        a->data = in[i]->data;
        if (f->lent) continue;
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
    const tw_status known_all = tw_reasons_tell(&f->reasons, TW_ERR_UNSUPPORTED, NULL, st == TW_OK ? f->diag : NULL);
    if (st == TW_OK) st = known_all;
    if (st == TW_OK) st = fill_values(f);
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++)
        if (f->out->values[g->inputs[i]].content) st = replace_input(f, g->inputs[i]);
    return st == TW_OK ? tw_graph_compact(f->out, f->diag) : st;
}

static tw_status fold(tw_graph **out, const tw_graph *g, const tw_array *const *in, const bool *known, bool lent,
                      tw_diag *diag) {
    const size_t n = (size_t)g->n_values + 1;
    folder f = {.g = g,
                .diag = diag,
                .lent = lent,
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

tw_status tw_graph_specialize_known(tw_graph **out, const tw_graph *g, const tw_array *const *in, const bool *known,
                                    tw_diag *diag) {
    return fold(out, g, in, known, false, diag);
}

tw_status tw_graph_specialize_lent(tw_graph **out, const tw_graph *g, const tw_array *const *in, const bool *known,
                                   tw_diag *diag) {
    return fold(out, g, in, known, true, diag);
}

tw_status tw_graph_specialize(tw_graph **out, const tw_graph *g, const tw_array *const *in, tw_diag *diag) {
    return fold(out, g, in, NULL, false, diag);
}
