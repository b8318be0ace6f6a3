/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/cpu/share.h"

#include "base/diag.h"
#include "base/thread.h"
#include "schedule/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SPINS = 2000 /* Looks at a counter before the processor is given away. */ };

/* Operand that an instruction multiplies, if workers may share it. -1: they may not. */
static int shared_operand(tw_instr_op op) {
    switch (op) {
    case TW_INSTR_QKV:
        return TW_QKV_X;
    case TW_INSTR_PROJECT:
        return TW_PROJECT_IN;
    case TW_INSTR_FFN:
        return TW_FFN_X;
    default:
        return -1;
    }
}

/* Instructions with the same operands. They read the same rows and normalise them in the same way. */
typedef struct group {
    int *member;    /* [worker]: index of its instruction. -1: none. */
    int32_t *after; /* [worker]: how many of its instructions come before every member. */
    int buffer;     /* The buffer that they read. */
    bool ok;
} group;

/* The order of a program's instructions. A wait is for all arrivals of a counter, so one walk finds it. */
typedef struct order {
    const tw_program *p;
    int n;            /* Workers. */
    int32_t **clock;  /* [worker]: [instruction][worker]: how many instructions of a worker come before. */
    int32_t *joined;  /* [counter][worker] */
    int32_t *arrived; /* [counter] */
    int *next;        /* [worker] */
    group *groups;    /* In the order of the walk. */
    int n_groups;
    tw_arena arena;
} order;

static const tw_instr *instr_at(const order *o, int w, int i) {
    return &o->p->s->workers[w].list[i];
}
static int count_of(const order *o, int w) {
    return o->p->s->workers[w].count;
}
static int32_t *clock_at(const order *o, int w, int i) {
    return o->clock[w] + (size_t)i * (size_t)o->n;
}

static bool same_operands(const tw_instr *a, const tw_instr *b) {
    return a->op == b->op && a->arrive == b->arrive && !memcmp(a->operand, b->operand, sizeof a->operand);
}

/* Adds an instruction to its group. The latest groups are looked at first. */
static bool join_group(order *o, int w, int i) {
    const tw_instr *in = instr_at(o, w, i);
    if (shared_operand(in->op) < 0) return true;
    group *g = NULL;
    for (int j = o->n_groups - 1; j >= 0 && !g; j--)
        for (int v = 0; v < o->n; v++)
            if (o->groups[j].member[v] >= 0) {
                if (same_operands(in, instr_at(o, v, o->groups[j].member[v]))) g = &o->groups[j];
                break;
            }
    if (!g) {
        g = &o->groups[o->n_groups++];
        *g = (group){.buffer = in->operand[shared_operand(in->op)], .ok = true};
        g->member = tw_arena_array(&o->arena, (size_t)o->n, sizeof *g->member);
        g->after = tw_arena_array(&o->arena, (size_t)o->n, sizeof *g->after);
        if (o->arena.failed) return false;
        for (int v = 0; v < o->n; v++) {
            g->member[v] = -1;
            g->after[v] = INT32_MAX;
        }
    }
    if (g->member[w] >= 0) g->ok = false;
    g->member[w] = i;
    const int32_t *clock = clock_at(o, w, i);
    for (int v = 0; v < o->n; v++) g->after[v] = clock[v] < g->after[v] ? clock[v] : g->after[v];
    return true;
}

/* Walks as far as waits allow. */
static bool walk(order *o) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < o->n; w++)
            for (; o->next[w] < count_of(o, w); o->next[w]++, moved = true) {
                const int i = o->next[w];
                const tw_instr *in = instr_at(o, w, i);
                bool met = true;
                for (int k = 0; k < in->n_waits; k++)
                    met = met && o->arrived[in->waits[k].counter] >= in->waits[k].threshold;
                if (!met) break;
                int32_t *clock = clock_at(o, w, i);
                if (i > 0) memcpy(clock, clock_at(o, w, i - 1), (size_t)o->n * sizeof *clock);
                for (int k = 0; k < in->n_waits; k++)
                    tw_clock_join(clock, o->joined + (size_t)in->waits[k].counter * (size_t)o->n, o->n);
                clock[w] = i;
                if (!join_group(o, w, i)) return false;
                clock[w] = i + 1;
                if (in->arrive < 0) continue;
                tw_clock_join(o->joined + (size_t)in->arrive * (size_t)o->n, clock, o->n);
                o->arrived[in->arrive]++;
            }
    }
    return true;
}

/* True if every member of the group comes before instruction i of worker w. */
static bool all_before(const order *o, const group *g, int w, int i) {
    const int32_t *clock = clock_at(o, w, i);
    for (int v = 0; v < o->n; v++)
        if (g->member[v] >= clock[v] || (v == w && g->member[v] >= i)) return false;
    return true;
}

/* True if no other instruction touches the buffer after some member and before another. Whoever packs then sees what
   all members would see. */
static bool is_steady(const order *o, const group *g) {
    for (int w = 0; w < o->n; w++)
        for (int i = g->after[w]; i < count_of(o, w); i++) {
            const tw_instr *in = instr_at(o, w, i);
            bool touches = false;
            for (int k = 0; k < TW_MAX_OPERANDS; k++) touches = touches || in->operand[k] == g->buffer;
            if (!touches || i == g->member[w]) continue;
            if (!all_before(o, g, w, i)) return false;
            break; /* What follows on this worker comes later still. */
        }
    return true;
}

/* True if every member of `a` comes before every member of `b`. */
static bool apart(const order *o, const group *a, const group *b) {
    for (int v = 0; v < o->n; v++)
        if (a->member[v] >= b->after[v]) return false;
    return true;
}

