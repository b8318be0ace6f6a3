/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/run.h"

#include "graph/ops/branch.h"
#include "graph/reasons.h"
#include "graph/step.h"
#include "graph/text.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The most attributes of a node. Operators look for theirs again and again. */
enum { ATTRIBUTES = 64 };

/* Returns why a node is not supported. NULL: it is. */
static const char *why_not(const tw_node *n) {
    const tw_op *op = n->impl;
    if (!op) return tw_op_find(n->domain, n->op, 1000) ? "an older version of the operator" : "no such operator here";
    if (n->n_in < op->least || n->n_in > op->most) return "not as many operands as it takes";
    if (n->n_out > op->results) return "more results than are computed";
    if (n->n_attributes > ATTRIBUTES) return "more attributes than any operator has";
    for (int i = 0; i < op->least; i++)
        if (n->in[i] < 0 && !(op->optional >> i & 1)) return "an operand is left out";
    for (int i = 0; i < n->n_attributes; i++)
        if (n->attributes[i].kind == TW_ATTRIBUTE_GRAPH && !tw_is_branch(n)) return "a graph within the node";
    return NULL;
}

/* Finds what nodes of a graph, and of graphs within, do. The importer limits how deep these are. */
static void resolve(tw_graph *g, tw_reasons *reasons) {
    for (int i = 0; i < g->n_nodes; i++) {
        tw_node *n = &g->nodes[i];
        n->impl = tw_op_find(n->domain, n->op, n->version);
        const char *why = why_not(n);
        if (why) tw_reasons_add(reasons, n, why);
        for (int j = 0; j < n->n_attributes && tw_is_branch(n); j++)
            if (n->attributes[j].graph) resolve(n->attributes[j].graph, reasons);
    }
}

tw_status tw_graph_resolve(tw_graph *g, const char *path, tw_diag *diag) {
    tw_reasons reasons = {0};
    resolve(g, &reasons);
    return tw_reasons_tell(&reasons, TW_ERR_UNSUPPORTED, path, diag);
}

/* The state of a run. */
typedef struct runner {
    const tw_graph *g;
    tw_arena *arena; /* The results'. */
    tw_array *values;
    bool *owned;        /* Of each value: its data are this run's, and are freed by it. */
    int *uses;          /* Of each value: how many operands and outputs still want it. */
    int64_t held, most; /* Bytes of results that are held, and the machine's memory, beyond which systems kill. */
    tw_diag *diag;
} runner;

static void drop(runner *r, int value) {
    if (--r->uses[value] > 0 || !r->owned[value]) return;
    r->held -= tw_array_bytes(&r->values[value]);
    free((void *)r->values[value].data);
    r->owned[value] = false;
}

static tw_status run_node(runner *r, const tw_node *n) {
    tw_arena scratch = {0};
    tw_call *c;
    tw_status st = tw_step_begin(&c, n, r->values, &scratch, r->diag);
    if (st == TW_OK) st = tw_step_compute(c, r->most - r->held);
    for (int i = 0; i < n->n_out && st == TW_OK; i++) {
        const int value = n->out[i];
        if (value < 0) {
            free((void *)c->out[i].data);
            continue;
        }
        r->held += tw_array_bytes(&c->out[i]);
        r->values[value] = c->out[i];
        r->owned[value] = true;
        if (!r->uses[value]) {
            r->uses[value] = 1;
            drop(r, value);
        }
    }
    for (int i = 0; i < n->n_in && st == TW_OK; i++)
        if (n->in[i] >= 0) drop(r, n->in[i]);
    tw_arena_free(&scratch);
    return st;
}

tw_status tw_graph_check_input(const tw_graph *g, int input, const tw_array *a, tw_diag *diag) {
    const tw_value *v = &g->values[g->inputs[input]];
    if (!a) return tw_fail(diag, TW_ERR_USAGE, "there is no input \"%s\"", v->name);
    bool fits = v->type == TW_E_none || v->type == a->type;
    fits = fits && (v->rank < 0 || v->rank == a->rank);
    for (int d = 0; d < v->rank && fits; d++) fits = v->dims[d] < 0 || v->dims[d] == a->dims[d];
    if (fits) return TW_OK;
    char shown[128], wanted[256];
    tw_array_describe(a, shown, sizeof shown);
    tw_value_describe(g, v, wanted, sizeof wanted);
    return tw_fail(diag, TW_ERR_USAGE, "input \"%s\" is %s, and not %s", v->name, wanted, shown);
}

tw_status tw_graph_check_inputs(const tw_graph *g, const tw_array *const *in, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) st = tw_graph_check_input(g, i, in[i], diag);
    return st;
}

static tw_status take_inputs(runner *r, const tw_array *const *in) {
    const tw_graph *g = r->g;
    const tw_status st = tw_graph_check_inputs(g, in, r->diag);
    for (int i = 0; i < g->n_values && st == TW_OK; i++)
        if (g->values[i].content) r->values[i] = *g->values[i].content;
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) r->values[g->inputs[i]] = *in[i];
    return st;
}

static tw_status give_outputs(runner *r, tw_array *out) {
    for (int i = 0; i < r->g->n_outputs; i++) {
        const tw_array *a = &r->values[r->g->outputs[i]];
        const int64_t bytes = tw_array_bytes(a);
        if (bytes < 0) return tw_fail(r->diag, TW_ERR_UNSUPPORTED, "output %d has no numbers", i);
        char *data = tw_arena_alloc(r->arena, (size_t)bytes + 1);
        if (!data) return tw_fail_memory(r->diag);
        if (bytes) memcpy(data, a->data, (size_t)bytes);
        out[i] = *a;
        out[i].data = data;
    }
    return TW_OK;
}

tw_status tw_graph_run(const tw_graph *g, const tw_array *const *in, tw_arena *arena, tw_array *out, tw_diag *diag) {
    const size_t n = (size_t)g->n_values + 1;
    runner r = {.g = g,
                .arena = arena,
                .diag = diag,
                .most = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE),
                .values = calloc(n, sizeof *r.values),
                .owned = calloc(n, sizeof *r.owned),
                .uses = calloc(n, sizeof *r.uses)};
    tw_status st = r.values && r.owned && r.uses ? take_inputs(&r, in) : tw_fail_memory(diag);
    for (int i = 0; i < g->n_nodes && st == TW_OK; i++)
        for (int j = 0; j < g->nodes[i].n_in; j++)
            if (g->nodes[i].in[j] >= 0) r.uses[g->nodes[i].in[j]]++;
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++) r.uses[g->outputs[i]]++;
    for (int i = 0; i < g->n_nodes && st == TW_OK; i++) st = run_node(&r, &g->nodes[i]);
    if (st == TW_OK) st = give_outputs(&r, out);
    for (size_t i = 0; r.owned && r.values && i < n; i++)
        if (r.owned[i]) free((void *)r.values[i].data);
    free(r.values);
    free(r.owned);
    free(r.uses);
    return st;
}
