/* SPDX-License-Identifier: Apache-2.0 */
/* Fences, barriers, and what a warp's lanes do together. */
#include "ptx/print.h"

#include <stdio.h>

void tw_ptx_emit_fence(tw_ptx_printer *p, const tw_ir_op *op) {
    if (tw_ptx_scope(p, op->at.scope))
        tw_ptx_line(p, "fence.%s.%s;", op->at.order == TW_ORDER_sc ? "sc" : "acq_rel",
                    tw_attr_value_ptx(TW_ATTR_scope, op->at.scope));
}

/* Prints the generic address of a tensor map in parameter space. */
static void fence_tensor_maps(tw_ptx_printer *p, const tw_ir_op *op) {
    const char *proxy = tw_attr_value_ptx(TW_ATTR_proxy, op->at.proxy);
    const char *scope = tw_attr_value_ptx(TW_ATTR_scope, op->at.scope);
    tw_ptx_needs(p, 83);
    if (op->at.order == TW_ORDER_release && !op->n_operands) {
        tw_ptx_line(p, "fence.proxy.%s.release.%s;", proxy, scope);
    } else if (op->at.order == TW_ORDER_acquire && op->n_operands) {
        tw_val at = tw_ptx_scratch(p, TW_T_i64);
        tw_ptx_line(p, "cvta.global.u64 %r, %r;", at, op->operands[0]);
        tw_ptx_line(p, "fence.proxy.%s.acquire.%s [%r], %d;", proxy, scope, at, op->at.bytes);
    } else {
        tw_ptx_unsupported(p, "of this order");
    }
}

void tw_ptx_emit_fence_proxy(tw_ptx_printer *p, const tw_ir_op *op) {
    if (op->at.proxy == TW_PROXY_generic)
        tw_ptx_unsupported(p, "between the generic proxy and itself");
    else if (op->at.proxy == TW_PROXY_tensormap)
        fence_tensor_maps(p, op);
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

void tw_ptx_emit_cluster_sync(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "barrier.cluster.arrive.release.aligned;");
    tw_ptx_line(p, "barrier.cluster.wait.acquire.aligned;");
}

/* bar.sync is barrier.sync.aligned, at which all threads wait by one instruction. */
void tw_ptx_emit_barrier_sync(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "%s.sync %v, %d;", op->at.apart ? "barrier" : "bar", op->operands[0], op->at.count);
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
    if (op->at.space == TW_SPACE_cluster && p->target->sm < 90) {
        tw_ptx_unsupported(p, "in a cluster");
        return;
    }
    /* Without saying how far it releases: with `.cluster` ptxas puts a fence of the whole GPU before it. */
    if (op->at.space == TW_SPACE_cluster && op->at.count <= 1) {
        tw_ptx_line(p, "mbarrier.arrive.shared::cluster.b64 _, [%r];", op->operands[0]);
        return;
    }
    if (op->at.space == TW_SPACE_cluster) {
        tw_ptx_line(p, "mbarrier.arrive.shared::cluster.b64 _, [%r], %d;", op->operands[0], op->at.count);
        return;
    }
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

void tw_ptx_emit_shfl(tw_ptx_printer *p, const tw_ir_op *op) {
    if (tw_type_bits(tw_ptx_type(p, op->results[0])) != 32)
        tw_ptx_unsupported(p, "of this width");
    else
        tw_ptx_line(p, "shfl.sync.%s.b32 %r, %r, %v, %d, %v;", tw_attr_value_ptx(TW_ATTR_mode, op->at.mode),
                    op->results[0], op->operands[0], op->operands[1], op->at.mode == TW_MODE_up ? 0 : 31,
                    op->operands[2]);
}

void tw_ptx_emit_vote(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "vote.sync.%s.%s %r, %r, %v;", tw_attr_value_ptx(TW_ATTR_mode, op->at.mode),
                op->at.mode == TW_MODE_ballot ? "b32" : "pred", op->results[0], op->operands[0], op->operands[1]);
}

void tw_ptx_emit_redux_max_u32(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "redux.sync.max.u32 %r, %v, %v;", op->results[0], op->operands[0], op->operands[1]);
}

void tw_ptx_emit_elect(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "elect.sync _|%r, %v;", op->results[0], op->operands[0]);
}

static const char *matrices(const tw_ir_op *op) {
    return op->at.vec == 4 ? ".x4" : op->at.vec == 2 ? ".x2" : ".x1";
}

