/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Opening, running and closing the GPU's machine. */
#include "vm/cuda/vm.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/dtype.h"
#include "ir/passes/passes.h"
#include "prof/trace.h"
#include "ptx/load.h"
#include "ptx/ptx.h"
#include "vm/cuda/machine.h"
#include "vm/routing.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    EMULATED_WORKERS = 2,
    BEGIN = 2 * TW_CUDA_VM_TOKENS, /* Tokens and positions that a launch begins with. */
    UNSAID = -1,                   /* Stands for the token of a step until it is known. */
};

/* Sets the target of the machine's code. A GPU runs code of older targets, except those whose name ends in `a`. The
   emulator runs all. */
static tw_status choose_target(tw_cuda_vm *vm, const char *name, tw_diag *diag) {
    const tw_target *t = tw_target_find(name);
    if (!t) return tw_fail(diag, TW_ERR_USAGE, "%s is not a target", name);
    if (vm->cuda && t != vm->target && (t->sm > vm->target->sm || t->name[strlen(t->name) - 1] == 'a'))
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "code for %s does not run here", t->name);
    vm->target = t;
    return TW_OK;
}

tw_status tw_cuda_vm_open(tw_cuda_vm **out, const tw_model *model, const tw_cuda_vm_options *options, tw_diag *diag) {
    *out = NULL;
    tw_cuda_vm *vm = calloc(1, sizeof *vm);
    if (!vm) return tw_fail_memory(diag);
    vm->m = model;
    vm->options = *options;
    pthread_mutex_init(&vm->lock, NULL);
    tw_status st = TW_OK;
    if (options->emulate) {
        vm->workers = options->workers ? options->workers : EMULATED_WORKERS;
        vm->target = tw_target_find("sm_90a");
        vm->emu = tw_emu_new();
        if (!vm->emu) st = tw_fail_memory(diag);
    } else {
        st = tw_cuda_open(&vm->cuda, options->device, diag);
        if (st == TW_OK) vm->target = tw_cuda_describe(vm->cuda)->target;
        if (st == TW_OK) vm->workers = tw_cuda_describe(vm->cuda)->sms;
    }
    if (st == TW_OK && options->target) st = choose_target(vm, options->target, diag);
    if (st != TW_OK) {
        tw_cuda_vm_close(vm);
        return st;
    }
    *out = vm;
    return TW_OK;
}

static void free_program(tw_cuda_vm *vm, tw_mega_program *p) {
    tw_cuda_ready_free(p->ready);
    tw_cuda_unload(p->module);
    tw_kernel_free(p->kernel);
    tw_mega_free(vm, p);
    tw_prof_layout_free(&p->profile);
    free(p->logits);
    free(p);
}

void tw_cuda_vm_close(tw_cuda_vm *vm) {
    if (!vm) return;
    /* A launch whose remaining tokens are discarded may still be running. */
    if (vm->cuda) tw_cuda_sync(vm->cuda, NULL);
    for (tw_mega_program *p = vm->programs, *next; p; p = next) {
        next = p->next;
        free_program(vm, p);
    }
    tw_mega_free(vm, NULL);
    if (vm->emu) tw_emu_free(vm->emu);
    if (vm->cuda) tw_cuda_close(vm->cuda);
    tw_arena_free(&vm->arena);
    pthread_mutex_destroy(&vm->lock);
    free(vm);
}

void tw_cuda_vm_reserve(tw_cuda_vm *vm, int64_t sequences) {
    vm->options.sequences = sequences;
}

void tw_cuda_vm_lowering(const tw_cuda_vm *vm, tw_lowering *l) {
    const tw_dtype stored = vm->m->layers[0].q.weight.dtype;
    if (!l->workers) l->workers = vm->workers;
    if (!l->row_unit) l->row_unit = l->weights == TW_F32 ? TW_MEGA_ROWS : 2 * TW_MEGA_ROWS;
    if (!l->exact_kv && l->kv == TW_F32 && stored != TW_F32 && l->max_seq > 0) l->kv = stored;
    l->group_heads = true;
    if (!l->down_splits) l->down_splits = tw_mega_down_splits(vm->m, vm->target, &vm->options, l);
}

