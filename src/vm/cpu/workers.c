/* SPDX-License-Identifier: Apache-2.0 */
/* The workers and their launches. A launch is a step of a program, or a job. Workers other than the caller's spin for a
   while after a launch, and then sleep until the next one. */
#define _GNU_SOURCE
#include "vm/cpu/vm.h"

#include "base/diag.h"

#include <stdlib.h>

enum {
    SPINS = 2000, /* About 50 us of pauses: longer than a stage's imbalance, shorter than a scheduler's tick. */
    AHEAD_BYTES =
        256 << 10, /* Bytes of the next weights to prefetch into the second-level cache: at most a quarter of it. */
};

static bool reached(uint32_t value, uint32_t target) {
    return (int32_t)(value - target) >= 0;
}

/* Waits until the counter reaches `target`: spins, then sleeps. While it spins it prefetches the weights from `next` to
   `end`, which do not depend on the counter. A sleeper announces itself before it reads the counter a last time. An
   arriving worker looks for sleepers after it adds. So one of the two sees the other. */
static void wait_fetching(tw_counter_cell *c, uint32_t target, const char *next, const char *end) {
    for (int i = 0; i < SPINS; i++) {
        if (reached(atomic_load_explicit(&c->value, memory_order_acquire), target)) return;
        if (next < end) {
            for (int line = 0; line < 8; line++, next += 64) __builtin_prefetch(next, 0, 2);
        } else
            tw_cpu_relax();
    }
    atomic_fetch_add(&c->sleepers, 1);
    for (;;) {
        uint32_t value = atomic_load(&c->value);
        if (reached(value, target)) break;
        tw_sleep_on(&c->value, value);
    }
    atomic_fetch_sub(&c->sleepers, 1);
}

static void wait_for(tw_counter_cell *c, uint32_t target) {
    wait_fetching(c, target, NULL, NULL);
}

static void arrive_at(tw_counter_cell *c) {
    atomic_fetch_add(&c->value, 1);
    if (atomic_load(&c->sleepers)) tw_wake_all(&c->value);
}

static void walk(tw_vm_thread *thread, const tw_program *p) {
    const tw_exec *list = p->exec[thread->index];
    uint32_t epoch = p->epoch;
    for (int i = 0, n = p->s->workers[thread->index].count; i < n; i++) {
        const tw_exec *e = &list[i];
        /* An instruction without weights, such as attention, prefetches those of the next instruction. */
        const tw_strip *strip = !e->strip.panels && i + 1 < n ? &list[i + 1].strip : &e->strip;
        const char *next = strip->panels;
        size_t ahead = strip->copy_bytes < AHEAD_BYTES ? strip->copy_bytes : AHEAD_BYTES;
        for (int w = 0; w < e->n_waits; w++)
            wait_fetching(e->waits[w].cell, e->waits[w].threshold * epoch, next, next ? next + ahead : NULL);
        tw_exec_run(thread, e);
        if (e->arrive) arrive_at(e->arrive);
    }
}

static void perform(tw_vm_thread *thread) {
    if (thread->vm->job)
        thread->status = thread->vm->job(thread, thread->vm->job_context);
    else
        walk(thread, thread->vm->program);
}

static void *thread_main(void *argument) {
    tw_vm_thread *thread = argument;
    tw_vm *vm = thread->vm;
    if (thread->cpu >= 0) tw_pin_self(thread->cpu);
    for (uint32_t seen = 1;; seen++) {
        wait_for(&vm->launch, seen);
        if (vm->quit) break;
        perform(thread);
        arrive_at(&vm->idle);
    }
    return NULL;
}

/* Waits until every other worker has finished all launches. */
static void settle(tw_vm *vm) {
    wait_for(&vm->idle, vm->launches * (uint32_t)(vm->n_threads - 1));
}

static void launch(tw_vm *vm) {
    vm->launches++;
    arrive_at(&vm->launch);
    perform(&vm->threads[0]);
}

tw_status tw_vm_run_job(tw_vm *vm, tw_job_fn *job, void *context, tw_diag *diag) {
    settle(vm);
    vm->job = job;
    vm->job_context = context;
    launch(vm);
    settle(vm);
    vm->job = NULL;
    for (int i = 0; i < vm->n_threads; i++)
        if (vm->threads[i].status != TW_OK) {
            if (diag) *diag = vm->threads[i].diag;
            return vm->threads[i].status;
        }
    return TW_OK;
}

tw_status tw_vm_run(tw_vm *vm, tw_vm_step *step, tw_diag *diag) {
    if (step->program < 0 || step->program >= vm->n_programs) return tw_fail(diag, TW_ERR_USAGE, "no such program");
    tw_program *p = vm->programs;
    for (int i = vm->n_programs - 1; i > step->program; i--) p = p->next;
    if (step->n < 1 || step->n > p->s->tokens || step->pos < 0 || step->pos + step->n > p->s->max_seq)
        return tw_fail(diag, TW_ERR_USAGE, "positions %lld..%lld do not fit a step of %lld within %lld",
                       (long long)step->pos, (long long)(step->pos + step->n), (long long)p->s->tokens,
                       (long long)p->s->max_seq);
    for (int64_t i = 0; i < step->n; i++)
        if (step->tokens[i] < 0 || step->tokens[i] >= vm->m->vocab)
            return tw_fail(diag, TW_ERR_USAGE, "token id %d is not within 0..%lld", step->tokens[i],
                           (long long)(vm->m->vocab - 1));
    settle(vm);
    p->epoch++;
    vm->program = p;
    vm->step = *step;
    if (!vm->step.length) vm->step.length = step->pos + step->n;
    launch(vm);
    step->logits = vm->step.logits;
    step->token = vm->step.token;
    return TW_OK;
}

tw_status tw_workers_start(tw_vm *vm, tw_diag *diag) {
    int *cpus = malloc(sizeof *cpus * TW_MAX_WORKERS);
    if (!cpus) return tw_fail_memory(diag);
    int n_cpus = tw_allowed_cpus(cpus, TW_MAX_WORKERS);
    tw_status st = TW_OK;
    for (int i = 0; i < vm->n_threads; i++) {
        tw_vm_thread *thread = &vm->threads[i];
        /* With more workers than processors, pinned workers would share a processor while another one is idle. */
        bool pin = !vm->options.no_pin && i > 0 && vm->n_threads <= n_cpus;
        thread->vm = vm;
        thread->index = i;
        thread->cpu = pin ? cpus[i] : -1;
    }
    for (int i = 1; i < vm->n_threads && st == TW_OK; i++) {
        vm->threads[i].started = pthread_create(&vm->threads[i].handle, NULL, thread_main, &vm->threads[i]) == 0;
        if (!vm->threads[i].started)
            st = tw_fail(diag, TW_ERR_MEMORY, "cannot start worker %d of %d", i, vm->n_threads);
    }
    free(cpus);
    return st;
}

void tw_workers_stop(tw_vm *vm) {
    if (vm->n_threads > 1) {
        /* A worker that saw `quit` before the last launch ended would leave without arriving. */
        settle(vm);
        vm->quit = true;
        arrive_at(&vm->launch);
    }
    for (int i = 0; i < vm->n_threads; i++)
        if (vm->threads[i].started) pthread_join(vm->threads[i].handle, NULL);
}
