/* SPDX-License-Identifier: Apache-2.0 */
/* How many operations an event does, and how many bytes of global memory it moves, counted in the IR. */
#ifndef TW_PROF_WORK_H
#define TW_PROF_WORK_H

#include "ir/ir.h"

typedef struct tw_prof_work {
    double flops; /* Operations of tensor cores, and additions, subtractions and products of floats. An fma has two. */
    double bytes; /* That are asked of global memory. Caches and multicast may serve them. */
    bool unknown; /* A loop's bounds, or the bytes that an mbarrier expects, are no constants. Then both are 0. */
} tw_prof_work;

/* Counts the work of the event that begins at `record`, done by `warps` warps together:

     a region                       what lies between its begin and its end
     products (own arrivals)        the products up to the end of their group
     a thread's copies (own)        the copies between the group before and this one
     copies at an mbarrier (later)  the bytes that it is told to expect behind the record

   Every lane counts, whether its guard holds or not. Of an `if` the branch that does more counts, so a group in which a
   loop's last iterations copy nothing counts like the others. Stores and reductions of the copy engine do not count.
   Waits and marks have no work. */
tw_prof_work tw_prof_work_of(const tw_kernel *k, const tw_ir_op *record, int warps);

#endif
