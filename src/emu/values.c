/* SPDX-License-Identifier: Apache-2.0 */
/* Values of any type, special registers, marks. */
#include "emu/machine.h"

emu_next emu_exec_set(emu_warp *w, const emu_op *op) {
    if (w->active == EMU_ALL)
        memcpy(emu_reg(w, op->out[0]), emu_reg(w, op->in[0]), op->out[0].wide ? 256 : 128);
    else
        EMU_EACH(lane, w->active) emu_put(w, op->out[0], (int)lane, emu_get(w, op->in[0], (int)lane));
    return EMU_GO;
}

emu_next emu_exec_undef(emu_warp *w, const emu_op *op) {
    for (int i = 0; i < op->n_assigned; i++) w->assigned[op->assigned[i]] &= ~w->active;
    /* Reading an undef is a finding. Until then its value is the same in every run. */
    EMU_EACH(lane, w->active) emu_put(w, op->out[0], (int)lane, 0xa5a5a5a5a5a5a5a5ull);
    return EMU_GO;
}

emu_next emu_exec_select(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, w->active) {
        emu_ref from = op->in[emu_get(w, op->in[2], (int)lane) & 1 ? 0 : 1];
        emu_put(w, op->out[0], (int)lane, emu_get(w, from, (int)lane));
    }
    return EMU_GO;
}

emu_next emu_exec_bitcast(emu_warp *w, const emu_op *op) {
    /* The operands are one value of the same width, or several that make one up, the first lowest. */
    int bits = 0, width = tw_type_bits((tw_type)op->ir->at.type) / (op->n_in ? op->n_in : 1);
    EMU_EACH(lane, w->active) {
        uint64_t x = 0;
        bits = 0;
        for (int i = 0; i < op->n_in; i++, bits += width) x |= emu_get(w, op->in[i], (int)lane) << bits;
        emu_put(w, op->out[0], (int)lane, x);
    }
    return EMU_GO;
}

static uint64_t special(const emu_warp *w, int sreg, int lane) {
    const emu_launch *l = w->launch;
    const emu_block *b = w->block;
    switch (sreg) {
    case TW_SREG_tid_x:
        return (uint64_t)(w->index * EMU_LANES + lane);
    case TW_SREG_ntid_x:
        return (uint64_t)l->kernel->threads;
    case TW_SREG_ctaid_x:
    case TW_SREG_ctaid_y:
    case TW_SREG_ctaid_z:
        return (uint64_t)b->at[sreg - TW_SREG_ctaid_x];
    case TW_SREG_nctaid_x:
    case TW_SREG_nctaid_y:
    case TW_SREG_nctaid_z:
        return (uint64_t)l->grid[sreg - TW_SREG_nctaid_x];
    case TW_SREG_laneid:
        return (uint64_t)lane;
    case TW_SREG_warpid:
        return (uint64_t)w->index;
    case TW_SREG_smid:
        return (uint64_t)b->resident;
    case TW_SREG_nsmid:
        return (uint64_t)l->most_resident;
    case TW_SREG_cluster_rank:
        return (uint64_t)(b->number % l->cluster);
    case TW_SREG_clock:
        return (uint32_t)l->operations;
    case TW_SREG_clock64:
    case TW_SREG_globaltimer:
        return (uint64_t)l->operations;
    default: /* tid_y and tid_z. Blocks have one dimension. */
        return 0;
    }
}

emu_next emu_exec_sreg(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, w->active) emu_put(w, op->out[0], (int)lane, special(w, op->ir->at.sreg, (int)lane));
    return EMU_GO;
}

emu_next emu_exec_shared_address(emu_warp *w, const emu_op *op) {
    const emu_launch *l = w->launch;
    const tw_shared *s = tw_kernel_shared_find(l->kernel, op->ir->name);
    uint64_t base = s ? l->shared[s - l->kernel->shared].base : 0;
    EMU_EACH(lane, w->active) emu_put(w, op->out[0], (int)lane, base);
    return EMU_GO;
}

emu_next emu_exec_cluster_address(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, w->active) {
        uint64_t address = emu_get(w, op->in[0], (int)lane), rank = emu_get(w, op->in[1], (int)lane);
        if (address > EMU_RANK_MASK)
            emu_find(w, op, (int)lane, TW_EMU_BOUNDS, "0x%llx is no address of the block's own shared memory",
                     (unsigned long long)address);
        if (rank >= (uint64_t)w->launch->cluster) {
            emu_find(w, op, (int)lane, TW_EMU_BOUNDS, "block %d of a cluster of %d", (int32_t)rank, w->launch->cluster);
            rank = EMU_NO_RANK;
        }
        emu_put(w, op->out[0], (int)lane, (address & EMU_RANK_MASK) | (rank + 1) << EMU_RANK_SHIFT);
    }
    return EMU_GO;
}

emu_next emu_exec_policy(emu_warp *w, const emu_op *op) {
    EMU_EACH(lane, w->active) emu_put(w, op->out[0], (int)lane, 0);
    return EMU_GO;
}

emu_next emu_exec_record_begin(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}

emu_next emu_exec_record_end(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}

emu_next emu_exec_record_mark(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}

emu_next emu_exec_record_value(emu_warp *w, const emu_op *op) {
    (void)w, (void)op;
    return EMU_GO;
}
