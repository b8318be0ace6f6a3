/* SPDX-License-Identifier: Apache-2.0 */
/* What passes do to blocks of operations. */
#ifndef TW_IR_PASSES_EDIT_H
#define TW_IR_PASSES_EDIT_H

#include "ir/ir.h"

/* Takes an operation out of its block. Its links stay, so that a walk may go on from it. */
void tw_edit_remove(tw_ir_op *op);

/* Moves the operations of `from` to before `op`, in order. */
void tw_edit_splice(tw_ir_op *op, tw_block *from);

/* Moves the operations of `from` to the beginning or the end of `to`. */
void tw_edit_prepend(tw_block *to, tw_block *from);
void tw_edit_append(tw_block *to, tw_block *from);

/* A new operation before `op` with one new register of type `t`; TW_NONE when out of memory, which sticks. Absent
   operands, at the end, are TW_NONE. */
tw_val tw_edit_insert(tw_kernel *k, tw_ir_op *op, tw_opcode code, tw_type t, tw_val x, tw_val y, tw_val z);

tw_val tw_edit_constant(tw_kernel *k, tw_type t, uint64_t bits);

static inline bool tw_is_variable(const tw_kernel *k, tw_val v) {
    return k->values[v.id].kind == TW_V_VARIABLE;
}

/* Values that stand for others: what was replaced must be a register, what it is replaced by must not be a variable, so
   that it is the same at every use. */
typedef struct tw_replacements {
    tw_val *with;
    int n; /* values that there were when the pass began */
} tw_replacements;

bool tw_replacements_begin(tw_replacements *r, tw_kernel *k); /* false: out of memory, which sticks in the kernel */
void tw_replacements_end(tw_replacements *r);
static inline tw_val tw_replaced(const tw_replacements *r, tw_val v) {
    while (v.id < r->n && r->with[v.id].id) v = r->with[v.id];
    return v;
}
/* In the operands and the guard. */
void tw_replace_uses(const tw_replacements *r, tw_ir_op *op);

#endif
