/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of the steps that a processor's machine runs. While a trace is recorded, every worker reads the clock at the
   beginning of a step, after each wait, after each instruction and after its arrival. Without one, the machine does
   what it always does. */
#ifndef TW_VM_CPU_TRACE_H
#define TW_VM_CPU_TRACE_H

#include "prof/trace.h"
#include "tilewright/vm.h"

/* Records from now on. There is room for `steps` steps of whichever loaded program has the most instructions. Steps
   beyond that run as always and are counted as dropped. TW_ERR_USAGE: a trace is recorded already, or `steps` is not
   within 1..TW_VM_TRACE_STEPS. */
enum { TW_VM_TRACE_STEPS = 1 << 20 };
tw_status tw_vm_trace_begin(tw_vm *vm, int64_t steps, tw_diag *diag);

/* Ends recording. The caller frees *out. TW_ERR_USAGE: no trace is recorded. After a failure none is recorded either.

   Times are nanoseconds from the first step's launch. A track is a worker, and has for each step

     wait "wait launch"       until the worker begins. Worker 0 launches the others, which is a region "launch".
     iteration "step"         from then on
     iteration "layer"        around the instructions of a layer
     wait "wait qkv"          for a counter; its name says what arrives there. Edges come from the regions below.
     region "qkv"             the instruction. Its name has the mean work of these regions.
     region "arrive"          from the end of the instruction until it has arrived and has woken whoever slept

   An event's duration includes one reading of the clock at most. Its least duration is without it. */
tw_status tw_vm_trace_end(tw_vm *vm, const char *title, tw_trace **out, tw_diag *diag);

/* For the launch. -- Takes a step into the trace, before it is launched. */
struct tw_program;
void tw_vm_trace_step(tw_vm *vm, const struct tw_program *p, const tw_vm_step *step);
/* Where worker `index` writes its readings of the step that is launched. NULL: the step is not recorded. */
int64_t *tw_vm_trace_stamps(const tw_vm *vm, int index);
/* Frees a trace that is recorded. */
void tw_vm_trace_drop(tw_vm *vm);

#endif