int64_t tw_cuda_vm_tokens(const tw_cuda_vm *vm) {
    return vm->m->n_experts ? 1 : TW_CUDA_VM_TOKENS;
}

int64_t tw_cuda_vm_short_past(const tw_cuda_vm *vm, const tw_lowering *l) {
    enum { BYTES = 80 << 10, MOST = 384 }; /* A head's keys and values that an SM reads while others merge parts. */
    const int64_t n = BYTES / (2 * vm->m->head_dim * (int64_t)tw_dtype_bits(l->kv) / 8), most = n < MOST ? n : MOST;
    const int64_t sequences = l->sequences > 1 ? l->sequences : 1;
    if (l->tokens > sequences) return 0;
    /* Measured with a 1B llama of 1, 2, 4 and 8 sequences, which makes 16, 8, 4 and 2 parts: a single one is faster up
       to 380, 330, 230 and 850 positions. */
    const int64_t splits = l->workers / (sequences * vm->m->n_kv_heads);
    return splits < 2 ? 0 : splits == 2 ? 2 * most : splits < 8 ? most * 2 / 3 : most;
}

static tw_status make_plan(const tw_cuda_vm *vm, const tw_schedule *s, tw_mega_plan *plan, tw_diag *diag) {
    if (!vm->emu && s->n_workers > vm->workers)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "%d workers do not fit a GPU of %d SMs", s->n_workers, vm->workers);
    return tw_mega_plan_of(plan, s, vm->m, vm->target, &vm->options, diag);
}

tw_status tw_cuda_vm_fits(const tw_cuda_vm *vm, const tw_schedule *s, tw_diag *diag) {
    tw_mega_plan plan;
    return make_plan(vm, s, &plan, diag);
}

/* Plans a program and finds its weights. The program has its schedule. */
static tw_status prepare(const tw_cuda_vm *vm, tw_mega_program *p, tw_arena *arena, tw_diag *diag) {
    tw_status st = make_plan(vm, p->s, &p->plan, diag);
    return st == TW_OK ? tw_weights_resolve(&p->weights, p->s, vm->m, arena, diag) : st;
}

tw_status tw_cuda_vm_room(const tw_cuda_vm *vm, const tw_schedule *const *s, int n, tw_diag *diag) {
    tw_mega_program *p = calloc((size_t)n, sizeof *p);
    tw_arena arena = {0};
    tw_memory_need need;
    tw_status st = p ? TW_OK : tw_fail_memory(diag);
    for (int i = 0; i < n && st == TW_OK; i++) {
        p[i].s = s[i];
        st = prepare(vm, &p[i], &arena, diag);
    }
    if (st == TW_OK) st = tw_mega_fits(vm, p, n, &need, diag);
    tw_arena_free(&arena);
    free(p);
    return st;
}

/* ---- loading */

static tw_status assemble(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    tw_kernel *k = tw_mega_build(&p->plan);
    if (!k) return tw_fail_memory(diag);
    tw_status st = tw_pipeline_default(k, vm->emu != NULL, diag);
    if (st == TW_OK && vm->options.trace) st = tw_mega_lower_marks(vm, p, k, diag);
    const int64_t dynamic = st == TW_OK ? tw_kernel_shared_layout(k, NULL) : 0;
    p->signature = tw_signature_of(k);
    if (st != TW_OK || vm->emu) {
        p->kernel = k;
        return st;
    }
    tw_cuda_resources r;
    const tw_ptx_compiler by = tw_ptx_compiler_for(vm->cuda, true);
    st = tw_ptx_load(&by, k, &p->module, NULL, diag);
    if (st == TW_OK) st = tw_cuda_module_resources(p->module, k->threads, dynamic, &r, diag);
    /* All blocks must be resident at once, since they wait for one another. */
    if (st == TW_OK && (r.blocks_per_sm < 1 || p->s->n_workers > vm->workers))
        st = tw_fail(diag, TW_ERR_UNSUPPORTED, "%d workers do not fit a GPU of %d SMs, %d of them on each",
                     p->s->n_workers, vm->workers, r.blocks_per_sm);
    tw_kernel_free(k);
    return st;
}

