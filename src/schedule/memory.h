/* SPDX-License-Identifier: Apache-2.0 */
/* What a flow's memory has seen during the check: who wrote and read each box last, and how often in this step. */
#ifndef TW_SCHEDULE_MEMORY_H
#define TW_SCHEDULE_MEMORY_H

#include "schedule/boxes.h"

typedef struct tw_memory tw_memory;

/* TW_OK or TW_ERR_MEMORY. Findings go to `report`. */
tw_status tw_memory_open(tw_memory **out, const tw_flow *f, tw_report *report);
void tw_memory_close(tw_memory *m);

/* All accesses of a worker's `index`-th task (counted over the steps), which comes after `clock`: of each worker, so
   many tasks. Tasks must come in an order that happens-before allows, the second step's after all of the first's.
   False: no memory. */
bool tw_memory_task(tw_memory *m, int worker, int64_t index, int step, const int32_t *clock);

/* The first races that were found, of which a report can say more. */
typedef struct tw_race {
    size_t finding;
    int worker[2];
    int64_t index[2]; /* of the two tasks, counted over the steps: the first one's came earlier in the walk */
} tw_race;
int tw_memory_races(const tw_memory *m, const tw_race **out);

/* After all steps: every output must have been written whole. False: no memory. */
bool tw_memory_finish(tw_memory *m);

#endif
