/* SPDX-License-Identifier: Apache-2.0 */
/* What a processor's machine records, and the trace that is made of it. */
#ifndef TW_VM_CPU_RECORDED_H
#define TW_VM_CPU_RECORDED_H

#include "prof/trace.h"
#include "vm/cpu/vm.h"

/* Readings of a step: TW_STAMPS_STEP, and then for each instruction one after each of its waits, and TW_STAMPS_INSTR.
 */
enum {
    TW_STAMP_CPU,   /* Number of the processor that the worker runs on. */
    TW_STAMP_BEGIN, /* The worker begins. */
    TW_STAMPS_STEP
};
enum {
    TW_STAMP_DONE,    /* The instruction has run, and has not arrived yet. */
    TW_STAMP_ARRIVED, /* It has arrived. */
    TW_STAMPS_INSTR
};

typedef struct tw_recorded_worker {
    int64_t *stamps;
    int64_t *next; /* Where in `stamps` the worker writes the stamps of the current step. NULL: it records none. */
    int64_t used, room;
    int64_t dropped; /* Instructions of steps for which there was no room. */
} tw_recorded_worker;

typedef struct tw_recorded_step {
    const tw_program *program;
    int64_t n, pos, began; /* Positions, the first one's number, and when the caller launched it. */
} tw_recorded_step;

typedef struct tw_recorded {
    tw_recorded_worker *workers;
    tw_recorded_step *steps;
    int n_steps, room_steps;
    int64_t reading;    /* Nanoseconds that a reading of the clock takes. */
    int64_t began_unix; /* Nanoseconds since 1970 at the first step. */
} tw_recorded;

/* Makes a trace of vm->recorded. */
tw_status tw_recorded_trace(const tw_vm *vm, const char *title, tw_trace **out, tw_diag *diag);

#endif
