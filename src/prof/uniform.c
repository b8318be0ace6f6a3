/* SPDX-License-Identifier: Apache-2.0 */
#include "prof/uniform.h"

#include <stdlib.h>

typedef struct search {
    bool *varying;
    bool changed;
} search;

static bool any_varies(const bool *varying, const tw_ir_op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (varying[op->operands[i].id]) return true;
    return varying[op->guard.id];
}

bool tw_prof_parts_lanes(const bool *varying, const tw_ir_op *op) {
    return op->n_blocks && op->code != TW_OP_roles && any_varies(varying, op);
}

/* Whether lanes may get different results from equal operands. */
static bool differs(const tw_ir_op *op) {
    if (op->code == TW_OP_for || op->code == TW_OP_vote || op->code == TW_OP_redux_max_u32) return false;
    if (!(tw_op_describe((tw_opcode)op->code)->flags & TW_F_PURE)) return true;
    if (op->code != TW_OP_sreg) return false;
    switch (op->at.sreg) {
    case TW_SREG_tid_x:
    case TW_SREG_tid_y:
    case TW_SREG_tid_z:
    case TW_SREG_laneid:
    case TW_SREG_clock:
    case TW_SREG_clock64:
    case TW_SREG_globaltimer:
        return true;
    default:
        return false;
    }
}

/* Whether lanes get equal results whatever their operands are. */
static bool agrees(const tw_ir_op *op, const bool *varying) {
    if (op->code == TW_OP_vote || op->code == TW_OP_redux_max_u32) return true;
    return op->code == TW_OP_shfl && op->at.mode == TW_MODE_idx && !varying[op->operands[1].id];
}

static void search_block(search *s, const tw_block *block, bool apart) {
    for (const tw_ir_op *op = block->first; op; op = op->next) {
        const bool varies = apart || (!agrees(op, s->varying) && (differs(op) || any_varies(s->varying, op)));
        for (int i = 0; i < op->n_results; i++) {
            s->changed |= varies && !s->varying[op->results[i].id];
            s->varying[op->results[i].id] |= varies;
        }
        for (int i = 0; i < op->n_blocks; i++)
            search_block(s, &op->blocks[i], apart || tw_prof_parts_lanes(s->varying, op));
    }
}

/* What varies in one round makes more vary in the next: loops carry variables around. */
bool *tw_prof_find_varying(const tw_kernel *k) {
    search s = {.varying = calloc((size_t)k->n_values + 1, sizeof *s.varying)};
    if (!s.varying) return NULL;
    do {
        s.changed = false;
        search_block(&s, &k->body, false);
    } while (s.changed);
    return s.varying;
}
