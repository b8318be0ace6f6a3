/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a checked schedule executable: buffers get memory, names become pointers, and weights go onto tapes. */
#include "base/diag.h"
#include "base/dtype.h"
#include "vm/cpu/choice.h"
#include "vm/cpu/share.h"
#include "vm/routing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tw_vector_entry {
    struct tw_vector_entry *next;
    const tw_weight *weight;
    float *data;
};

static tw_status vector(tw_vm *vm, const tw_weight *w, const float **out, tw_diag *diag) {
    for (struct tw_vector_entry *e = vm->vectors; e; e = e->next)
        if (e->weight == w) {
            *out = e->data;
            return TW_OK;
        }
    struct tw_vector_entry *e = tw_arena_alloc(&vm->arena, sizeof *e);
    float *data = tw_arena_array(&vm->arena, (size_t)w->rows, sizeof *data);
    if (!e || !data) return tw_fail_memory(diag);
    for (int64_t i = 0; i < w->rows; i++) tw_weight_read(w, i, 0, 1, &data[i]);
    *e = (struct tw_vector_entry){vm->vectors, w, data};
    vm->vectors = e;
    *out = data;
    return TW_OK;
}

static tw_status resolve_operand(tw_vm *vm, tw_program *p, tw_exec *e, int i, tw_diag *diag) {
    int at = e->in->operand[i];
    if (at < 0) return TW_OK;
    const tw_buffer *b = &p->s->buffers[at];
    e->buffer[i] = p->buffers[at];
    if (b->kind != TW_BUFFER_WEIGHT) return TW_OK;
    const tw_weight *w = tw_weight_at(&p->weights, at, 0);
    if (e->in->op == TW_INSTR_EMBED) {
        e->table[i] = w;
        return TW_OK;
    }
    return w->cols == 1 ? vector(vm, w, &e->vector[i], diag) : TW_OK;
}

static tw_status resolve_instr(tw_vm *vm, tw_program *p, const tw_instr *in, tw_exec *e, tw_diag *diag) {
    e->in = in;
    e->n_waits = in->n_waits;
    e->waits = tw_arena_array(&vm->arena, (size_t)in->n_waits, sizeof *e->waits);
    if (in->n_waits && !e->waits) return tw_fail_memory(diag);
    for (int i = 0; i < in->n_waits; i++) {
        e->waits[i].cell = &p->counters[in->waits[i].counter];
        e->waits[i].threshold = (uint32_t)in->waits[i].threshold;
    }
    e->arrive = in->arrive < 0 ? NULL : &p->counters[in->arrive];
    tw_status st = TW_OK;
    for (int i = 0; i < TW_MAX_OPERANDS && st == TW_OK; i++) st = resolve_operand(vm, p, e, i, diag);
    return st;
}

/* Finds the layers of a worker's choices. The first worker to choose for a layer reports the choice. */
static void find_layers(tw_program *p, int worker, bool *reported, int64_t layers) {
    const tw_worker *w = &p->s->workers[worker];
    for (int i = 0; i < w->count; i++) {
        const tw_instr *in = &w->list[i];
        tw_exec *e = &p->exec[worker][i];
        if (in->op != TW_INSTR_ROUTE && in->op != TW_INSTR_CHOOSE) continue;
        e->layer = tw_routing_layer(p->s, w, in);
        if (e->layer >= layers) e->layer = -1;
        if (e->layer < 0) continue;
        e->reports = !reported[e->layer];
        reported[e->layer] = true;
    }
}

static tw_status resolve(tw_vm *vm, tw_program *p, tw_diag *diag) {
    const tw_schedule *s = p->s;
    bool *reported = tw_arena_array(&vm->arena, (size_t)vm->m->n_layers, sizeof *reported);
    tw_status st = tw_vm_make_buffers(vm, p, diag);
    p->exec = tw_arena_array(&vm->arena, (size_t)s->n_workers, sizeof *p->exec);
    if (st == TW_OK && (!p->exec || !reported)) st = tw_fail_memory(diag);
    for (int w = 0; w < s->n_workers && st == TW_OK; w++) {
        p->exec[w] = tw_arena_array(&vm->arena, (size_t)s->workers[w].count + 1, sizeof **p->exec);
        if (!p->exec[w]) return tw_fail_memory(diag);
        for (int i = 0; i < s->workers[w].count && st == TW_OK; i++)
            st = resolve_instr(vm, p, &s->workers[w].list[i], &p->exec[w][i], diag);
        if (st == TW_OK) find_layers(p, w, reported, vm->m->n_layers);
    }
    return st;
}

static tw_status disagree(tw_diag *diag, const tw_buffer *b, const char *what, int64_t have, int64_t want) {
    return tw_fail(diag, TW_ERR_MISMATCH, "the schedule's %.80s has %lld %s, the model %lld", b->name, (long long)have,
                   what, (long long)want);
}

/* The layer that a weight's name gives. */
static int64_t layer_of(const tw_schedule *s, int weight) {
    long long layer = 0;
    sscanf(s->buffers[weight].name, "layers.%lld.", &layer);
    return layer;
}

