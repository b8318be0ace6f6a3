/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the weights of a mixture's experts in pools, and lists the legs of a step: the runs of stages that the producer
   copies from its tape and from the pools. */
#include "base/diag.h"
#include "base/divide.h"
#include "base/hash.h"
#include "base/thread.h"
#include "vm/cuda/machine.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

tw_mega_tape tw_mega_pool_tape(const tw_mega_program *p, const tw_instr *in) {
    const tw_mega_plan *plan = &p->plan;
    const tw_mega_pool pool = tw_mega_pool_of(plan, p->s, in);
    const tw_instr_matrices of = tw_instr_matrices_of(in);
    const tw_buffer *first = &p->s->buffers[of.matrix[0]];
    const int64_t how[] = {-1,           plan->tuning.warps, plan->tuning.blocks, pool.stage_bytes,
                           first->dtype, first->group,       plan->padded};
    tw_mega_tape t = {.bytes = first->shape[0] * pool.expert_bytes};
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, how, sizeof how);
    for (int i = 0; i < of.n; i++) {
        const char *name = p->s->buffers[of.matrix[i]].name;
        tw_hash_add(&h, name, strlen(name) + 1);
    }
    tw_hash_end(&h, t.key);
    return t;
}

const tw_mega_tape *tw_mega_pool_find(const tw_cuda_vm *vm, const tw_mega_program *p, const tw_instr *in) {
    const tw_mega_tape t = tw_mega_pool_tape(p, in);
    return tw_mega_tape_find(vm->tapes, t.key);
}

/* ---- packing: threads take experts of all pools in turn */

typedef struct filling {
    const tw_instr *in;
    uint64_t address;
} filling;

typedef struct packing {
    tw_cuda_vm *vm;
    const tw_mega_program *p;
    filling *pools;
    int n;
    _Atomic int next; /* The next expert of the next pool, counted through all pools. */
    _Atomic tw_status status;
    tw_diag diag;
} packing;

static tw_status pack_expert(const packing *o, const filling *f, int64_t expert, tw_diag *diag) {
    const tw_mega_pool pool = tw_mega_pool_of(&o->p->plan, o->p->s, f->in);
    tw_mega_strip strip = {.stages = malloc((size_t)pool.expert_bytes),
                           .bias = malloc((size_t)pool.shape.units * TW_MEGA_ROWS * sizeof *strip.bias)};
    tw_status st = tw_fail_memory(diag);
    if (strip.stages && strip.bias && tw_mega_pack_expert(o->p, o->vm->m, f->in, expert, &strip)) {
        const uint64_t to = f->address + (uint64_t)(expert * pool.expert_bytes);
        pthread_mutex_lock(&o->vm->lock);
        st = tw_mega_write(o->vm, to, strip.stages, (size_t)pool.expert_bytes, diag);
        pthread_mutex_unlock(&o->vm->lock);
    }
    free(strip.stages);
    free(strip.bias);
    return st;
}

static void *pack_some(void *context) {
    packing *o = context;
    const int experts = (int)o->vm->m->n_experts;
    for (int i; (i = atomic_fetch_add(&o->next, 1)) < o->n * experts && o->status == TW_OK;) {
        tw_diag diag;
        const tw_status st = pack_expert(o, &o->pools[i / experts], i % experts, &diag);
        if (st == TW_OK) continue;
        pthread_mutex_lock(&o->vm->lock);
        if (o->status == TW_OK) {
            o->diag = diag;
            o->status = st;
        }
        pthread_mutex_unlock(&o->vm->lock);
    }
    return NULL;
}