static tw_status load(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    tw_status st = prepare(vm, p, &vm->arena, diag);
    p->plan.most_records = tw_mega_most_records(p->s);
    tw_memory_need need = {0};
    if (st == TW_OK) st = tw_mega_fits(vm, p, 1, &need, diag);
    if (st == TW_OK) st = assemble(vm, p, diag);
    if (st == TW_OK) st = tw_mega_load(vm, p, diag);
    if (st == TW_OK) tw_memory_add(&vm->loaded, &need);
    const size_t words = (size_t)TW_CUDA_VM_GREEDY * (size_t)p->s->sequences + BEGIN;
    void *host = NULL;
    if (st == TW_OK)
        st = tw_mega_alloc_shared(vm, p, "out", words * sizeof(int32_t), &host, &p->arguments[TW_MEGA_ARG_OUT], diag);
    p->said = host;
    if (st != TW_OK) return st;
    const tw_buffer *logits = &p->s->buffers[tw_mega_last(p->s)->operand[TW_OUTPUT_LOGITS]];
    p->logits = malloc((size_t)(logits->shape[0] * logits->shape[2]) * sizeof(float));
    return p->logits ? TW_OK : tw_fail_memory(diag);
}

tw_status tw_cuda_vm_load(tw_cuda_vm *vm, const tw_checked *program, int *id, tw_diag *diag) {
    tw_mega_program *p = calloc(1, sizeof *p);
    if (!p) return tw_fail_memory(diag);
    p->s = tw_checked_schedule(program);
    tw_status st = load(vm, p, diag);
    if (st != TW_OK) {
        free_program(vm, p);
        return st;
    }
    p->next = vm->programs;
    *id = p->id = vm->programs ? vm->programs->id + 1 : 0;
    vm->programs = p;
    return TW_OK;
}

tw_mega_program *tw_mega_program_of(const tw_cuda_vm *vm, int id) {
    tw_mega_program *p = vm->programs;
    while (p && p->id != id) p = p->next;
    return p;
}

/* ---- rope's angles: a row of cosines and sines for each position of the cache */

/* Fills n rows, `width` floats apart, with a rope's cosines and sines. */
static void fill_angles(const tw_cuda_vm *vm, const tw_rope *rope, float *inv_freq, int64_t first, int64_t n,
                        float *rows, int64_t width) {
    const int64_t half = rope->dims / 2;
    for (int64_t i = 0; i < half && vm->options.stored_rope; i++) {
        unsigned char stored[4];
        tw_from_f32(vm->m->embed.dtype, &inv_freq[i], stored, 1);
        tw_to_f32(vm->m->embed.dtype, stored, &inv_freq[i], 1);
    }
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < half; i++) {
            float angle = (float)(first + t) * inv_freq[i];
            rows[t * width + i] = cosf(angle) * rope->attention_factor;
            rows[t * width + half + i] = sinf(angle) * rope->attention_factor;
        }
}

tw_status tw_mega_make_angles(tw_cuda_vm *vm, int64_t max_seq, int64_t first, int64_t n, int64_t length,
                              tw_diag *diag) {
    const tw_rope *ropes[2] = {&vm->m->rope, &vm->m->rope_local};
    const int64_t dims = ropes[0]->dims, width = tw_mega_angles_of(vm->m);
    const size_t row = (size_t)width * sizeof(float);
    const bool moves = tw_rope_moves(ropes[0]);
    if (vm->has_angles && !moves) return TW_OK;
    if (!moves) {
        first = 0;
        n = max_seq;
    }
    tw_status st = TW_OK;
    if (!vm->angles) st = tw_mega_alloc(vm, NULL, "angles", NULL, (size_t)max_seq * row, true, &vm->angles, diag);
    if (st != TW_OK || !dims) return st;
    float *rows = malloc((size_t)(n + 1) * row);
    if (!rows) return tw_fail_memory(diag);
    for (int i = 0; i * dims < width; i++) {
        float *inv_freq = rows + n * width;
        tw_rope_frequencies(ropes[i], length, inv_freq);
        fill_angles(vm, ropes[i], inv_freq, first, n, rows + i * dims, width);
    }
    st = tw_mega_write(vm, vm->angles + (uint64_t)first * row, rows, (size_t)n * row, diag);
    free(rows);
    vm->has_angles = st == TW_OK;
    return st;
}