static bool make_order(order *o) {
    size_t all = 0, n = (size_t)o->n;
    o->clock = tw_arena_array(&o->arena, n, sizeof *o->clock);
    for (int w = 0; w < o->n && o->clock; w++) {
        all += (size_t)count_of(o, w);
        o->clock[w] = tw_arena_array(&o->arena, (size_t)count_of(o, w) * n + 1, sizeof **o->clock);
    }
    o->joined = tw_arena_array(&o->arena, (size_t)o->p->s->n_counters * n + 1, sizeof *o->joined);
    o->arrived = tw_arena_array(&o->arena, (size_t)o->p->s->n_counters + 1, sizeof *o->arrived);
    o->next = tw_arena_array(&o->arena, n, sizeof *o->next);
    o->groups = tw_arena_array(&o->arena, all + 1, sizeof *o->groups);
    return !o->arena.failed && walk(o);
}

/* Gives each group that may share a pack. Groups that are not apart from the one before have none. */
static tw_status give_packs(tw_vm *vm, tw_program *p, const order *o, tw_diag *diag) {
    const group *last = NULL;
    void *rows;
    tw_status st = tw_vm_take_pages(vm, tw_vm_share_bytes(vm, p->s), "packed activations", &rows, diag);
    if (st != TW_OK) return st;
    p->packs = tw_arena_alloc(&vm->arena, ((size_t)o->n_groups + 1) * sizeof *p->packs + 64);
    if (!p->packs) return tw_fail_memory(diag);
    p->packs = (tw_pack *)(((uintptr_t)p->packs + 63) / 64 * 64);
    for (int i = 0; i < o->n_groups; i++) {
        const group *g = &o->groups[i];
        if (!g->ok || !is_steady(o, g) || (last && !apart(o, last, g))) continue;
        last = g;
        tw_pack *pack = &p->packs[p->n_packs++];
        memset(pack, 0, sizeof *pack);
        pack->rows = rows;
        for (int w = 0; w < o->n; w++)
            if (g->member[w] >= 0) p->exec[w][g->member[w]].pack = pack;
    }
    return TW_OK;
}

size_t tw_vm_share_bytes(const tw_vm *vm, const tw_schedule *s) {
    size_t most = 0;
    if (!vm->k.gemm_pack) return 0;
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            const int operand = shared_operand(in->op);
            if (operand < 0) continue;
            const int64_t cols = s->buffers[in->operand[operand]].shape[1] * s->buffers[in->operand[operand]].shape[2];
            const tw_buffer *of = &s->buffers[tw_instr_matrices_of(in).matrix[0]];
            const tw_panel_format f = tw_vm_format(vm, of);
            if (!vm->k.gemm_packed[f.dtype] || s->tokens < vm->k.packed_rows[f.dtype]) continue;
            const size_t bytes = vm->k.gemm_pack_bytes(f, s->tokens, cols, tw_vm_terms(vm, f.dtype));
            most = bytes > most ? bytes : most;
        }
    return most;
}

tw_status tw_vm_share(tw_vm *vm, tw_program *p, tw_diag *diag) {
    if (!tw_vm_share_bytes(vm, p->s)) return TW_OK;
    order o = {.p = p, .n = p->s->n_workers};
    tw_status st = make_order(&o) ? give_packs(vm, p, &o, diag) : tw_fail_memory(diag);
    tw_arena_free(&o.arena);
    return st;
}

void tw_vm_share_begin(tw_program *p) {
    for (int i = 0; i < p->n_packs; i++) {
        atomic_store_explicit(&p->packs[i].next, 0, memory_order_relaxed);
        atomic_store_explicit(&p->packs[i].done, 0, memory_order_relaxed);
    }
}

const void *tw_share_rows(tw_vm_thread *thread, const tw_exec *e, const float *x, const float *w, const float *b,
                          int64_t n, int64_t dim, float *room) {
    const tw_vm *vm = thread->vm;
    const tw_kernels *k = &vm->k;
    tw_pack *pack = e->pack;
    const bool vendor = e->strip.choice && !vm->own_only;
    const tw_panel_format f = e->strip.format;
    if (!pack || vendor || !k->gemm_packed[f.dtype] || n < k->packed_rows[f.dtype]) return NULL;
    const int terms = tw_vm_terms(vm, f.dtype);
    const int32_t tiles = (int32_t)((n + TW_PACKED_TILE - 1) / TW_PACKED_TILE);
    const size_t bytes = k->gemm_pack_bytes(f, TW_PACKED_TILE, dim, terms);
    int32_t t;
    while ((t = atomic_fetch_add_explicit(&pack->next, 1, memory_order_relaxed)) < tiles) {
        const float *from = x + t * TW_PACKED_TILE * dim;
        const int64_t rows = tw_least(TW_PACKED_TILE, n - t * TW_PACKED_TILE), stride = dim + TW_PANEL_ROWS;
        for (int64_t r = 0; r < rows && w; r++) tw_exec_norm(thread, from + r * dim, w, b, 1, dim, room + r * stride);
        k->gemm_pack(f, w ? room : from, w ? stride : dim, rows, dim, terms, (char *)pack->rows + (size_t)t * bytes);
        atomic_fetch_add_explicit(&pack->done, 1, memory_order_release);
    }
    /* Whoever took a tile packs it without waiting for anything. */
    for (int spins = 0; atomic_load_explicit(&pack->done, memory_order_acquire) < tiles; spins++)
        if (spins < SPINS)
            tw_cpu_relax();
        else
            sched_yield();
    return pack->rows;
}
