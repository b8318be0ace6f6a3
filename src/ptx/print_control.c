/* SPDX-License-Identifier: Apache-2.0 */
/* Values of any type, and control flow as labels and branches. */
#include "ptx/print.h"

#include <string.h>

void tw_ptx_emit_set(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_move(p, op->results[0], op->operands[0]);
}

/* Registers are declared at the entry. */
void tw_ptx_emit_undef(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)p, (void)op;
}

/* selp takes no predicates as data. */
static void select_pred(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_val t = tw_ptx_scratch(p, TW_T_pred), u = tw_ptx_scratch(p, TW_T_pred), q = op->operands[2];
    tw_ptx_line(p, "and.pred %r, %r, %r;", t, op->operands[0], q);
    tw_ptx_line(p, "not.pred %r, %r;", u, q);
    tw_ptx_line(p, "and.pred %r, %r, %r;", u, op->operands[1], u);
    tw_ptx_line(p, "or.pred %r, %r, %r;", op->results[0], t, u);
}

void tw_ptx_emit_select(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_type t = tw_ptx_type(p, op->results[0]);
    if (t == TW_T_pred)
        select_pred(p, op);
    else
        tw_ptx_line(p, "selp.%s %r, %v, %v, %r;", tw_type_ptx(t), op->results[0], op->operands[0], op->operands[1],
                    op->operands[2]);
}

void tw_ptx_emit_bitcast(tw_ptx_printer *p, const tw_ir_op *op) {
    int bits = tw_type_bits(tw_ptx_type(p, op->results[0]));
    if (bits == 1)
        tw_ptx_move(p, op->results[0], op->operands[0]);
    else
        tw_ptx_line(p, "mov.b%d %r, %r;", bits, op->results[0], op->operands[0]);
}

void tw_ptx_emit_sreg(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_val d = op->results[0];
    if (op->at.sreg == TW_SREG_cluster_rank && p->target->sm < 90)
        tw_ptx_unsupported(p, "of a rank in a cluster");
    else if (op->at.sreg == TW_SREG_warpid)
        tw_ptx_line(p, "mov.b32 %r, %r;", d, tw_ptx_warp(p));
    else
        tw_ptx_line(p, "mov.u%d %r, %s;", tw_type_bits(tw_ptx_type(p, d)), d,
                    tw_attr_value_ptx(TW_ATTR_sreg, op->at.sreg));
}

void tw_ptx_emit_cluster_address(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "mapa.shared::cluster.u32 %r, %r, %v;", op->results[0], op->operands[0], op->operands[1]);
}

void tw_ptx_emit_shared_address(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_shared *s = tw_kernel_shared_find(p->k, op->name);
    if (!s) {
        tw_ptx_unsupported(p, "of an object that there is not");
        return;
    }
    int i = (int)(s - p->k->shared);
    if (s->dynamic)
        tw_ptx_line(p, "mov.u32 %r, tw_dynamic%o;", op->results[0], (int)p->offset[i]);
    else
        tw_ptx_line(p, "mov.u32 %r, %n;", op->results[0], i);
}

void tw_ptx_emit_if(tw_ptx_printer *p, const tw_ir_op *op) {
    bool yes = op->blocks[0].first, no = op->blocks[1].first;
    if (!yes && !no) return;
    int otherwise = tw_ptx_label(p), end = yes && no ? tw_ptx_label(p) : otherwise;
    tw_ptx_line(p, "@%s%r bra %l;", yes ? "!" : "", op->operands[0], otherwise);
    tw_ptx_block(p, &op->blocks[yes ? 0 : 1]);
    if (yes && no) {
        tw_ptx_line(p, "bra.uni %l;", end);
        tw_ptx_line(p, "%l:", otherwise);
        tw_ptx_block(p, &op->blocks[1]);
    }
    tw_ptx_line(p, "%l:", end);
}

/* An operand that a loop reads again: what a variable holds on entry is kept. */
static tw_val held(tw_ptx_printer *p, tw_val v) {
    if (p->k->values[v.id].kind != TW_V_VARIABLE) return v;
    tw_val t = tw_ptx_scratch(p, tw_ptx_type(p, v));
    tw_ptx_move(p, t, v);
    return t;
}