/* ---- running */

/* Returns an error with the reason if the machine gave up. */
static tw_status read_abort(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    tw_mega_abort a;
    const tw_status st = tw_mega_read(vm, &a, p->arguments[TW_MEGA_ARG_ABORT], sizeof a, diag);
    if (st != TW_OK) return st;
    p->gave_up = a.flag != 0;
    if (!p->gave_up) return TW_OK;
    if (a.counter < 0)
        return tw_fail(diag, TW_ERR_IO,
                       "the GPU's machine gave up: worker %d waited at its record %d for data of use %d, and saw %d",
                       a.worker, a.record, a.target, a.seen);
    return tw_fail(
        diag, TW_ERR_IO,
        "the GPU's machine gave up: worker %d waited at its record %d for counter %s to reach %d, which stood at %d",
        a.worker, a.record, a.counter < p->s->n_counters ? p->s->counters[a.counter].name : "?", a.target, a.seen);
}

static tw_status emulate(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    tw_emu_options o = {.seed = vm->options.seed + (uint64_t)p->epoch, .grid = {p->s->n_workers}};
    tw_emu_report report = {0};
    tw_status st = tw_emu_launch(vm->emu, p->kernel, p->arguments, &o, &report, diag);
    if (st == TW_ERR_REJECTED) st = tw_emu_explain(&report, diag);
    /* If the machine gave up, its abort is reported instead of the emulator's findings. */
    if (st != TW_OK && st != TW_ERR_REJECTED) return st;
    const tw_status aborted = read_abort(vm, p, diag);
    return aborted == TW_OK ? st : aborted;
}

/* Waits for a step's token of a sequence. With `soon` the thread spins, since the token is needed for the next launch.
   Otherwise it sleeps between polls, since later tokens of a launch are whole steps away. Polls of the stream report
   faults of the kernel. */
static tw_status hear(tw_cuda_vm *vm, tw_mega_program *p, int64_t at, bool soon, int32_t *token, tw_diag *diag) {
    enum { LOOK = 1 << 14, RESTLESS = 1 << 8 };
    if (vm->emu) return tw_mega_read(vm, token, p->arguments[TW_MEGA_ARG_OUT] + (uint64_t)at * 4, 4, diag);
    bool over = false;
    for (int polls = 1; (*token = atomic_load_explicit(&p->said[at], memory_order_acquire)) == UNSAID; polls++) {
        if (over)
            return tw_fail(diag, TW_ERR_IO, "the GPU's machine ended without a token for step %lld",
                           (long long)(at / p->s->sequences));
        if (polls % (soon ? LOOK : RESTLESS) == 0) {
            tw_status st = tw_cuda_look(vm->cuda, &over, diag);
            if (st != TW_OK) return st;
        }
        if (!soon && polls > RESTLESS) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        __builtin_ia32_pause();
    }
    if (*token != TW_MEGA_GAVE_UP) return TW_OK;
    tw_status st = read_abort(vm, p, diag);
    return st == TW_OK ? tw_fail(diag, TW_ERR_IO, "the GPU's machine gave up") : st;
}

static tw_status hear_step(tw_cuda_vm *vm, tw_mega_program *p, int64_t step, bool soon, int32_t *tokens,
                           tw_diag *diag) {
    tw_status st = TW_OK;
    for (int64_t i = 0; i < p->s->sequences && st == TW_OK; i++)
        st = hear(vm, p, step * p->s->sequences + i, soon, &tokens[i], diag);
    return st;
}

