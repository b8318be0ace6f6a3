/* SPDX-License-Identifier: Apache-2.0 */
/* setmaxnreg: a warpgroup returns registers to its block's pool, or takes registers from it. At launch the pool is
   empty, and every warp has the kernel's max_registers per thread. The pool counts registers per thread of one warp,
   since each warp of a warpgroup takes its share when it arrives. */
#include "emu/machine.h"

enum { UNIT = 8 /* Registers. */, WARPS = 4 /* Warps of a warpgroup. */ };

int emu_registers_at_start(const tw_kernel *k) {
    return (k->max_registers + UNIT - 1) / UNIT * UNIT;
}

/* Counts an operation of a warp. All warps of a warpgroup execute the same ones in the same order. */
static void count(emu_warp *w, const emu_op *op) {
    emu_resizes *r = &w->block->resizes[w->index / WARPS];
    if (w->resizes == r->n) {
        if (!emu_grow(w->launch, (void **)&r->list, r->n, &r->room, sizeof *r->list)) return;
        r->list[r->n++] = op;
    } else if (r->list[w->resizes] != op) {
        char place[160];
        emu_place(w->launch, r->list[w->resizes], place, sizeof place);
        emu_find(w, op, -1, TW_EMU_DIVERGENCE, "a warp of its warpgroup came to %s in its place", place);
    }
    w->resizes++;
}

static emu_next resize(emu_warp *w, const emu_op *op, bool more) {
    const int registers = op->ir->at.count, wanted = registers - w->registers;
    if (!emu_whole_warp(w, op)) return EMU_GO;
    if (more ? wanted < 0 : wanted > 0) {
        emu_find(w, op, -1, TW_EMU_REGISTERS, "%s to %d registers a thread, but has %d", more ? "rises" : "falls",
                 registers, w->registers);
        return EMU_GO;
    }
    if (wanted > w->block->free_registers) {
        w->waits_at = (uint32_t)wanted;
        emu_park(w, EMU_WAITS_REGISTERS, op);
        return EMU_PARKED;
    }
    count(w, op);
    w->registers = registers;
    w->block->free_registers -= wanted;
    w->launch->progress++;
    for (int i = 0; i < w->block->n_warps && wanted < 0; i++)
        if (w->block->warps[i].state == EMU_WAITS_REGISTERS) emu_wake(&w->block->warps[i]);
    return EMU_GO;
}

emu_next emu_exec_setmaxnreg_dec(emu_warp *w, const emu_op *op) {
    return resize(w, op, false);
}

emu_next emu_exec_setmaxnreg_inc(emu_warp *w, const emu_op *op) {
    return resize(w, op, true);
}

void emu_registers_at_end(emu_block *b) {
    for (int i = 0; i < b->n_warps; i++) {
        const emu_resizes *r = &b->resizes[i / WARPS];
        if (b->warps[i].resizes == r->n) continue;
        emu_find(&b->warps[i], r->list[b->warps[i].resizes], -1, TW_EMU_DIVERGENCE,
                 "a warp of the warpgroup never comes here, and others do");
        return;
    }
}