/* Tells whether an instruction has angles of rope exactly where the model rotates. */
static bool rotates_alike(const tw_model *m, const tw_schedule *s, const tw_instr *in) {
    switch (in->op) {
    case TW_INSTR_INPUT:
        return (in->operand[TW_INPUT_ROPE] >= 0) == (m->rope.kind != TW_ROPE_NONE) &&
               (in->operand[TW_INPUT_ROPE_LOCAL] >= 0) == (m->rope_local.kind != TW_ROPE_NONE);
    case TW_INSTR_QKV:
        return (in->operand[TW_QKV_ROPE] >= 0) ==
               (!tw_model_norms_apart(m) && tw_model_rope(m, layer_of(s, in->operand[TW_QKV_WQ])));
    case TW_INSTR_TURN:
        return (in->operand[TW_TURN_ROPE] >= 0) == (tw_model_rope(m, layer_of(s, in->operand[TW_TURN_Q_NORM])) != NULL);
    default:
        return true;
    }
}

/* Compares the extents that an instruction's execution takes from the model: operand, dimension, the model's value. */
static tw_status agree_instr(const tw_model *m, const tw_schedule *s, const tw_instr *in, tw_diag *diag) {
    const struct {
        tw_instr_op op;
        int operand, dimension;
        int64_t want;
        const char *what;
    } rules[] = {
        {TW_INSTR_INPUT, TW_INPUT_ROPE, 2, m->rope.dims / 2, "rotated pairs"},
        {TW_INSTR_EMBED, TW_EMBED_TABLE, 1, m->vocab, "rows"},
        {TW_INSTR_EMBED, TW_EMBED_X, 2, m->dim, "columns"},
        {TW_INSTR_QKV, TW_QKV_ROPE, 2, m->rope.dims / 2, "rotated pairs"},
        {TW_INSTR_QKV, TW_QKV_Q, 1, m->n_heads, "heads"},
        {TW_INSTR_QKV, TW_QKV_V, 0, m->n_kv_heads, "heads"},
        {TW_INSTR_INPUT, TW_INPUT_ROPE_LOCAL, 2, m->rope_local.dims / 2, "rotated pairs"},
        {TW_INSTR_TURN, TW_TURN_ROPE, 2, m->rope.dims / 2, "rotated pairs"},
        {TW_INSTR_TURN, TW_TURN_Q, 1, m->n_heads, "heads"},
        {TW_INSTR_TURN, TW_TURN_K, 0, m->n_kv_heads, "heads"},
        {TW_INSTR_ATTEND, TW_ATTEND_Q, 1, m->n_heads, "heads"},
        {TW_INSTR_ATTEND, TW_ATTEND_K, 0, m->n_kv_heads, "heads"},
        {TW_INSTR_ROUTE, TW_ROUTE_ROUTER, 1, m->n_experts, "experts"},
        {TW_INSTR_ROUTE, TW_ROUTE_ROUTE, 2, m->n_experts_used, "experts"},
        {TW_INSTR_CHOOSE, TW_CHOOSE_SCORES, 2, m->n_experts, "experts"},
        {TW_INSTR_CHOOSE, TW_CHOOSE_ROUTE, 2, m->n_experts_used, "experts"},
        {TW_INSTR_HEAD, TW_HEAD_LOGITS, 2, m->vocab, "columns"},
        {TW_INSTR_OUTPUT, TW_OUTPUT_LOGITS, 2, m->vocab, "columns"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        int at = rules[i].op == in->op ? in->operand[rules[i].operand] : -1;
        if (at >= 0 && s->buffers[at].shape[rules[i].dimension] != rules[i].want)
            return disagree(diag, &s->buffers[at], rules[i].what, s->buffers[at].shape[rules[i].dimension],
                            rules[i].want);
    }
    return rotates_alike(m, s, in)
               ? TW_OK
               : tw_fail(diag, TW_ERR_MISMATCH, "the schedule and the model disagree on whether rope rotates");
}

/* Finds the weights, and compares the schedule with the model. The check cannot do that, since it has no model. */
static tw_status agree(tw_vm *vm, const tw_schedule *s, tw_schedule_weights *weights, tw_diag *diag) {
    if (s->n_workers != vm->n_threads)
        return tw_fail(diag, TW_ERR_MISMATCH, "the schedule is for %d workers, the machine has %d (-t %d)",
                       s->n_workers, vm->n_threads, s->n_workers);
    if (s->sequences > 1)
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "a program of %lld sequences: on a processor a step is of one sequence",
                       (long long)s->sequences);
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count; i++)
            if (s->workers[w].list[i].op == TW_INSTR_PARTIAL || s->workers[w].list[i].op == TW_INSTR_SUM)
                return tw_fail(diag, TW_ERR_UNSUPPORTED,
                               "a program with products in parts: a processor has them whole");
    tw_status st = tw_weights_resolve(weights, s, vm->m, &vm->arena, diag);
    for (int i = 0; i < s->n_buffers && st == TW_OK; i++) {
        const tw_buffer *b = &s->buffers[i];
        if (b->kind == TW_BUFFER_KV && b->dtype != TW_F32)
            st = tw_fail(diag, TW_ERR_UNSUPPORTED, "%s is %s: on a processor the key/value cache is f32", b->name,
                         tw_dtype_name(b->dtype));
    }
    for (int w = 0; w < s->n_workers; w++)
        for (int i = 0; i < s->workers[w].count && st == TW_OK; i++) {
            const tw_instr *in = &s->workers[w].list[i];
            st = agree_instr(vm->m, s, in, diag);
            if (st == TW_OK && in->op == TW_INSTR_ATTEND && in->operand[TW_ATTEND_RAW_K] >= 0)
                st = tw_fail(diag, TW_ERR_UNSUPPORTED, "attention that norms heads: on a processor others do");
        }
    return st;
}

