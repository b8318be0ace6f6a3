/* SPDX-License-Identifier: Apache-2.0 */
/* How much an instruction computes and moves in a given step. */
#ifndef TW_SCHEDULE_WORK_H
#define TW_SCHEDULE_WORK_H

#include "schedule/schedule.h"

typedef struct tw_instr_work {
    double flops; /* Operations of matrix products and of attention. A multiply-add is two. */
    double bytes; /* Bytes of buffers that the instruction touches, each counted once for a read and for a write. */
} tw_instr_work;

/* Computes the work of `in` in a step of n positions whose first is `pos`. Of an embedding's table the rows of the
   step's tokens count, and of a mixture's matrices as many as the step can route to. With several sequences each of
   them is at position `pos`. TW_ERR_FORMAT, TW_ERR_MEMORY: as tw_instr_effects. */
tw_status tw_instr_work_of(const tw_schedule *s, const tw_instr *in, int64_t n, int64_t pos, tw_instr_work *work,
                           tw_diag *diag);

#endif