/* Waits for a launch whose remaining tokens were discarded. */
static tw_status settle(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    int32_t tokens[TW_CUDA_VM_TOKENS];
    if (p->gave_up) return tw_fail(diag, TW_ERR_IO, "the GPU's machine gave up before and is of no further use");
    tw_status st = p->pending ? hear_step(vm, p, p->pending - 1, true, tokens, diag) : TW_OK;
    p->pending = 0;
    return st;
}

/* Sends the tokens and positions that a launch begins with, without waiting. The program must be settled. */
static tw_status send_begin(tw_cuda_vm *vm, tw_mega_program *p, const int32_t *words, size_t n, tw_diag *diag) {
    if (vm->emu) return tw_mega_write(vm, p->arguments[TW_MEGA_ARG_TOKENS], words, n * sizeof *words, diag);
    void *from = (void *)(p->said + (size_t)TW_CUDA_VM_GREEDY * (size_t)p->s->sequences);
    memcpy(from, words, n * sizeof *words);
    return tw_cuda_send(vm->cuda, p->arguments[TW_MEGA_ARG_TOKENS], from, n * sizeof *words, diag);
}

typedef struct launch_of {
    int64_t pos, n, steps;
    int32_t token; /* The first token, if a step has one position. */
    uint32_t mode;
} launch_of;

static tw_status start(tw_cuda_vm *vm, tw_mega_program *p, tw_diag *diag) {
    const tw_cuda_launch l = {.module = p->module,
                              .grid = {p->s->n_workers, 1, 1},
                              .threads = 32 + 32 * p->plan.tuning.warps,
                              .dynamic_shared = p->plan.shared_bytes,
                              .cooperative = true,
                              .arguments = p->arguments,
                              .argument_bytes = p->signature.bytes,
                              .n_arguments = p->signature.n};
    tw_status st = p->ready ? TW_OK : tw_cuda_ready_make(vm->cuda, &p->ready, &l, diag);
    for (int i = 0; i < l.n_arguments && st == TW_OK; i++) st = tw_cuda_ready_set(p->ready, i, p->arguments[i], diag);
    return st == TW_OK ? tw_cuda_ready_run(p->ready, tw_cuda_stream(vm->cuda), diag) : st;
}

/* Starts a launch of a settled program. */
static tw_status launch(tw_cuda_vm *vm, tw_mega_program *p, const launch_of *o, tw_diag *diag) {
    uint64_t *arguments = p->arguments;
    arguments[TW_MEGA_ARG_ANGLES] = vm->angles;
    arguments[TW_MEGA_ARG_COUNTS] = vm->counts ? vm->counts : arguments[TW_MEGA_ARG_OUT];
    arguments[TW_MEGA_ARG_POS] = (uint64_t)o->pos;
    arguments[TW_MEGA_ARG_N] = (uint64_t)o->n;
    arguments[TW_MEGA_ARG_STEPS] = (uint64_t)o->steps;
    arguments[TW_MEGA_ARG_EPOCH] = (uint32_t)p->epoch;
    arguments[TW_MEGA_ARG_TOKEN] = (uint32_t)o->token;
    arguments[TW_MEGA_ARG_MODE] = o->mode;
    tw_status st;
    if (vm->emu) {
        st = emulate(vm, p, diag);
    } else {
        for (int64_t i = 0; i < o->steps * p->s->sequences; i++)
            atomic_store_explicit(&p->said[i], UNSAID, memory_order_relaxed);
        st = start(vm, p, diag);
        if (st == TW_OK) p->pending = o->steps;
    }
    p->epoch += (int32_t)o->steps;
    vm->last.program = p;
    vm->last.n = o->n;
    vm->last.pos = o->pos + (o->steps - 1) * o->n;
    return st;
}

static tw_status check_step(const tw_mega_program *p, int64_t pos, int64_t n, int64_t most, tw_diag *diag) {
    if (!p) return tw_fail(diag, TW_ERR_USAGE, "no such program");
    if (n >= 1 && n <= most && pos >= 0 && pos + n <= p->s->max_seq) return TW_OK;
    return tw_fail(diag, TW_ERR_USAGE, "positions %lld..%lld do not fit a step of %lld within %lld", (long long)pos,
                   (long long)(pos + n), (long long)most, (long long)p->s->max_seq);
}

