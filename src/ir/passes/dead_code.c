/* SPDX-License-Identifier: Apache-2.0 */
/* Dead code. Needs: verified IR. Keeps: every effect, in order.

   Removes what only computes (PURE operations, weak loads) when nothing that stays uses the results, and control flow
   around nothing; but no while, which may be there to wait.

   Everything is dead until something that stays needs it, so cycles through variables fall too: with

       $1:f32 = set(type=f32) 0x00000000:f32
       %2:i32 = for(type=i32) 0:i32, @n, 1:i32 {
           $1 = add_f32 $1, @x
       }

   and no other use of $1 the whole loop goes, although its addition uses its own result. A variable that lives keeps
   every assignment to it, also one that the next overwrites at once; and one lives that something assigns which stays
   for another reason.

   Records of the profiler keep nothing alive, so that a kernel whose records nobody lowers is what it would be without
   them. A record goes where its value, its guard or the control flow around it goes. */
#include "ir/passes/edit.h"
#include "ir/passes/passes.h"

#include <stdlib.h>

typedef struct sweep {
    bool *live; /* values */
    bool changed;
} sweep;

static bool only_computes(const tw_ir_op *op) {
    int flags = tw_op_describe((tw_opcode)op->code)->flags;
    return flags & TW_F_PURE || (op->code == TW_OP_ld && op->at.order == TW_ORDER_weak);
}

static void need(sweep *s, tw_val v) {
    s->changed |= !s->live[v.id];
    s->live[v.id] = true;
}

static bool mark_block(sweep *s, const tw_block *block);

/* Whether all that a record refers to is there. */
static bool record_stays(const sweep *s, const tw_ir_op *op) {
    for (int i = 0; i < op->n_operands; i++)
        if (!s->live[op->operands[i].id]) return false;
    return !op->guard.id || s->live[op->guard.id];
}

static bool needed(sweep *s, const tw_ir_op *op) {
    if (op->n_blocks) {
        bool any = op->code == TW_OP_while;
        for (int i = op->n_blocks - 1; i >= 0; i--) any |= mark_block(s, &op->blocks[i]);
        return any;
    }
    if (!only_computes(op)) return true;
    for (int i = 0; i < op->n_results; i++)
        if (s->live[op->results[i].id]) return true;
    return false;
}

/* From the end, so that chains are followed in one go; only what loops carry around takes another. */
static bool mark_block(sweep *s, const tw_block *block) {
    bool any = false;
    for (const tw_ir_op *op = block->last; op; op = op->prev) {
        if (tw_is_record(op) || !needed(s, op)) continue;
        any = true;
        for (int i = 0; i < op->n_operands; i++) need(s, op->operands[i]);
        need(s, op->guard);
        /* What stays may assign a variable that nothing reads: its declaration must stay as well. */
        for (int i = 0; i < op->n_results; i++) need(s, op->results[i]);
    }
    return any;
}

static bool remove_dead(sweep *s, tw_block *block) {
    bool any = false;
    for (tw_ir_op *op = block->first; op; op = op->next) {
        if (tw_is_record(op) ? !record_stays(s, op) : !needed(s, op)) {
            tw_edit_remove(op);
            any = true;
            continue;
        }
        for (int i = 0; i < op->n_blocks; i++) any |= remove_dead(s, &op->blocks[i]);
    }
    return any;
}

bool tw_pass_dead_code(tw_kernel *k) {
    if (tw_kernel_failed(k)) return false;
    sweep s = {.live = calloc((size_t)k->n_values, sizeof *s.live)};
    if (!s.live) {
        k->arena.failed = true;
        return false;
    }
    do {
        s.changed = false;
        mark_block(&s, &k->body);
    } while (s.changed);
    bool any = remove_dead(&s, &k->body);
    free(s.live);
    return any;
}
