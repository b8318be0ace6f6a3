/* SPDX-License-Identifier: Apache-2.0 */
/* The records of a trace: memory for readings of the clock, and which steps they are of. */
#include "vm/cpu/trace.h"

#include "base/clock.h"
#include "base/diag.h"
#include "vm/cpu/recorded.h"

#include <stdlib.h>
#include <string.h>

/* Readings of a worker in a step, and the number of its processor. */
static int64_t stamps_of(const tw_schedule *s, int worker) {
    const tw_worker *w = &s->workers[worker];
    int64_t n = TW_STAMPS_STEP;
    for (int i = 0; i < w->count; i++) n += w->list[i].n_waits + TW_STAMPS_INSTR;
    return n;
}

/* Writes the whole buffer, so that its pages are there, near the worker, before anything is recorded. */
static tw_status make_buffer(tw_vm_thread *thread, void *context) {
    const tw_vm *vm = thread->vm;
    tw_recorded *r = context;
    tw_recorded_worker *w = &r->workers[thread->index];
    for (const tw_program *p = vm->programs; p; p = p->next) {
        const int64_t n = stamps_of(p->s, thread->index);
        if (n > w->room) w->room = n;
    }
    w->room *= r->room_steps;
    w->stamps = malloc((size_t)(w->room + 1) * sizeof *w->stamps);
    if (!w->stamps) return tw_fail_memory(&thread->diag);
    memset(w->stamps, 0xff, (size_t)w->room * sizeof *w->stamps);
    return TW_OK;
}

/* What a reading of the clock costs: the median difference of two that follow each other. */
static int64_t cost_of_reading(void) {
    enum { READINGS = 101, MOST = 256 };
    int counts[MOST] = {0};
    for (int i = 0; i < READINGS; i++) {
        const int64_t a = tw_now_ns(), d = tw_now_ns() - a;
        counts[d < MOST ? d : MOST - 1]++;
    }
    for (int d = 0, seen = 0; d < MOST; d++)
        if ((seen += counts[d]) > READINGS / 2) return d;
    return 0;
}

void tw_vm_trace_drop(tw_vm *vm) {
    tw_recorded *r = vm->recorded;
    vm->recorded = NULL;
    if (!r) return;
    for (int i = 0; r->workers && i < vm->n_threads; i++) free(r->workers[i].stamps);
    free(r->workers);
    free(r->steps);
    free(r);
}

tw_status tw_vm_trace_begin(tw_vm *vm, int64_t steps, tw_diag *diag) {
    if (vm->recorded) return tw_fail(diag, TW_ERR_USAGE, "a trace is recorded already");
    if (steps < 1 || steps > TW_VM_TRACE_STEPS)
        return tw_fail(diag, TW_ERR_USAGE, "steps: %lld is not within 1..%d", (long long)steps, TW_VM_TRACE_STEPS);
    tw_recorded *r = calloc(1, sizeof *r);
    if (!r) return tw_fail_memory(diag);
    r->room_steps = (int)steps;
    r->workers = calloc((size_t)vm->n_threads, sizeof *r->workers);
    r->steps = calloc((size_t)steps, sizeof *r->steps);
    tw_status st = r->workers && r->steps ? tw_vm_run_job(vm, make_buffer, r, diag) : tw_fail_memory(diag);
    tw_team_settle(vm->team);
    vm->recorded = r;
    r->reading = cost_of_reading();
    if (st != TW_OK) tw_vm_trace_drop(vm);
    return st;
}

void tw_vm_trace_step(tw_vm *vm, const tw_program *p, const tw_vm_step *step) {
    tw_recorded *r = vm->recorded;
    bool room = r->n_steps < r->room_steps;
    for (int i = 0; i < vm->n_threads && room; i++)
        room = r->workers[i].used + stamps_of(p->s, i) <= r->workers[i].room;
    for (int i = 0; i < vm->n_threads; i++) {
        tw_recorded_worker *w = &r->workers[i];
        w->next = room ? w->stamps + w->used : NULL;
        if (room)
            w->used += stamps_of(p->s, i);
        else
            w->dropped += p->s->workers[i].count;
    }
    if (!r->n_steps) r->began_unix = tw_clock_ns();
    if (room) r->steps[r->n_steps++] = (tw_recorded_step){p, step->n, step->pos, tw_now_ns()};
}

int64_t *tw_vm_trace_stamps(const tw_vm *vm, int index) {
    return vm->recorded->workers[index].next;
}

tw_status tw_vm_trace_end(tw_vm *vm, const char *title, tw_trace **out, tw_diag *diag) {
    *out = NULL;
    if (!vm->recorded) return tw_fail(diag, TW_ERR_USAGE, "no trace is recorded");
    tw_team_settle(vm->team);
    const tw_status st = tw_recorded_trace(vm, title, out, diag);
    tw_vm_trace_drop(vm);
    return st;
}
