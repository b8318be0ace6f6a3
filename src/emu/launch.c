/* SPDX-License-Identifier: Apache-2.0 */
/* Launches a kernel. Blocks come and go, and a scheduler that depends on the seed decides who takes the next turn. */
#include "base/clock.h"
#include "base/diag.h"
#include "emu/machine.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    RESIDENT = 4,
    QUANTUM = 64,
    SPINS = 300, /* Turns of a loop without news, after which a warp counts as waiting. */
};
enum { RANDOM, RUN_ON, ROUND_ROBIN, STARVE, LONG, STRATEGIES };

/* -- who may run */

void emu_wake(emu_warp *w) {
    emu_launch *l = w->launch;
    w->state = EMU_RUNS;
    w->waits = NULL;
    if (w->runnable_at >= 0) return;
    w->runnable_at = l->n_runnable;
    l->runnable[l->n_runnable++] = w;
}

static void unlist(emu_warp *w) {
    emu_launch *l = w->launch;
    if (w->runnable_at < 0) return;
    emu_warp *last = l->runnable[--l->n_runnable];
    l->runnable[w->runnable_at] = last;
    last->runnable_at = w->runnable_at;
    w->runnable_at = -1;
}

void emu_park(emu_warp *w, emu_state state, const emu_op *op) {
    w->state = state;
    w->waits = op;
    unlist(w);
}

/* -- blocks */

static void block_free(emu_launch *l, emu_block *b) {
    if (!b) return;
    for (int i = 0; i < b->n_warps && b->warps; i++) {
        emu_warp *w = &b->warps[i];
        if (w->launch) unlist(w);
        free(w->regs);
        free(w->assigned);
        free(w->frames);
        emu_clock_free(&w->known);
        emu_aparts_free(&w->apart);
        emu_aparts_free(&w->fenced);
        emu_aparts_free(&w->unfenced);
        free(w->commits.list);
        free(w->bulk_commits.list);
        free(w->laters.list);
        free(w->products.list);
        free(w->pending);
        emu_loads_free(&w->loads);
    }
    free(b->warps);
    for (int i = 0; i < l->kernel->n_shared && b->shared; i++) free(b->shared[i].cells);
    free(b->shared);
    free(b->memory);
    for (int i = 0; i < EMU_NAMED_BARRIERS; i++) emu_clock_free(&b->barriers[i].clock);
    for (int i = 0; i < b->n_mbarriers; i++) {
        emu_clock_free(&b->mbarriers[i].arriving);
        emu_clock_free(&b->mbarriers[i].done);
    }
    free(b->mbarriers);
    for (int i = 0; i < EMU_WARPGROUPS; i++) free(b->resizes[i].list);
    free(b);
}

static bool warp_init(emu_launch *l, emu_block *b, int index) {
    emu_warp *w = &b->warps[index];
    int threads = l->kernel->threads - index * EMU_LANES;
    *w = (emu_warp){.block = b, .index = index, .runnable_at = -1, .now = 1};
    w->all = w->live = threads >= EMU_LANES ? EMU_ALL : (1u << threads) - 1;
    emu_set_active(w, w->all);
    w->thread = (uint32_t)b->number << l->stride_log2 | (uint32_t)(index * EMU_AGENTS);
    w->known.block = b->number;
    w->registers = emu_registers_at_start(l->kernel);
    w->regs = aligned_alloc(128, (size_t)(l->code.units + 1) * 128);
    w->assigned = calloc((size_t)l->code.n_checked + 1, sizeof *w->assigned);
    w->frames = calloc((size_t)l->code.depth + 1, sizeof *w->frames);
    w->pending = calloc((size_t)l->code.n_checked + 1, sizeof *w->pending);
    if (!w->regs || !w->assigned || !w->frames || !w->pending || !emu_loads_make(&w->loads, &l->code)) return false;
    memset(w->regs, 0xa5, (size_t)(l->code.units + 1) * 128);
    w->launch = l;
    emu_wake(w);
    return true;
}

static bool block_shared(emu_launch *l, emu_block *b) {
    int n = l->kernel->n_shared;
    b->shared = calloc((size_t)n + 1, sizeof *b->shared);
    b->memory = malloc(2 * l->shared_bytes + 1);
    if (!b->shared || !b->memory) return false;
    memset(b->memory, 0xa5, l->shared_bytes);
    memset(b->memory + l->shared_bytes, EMU_NOT_WRITTEN, l->shared_bytes);
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        b->shared[i] = l->shared[i];
        b->shared[i].block = b->number;
        b->shared[i].data = b->memory + at;
        b->shared[i].written = b->memory + l->shared_bytes + at;
        at += ((size_t)l->shared[i].bytes + 15) & ~(size_t)15;
    }
    return true;
}

