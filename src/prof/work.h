/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a recorded event, counted in the IR: floating-point operations, and bytes of global memory. */
#ifndef TW_PROF_WORK_H
#define TW_PROF_WORK_H

#include "ir/ir.h"

typedef struct tw_prof_work {
    /* Operations of tensor cores, and additions, subtractions and multiplications of floats. An fma counts as two. */
    double flops;
    double bytes; /* Bytes that the event's instructions ask of global memory. Caches and multicast may serve a part of
                     them. */
    bool unknown; /* The event has a loop whose bounds are no constants, or expects bytes that are none. */
} tw_prof_work;

/* Counts the work of the event that `record` begins. `warps` warps take part in the event.

     event                                what counts
     a region                             everything between its begin and its end
     an own arrival of tensor cores       the products up to the end of their group
     an own arrival of copies             the thread's copies since the group before
     a later arrival                      the bytes that an mbarrier is told to expect, up to the next record

   All lanes count, whatever their guards are. Of the two branches of an `if` the one with more work counts. A loop
   counts as often as its bounds say. Stores and reductions of the copy engine do not count. Waits and marks have no
   work. Unknown work has no operations and no bytes. */
tw_prof_work tw_prof_work_of(const tw_kernel *k, const tw_ir_op *record, int warps);

#endif