static tw_status check_tokens(const tw_cuda_vm *vm, const int32_t *tokens, int64_t n, tw_diag *diag) {
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vm->m->vocab)
            return tw_fail(diag, TW_ERR_USAGE, "token %d is not within 0..%lld", tokens[i],
                           (long long)vm->m->vocab - 1);
    return TW_OK;
}

static tw_status read_logits(tw_cuda_vm *vm, tw_mega_program *p, int64_t rows, tw_diag *diag) {
    const uint64_t logits = p->buffer[tw_mega_last(p->s)->operand[TW_OUTPUT_LOGITS]];
    return tw_mega_read(vm, p->logits, logits, (size_t)(rows * vm->m->vocab) * 4, diag);
}

/* Enters the choices of a step of one position in step->routing. */
static tw_status read_routes(tw_cuda_vm *vm, const tw_mega_program *p, const tw_vm_step *step, tw_diag *diag) {
    tw_routing *r = step->routing;
    const size_t n = (size_t)(2 * r->used);
    if (r->told || !p->routes || step->n != 1)
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "the GPU's machine follows no choices of experts, and has its own of "
                       "steps of one position");
    float *routes = malloc((size_t)r->layers * n * sizeof *routes);
    if (!routes) return tw_fail_memory(diag);
    const tw_status st = tw_mega_read(vm, routes, p->routes, (size_t)r->layers * n * sizeof *routes, diag);
    for (int64_t i = 0; i < r->layers && st == TW_OK; i++)
        if (r->mixture[i]) tw_routing_enter(r, i, step->pos, 1, routes + (size_t)i * n);
    free(routes);
    return st;
}

tw_status tw_cuda_vm_run(tw_cuda_vm *vm, tw_vm_step *step, tw_diag *diag) {
    tw_mega_program *p = tw_mega_program_of(vm, step->program);
    tw_status st = check_step(p, step->pos, step->n, p ? p->s->tokens : 0, diag);
    if (st != TW_OK) return st;
    if (p->s->sequences > 1) return tw_fail(diag, TW_ERR_USAGE, "a program of several sequences runs as a batch");
    st = check_tokens(vm, step->tokens, step->n, diag);
    if (st == TW_OK) st = settle(vm, p, diag);
    if (st != TW_OK) return st;
    const int64_t length = step->length ? step->length : step->pos + step->n;
    const launch_of o = {.pos = step->pos, .n = step->n, .steps = 1, .token = step->tokens[0]};
    st = tw_mega_make_angles(vm, p->s->max_seq, step->pos, step->n, length, diag);
    if (st == TW_OK && p->s->tokens > 1) st = send_begin(vm, p, step->tokens, (size_t)step->n, diag);
    if (st == TW_OK) st = launch(vm, p, &o, diag);
    if (st == TW_OK) st = hear(vm, p, 0, true, &step->token, diag);
    p->pending = 0;
    if (st == TW_OK && !step->no_logits) st = read_logits(vm, p, p->plan.all_logits ? step->n : 1, diag);
    step->logits = step->no_logits ? NULL : p->logits;
    if (st == TW_OK && step->routing) st = read_routes(vm, p, step, diag);
    return st;
}

/* Prepares a launch of `n` steps: sends tokens and positions, and makes the angles of all positions. */
static tw_status begin_batch(tw_cuda_vm *vm, tw_mega_program *p, const int32_t *tokens, const int64_t *positions,
                             int64_t n, launch_of *o, tw_diag *diag) {
    if (!p) return tw_fail(diag, TW_ERR_USAGE, "no such program");
    const int64_t count = p->s->tokens;
    if (p->s->sequences != count)
        return tw_fail(diag, TW_ERR_USAGE, "several tokens a launch need a program of one position of each sequence");
    *o = (launch_of){.pos = positions[0], .n = count, .steps = n, .token = tokens[0]};
    int32_t begin[BEGIN];
    tw_status st = check_tokens(vm, tokens, count, diag);
    for (int64_t i = 0; i < count && st == TW_OK; i++) {
        begin[i] = tokens[i];
        begin[count + i] = (int32_t)positions[i];
        st = check_step(p, positions[i], n, TW_CUDA_VM_GREEDY, diag);
    }
    if (st == TW_OK && tw_rope_moves(&vm->m->rope) && n > 1)
        st = tw_fail(diag, TW_ERR_UNSUPPORTED, "angles that change with the length allow one token a launch");
    if (st == TW_OK) st = settle(vm, p, diag);
    for (int64_t i = 0; i < count && st == TW_OK; i++)
        st = tw_mega_make_angles(vm, p->s->max_seq, positions[i], n, positions[i] + n, diag);
    return st == TW_OK && count > 1 ? send_begin(vm, p, begin, (size_t)count * 2, diag) : st;
}