static void block_start(emu_launch *l) {
    emu_block *b = calloc(1, sizeof *b);
    int64_t n = l->next_block++;
    if (b) {
        b->number = (int)n;
        b->at[0] = (int)(n % l->grid[0]);
        b->at[1] = (int)(n / l->grid[0] % l->grid[1]);
        b->at[2] = (int)(n / l->grid[0] / l->grid[1]);
        b->resident = l->n_resident;
        for (int i = 0; i < l->n_resident; i++)
            if (l->resident[i]->resident == b->resident) b->resident = (b->resident + 1) % l->most_resident, i = -1;
        for (int i = 0; i < EMU_NAMED_BARRIERS; i++) b->barriers[i].clock.block = b->number;
        b->warps = calloc((size_t)l->n_warps, sizeof *b->warps);
        l->resident[l->n_resident++] = b;
    }
    bool fine = b && b->warps && block_shared(l, b);
    if (fine) b->n_warps = l->n_warps;
    for (int i = 0; fine && i < l->n_warps; i++) fine = warp_init(l, b, i);
    if (!fine) l->failed = l->stop = true;
}

static void block_end(emu_launch *l, emu_block *b) {
    for (bool landed = true; landed;) {
        landed = false;
        for (emu_copy *c = l->copies; c && !landed; c = c->next)
            if (c->warp->block == b || c->home == b) {
                emu_land(l, c);
                landed = true;
            }
    }
    if (!l->stop) emu_block_ends(b);
    if (!l->stop) emu_registers_at_end(b);
    if (!l->stop && l->checked && l->cluster > 1) emu_shadow_ends(b);
    int at = 0;
    while (l->resident[at] != b) at++;
    l->resident[at] = l->resident[--l->n_resident];
    if (l->starved && l->starved->block == b) l->starved = NULL;
    block_free(l, b);
    l->done_blocks++;
}

/* -- deadlock */

/* Describes who is missing at the barrier of a block's cluster. */
static void missing_text(const emu_launch *l, const emu_block *b, char *out, size_t size) {
    int missing = 0, number = 0, index = 0;
    for (int i = l->n_resident - 1; i >= 0; i--) {
        const emu_block *other = l->resident[i];
        if (other->number / l->cluster != b->number / l->cluster) continue;
        for (int j = other->n_warps - 1; j >= 0; j--) {
            emu_state state = other->warps[j].state;
            if (state == EMU_WAITS_CLUSTER || state == EMU_DONE) continue;
            if (!missing++ || other->number <= number) number = other->number, index = j;
        }
    }
    int n = snprintf(out, size, "(the cluster misses block %d warp %d", number, index);
    if (n < 0 || (size_t)n >= size) return;
    if (missing > 1)
        snprintf(out + n, size - (size_t)n, " and %d more)", missing - 1);
    else
        snprintf(out + n, size - (size_t)n, ")");
}

/* Describes what a warp waits for, without naming the warp. */
static void waits_text(const emu_launch *l, const emu_warp *w, char *out, size_t size) {
    char where[96], place[160];
    const emu_block *b = w->block;
    emu_place(l, w->waits ? w->waits : w->poll_op, place, sizeof place);
    int n = snprintf(out, size, " at %s ", place);
    if (n < 0 || (size_t)n >= size) return;
    out += n;
    size -= (size_t)n;
    if (w->state == EMU_WAITS_BARRIER) {
        const emu_barrier *x = &b->barriers[w->waits_at];
        snprintf(out, size, "(barrier %u has %d of %d threads)", w->waits_at, x->arrived, x->count);
        return;
    }
    if (w->state == EMU_WAITS_CLUSTER) {
        missing_text(l, b, out, size);
        return;
    }
    if (w->state == EMU_WAITS_REGISTERS) {
        snprintf(out, size, "(wants %u registers a thread more, and %d are free)", w->waits_at, b->free_registers);
        return;
    }
    if (w->state != EMU_WAITS_MBARRIER) {
        /* Global addresses do not fit in 32 bits. */
        int space = w->poll_address >> 32 ? TW_SPACE_global : TW_SPACE_cluster;
        emu_address_text(l, b, space, w->poll_address, where, sizeof where);
        snprintf(out, size, "(polls %s)", where);
        return;
    }
    emu_address_text(l, b, TW_SPACE_shared, w->waits_at, where, sizeof where);
    for (int i = 0; i < b->n_mbarriers; i++) {
        const emu_mbarrier *m = &b->mbarriers[i];
        if (m->address == w->waits_at)
            snprintf(out, size, "(%s, parity %u: phase %u misses %lld of %lld arrivals, %lld bytes)", where,
                     w->waits_parity, m->phase, (long long)m->pending, (long long)m->count, (long long)m->bytes);
    }
}

