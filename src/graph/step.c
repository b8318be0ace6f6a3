/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/step.h"

#include <stdlib.h>

tw_status tw_step_begin(tw_call **out, const tw_node *n, const tw_array *values, tw_arena *arena, tw_diag *diag) {
    tw_call *c = tw_arena_alloc(arena, sizeof *c);
    *out = c;
    if (!c) return tw_fail_memory(diag);
    c->node = n;
    c->arena = arena;
    c->diag = diag;
    c->n_in = n->n_in;
    c->n_out = n->n_out;
    for (int i = 0; i < n->n_in; i++) c->in[i] = n->in[i] < 0 ? NULL : &values[n->in[i]];
    tw_status st = n->impl->shape(c);
    for (int i = 0; i < n->n_out && st == TW_OK; i++) {
        c->out[i].data = NULL; /* Shapes that are copied from an operand bring its content along. */
        if (!tw_element_bits(c->out[i].type))
            st = tw_call_refuse_type(c, c->out[i].type);
        else if (tw_array_bytes(&c->out[i]) < 0)
            st = tw_call_fail(c, TW_ERR_UNSUPPORTED, "has too many elements");
    }
    return st;
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