void tw_ptx_emit_ldmatrix(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "ldmatrix.sync.aligned.m8n8%s%s.shared.b16 %B, [%r%o];", matrices(op), op->at.trans ? ".trans" : "",
                op->results, op->n_results, op->operands[0], op->at.offset);
}

void tw_ptx_emit_stmatrix(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "stmatrix.sync.aligned.m8n8%s%s.shared.b16 [%r%o], %B;", matrices(op), op->at.trans ? ".trans" : "",
                op->operands[0], op->at.offset, op->operands + 1, op->n_operands - 1);
}

void tw_ptx_emit_mma(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_mma_info *m = tw_mma_describe((tw_mma_kind)op->at.mma);
    const tw_val *a = op->operands, *b = a + m->a, *c = b + m->b;
    if (m->sm > p->target->sm)
        tw_ptx_unsupported(p, m->name);
    else
        tw_ptx_line(p, "mma.sync.aligned.%s %B, %B, %B, %B;", m->ptx, op->results, m->c, a, m->a, b, m->b, c, m->c);
}

/* -- a warpgroup */

static bool has_warpgroups(tw_ptx_printer *p) {
    if (p->target->sm == 90) return true;
    tw_ptx_unsupported(p, "");
    return false;
}

void tw_ptx_emit_wgmma_fence(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    if (has_warpgroups(p)) tw_ptx_line(p, "wgmma.fence.sync.aligned;");
}

void tw_ptx_emit_wgmma_commit(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    if (has_warpgroups(p)) tw_ptx_line(p, "wgmma.commit_group.sync.aligned;");
}

void tw_ptx_emit_wgmma_wait(tw_ptx_printer *p, const tw_ir_op *op) {
    if (has_warpgroups(p)) tw_ptx_line(p, "wgmma.wait_group.sync.aligned %d;", op->at.count);
}

/* Prints the immediate operands at the end of a product: the signs of A and B for floating-point types, then their
   layouts. */
static void product_ends(const tw_ir_op *op, bool a_in_registers, char out[32]) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)op->at.wgmma);
    out[0] = 0;
    if (m->d == TW_T_i32) return;
    if (m->k != 16)
        snprintf(out, 32, ", 1, 1");
    else if (a_in_registers)
        snprintf(out, 32, ", 1, 1, %d", op->at.trans_b);
    else
        snprintf(out, 32, ", 1, 1, %d, %d", op->at.trans_a, op->at.trans_b);
}

void tw_ptx_emit_wgmma(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)op->at.wgmma);
    const tw_val *v = op->operands;
    char end[32];
    product_ends(op, false, end);
    if (has_warpgroups(p))
        tw_ptx_line(p, "wgmma.mma_async.sync.aligned.m%dn%dk%d.%s %B, %r, %r, %r%s;", TW_WGMMA_ROWS, op->at.columns,
                    m->k, m->ptx, op->results, op->n_results, v[0], v[1], v[2], end);
}

void tw_ptx_emit_wgmma_rs(tw_ptx_printer *p, const tw_ir_op *op) {
    const tw_wgmma_info *m = tw_wgmma_describe((tw_wgmma_kind)op->at.wgmma);
    const tw_val *v = op->operands;
    char end[32];
    product_ends(op, true, end);
    if (has_warpgroups(p))
        tw_ptx_line(p, "wgmma.mma_async.sync.aligned.m%dn%dk%d.%s %B, %B, %r, %r%s;", TW_WGMMA_ROWS, op->at.columns,
                    m->k, m->ptx, op->results, op->n_results, v, 4, v[4], v[5], end);
}

void tw_ptx_emit_setmaxnreg_dec(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "setmaxnreg.dec.sync.aligned.u32 %d;", op->at.count);
}

void tw_ptx_emit_setmaxnreg_inc(tw_ptx_printer *p, const tw_ir_op *op) {
    tw_ptx_line(p, "setmaxnreg.inc.sync.aligned.u32 %d;", op->at.count);
}

/* -- programmatic launches */

void tw_ptx_emit_griddep_wait(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "griddepcontrol.wait;");
}

void tw_ptx_emit_griddep_launch(tw_ptx_printer *p, const tw_ir_op *op) {
    (void)op;
    tw_ptx_line(p, "griddepcontrol.launch_dependents;");
}
