/* SPDX-License-Identifier: Apache-2.0 */
/* The first half of lowering records: finds them, and says where each one's word will lie. */
#ifndef TW_PROF_PLAN_H
#define TW_PROF_PLAN_H

#include "prof/lower.h"

/* Whether the options want this record. */
bool tw_prof_wants(const tw_prof_options *o, const tw_ir_op *op);

/* Whether a block of operations of `roles` is a scope of its own: the operation stands in the kernel's body itself. */
static inline bool tw_prof_opens_scopes(const tw_kernel *k, const tw_ir_op *op) {
    return op->code == TW_OP_roles && op->block == &k->body;
}

/* Fills the layout. Sites, loops and scopes are numbered in the order of the program, scopes behind the body's. */
tw_status tw_prof_plan(const tw_kernel *k, const tw_prof_options *o, tw_prof_layout *l, tw_diag *diag);

#endif
