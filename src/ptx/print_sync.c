/* SPDX-License-Identifier: Apache-2.0 */
/* Fences, barriers, and what a warp's lanes do together. */
#include "ptx/print.h"

void tw_ptx_emit_fence(tw_ptx_printer *p, const tw_ir_op *op) {
    if (tw_ptx_scope(p, op->at.scope))
        tw_ptx_line(p, "fence.%s.%s;", op->at.order == TW_ORDER_sc ? "sc" : "acq_rel",
                    tw_attr_value_ptx(TW_ATTR_scope, op->at.scope));
}

void tw_ptx_emit_fence_proxy(tw_ptx_printer *p, const tw_ir_op *op) {
    if (op->at.proxy == TW_PROXY_generic)
        tw_ptx_unsupported(p, "between the generic proxy and itself");
    else
        tw_ptx_line(p, "fence.proxy.%s;", tw_attr_value_ptx(TW_ATTR_proxy, op->at.proxy));
}

void tw_ptx_emit_fence_mbarrier_init(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "fence.mbarrier_init.release.cluster;");
}

void tw_ptx_emit_barrier(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "bar.sync 0;");
}

void tw_ptx_emit_barrier_sync(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "bar.sync %v, %d;", op->operands[0], op->at.count);
}

void tw_ptx_emit_barrier_arrive(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "bar.arrive %v, %d;", op->operands[0], op->at.count);
}

void tw_ptx_emit_warp_sync(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "bar.warp.sync %v;", op->operands[0]);
}

/* -- mbarriers */

void tw_ptx_emit_mbarrier_init(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "mbarrier.init.shared.b64 [%r], %v;", op->operands[0], op->operands[1]);
}

void tw_ptx_emit_mbarrier_inval(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "mbarrier.inval.shared.b64 [%r];", op->operands[0]);
}

void tw_ptx_emit_mbarrier_arrive(tw_ptx_printer *p, const tw_ir_op *op) {
    if (op->at.count <= 1)
        tw_ptx_line(p, "mbarrier.arrive.shared.b64 _, [%r];", op->operands[0]);
    else if (p->target->sm >= 90)
        tw_ptx_line(p, "mbarrier.arrive.shared.b64 _, [%r], %d;", op->operands[0], op->at.count);
    else
        tw_ptx_unsupported(p, "of more than one");
}

void tw_ptx_emit_mbarrier_expect(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "mbarrier.arrive.expect_tx.shared.b64 _, [%r], %v;", op->operands[0], op->operands[1]);
}

void tw_ptx_emit_mbarrier_test(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "mbarrier.test_wait.parity.shared.b64 %r, [%r], %v;", op->results[0], op->operands[0],
                op->operands[1]);
}

/* try_wait sleeps for a while in hardware; where there is none, lanes spin. */
void tw_ptx_emit_mbarrier_wait(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_val done = tw_ptx_scratch(p, TW_T_pred);
    int again = tw_ptx_label(p);
    tw_ptx_line(p, "%l:", again);
    tw_ptx_line(p, "mbarrier.%s_wait.parity.shared.b64 %r, [%r], %v;", p->target->sm >= 90 ? "try" : "test", done,
                op->operands[0], op->operands[1]);
    tw_ptx_line(p, "@!%r bra %l;", done, again);
}

/* -- a warp */

static void shuffle(tw_ptx_printer *p, const tw_ir_op *op, tw_val d, tw_val a) {
    tw_ptx_line(p, "shfl.sync.%s.b32 %r, %r, %v, %d, %v;", tw_attr_value_ptx(TW_ATTR_mode, op->at.mode), d, a,
                op->operands[1], op->at.mode == TW_MODE_up ? 0 : 31, op->operands[2]);
}

/* 64 bits go as two halves; 16, and predicates, inside 32. */
void tw_ptx_emit_shfl(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_val d = op->results[0], a = op->operands[0];
    tw_type t = tw_ptx_type(p, d);
    int bits = tw_type_bits(t);
    if (bits == 32) {
        shuffle(p, op, d, a);
        return;
    }
    tw_val half[2] = {tw_ptx_scratch(p, TW_T_i32), tw_ptx_scratch(p, TW_T_i32)};
    if (bits == 64) {
        tw_ptx_line(p, "mov.b64 %V, %r;", half, 2, a);
        shuffle(p, op, half[0], half[0]);
        shuffle(p, op, half[1], half[1]);
        tw_ptx_line(p, "mov.b64 %r, %V;", d, half, 2);
    } else if (bits == 16) {
        tw_ptx_line(p, "cvt.u32.u16 %r, %r;", half[0], a);
        shuffle(p, op, half[1], half[0]);
        tw_ptx_line(p, "cvt.u16.u32 %r, %r;", d, half[1]);
    } else {
        tw_ptx_line(p, "selp.b32 %r, 1, 0, %r;", half[0], a);
        shuffle(p, op, half[1], half[0]);
        tw_ptx_line(p, "setp.ne.s32 %r, %r, 0;", d, half[1]);
    }
}

void tw_ptx_emit_vote(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "vote.sync.%s.%s %r, %r, %v;", tw_attr_value_ptx(TW_ATTR_mode, op->at.mode),
                op->at.mode == TW_MODE_ballot ? "b32" : "pred", op->results[0], op->operands[0], op->operands[1]);
}

static const char *matrices(const tw_ir_op *op) {
    return op->at.vec == 4 ? ".x4" : op->at.vec == 2 ? ".x2" : ".x1";
}

/* One register stands in braces too. */
void tw_ptx_emit_ldmatrix(tw_ptx_printer *p, const tw_ir_op *op) {
    const char *left = op->n_results == 1 ? "{" : "", *right = op->n_results == 1 ? "}" : "";
    tw_ptx_line(p, "ldmatrix.sync.aligned.m8n8%s%s.shared.b16 %s%V%s, [%r%o];", matrices(op),
                op->at.trans ? ".trans" : "", left, op->results, op->n_results, right, op->operands[0], op->at.offset);
}

void tw_ptx_emit_stmatrix(tw_ptx_printer *p, const tw_ir_op *op) {
    int n = op->n_operands - 1;
    const char *left = n == 1 ? "{" : "", *right = n == 1 ? "}" : "";
    tw_ptx_line(p, "stmatrix.sync.aligned.m8n8%s%s.shared.b16 [%r%o], %s%V%s;", matrices(op),
                op->at.trans ? ".trans" : "", op->operands[0], op->at.offset, left, op->operands + 1, n, right);
}

void tw_ptx_emit_mma(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)op->at.mma);
    const tw_val *a = op->operands, *b = a + m->a, *c = b + m->b;
    if (m->sm > p->target->sm) {
        tw_ptx_unsupported(p, m->name);
        return;
    }
    const char *left = m->b == 1 ? "{" : "", *right = m->b == 1 ? "}" : "";
    tw_ptx_line(p, "mma.sync.aligned.%s %V, %s%V%s, %s%V%s, %V;", m->ptx, op->results, m->c, m->a == 1 ? "{" : "", a,
                m->a, m->a == 1 ? "}" : "", left, b, m->b, right, c, m->c);
}
