/* SPDX-License-Identifier: Apache-2.0 */
/* How much arithmetic a record's event is of, and how many bytes of global memory it moves, counted in the IR. */
#ifndef TW_PROF_WORK_H
#define TW_PROF_WORK_H

#include "ir/ir.h"

typedef struct tw_prof_work {
    double flops; /* Floating-point (or integer) operations of tensor cores, and of ordinary float arithmetic. */
    double bytes; /* Of global memory. */
} tw_prof_work;

/* Counts the work of the event that begins at `record`, done by `warps` warps together:

     a region                       what lies between its begin and its end
     products (own arrivals)        the products up to the end of their group
     a thread's copies (own)        the copies between the group before and this one
     copies at a mbarrier (later)   the bytes that it is told to expect behind the record

   Every lane counts, whether its guard holds or not. Of an `if` the branch that does more counts, and loops count as
   often as their bounds say. Zeros: there is none, or a loop's bounds are no constants. Waits have none. */
tw_prof_work tw_prof_work_of(const tw_kernel *k, const tw_ir_op *record, int warps);

#endif