/* Allocates as much scratch as any instruction of a program needs. The worker's own thread touches it first. */
static tw_status make_scratch(tw_vm_thread *thread, void *context) {
    const tw_program *p = context;
    size_t scratch = 0;
    for (int i = 0; i < p->s->workers[thread->index].count; i++) {
        size_t need = tw_exec_scratch(thread->vm, p->s, &p->exec[thread->index][i]);
        scratch = scratch > need ? scratch : need;
    }
    if (scratch <= thread->scratch_bytes) return TW_OK;
    tw_pages_free(thread->scratch, thread->scratch_bytes);
    thread->scratch_bytes = scratch;
    thread->scratch = tw_pages(scratch);
    if (thread->scratch) return TW_OK;
    thread->scratch_bytes = 0;
    return tw_fail_memory(&thread->diag);
}

static tw_status pack_thread(tw_vm_thread *thread, void *context) {
    tw_program *p = context;
    const tw_worker *w = &p->s->workers[thread->index];
    size_t missing = 0;
    for (int i = 0; i < w->count; i++)
        if (tw_instr_op_multiplies(w->list[i].op)) missing += tw_tape_missing(thread, p->s, &w->list[i]);
    tw_status st = tw_tape_reserve(thread, missing, &thread->diag);
    for (int i = 0; i < w->count && st == TW_OK; i++)
        if (tw_instr_op_multiplies(w->list[i].op))
            st = tw_tape_strip(thread, p, &w->list[i], &p->exec[thread->index][i].strip, &thread->diag);
    return st == TW_OK ? make_scratch(thread, p) : st;
}

tw_status tw_vm_limit_isa(tw_vm *vm, uint32_t isa, bool own_only, tw_diag *diag) {
    vm->own_only = own_only;
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    tw_kernels_choose(&vm->k, cpu.isa & isa);
    for (tw_program *p = vm->programs; p; p = p->next) {
        tw_status st = tw_vm_run_job(vm, make_scratch, p, diag);
        if (st != TW_OK) return st;
    }
    return TW_OK;
}

int64_t tw_vm_streamed_bytes(const tw_vm *vm) {
    const tw_program *p = vm->programs;
    int64_t n = 0;
    while (p && p->next) p = p->next; /* Programs are listed from the last one to the first. */
    for (int w = 0; p && w < p->s->n_workers; w++)
        for (int i = 0; i < p->s->workers[w].count; i++) {
            tw_instr_op op = p->s->workers[w].list[i].op;
            bool experts = op == TW_INSTR_EXPERTS_UP || op == TW_INSTR_EXPERTS_DOWN;
            n += (int64_t)p->exec[w][i].strip.copy_bytes * (experts ? vm->m->n_experts_used : 1);
        }
    return n;
}

tw_status tw_vm_load(tw_vm *vm, const tw_checked *program, int *id, tw_diag *diag) {
    const tw_schedule *s = tw_checked_schedule(program);
    tw_schedule_weights weights;
    tw_status st = agree(vm, s, &weights, diag);
    if (st != TW_OK) return st;
    tw_program *p = calloc(1, sizeof *p);
    if (!p) return tw_fail_memory(diag);
    p->s = s;
    p->weights = weights;
    p->counters = aligned_alloc(64, ((size_t)s->n_counters + 1) * sizeof *p->counters);
    if (!p->counters) {
        free(p);
        return tw_fail_memory(diag);
    }
    memset(p->counters, 0, ((size_t)s->n_counters + 1) * sizeof *p->counters);
    p->next = vm->programs;
    vm->programs = p;
    *id = vm->n_programs++;
    tw_memory_need need;
    st = tw_vm_fits(vm, &s, 1, diag);
    if (st == TW_OK) st = tw_vm_need(vm, &s, 1, &need, diag);
    if (st == TW_OK) st = resolve(vm, p, diag);
    if (st == TW_OK) st = tw_vm_share(vm, p, diag);
    if (st == TW_OK) st = tw_vm_run_job(vm, pack_thread, p, diag);
    if (st == TW_OK && vm->choices) st = tw_choices_make(vm->choices, p, diag);
    if (st == TW_OK) {
        tw_memory_add(&vm->loaded, &need);
        return TW_OK;
    }
    vm->programs = p->next;
    vm->n_programs--;
    free(p->counters);
    free(p);
    return st;
}
