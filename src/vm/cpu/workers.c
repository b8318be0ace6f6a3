/* SPDX-License-Identifier: Apache-2.0 */
/* The work of the team's launches: a step of a program, or a job on every worker. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/diag.h"
#include "vm/cpu/recorded.h"
#include "vm/cpu/share.h"
#include "vm/cpu/trace.h"

#include <sched.h>

enum {
    AHEAD_BYTES =
        256 << 10, /* Bytes of the next weights to prefetch into the second-level cache: at most a quarter of it. */
};

/* Runs a worker's instructions. `stamps`, unless NULL, gets the readings of the clock that recorded.h lists. Calls with
   NULL are compiled without them. */
static inline void walk(tw_vm_thread *thread, const tw_program *p, int64_t *stamps) {
    const tw_exec *list = p->exec[thread->index];
    uint32_t epoch = p->epoch;
    if (stamps) {
        stamps[TW_STAMP_CPU] = sched_getcpu();
        stamps[TW_STAMP_BEGIN] = tw_now_ns();
        stamps += TW_STAMPS_STEP;
    }
    for (int i = 0, n = p->s->workers[thread->index].count; i < n; i++) {
        const tw_exec *e = &list[i];
        /* An instruction without weights, such as attention, prefetches those of the next instruction. */
        const tw_strip *strip = !e->strip.panels && i + 1 < n ? &list[i + 1].strip : &e->strip;
        const char *next = strip->panels;
        size_t ahead = strip->copy_bytes < AHEAD_BYTES ? strip->copy_bytes : AHEAD_BYTES;
        for (int w = 0; w < e->n_waits; w++) {
            tw_counter_wait(e->waits[w].cell, e->waits[w].threshold * epoch, next, next ? next + ahead : NULL);
            if (stamps) *stamps++ = tw_now_ns();
        }
        tw_exec_run(thread, e);
        if (stamps) stamps[TW_STAMP_DONE] = tw_now_ns();
        if (e->arrive) tw_counter_arrive(e->arrive);
        if (stamps) {
            stamps[TW_STAMP_ARRIVED] = tw_now_ns();
            stamps += TW_STAMPS_INSTR;
        }
    }
}

static void perform(void *machine, int index) {
    tw_vm *vm = machine;
    tw_vm_thread *thread = &vm->threads[index];
    if (vm->job)
        thread->status = vm->job(thread, vm->job_context);
    else if (!vm->recorded)
        walk(thread, vm->program, NULL);
    else
        walk(thread, vm->program, tw_vm_trace_stamps(vm, index));
}

tw_status tw_vm_run_job(tw_vm *vm, tw_job_fn *job, void *context, tw_diag *diag) {
    tw_team_settle(vm->team);
    vm->job = job;
    vm->job_context = context;
    tw_team_run(vm->team, perform, vm);
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
    tw_team_settle(vm->team);
    p->epoch++;
    vm->program = p;
    tw_vm_share_begin(p);
    vm->step = *step;
    if (!vm->step.length) vm->step.length = step->pos + step->n;
    if (vm->recorded) tw_vm_trace_step(vm, p, step);
    tw_team_launch(vm->team, perform, vm);
    step->logits = vm->step.logits;
    step->token = vm->step.token;
    return TW_OK;
}
