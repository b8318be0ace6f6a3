/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/shapes/infer.h"

#include "graph/shapes/rules.h"
#include "graph/step.h"

#include <stdlib.h>
#include <string.h>

typedef struct inferrer {
    tw_graph *g;
    tw_arena arena;
    tw_fact *facts; /* Of each value. */
    tw_symbols symbols;
    bool failed; /* Out of memory. */
} inferrer;

/* ---- what is known in the beginning */

/* Returns what a dimension of the graph is. */
static const tw_formula *extent_of(inferrer *f, tw_dim d) {
    if (d >= 0) return tw_formula_number(&f->arena, d);
    if (d == TW_DIM_UNKNOWN) return NULL;
    const tw_formula *sum = f->g->meanings[tw_dim_symbol(d)].sum;
    return sum ? sum : tw_formula_symbol(&f->arena, tw_dim_symbol(d));
}

/* Makes an array's elements a content that is followed, if they can be. */
static void take_content(inferrer *f, tw_fact *fact, const tw_array *a) {
    const tw_kind kind = tw_element_kind(a->type);
    const int64_t n = tw_array_elements(a);
    if (a->rank > 1 || n < 0 || n > TW_FACT_ELEMENTS || (kind != TW_KIND_integer && kind != TW_KIND_truth)) return;
    fact->content = tw_arena_array(&f->arena, (size_t)n + 1, sizeof(const tw_formula *));
    fact->n = fact->content ? (int)n : 0;
    for (int i = 0; i < fact->n; i++) fact->content[i] = tw_formula_number(&f->arena, tw_array_integer(a, i));
}

static void begin(inferrer *f) {
    tw_graph *g = f->g;
    for (int i = 0; i < g->n_values; i++) {
        const tw_value *v = &g->values[i];
        tw_fact *fact = &f->facts[i];
        *fact = (tw_fact){.type = TW_E_none, .rank = TW_RANK_UNKNOWN};
        if (v->producer >= 0) continue;
        fact->type = v->type;
        fact->rank = v->rank;
        for (int d = 0; d < v->rank; d++) fact->dims[d] = extent_of(f, v->dims[d]);
        if (v->content) take_content(f, fact, v->content);
    }
}

/* ---- nodes */

/* A node's operands as arrays. */
typedef struct trial {
    tw_node node; /* The node, whose operands are numbered from 0. */
    int in[TW_OP_OPERANDS];
    tw_array arrays[TW_OP_OPERANDS];
    bool exact; /* All extents are numbers, and no content is one of symbols. */
    bool known; /* All contents that matter are there. */
} trial;

static bool sample(const inferrer *f, const tw_formula *e, int64_t *x) {
    return tw_formula_at(e, f->symbols.samples, x);
}

/* Makes the content of an operand, for samples of the symbols. */
static const void *content_of(inferrer *f, tw_arena *scratch, const tw_fact *fact, bool *exact) {
    int64_t *x = tw_arena_array(scratch, (size_t)fact->n + 1, sizeof *x);
    char *data = tw_arena_alloc(scratch, (size_t)fact->n * 8 + 8);
    if (!x || !data) {
        f->failed = true;
        return NULL;
    }
    for (int i = 0; i < fact->n; i++) {
        int64_t number;
        if (!sample(f, fact->content[i], &x[i])) return NULL;
        *exact &= tw_formula_is_number(fact->content[i], &number);
    }
    tw_array_set_integers(fact->type, data, 0, fact->n, x);
    return data;
}

/* Makes arrays of a node's operands, with samples for symbols, or with 1, which fits all. False: the type or rank of
   one is not known. */
static bool make_trial(inferrer *f, tw_arena *scratch, const tw_node *n, bool ones, trial *t) {
    t->node = *n;
    t->node.in = t->in;
    t->exact = t->known = true;
    for (int i = 0; i < n->n_in; i++) {
        t->in[i] = n->in[i] < 0 ? -1 : i;
        if (n->in[i] < 0) continue;
        const tw_fact *fact = &f->facts[n->in[i]];
        const tw_array *constant = f->g->values[n->in[i]].content;
        tw_array *a = &t->arrays[i];
        *a = (tw_array){.type = fact->type, .rank = fact->rank};
        if (fact->type == TW_E_none || fact->rank < 0) return false;
        for (int d = 0; d < fact->rank; d++) {
            int64_t number;
            const bool is_number = tw_formula_is_number(fact->dims[d], &number);
            t->exact &= is_number;
            if (ones && !is_number)
                a->dims[d] = 1;
            else if (!sample(f, fact->dims[d], &a->dims[d]) || a->dims[d] < 0)
                a->dims[d] = 1;
        }
        if (constant)
            a->data = constant->data;
        else if (fact->content)
            a->data = content_of(f, scratch, fact, &t->exact);
        t->known &= a->data || tw_array_bytes(a) == 0 || (n->impl->extents >> i & 1);
    }
    return true;
}

