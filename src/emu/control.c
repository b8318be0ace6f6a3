/* SPDX-License-Identifier: Apache-2.0 */
/* Structured control flow, which decides which lanes are active. */
#include "emu/machine.h"

/* Goes on at `pc` with the lanes of `mask` that are alive. If there are none, goes on where the block ends. */
static emu_next resume(emu_warp *w, const emu_op *op, uint32_t mask, int pc) {
    emu_set_active(w, mask & w->live);
    w->pc = w->active ? pc : op->end;
    return EMU_JUMPED;
}

static emu_frame *push(emu_warp *w, uint32_t other) {
    emu_frame *f = &w->frames[w->depth++];
    *f = (emu_frame){.outer = w->active, .other = other};
    return f;
}

emu_next emu_exec_if(emu_warp *w, const emu_op *op) {
    uint32_t p = emu_lanes(w, op->in[0]), yes = w->active & p, no = w->active & ~p;
    push(w, yes ? no : 0);
    if (yes) {
        emu_set_active(w, yes);
        return EMU_GO;
    }
    if (op->both) emu_set_active(w, no);
    w->pc = op->target;
    return EMU_JUMPED;
}

emu_next emu_else(emu_warp *w, const emu_op *op) {
    emu_frame *f = &w->frames[w->depth - 1];
    if (f->other) {
        emu_set_active(w, f->other);
        f->other = 0;
        return EMU_GO;
    }
    w->pc = op->target;
    return EMU_JUMPED;
}

emu_next emu_endif(emu_warp *w, const emu_op *op) {
    return resume(w, op, w->frames[--w->depth].outer, w->pc + 1);
}

emu_next emu_exec_for(emu_warp *w, const emu_op *op) {
    memcpy(emu_reg(w, op->out[0]), emu_reg(w, op->in[0]), op->out[0].wide ? 256 : 128);
    push(w, 0);
    return EMU_GO;
}

emu_next emu_for_test(emu_warp *w, const emu_op *op) {
    uint32_t mask = 0;
    if (op->in[0].wide) {
        const int64_t *i = emu_reg(w, op->in[0]), *below = emu_reg(w, op->in[1]);
        for (int lane = 0; lane < EMU_LANES; lane++) mask |= (uint32_t)(i[lane] < below[lane]) << lane;
    } else {
        const int32_t *i = emu_reg(w, op->in[0]), *below = emu_reg(w, op->in[1]);
        for (int lane = 0; lane < EMU_LANES; lane++) mask |= (uint32_t)(i[lane] < below[lane]) << lane;
    }
    mask &= w->active;
    if (!mask) return resume(w, op, w->frames[--w->depth].outer, op->target);
    if (mask != w->active) emu_set_active(w, mask);
    return EMU_GO;
}

emu_next emu_for_next(emu_warp *w, const emu_op *op) {
    if (op->in[0].wide) {
        uint64_t *i = emu_reg(w, op->in[0]);
        const uint64_t *step = emu_reg(w, op->in[1]);
        for (int lane = 0; lane < EMU_LANES; lane++) i[lane] += step[lane];
    } else {
        uint32_t *i = emu_reg(w, op->in[0]);
        const uint32_t *step = emu_reg(w, op->in[1]);
        for (int lane = 0; lane < EMU_LANES; lane++) i[lane] += step[lane];
    }
    w->pc = op->target;
    return EMU_JUMPED;
}

emu_next emu_exec_while(emu_warp *w, const emu_op *op) {
    (void)op;
    push(w, 0);
    w->polls = w->spins = 0;
    w->poll = 0;
    return EMU_GO;
}

emu_next emu_while_test(emu_warp *w, const emu_op *op) {
    uint32_t mask = w->active & emu_lanes(w, op->in[0]);
    if (!mask) {
        w->spins = 0;
        return resume(w, op, w->frames[--w->depth].outer, op->target);
    }
    if (mask != w->active) emu_set_active(w, mask);
    return EMU_GO;
}

/* A turn of a loop that only polled memory, and saw what the last turn saw, waits for somebody. */
emu_next emu_while_next(emu_warp *w, const emu_op *op) {
    bool polled = w->polls;
    if (polled && w->poll == w->last_poll && w->progress == w->launch->progress)
        w->spins++;
    else
        w->spins = 0;
    w->last_poll = w->poll;
    w->progress = w->launch->progress;
    w->poll = 0;
    w->polls = 0;
    w->pc = op->target;
    return polled ? EMU_YIELD : EMU_JUMPED;
}

emu_next emu_exec_roles(emu_warp *w, const emu_op *op) {
    int from = (int)emu_get(w, op->in[0], 0), below = (int)emu_get(w, op->in[1], 0);
    if (w->index >= from && w->index < below) return EMU_GO;
    w->pc = op->target;
    return EMU_JUMPED;
}

emu_next emu_role_end(emu_warp *w, const emu_op *op) {
    return resume(w, op, w->active, op->target);
}

static void leave(emu_warp *w, const emu_op *op, uint32_t mask) {
    if (w->launch->checked) emu_copies_at_exit(w, op, mask);
    w->live &= ~mask;
}

emu_next emu_exec_exit(emu_warp *w, const emu_op *op) {
    leave(w, op, emu_guarded(w, op));
    return resume(w, op, w->active, w->pc + 1);
}

emu_next emu_end(emu_warp *w, const emu_op *op) {
    leave(w, op, w->live);
    w->state = EMU_DONE;
    w->block->n_done++;
    /* A cluster's barrier does not wait for warps that have exited. */
    emu_cluster_check(w->launch, w->block->number / w->launch->cluster);
    return EMU_PARKED;
}

emu_next emu_exec_trap(emu_warp *w, const emu_op *op) {
    uint32_t mask = emu_guarded(w, op);
    if (mask) emu_find(w, op, __builtin_ctz(mask), TW_EMU_TRAP, "trapped");
    return EMU_GO;
}

emu_next emu_exec_nanosleep(emu_warp *w, const emu_op *op) {
    (void)op;
    w->pc++;
    return EMU_YIELD;
}