/* Uploads the rules unless the device already has them. */
static tw_status set_rules(tw_cuda_vm *vm, tw_mega_program *p, const tw_sample_rules *rules, uint32_t *mode,
                           tw_diag *diag) {
    const size_t bytes = (size_t)p->s->sequences * sizeof *rules;
    *mode = 0;
    for (int64_t i = 0; rules && i < p->s->sequences; i++) *mode |= rules[i].mode;
    if (!*mode) return TW_OK;
    if (!p->plan.samples) return tw_fail(diag, TW_ERR_UNSUPPORTED, "this program's logits are drawn from by the host");
    if (*mode & TW_SAMPLE_PENALISES && !vm->counts)
        return tw_fail(diag, TW_ERR_USAGE, "penalties without what they count");
    if (!memcmp(p->rules_there, rules, bytes)) return TW_OK;
    tw_status st = tw_mega_write(vm, p->arguments[TW_MEGA_ARG_RULES], rules, bytes, diag);
    if (st == TW_OK) memcpy(p->rules_there, rules, bytes);
    return st;
}

tw_status tw_cuda_vm_draw_tokens(tw_cuda_vm *vm, tw_cuda_vm_draw *d, tw_diag *diag) {
    tw_mega_program *p = tw_mega_program_of(vm, d->program);
    launch_of o;
    tw_status st = begin_batch(vm, p, d->tokens, d->positions, d->n, &o, diag);
    d->taken = 0;
    if (st == TW_OK) st = set_rules(vm, p, d->rules, &o.mode, diag);
    if (st == TW_OK) st = launch(vm, p, &o, diag);
    bool go_on = true;
    while (st == TW_OK && go_on && d->taken < d->n) {
        int32_t tokens[TW_CUDA_VM_TOKENS];
        st = hear_step(vm, p, d->taken, d->taken == d->n - 1, tokens, diag);
        if (st != TW_OK) break;
        if (++d->taken == d->n) p->pending = 0;
        go_on = d->take(d->user, tokens);
    }
    return st;
}

bool tw_cuda_vm_draws(const tw_cuda_vm *vm, int id) {
    const tw_mega_program *p = tw_mega_program_of(vm, id);
    return p && p->plan.samples && !tw_rope_moves(&vm->m->rope);
}

static int64_t counted(const tw_cuda_vm *vm) {
    return vm->options.sequences > TW_CUDA_VM_TOKENS ? vm->options.sequences : TW_CUDA_VM_TOKENS;
}

tw_status tw_mega_alloc_counts(tw_cuda_vm *vm, tw_diag *diag) {
    const size_t bytes = (size_t)(counted(vm) * vm->m->vocab) * sizeof(uint32_t);
    return vm->counts ? TW_OK : tw_mega_alloc_zeros(vm, NULL, "counts", bytes, &vm->counts, diag);
}

tw_status tw_cuda_vm_count(tw_cuda_vm *vm, int64_t sequence, const uint32_t *counts, tw_diag *diag) {
    const size_t row = (size_t)vm->m->vocab * sizeof *counts;
    if (sequence < 0 || sequence >= counted(vm))
        return tw_fail(diag, TW_ERR_USAGE, "sequence %lld is not within 0..%lld", (long long)sequence,
                       (long long)counted(vm) - 1);
    const tw_status st = tw_mega_alloc_counts(vm, diag);
    if (st != TW_OK) return st;
    return tw_mega_write(vm, vm->counts + (uint64_t)sequence * row, counts, row, diag);
}