/* Adds to a text who waits for what. Neighbours that wait alike are named together. Returns how many warps were
   named. */
static int block_waits(const emu_launch *l, const emu_block *b, char *text, size_t size) {
    char what[320], next[320], one[400];
    int said = 0;
    for (int i = 0, n; i < b->n_warps; i += n) {
        n = 1;
        if (b->warps[i].state == EMU_DONE) continue;
        waits_text(l, &b->warps[i], what, sizeof what);
        for (; i + n < b->n_warps && b->warps[i + n].state != EMU_DONE; n++) {
            waits_text(l, &b->warps[i + n], next, sizeof next);
            if (strcmp(what, next) != 0) break;
        }
        if (n > 1)
            snprintf(one, sizeof one, "block %d warps %d-%d%.300s; ", b->number, i, i + n - 1, what);
        else
            snprintf(one, sizeof one, "block %d warp %d%.300s; ", b->number, i, what);
        if (strlen(text) + strlen(one) + 20 > size) continue;
        strcat(text, one);
        said += n;
    }
    return said;
}

static void deadlock(emu_launch *l) {
    char text[sizeof l->report->findings[0].text - 44];
    int waiting = 0, done = 0, at_barrier = 0, said = 0;
    for (int i = 0; i < l->n_resident; i++)
        for (int j = 0; j < l->resident[i]->n_warps; j++) {
            const emu_warp *w = &l->resident[i]->warps[j];
            done += w->state == EMU_DONE;
            waiting += w->state != EMU_DONE;
            at_barrier += w->state == EMU_WAITS_BARRIER;
        }
    snprintf(text, sizeof text, "nobody can go on, %d warps wait: ", waiting);
    for (int i = 0; i < l->n_resident; i++) said += block_waits(l, l->resident[i], text, sizeof text);
    if (said < waiting)
        snprintf(text + strlen(text), sizeof text - strlen(text), "and %d more", waiting - said);
    else
        text[strlen(text) - 2] = 0;
    /* All waiting warps are at barriers, which warps that have exited will not reach. */
    emu_find_text(l, at_barrier == waiting && done ? TW_EMU_BARRIER : TW_EMU_DEADLOCK, text);
}

static bool everyone_spins(const emu_launch *l) {
    for (int i = 0; i < l->n_runnable; i++)
        if (l->runnable[i]->spins < SPINS || l->runnable[i]->progress != l->progress) return false;
    return true;
}

/* -- turns */

/* Reports a finding and returns true if a product still uses variable `v`. */
static bool is_pending(emu_warp *w, const emu_op *op, int v, bool writes) {
    const emu_pending *p = &w->pending[v];
    char place[160];
    if (!p->clock) return false;
    emu_place(w->launch, p->op, place, sizeof place);
    if (writes)
        emu_find(w, op, -1, TW_EMU_ASYNC,
                 "writes a register that belongs to the product %s until its group is waited for", place);
    else if (w->assigned[v] == EMU_ALL)
        emu_find(w, op, -1, TW_EMU_ASYNC,
                 "reads a part of A that belongs to the product %s until its group is waited for", place);
    else
        emu_find(w, op, -1, TW_EMU_UNINITIALISED,
                 "reads a variable that has no value yet: the product %s adds to it until its group is waited for",
                 place);
    return true;
}

static void unassigned(emu_warp *w, const emu_op *op) {
    for (int i = 0; i < op->n_checked; i++) {
        const int v = op->checked[i];
        if (is_pending(w, op, v, false)) continue;
        uint32_t missing = w->active & ~w->assigned[v];
        if (!missing) continue;
        emu_find(w, op, __builtin_ctz(missing), TW_EMU_UNINITIALISED,
                 "reads a variable that has no value in this lane");
        w->assigned[v] |= w->active;
    }
}

static void assigned(emu_warp *w, const emu_op *op) {
    for (int i = 0; i < op->n_assigned; i++) {
        const int v = op->assigned[i];
        if (op->ir->code == TW_OP_undef) continue; /* An undef has no value on purpose. */
        if (w->launch->checked) is_pending(w, op, v, true);
        w->assigned[v] |= w->active;
        w->pending[v].fenced = false;
    }
}

