/* SPDX-License-Identifier: Apache-2.0 */
/* Loads from shared memory that are under way. A load is done when an operation first needs its result, or at a barrier
   or fence. Before that, a bulk or tensor copy to the same memory may overtake it. An mbarrier arrival does not wait
   for loads, so a slot that is returned by an arrival before its loads are done is returned too early.

   A move and a bitcast do not need their operand, since a compiler renames registers for them. Loads are followed only
   in kernels that copy to shared memory by bulk or tensor copies. */
#include "emu/machine.h"

#include <stdlib.h>

/* -- the loads that each operation needs, found once per kernel */

typedef struct source {
    int32_t load; /* The load's number, from 1. */
    struct source *next;
} source;

typedef struct finder {
    emu_code *code;
    tw_arena *arena;
    const tw_kernel *kernel;
    source **of; /* [value]: the loads whose result the value may hold. */
    bool changed;
} finder;

static bool copies_to_shared(const tw_ir_op *ir) {
    return ir && (ir->code == TW_OP_bulk_load || ir->code == TW_OP_tensor_load);
}

static bool loads_from_shared(const tw_ir_op *ir) {
    if (!ir) return false;
    if (ir->code == TW_OP_ldmatrix) return true;
    return ir->code == TW_OP_ld && (ir->at.space == TW_SPACE_shared || ir->at.space == TW_SPACE_cluster);
}

static bool renames(const tw_ir_op *ir) {
    return ir && (ir->code == TW_OP_set || ir->code == TW_OP_bitcast);
}

static void add(finder *f, source **list, int32_t load) {
    for (const source *s = *list; s; s = s->next)
        if (s->load == load) return;
    source *s = tw_arena_alloc(f->arena, sizeof *s);
    if (!s) return;
    *s = (source){load, *list};
    *list = s;
    f->changed = true;
}

static void add_all(finder *f, source **list, const source *from) {
    for (; from; from = from->next) add(f, list, from->load);
}

/* Lists the loads that an operation needs: those of its operands, and those into a variable that it writes. The latter
   must be done before the write. */
static void need(finder *f, emu_op *op) {
    source *all = NULL;
    int n = 0;
    for (int i = 0; i < op->n_in; i++) add_all(f, &all, f->of[op->in[i].at]);
    if (op->guarded) add_all(f, &all, f->of[op->guard.at]);
    for (int i = 0; i < op->n_out; i++)
        if (f->kernel->values[op->out[i].at].kind == TW_V_VARIABLE) add_all(f, &all, f->of[op->out[i].at]);
    for (const source *s = all; s; s = s->next) n++;
    int32_t *list = n ? tw_arena_array(f->arena, (size_t)n, sizeof *list) : NULL;
    if (!list) return;
    op->needs = list;
    for (const source *s = all; s; s = s->next) op->needs[op->n_needs++] = s->load;
}

/* Runs before registers are assigned: operands are numbered by value. */
void emu_loads_find(emu_code *code, tw_arena *arena, const tw_kernel *k) {
    finder f = {.code = code, .arena = arena, .kernel = k, .changed = true};
    bool copies = false;
    for (int i = 0; i < code->n; i++) copies |= copies_to_shared(code->ops[i].ir);
    if (!copies) return;
    f.of = tw_arena_array(arena, (size_t)k->n_values, sizeof *f.of);
    if (!f.of) return;
    for (int i = 0; i < code->n; i++) {
        emu_op *op = &code->ops[i];
        if (!loads_from_shared(op->ir)) continue;
        op->load = ++code->n_loads;
        for (int r = 0; r < op->n_out; r++) add(&f, &f.of[op->out[r].at], op->load);
    }
    while (f.changed && !arena->failed) {
        f.changed = false;
        for (int i = 0; i < code->n; i++) {
            const emu_op *op = &code->ops[i];
            for (int r = 0; renames(op->ir) && r < op->n_in; r++) add_all(&f, &f.of[op->out[0].at], f.of[op->in[r].at]);
        }
    }
    for (int i = 0; i < code->n && !arena->failed; i++)
        if (!renames(code->ops[i].ir)) need(&f, &code->ops[i]);
}

/* -- execution */

static emu_load *entry(const emu_loads *l, uint32_t at) {
    return &l->list[at % EMU_LOADS_KEPT];
}

bool emu_loads_make(emu_loads *l, const emu_code *code) {
    if (!code->n_loads) return true;
    l->list = calloc(EMU_LOADS_KEPT, sizeof *l->list);
    l->last = calloc((size_t)code->n_loads + 1, sizeof *l->last);
    return l->list && l->last;
}

void emu_loads_free(emu_loads *l) {
    free(l->list);
    free(l->last);
}

static void done(emu_warp *w, int32_t load) {
    emu_loads *l = &w->loads;
    if (!l->last[load]) return;
    entry(l, l->last[load])->done = w->now;
    l->last[load] = 0;
}

void emu_load_starts(emu_warp *w, const emu_op *op) {
    emu_loads *l = &w->loads;
    if (!w->launch->checked) return;
    done(w, op->load); /* Its last execution wrote the same registers. */
    l->n = l->n == UINT32_MAX ? 1 : l->n + 1;
    *entry(l, l->n) = (emu_load){.clock = ++w->now};
    l->last[op->load] = l->n;
}

void emu_loads_needed(emu_warp *w, const emu_op *op) {
    for (int i = 0; i < op->n_needs; i++) done(w, op->needs[i]);
}

void emu_loads_end(emu_warp *w) {
    for (int i = 1; i <= w->launch->code.n_loads; i++) done(w, i);
}

/* Clocks ascend from the oldest execution to the newest, so a binary search finds the load. */
const emu_load *emu_load_at(const emu_warp *w, uint32_t clock) {
    const emu_loads *l = &w->loads;
    uint32_t low = l->n > EMU_LOADS_KEPT ? l->n - EMU_LOADS_KEPT + 1 : 1, high = l->n + 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (entry(l, middle)->clock < clock)
            low = middle + 1;
        else
            high = middle;
    }
    return l->list && low <= l->n && entry(l, low)->clock == clock ? entry(l, low) : NULL;
}