tw_status tw_cuda_vm_batch(tw_cuda_vm *vm, int id, const int32_t *tokens, const int64_t *positions, int64_t n,
                           int32_t *out, const float **logits, double *microseconds, tw_diag *diag) {
    tw_mega_program *p = tw_mega_program_of(vm, id);
    launch_of o;
    tw_status st = begin_batch(vm, p, tokens, positions, n, &o, diag);
    if (st != TW_OK) return st;
    const int64_t begin = tw_now_ns();
    st = launch(vm, p, &o, diag);
    for (int64_t i = 0; i < n && st == TW_OK; i++) st = hear_step(vm, p, i, i == n - 1, out + i * o.n, diag);
    if (microseconds) *microseconds = (double)(tw_now_ns() - begin) * 1e-3;
    p->pending = 0;
    if (st == TW_OK && logits) st = read_logits(vm, p, o.n, diag);
    if (logits) *logits = p->logits;
    return st;
}

tw_status tw_cuda_vm_trace(tw_cuda_vm *vm, int id, tw_cuda_vm_times times[TW_CUDA_VM_KINDS], tw_diag *diag) {
    const tw_mega_program *p = tw_mega_program_of(vm, id);
    if (!p || !p->profile.n_sites) return tw_fail(diag, TW_ERR_USAGE, "the machine was not opened to be traced");
    return tw_mega_sum_marks(vm, p, times, diag);
}

tw_status tw_cuda_vm_timeline(tw_cuda_vm *vm, int id, int64_t n, int64_t pos, const char *title, struct tw_trace **out,
                              tw_diag *diag) {
    const tw_mega_program *p = tw_mega_program_of(vm, id);
    *out = NULL;
    if (!p || !p->profile.n_sites) return tw_fail(diag, TW_ERR_USAGE, "the machine was not opened to be traced");
    const tw_status st = tw_mega_trace_marks(vm, p, n, pos, title, out, diag);
    if (st == TW_OK && vm->cuda) tw_trace_set_peaks(*out, tw_cuda_describe(vm->cuda));
    return st;
}

tw_status tw_cuda_vm_last_timeline(tw_cuda_vm *vm, const char *title, struct tw_trace **out, tw_diag *diag) {
    *out = NULL;
    if (!vm->last.program) return tw_fail(diag, TW_ERR_USAGE, "the machine has made no step");
    return tw_cuda_vm_timeline(vm, vm->last.program->id, vm->last.n, vm->last.pos, title, out, diag);
}

int64_t tw_cuda_vm_tape_bytes(const tw_cuda_vm *vm) {
    int64_t n = 0;
    for (const tw_mega_tape *t = vm->tapes; t; t = t->next) n += t->bytes;
    return n;
}

int64_t tw_cuda_vm_memory(const tw_cuda_vm *vm, tw_memory_need *loaded) {
    *loaded = vm->loaded;
    return vm->most_bytes;
}

int64_t tw_cuda_vm_streamed_bytes(const tw_cuda_vm *vm) {
    const tw_mega_program *p = tw_mega_program_of(vm, 0);
    return p ? p->streamed_bytes : 0;
}

void tw_cuda_vm_explain(const tw_cuda_vm *vm, char *out, size_t size) {
    const tw_mega_program *p = tw_mega_program_of(vm, 0);
    if (!p)
        snprintf(out, size, "nothing loaded");
    else
        snprintf(out, size,
                 "%d workers, each %d warps of %d x 512 bytes a stage, %d stages, %d in flight, %d while it waits",
                 p->s->n_workers, p->plan.tuning.warps, p->plan.tuning.blocks, p->plan.tuning.stages,
                 p->plan.tuning.window, p->plan.tuning.ahead);
}

const char *tw_cuda_vm_device(const tw_cuda_vm *vm) {
    return vm->emu ? "emulator" : tw_cuda_describe(vm->cuda)->name;
}