static void run(emu_launch *l, emu_warp *w, int turns) {
    const emu_op *code = l->code.ops;
    while (turns-- > 0 && !l->stop) {
        const emu_op *op = &code[w->pc];
        l->operations++;
        l->lane_operations += w->n_active;
        if (op->n_checked && l->checked && !op->asynchronous) unassigned(w, op);
        if (op->n_assigned && !op->asynchronous) assigned(w, op);
        if (op->n_needs && l->checked) emu_loads_needed(w, op);
        if (op->scalar) {
            emu_ref none = {.at = ~0};
            op->scalar(emu_reg(w, op->out[0]), emu_reg(w, op->in[0]), emu_reg(w, op->n_in > 1 ? op->in[1] : none),
                       emu_reg(w, op->n_in > 2 ? op->in[2] : none), op->masked ? w->active : EMU_ALL);
            w->pc++;
            continue;
        }
        switch (op->exec(w, op)) {
        case EMU_GO:
            w->pc++;
            break;
        case EMU_JUMPED:
            break;
        case EMU_YIELD:
        case EMU_PARKED:
            return;
        }
    }
}

/* Chooses whose turn it is, and for how many operations. */
static emu_warp *choose(emu_launch *l, int *turns) {
    tw_random *r = &l->random;
    uint64_t n = (uint64_t)l->n_runnable;
    *turns = 1 + (int)tw_random_below(r, QUANTUM);
    switch (l->strategy) {
    case RUN_ON:
        *turns = 1 << 20;
        break;
    case ROUND_ROBIN:
        *turns = 1 + (int)tw_random_below(r, 4);
        return l->runnable[(uint64_t)l->turn++ % n];
    case STARVE:
        if (!l->starved) l->starved = l->runnable[tw_random_below(r, n)];
        if (n > 1 && tw_random_below(r, 256)) {
            emu_warp *w = l->runnable[tw_random_below(r, n)];
            return w == l->starved ? l->runnable[(uint64_t)(w->runnable_at + 1) % n] : w;
        }
        break;
    case LONG:
        *turns = 1 + (int)tw_random_below(r, 4096);
        break;
    default:
        break;
    }
    return l->runnable[tw_random_below(r, n)];
}

static void work(emu_launch *l) {
    while (!l->stop && l->done_blocks < l->blocks) {
        while (l->n_resident + l->cluster <= l->most_resident && l->next_block < l->blocks && !l->stop)
            for (int i = 0; i < l->cluster && !l->stop; i++) block_start(l);
        if (l->stop) return;
        if (!l->n_runnable) {
            if (!emu_land_one(l)) deadlock(l);
            continue;
        }
        int turns;
        emu_warp *w = choose(l, &turns);
        run(l, w, turns);
        if (w->state == EMU_DONE) {
            unlist(w);
            if (w->block->n_done == w->block->n_warps) block_end(l, w->block);
        } else if (w->spins > SPINS && everyone_spins(l)) {
            if (!emu_land_one(l)) deadlock(l);
        }
        emu_land_some(l);
        if (l->operations > l->most_operations)
            emu_find_text(l, TW_EMU_LIMIT, "more operations than allowed (max_operations)");
    }
}

/* -- */

static tw_status unsupported(const emu_launch *l, tw_diag *diag) {
    if (l->code.too_deep) return tw_fail(diag, TW_ERR_UNSUPPORTED, "blocks are nested too deeply");
    /* Marks of accesses have 24 bits for the operation. */
    if (l->code.n >= 1 << 24) return tw_fail(diag, TW_ERR_UNSUPPORTED, "more than 2^24 operations");
    for (int i = 0; i < l->code.n; i++) {
        const tw_ir_op *ir = l->code.ops[i].ir;
        if (ir && ir->at.space == TW_SPACE_local)
            return tw_fail(diag, TW_ERR_UNSUPPORTED, "the emulator knows no %s memory",
                           tw_attr_value_name(TW_ATTR_space, ir->at.space));
    }
    return TW_OK;
}

