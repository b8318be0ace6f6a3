/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/step.h"

#include <stdlib.h>

/* Finds the results' types and extents, once operands are there. */
static tw_status find_results(tw_call *c) {
    tw_status st = c->node->impl->shape(c);
    for (int i = 0; i < c->n_out && st == TW_OK; i++) {
        c->out[i].data = NULL; /* Shapes that are copied from an operand bring its content along. */
        if (!tw_element_bits(c->out[i].type))
            st = tw_call_refuse_type(c, c->out[i].type);
        else if (tw_array_bytes(&c->out[i]) < 0)
            st = tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many elements");
    }
    return st;
}

static tw_call *new_call(const tw_node *n, tw_arena *arena, tw_diag *diag) {
    tw_call *c = tw_arena_alloc(arena, sizeof *c);
    if (!c) return NULL;
    c->node = n;
    c->arena = arena;
    c->diag = diag;
    c->n_in = n->n_in;
    c->n_out = n->n_out;
    return c;
}

tw_status tw_step_begin(tw_call **out, const tw_node *n, const tw_array *values, tw_arena *arena, tw_diag *diag) {
    tw_call *c = *out = new_call(n, arena, diag);
    if (!c) return tw_fail_memory(diag);
    for (int i = 0; i < n->n_in; i++) c->in[i] = n->in[i] < 0 ? NULL : &values[n->in[i]];
    return find_results(c);
}

tw_status tw_step_of(tw_call **out, const tw_graph *g, const tw_node *n, tw_arena *arena, tw_diag *diag) {
    tw_call *c = *out = new_call(n, arena, diag);
    tw_array *operands = tw_arena_array(arena, (size_t)n->n_in + 1, sizeof *operands);
    if (!c || !operands) return tw_fail_memory(diag);
    for (int i = 0; i < n->n_in; i++) {
        if (n->in[i] < 0) continue;
        const tw_value *v = &g->values[n->in[i]];
        c->in[i] = &operands[i];
        if (!tw_value_array(v, &operands[i]))
            return tw_fail(diag, TW_ERR_USAGE, "\"%s\" has no type, or an extent that is no number", v->name);
    }
    return find_results(c);
}

int64_t tw_step_bytes(const tw_call *c) {
    int64_t n = 0;
    for (int i = 0; i < c->n_out; i++) n += tw_array_bytes(&c->out[i]); /* Each is below 2^55. */
    return n;
}

tw_status tw_step_compute(tw_call *c, int64_t most) {
    const int64_t bytes = tw_step_bytes(c);
    tw_status st = bytes > most ? tw_fail_memory(c->diag) : TW_OK;
    for (int i = 0; i < c->n_out && st == TW_OK; i++) {
        /* Results that nobody wants are computed, too. */
        c->out[i].data = calloc(1, (size_t)tw_array_bytes(&c->out[i]) + 16);
        if (!c->out[i].data) st = tw_fail_memory(c->diag);
    }
    /* Without elements there is nothing to compute, however large other extents are. */
    if (st == TW_OK && bytes) st = c->node->impl->compute(c);
    for (int i = 0; i < c->n_out && st != TW_OK; i++) {
        free((void *)c->out[i].data);
        c->out[i].data = NULL;
    }
    return st;
}