static bool surely_enters(const tw_ptx_printer *p, tw_val from, tw_val below, int bits) {
    uint64_t a, b;
    if (!tw_value_constant(p->k, from, &a) || !tw_value_constant(p->k, below, &b)) return false;
    return bits == 64 ? (int64_t)a < (int64_t)b : (int32_t)a < (int32_t)b;
}

/* Tested at the bottom, and once before: the form that ptxas unrolls and pipelines best. */
void tw_ptx_emit_for(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_val i = op->results[0], below = held(p, op->operands[1]), step = held(p, op->operands[2]);
    tw_val q = tw_ptx_scratch(p, TW_T_pred);
    int bits = tw_type_bits(tw_ptx_type(p, i)), body = tw_ptx_label(p), end = tw_ptx_label(p);
    bool enters = surely_enters(p, op->operands[0], op->operands[1], bits);
    tw_ptx_move(p, i, op->operands[0]);
    if (!enters) {
        tw_ptx_line(p, "setp.ge.s%d %r, %r, %v;", bits, q, i, below);
        tw_ptx_line(p, "@%r bra %l;", q, end);
    }
    tw_ptx_line(p, "%l:", body);
    if (op->at.unroll == 1) tw_ptx_line(p, "    .pragma \"nounroll\";");
    tw_ptx_block(p, &op->blocks[0]);
    tw_ptx_line(p, "add.s%d %r, %r, %v;", bits, i, i, step);
    tw_ptx_line(p, "setp.lt.s%d %r, %r, %v;", bits, q, i, below);
    tw_ptx_line(p, "@%r bra %l;", q, body);
    if (!enters) tw_ptx_line(p, "%l:", end);
}

void tw_ptx_emit_while(tw_ptx_printer *p, const tw_ir_op *op) {
    int head = tw_ptx_label(p), end = tw_ptx_label(p);
    tw_ptx_line(p, "%l:", head);
    tw_ptx_block(p, &op->blocks[0]);
    if (op->blocks[1].first) {
        tw_ptx_line(p, "@!%r bra %l;", op->operands[0], end);
        tw_ptx_block(p, &op->blocks[1]);
        tw_ptx_line(p, "bra.uni %l;", head);
        tw_ptx_line(p, "%l:", end);
    } else
        tw_ptx_line(p, "@%r bra %l;", op->operands[0], head);
}

/* Every lane of a warp goes the same way. */
void tw_ptx_emit_roles(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_val warp = tw_ptx_warp(p), q = tw_ptx_scratch(p, TW_T_pred);
    int end = tw_ptx_label(p);
    for (int i = 0; i < op->n_blocks; i++) {
        uint64_t from = 0, below = 0;
        int next = i + 1 < op->n_blocks ? tw_ptx_label(p) : end;
        tw_value_constant(p->k, op->operands[2 * i], &from);
        tw_value_constant(p->k, op->operands[2 * i + 1], &below);
        tw_val shifted = warp;
        if (from) {
            shifted = tw_ptx_scratch(p, TW_T_i32);
            tw_ptx_line(p, "add.s32 %r, %r, %d;", shifted, warp, -(int)from);
        }
        tw_ptx_line(p, "setp.ge.u32 %r, %r, %d;", q, shifted, (int)(below - from));
        tw_ptx_line(p, "@%r bra.uni %l;", q, next);
        tw_ptx_block(p, &op->blocks[i]);
        if (next == end) break;
        tw_ptx_line(p, "bra.uni %l;", end);
        tw_ptx_line(p, "%l:", next);
    }
    tw_ptx_line(p, "%l:", end);
}

void tw_ptx_emit_exit(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "exit;");
}

void tw_ptx_emit_trap(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "trap;");
}

void tw_ptx_emit_nanosleep(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "nanosleep.u32 %v;", op->operands[0]);
}

/* Records are not printed: a pass lowers them where they are wanted. */
void tw_ptx_emit_record_begin(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)p, (void)op;
}

void tw_ptx_emit_record_end(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)p, (void)op;
}

void tw_ptx_emit_record_mark(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)p, (void)op;
}

void tw_ptx_emit_record_value(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)p, (void)op;
}
