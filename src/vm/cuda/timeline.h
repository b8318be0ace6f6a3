/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the GPU's machine as a trace. How the clocks were gathered is not its business (marks.c). */
#ifndef TW_VM_CUDA_TIMELINE_H
#define TW_VM_CUDA_TIMELINE_H

#include "prof/trace.h"
#include "vm/cuda/machine.h"

/* What a step left. Records are numbered as a worker's list has them: an instruction with several waits has one for
   each, of which the last is its own. */
typedef struct tw_mega_clocks {
    const int64_t (*marks)[TW_MEGA_MARKS]; /* [worker * rows + record], by the clock of the worker's multiprocessor. 0:
                                              the mark is not there. */
    const tw_mega_anchor *anchors;         /* [worker]. */
    int rows;                              /* Records of a worker at most. */
    bool emulated;                         /* Clocks count operations of the emulator. */
} tw_mega_clocks;

/* Makes a trace of a step of n positions from `pos` on. The caller frees it. A track is a worker, from its block's
   beginning to its end, and has

     iteration "layer"    around the instructions of a layer
     wait "wait down"     what is done before the wait, and the wait; one for each counter
     region "qkv"         the instruction. Its name has the mean work of these regions.
     region "qkv prepare", "qkv multiply", "qkv finish"
                          phases of the instruction, as tw_cuda_vm_phase has them
     region "arrive"      publishes the results, and arrives at the counter

   Edges lead from regions of instructions to waits for their counters. Instructions that lack a mark are left out.
   TW_ERR_FORMAT: no worker has left its anchors. */
tw_status tw_mega_timeline(tw_trace **out, const tw_schedule *s, const tw_mega_clocks *c, int64_t n, int64_t pos,
                           const char *title, const char *device, tw_diag *diag);

#endif
