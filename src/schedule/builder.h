/* SPDX-License-Identifier: Apache-2.0 */
/* Building a schedule piece by piece. Failures stick in the schedule's arena: test it once at the end. */
#ifndef TW_SCHEDULE_BUILDER_H
#define TW_SCHEDULE_BUILDER_H

#include "schedule/schedule.h"

/* Of one sequence. NULL: out of memory. */
tw_schedule *tw_schedule_begin(int workers, int64_t tokens, int64_t max_seq);

/* Each returns the index of what it added, or -1 once memory ran out. Names are copied. */
int tw_schedule_add_buffer(tw_schedule *s, const char *name, tw_buffer_kind kind, tw_dtype dtype, int group, int64_t a,
                           int64_t b, int64_t c);
int tw_schedule_add_counter(tw_schedule *s, const char *name);

/* An instruction at the end of a worker's list, every operand absent; NULL once memory ran out. Valid until the next
   one is added to the same worker. */
tw_instr *tw_schedule_add_instr(tw_schedule *s, int worker, tw_instr_op op);
void tw_schedule_add_wait(tw_schedule *s, tw_instr *in, int counter, int64_t threshold);

#endif
