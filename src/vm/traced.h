/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of programs: what instructions, their waits and their layers are called, which arrivals end a wait, and how
   much work the names stand for. It knows no machine. A machine adds the events. */
#ifndef TW_VM_TRACED_H
#define TW_VM_TRACED_H

#include "base/arena.h"
#include "prof/trace.h"
#include "schedule/schedule.h"

/* The loops of a program's trace. Events within a layer have the layer's number as their iteration, and events within
   a step, but in no layer, the step's. */
enum { TW_LOOP_STEP, TW_LOOP_LAYER };

/* An edge leads to a wait from at most so many arrivals: the latest ones. With w workers a stage has w arrivals and w
   waits, so that edges from all would outnumber everything else in a trace. */
enum { TW_TRACED_ARRIVALS = 8 };

typedef struct tw_traced_instr {
    int name;       /* The trace's name of the region: "qkv", "attend", "down". */
    int layer;      /* -1: it belongs to no layer. */
    int first_wait; /* Its waits are numbered from here on, in their order. */
} tw_traced_instr;

/* A program as a trace needs it. Instructions are numbered through: worker 0's, then worker 1's, and so on. */
typedef struct tw_traced {
    const tw_schedule *s;
    tw_traced_instr *instr;
    int *first;     /* [worker]: number of the worker's first instruction. */
    int *wait_name; /* [counter]: the trace's name of waits for it, such as "wait qkv". -1: nobody waits for it. */
    int *producers; /* Instructions that arrive at a counter, ascending, counter by counter. */
    int *first_of;  /* [counter + 1]: where the counter's producers begin. */
    int n_instr, n_waits;
} tw_traced;

/* Names everything in `t`. The program's memory is the arena's. */
tw_status tw_traced_make(tw_traced *p, tw_trace *t, const tw_schedule *s, tw_arena *arena, tw_diag *diag);

/* Adds the work of a step of n positions from `pos` on to the names of instructions. */
tw_status tw_traced_add_work(const tw_traced *p, tw_trace *t, int64_t n, int64_t pos, tw_diag *diag);

/* Adds the edges of a step. arrival[instruction] is the event whose end let others go on, and waited[wait] the wait.
   -1: there is none. A wait for fewer arrivals than its counter gets in a step is ended by the earliest. */
tw_status tw_traced_add_edges(const tw_traced *p, tw_trace *t, const int *arrival, const int *waited, tw_diag *diag);

/* Makes the work of each name that of one region: the mean. Call it once, when all regions are there. */
void tw_traced_finish_work(tw_trace *t);

#endif