static tw_status prepare(emu_launch *l, const uint64_t *arguments) {
    const tw_kernel *k = l->kernel;
    if (k->threads < 1 || k->threads > 1024)
        return tw_fail(l->diag, TW_ERR_USAGE, "%d threads a block: 1 to 1024 can be", k->threads);
    l->blocks = 1;
    for (int i = 0; i < 3; i++) {
        l->grid[i] = l->options->grid[i] ? l->options->grid[i] : 1;
        if (l->grid[i] < 1) return tw_fail(l->diag, TW_ERR_USAGE, "a grid of %d blocks", l->grid[i]);
        l->blocks *= l->grid[i];
        if (l->blocks > 1 << 24) return tw_fail(l->diag, TW_ERR_UNSUPPORTED, "more than 2^24 blocks");
    }
    l->n_warps = (k->threads + EMU_LANES - 1) / EMU_LANES;
    l->stride_log2 = l->n_warps <= 16 ? 7 : 8;
    l->stride = 1 << l->stride_log2;
    l->cluster = k->cluster > 1 ? k->cluster : 1;
    l->before = (uint32_t)l->blocks << l->stride_log2;
    if (l->grid[0] % l->cluster)
        return tw_fail(l->diag, TW_ERR_USAGE, "a grid of %d blocks in x: no whole clusters of %d", l->grid[0],
                       l->cluster);
    int64_t most = (int64_t)l->cluster * (l->options->sms > 0 ? l->options->sms : RESIDENT);
    l->most_resident = (int)(k->cooperative || most > l->blocks ? l->blocks : most);
    bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    l->product = wide ? emu_product_avx2 : emu_product_c;
    if (!emu_flatten(&l->code, &l->arena, k, arguments, wide)) {
        tw_status st = l->code.too_deep ? unsupported(l, l->diag) : tw_fail_memory(l->diag);
        return st;
    }
    tw_status st = unsupported(l, l->diag);
    if (st != TW_OK) return st;
    l->resident = tw_arena_array(&l->arena, (size_t)l->most_resident, sizeof(emu_block *));
    l->runnable = tw_arena_array(&l->arena, (size_t)l->most_resident * (size_t)l->n_warps, sizeof(emu_warp *));
    l->proxy_fences = tw_arena_array(&l->arena, (size_t)l->blocks * (size_t)l->n_warps, sizeof *l->proxy_fences);
    if (l->arena.failed) return tw_fail_memory(l->diag);
    return emu_shared_layout(l);
}

static void check_arguments(emu_launch *l, const uint64_t *arguments) {
    char text[160];
    for (int i = 0; i < l->kernel->n_parameters; i++) {
        const tw_parameter *p = &l->kernel->parameters[i];
        if (p->map && !tw_tensor_map_valid((const tw_tensor_map *)(uintptr_t)arguments[i])) {
            snprintf(text, sizeof text,
                     "argument %.40s is no tensor map that a device takes: see device/tensor_map.h for what is a "
                     "multiple of what",
                     p->name);
            emu_find_text(l, TW_EMU_ALIGNMENT, text);
        }
        if (!p->pointer || p->align < 2 || arguments[i] % (uint64_t)p->align == 0) continue;
        snprintf(text, sizeof text, "argument %.40s is 0x%llx, which is no multiple of %d as was promised", p->name,
                 (unsigned long long)arguments[i], p->align);
        emu_find_text(l, TW_EMU_ALIGNMENT, text);
    }
}

static void clean(emu_launch *l) {
    while (l->n_resident) block_free(l, l->resident[--l->n_resident]);
    for (int i = 0; i < 2; i++)
        for (emu_copy *c = i ? l->spare_copies : l->copies, *next; c; c = next) {
            next = c->next;
            free(c);
        }
    for (int64_t i = 0; l->proxy_fences && i < l->blocks * l->n_warps; i++) free(l->proxy_fences[i].list);
    emu_note_free(l);
    emu_syncs_free(l);
    emu_shadow_free(l);
    tw_arena_free(&l->arena);
}

tw_status tw_emu_launch(tw_emu *e, const tw_kernel *k, const uint64_t *arguments, const tw_emu_options *o,
                        tw_emu_report *report, tw_diag *diag) {
    static const tw_emu_options none = {0};
    emu_launch l = {.emu = e, .kernel = k, .options = o ? o : &none, .report = report, .diag = diag};
    int64_t start = tw_now_ns();
    tw_diag_clear(diag);
    *report = (tw_emu_report){0};
    l.random = tw_random_seed(l.options->seed);
    l.strategy = (int)tw_random_below(&l.random, STRATEGIES);
    l.landing = (int)tw_random_below(&l.random, 4); /* 0: at once. 1: when waited for. Else: at random. */
    l.checked = !l.options->unchecked;
    l.observed = l.options->observer != NULL;
    l.most_operations = l.options->max_operations > 0 ? l.options->max_operations : 1000000000;
    tw_status st = prepare(&l, arguments);
    if (st == TW_OK) check_arguments(&l, arguments);
    if (st == TW_OK) work(&l);
    if (!l.failed) emu_note_tell(&l);
    if (l.failed) st = tw_fail_memory(diag);
    clean(&l);
    report->operations = l.operations;
    report->lane_operations = l.lane_operations;
    report->seconds = (double)(tw_now_ns() - start) * 1e-9;
    if (st != TW_OK || !report->n) return st;
    return tw_fail(diag, TW_ERR_REJECTED, "%s", report->findings[0].text);
}