/* Computes a node of which all is known, if its results are short. */
static void compute(inferrer *f, tw_call *c, tw_fact *out) {
    enum { MOST = TW_FACT_ELEMENTS * 8 };
    if (tw_step_bytes(c) > MOST) return;
    const tw_status st = tw_step_compute(c, MOST);
    if (st == TW_ERR_MEMORY) f->failed = true;
    for (int i = 0; i < c->n_out && st == TW_OK; i++) {
        take_content(f, &out[i], &c->out[i]);
        free((void *)c->out[i].data);
    }
}

/* Finds types and ranks of results, and extents where those of all operands are numbers. */
static bool try_node(inferrer *f, const tw_node *n, tw_fact *out) {
    tw_arena scratch = {0};
    tw_diag why = {0};
    trial *t = tw_arena_alloc(&scratch, sizeof *t);
    tw_call *c;
    bool exact = false;
    f->failed |= !t;
    if (t && make_trial(f, &scratch, n, false, t)) {
        tw_status st = tw_step_begin(&c, &t->node, t->arrays, &scratch, &why);
        if (st != TW_OK && !t->exact && make_trial(f, &scratch, n, true, t))
            st = tw_step_begin(&c, &t->node, t->arrays, &scratch, &why);
        f->failed |= st == TW_ERR_MEMORY;
        exact = t->exact && st == TW_OK;
        for (int i = 0; i < n->n_out && st == TW_OK; i++) {
            out[i].type = c->out[i].type;
            out[i].rank = c->out[i].rank;
            for (int d = 0; d < c->out[i].rank && exact; d++)
                out[i].dims[d] = tw_formula_number(&f->arena, c->out[i].dims[d]);
        }
        if (exact && t->known) compute(f, c, out);
    }
    tw_arena_free(&scratch);
    return exact;
}

static void infer_node(inferrer *f, const tw_node *n) {
    const tw_fact *in[TW_OP_OPERANDS];
    tw_fact out[TW_OP_OPERANDS];
    for (int i = 0; i < n->n_in; i++) in[i] = n->in[i] < 0 ? NULL : &f->facts[n->in[i]];
    for (int i = 0; i < n->n_out; i++) out[i] = (tw_fact){.type = TW_E_none, .rank = TW_RANK_UNKNOWN};
    tw_inference x = {.arena = &f->arena,
                      .symbols = &f->symbols,
                      .node = n,
                      .n_in = n->n_in,
                      .n_out = n->n_out,
                      .in = in,
                      .out = out};
    const bool exact = n->n_out && try_node(f, n, out);
    if (n->n_out && !exact && out->rank >= 0) tw_infer_dims(&x);
    if (n->n_out && !out->content && out->rank >= 0) tw_infer_contents(&x);
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i] >= 0) f->facts[n->out[i]] = out[i];
}

static void write_back(inferrer *f) {
    tw_graph *g = f->g;
    for (int i = 0; i < g->n_values; i++) {
        tw_value *v = &g->values[i];
        const tw_fact *fact = &f->facts[i];
        if (v->producer < 0) continue;
        v->type = fact->type;
        v->rank = fact->rank;
        for (int d = 0; d < fact->rank; d++) v->dims[d] = tw_symbols_dim(&f->symbols, fact->dims[d]);
    }
}

tw_status tw_graph_infer(tw_graph *g, tw_diag *diag) {
    inferrer f = {.g = g, .facts = calloc((size_t)g->n_values + 1, sizeof *f.facts)};
    f.symbols = (tw_symbols){.graph = g, .arena = &f.arena};
    f.failed = !f.facts || !tw_symbols_begin(&f.symbols);
    if (!f.failed) begin(&f);
    for (int i = 0; i < g->n_nodes && !f.failed; i++)
        if (g->nodes[i].impl) infer_node(&f, &g->nodes[i]);
    if (!f.failed) write_back(&f);
    f.failed |= f.arena.failed || g->arena.failed;
    free(f.facts);
    free(f.symbols.samples);
    tw_arena_free(&f.arena);
    return f.failed ? tw_fail_memory(diag) : TW_OK;
}
