/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/passes/edit.h"

#include "ir/builder.h"

#include <stdlib.h>

void tw_edit_remove(tw_ir_op *op) {
    if (op->prev)
        op->prev->next = op->next;
    else
        op->block->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        op->block->last = op->prev;
}

static void link_before(tw_ir_op *op, tw_ir_op *first, tw_ir_op *last) {
    first->prev = op->prev;
    last->next = op;
    if (op->prev)
        op->prev->next = first;
    else
        op->block->first = first;
    op->prev = last;
}

void tw_edit_splice(tw_ir_op *op, tw_block *from) {
    tw_ir_op *first = from->first, *last = from->last;
    if (!first) return;
    for (tw_ir_op *i = first; i; i = i->next) i->block = op->block;
    link_before(op, first, last);
    from->first = from->last = NULL;
}

void tw_edit_append(tw_block *to, tw_block *from) {
    if (!from->first) return;
    for (tw_ir_op *i = from->first; i; i = i->next) i->block = to;
    from->first->prev = to->last;
    if (to->last)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    from->first = from->last = NULL;
}

void tw_edit_prepend(tw_block *to, tw_block *from) {
    if (to->first)
        tw_edit_splice(to->first, from);
    else
        tw_edit_append(to, from);
}

tw_val tw_edit_insert(tw_kernel *k, tw_ir_op *op, tw_opcode code, tw_type t, tw_val x, tw_val y, tw_val z) {
    /* Built at the end of a block of its own by the ordinary builder, then moved. */
    tw_block block = {.owner = NULL};
    tw_builder b = tw_builder_of(k);
    b.open[0] = &block;
    tw_val v = TW_NONE, operands[3] = {x, y, z};
    int n = x.id == 0 ? 0 : y.id == 0 ? 1 : z.id == 0 ? 2 : 3;
    tw_ir_op *made = tw_emit(&b, code, (tw_attrs){0}, &v, &t, 1, operands, n);
    if (!made) return TW_NONE;
    made->block = op->block;
    link_before(op, made, made);
    return v;
}

tw_val tw_edit_constant(tw_kernel *k, tw_type t, uint64_t bits) {
    tw_builder b = tw_builder_of(k);
    return tw_const(&b, t, bits);
}

bool tw_replacements_begin(tw_replacements *r, tw_kernel *k) {
    r->n = k->n_values;
    r->with = calloc((size_t)r->n, sizeof *r->with);
    if (!r->with) k->arena.failed = true;
    return r->with != NULL;
}

void tw_replacements_end(tw_replacements *r) {
    free(r->with);
}

void tw_replace_uses(const tw_replacements *r, tw_ir_op *op) {
    for (int i = 0; i < op->n_operands; i++) op->operands[i] = tw_replaced(r, op->operands[i]);
    op->guard = tw_replaced(r, op->guard);
}