static void pack_all(packing *o) {
    enum { MOST = 64 };
    pthread_t threads[MOST];
    int started = 0, cpus[1], n = o->vm->emu ? 1 : tw_allowed_cpus(cpus, 1);
    for (int i = 1; i < n && i <= MOST; i++) started += !pthread_create(&threads[started], NULL, pack_some, o);
    pack_some(o);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

/* Lists an instruction's pool, and allocates it, unless it is listed. *address stays 0 then. */
static tw_status add_pool(tw_cuda_vm *vm, const tw_mega_program *p, const tw_instr *in, uint64_t *address,
                          tw_diag *diag) {
    tw_mega_tape made = tw_mega_pool_tape(p, in), *t;
    if (tw_mega_tape_find(vm->tapes, made.key)) return TW_OK;
    t = tw_arena_alloc(&vm->arena, sizeof *t);
    if (vm->arena.failed) return tw_fail_memory(diag);
    const tw_status st = tw_mega_alloc(vm, NULL, "experts", NULL, (size_t)made.bytes, true, &made.address, diag);
    if (st != TW_OK) return st;
    made.next = vm->tapes;
    *t = made;
    vm->tapes = t;
    *address = made.address;
    return TW_OK;
}

tw_status tw_mega_load_pools(tw_cuda_vm *vm, const tw_mega_program *p, tw_diag *diag) {
    packing o = {.vm = vm, .p = p};
    int most = 0;
    for (int w = 0; w < p->s->n_workers; w++) most += p->s->workers[w].count;
    o.pools = calloc((size_t)most + 1, sizeof *o.pools);
    tw_status st = o.pools ? TW_OK : tw_fail_memory(diag);
    for (int w = 0; w < p->s->n_workers; w++)
        for (int i = 0; i < p->s->workers[w].count && st == TW_OK; i++) {
            filling *f = &o.pools[o.n];
            f->in = &p->s->workers[w].list[i];
            if (!tw_mega_is_pooled(f->in->op)) continue;
            st = add_pool(vm, p, f->in, &f->address, diag);
            o.n += f->address != 0;
        }
    if (st == TW_OK) pack_all(&o);
    if (st == TW_OK && o.status != TW_OK) {
        st = o.status;
        if (diag) *diag = o.diag;
    }
    free(o.pools);
    return st;
}

int64_t tw_mega_expert_bytes(const tw_mega_program *p) {
    int64_t n = 0;
    for (int w = 0; w < p->s->n_workers; w++)
        for (int i = 0; i < p->s->workers[w].count; i++) {
            const tw_instr *in = &p->s->workers[w].list[i];
            if (tw_mega_is_pooled(in->op))
                n += (int64_t)tw_mega_shape_of(&p->plan, p->s, in).stages * p->plan.stage_bytes;
        }
    return n;
}

/* ---- legs */

/* Tells whether instruction `in` of a worker is the first one with experts since the worker has chosen. */
static bool begins_choice(const tw_worker *w, const tw_instr *in) {
    while (in-- > w->list && !tw_mega_is_pooled(in->op))
        if (in->op == TW_INSTR_CHOOSE) return true;
    return false;
}

static tw_mega_leg leg_of(const tw_cuda_vm *vm, const tw_mega_program *p, const tw_worker *w, const tw_instr *in) {
    const tw_mega_pool pool = tw_mega_pool_of(&p->plan, p->s, in);
    const tw_mega_tape *t = tw_mega_pool_find(vm, p, in);
    const bool up = in->op == TW_INSTR_EXPERTS_UP;
    const int64_t from = in->param[TW_FROM] / TW_MEGA_ROWS, n = p->plan.body.units;
    const int64_t units = tw_ceil_div(in->param[TW_TO] - in->param[TW_FROM], TW_MEGA_ROWS);
    const int64_t line = (up ? 2 * from : from) / n, lines = tw_ceil_div(up ? 2 * units : units, n);
    const int stages = pool.shape.run / p->plan.tuning.blocks;
    return (tw_mega_leg){.kind = up ? TW_MEGA_LEG_UP : TW_MEGA_LEG_DOWN,
                         .hears = begins_choice(w, in),
                         .stages = up ? (int32_t)lines * stages
                                      : tw_mega_shape_of(&p->plan, p->s, in).run / p->plan.tuning.blocks,
                         .bytes = p->plan.stage_bytes,
                         .from = t->address + (uint64_t)(line * pool.unit_bytes),
                         .expert = pool.expert_bytes,
                         .unit = pool.unit_bytes,
                         .units = (int32_t)lines,
                         .slot = up ? (int32_t)in->param[TW_EXPERTS_UP_SLOT_FROM] : 0,
                         .slots = up ? tw_mega_slots(in) : 1};
}

/* The most that a worker has copied to the L2 cache: for 132 of them a third of an H200's. */
enum { EARLY_BYTES = 160 << 10 };

/* Lets leg `hearing`, which waits for a choice, copy the tape's next leg to the L2 cache: memory would idle. */
static void copy_early(tw_mega_leg *hearing, const tw_mega_leg *next) {
    const int64_t bytes = (int64_t)next->stages * next->bytes;
    hearing->early = (int32_t)(bytes < EARLY_BYTES ? bytes : EARLY_BYTES);
    hearing->later = next->from;
}

int tw_mega_legs(const tw_cuda_vm *vm, const tw_mega_program *p, int worker, uint64_t tape, tw_mega_leg *out) {
    const tw_worker *w = &p->s->workers[worker];
    tw_mega_leg last = {0};
    int n = 0, hearing = -1;
    for (int i = 0; i < w->count; i++) {
        const tw_instr *in = &w->list[i];
        if (tw_mega_is_pooled(in->op)) {
            if (out) out[n] = leg_of(vm, p, w, in);
            if (out && out[n].hears) hearing = n;
            last = (tw_mega_leg){0};
            n++;
        } else if (tw_mega_is_taped(in->op)) {
            const int bytes = tw_mega_stage_bytes(&p->plan, in->op);
            const int stages = tw_mega_shape_of(&p->plan, p->s, in).stages;
            if (last.bytes != bytes) {
                if (last.bytes) hearing = -1; /* Has its leg. */
                last = (tw_mega_leg){.bytes = bytes, .from = tape, .slots = 1};
                n++;
            }
            last.stages += stages;
            tape += (uint64_t)stages * (uint64_t)bytes;
            if (out) out[n - 1] = last;
            if (out && hearing >= 0) copy_early(&out[hearing], &last);
        }
    }
    return n;
}
