/* SPDX-License-Identifier: Apache-2.0 */
/* A shadow of every buffer during the check: who wrote each part last, and who has read it since. A buffer is cut into
   cells along the bounds of all accesses to it, so a cell is touched whole or not at all. */
#ifndef TW_SCHEDULE_SHADOW_H
#define TW_SCHEDULE_SHADOW_H

#include "schedule/effects.h"

typedef struct tw_shadow tw_shadow;

/* TW_OK or TW_ERR_MEMORY. The schedule's accesses must be within bounds. Findings go to `report`. */
tw_status tw_shadow_open(tw_shadow **out, const tw_schedule *s, tw_report *report);
void tw_shadow_close(tw_shadow *sh);

/* False, with a finding, when the accesses cut a buffer so fine that it cannot be held: rejected, never skipped. */
bool tw_shadow_feasible(const tw_shadow *sh);

/* One access by instruction `index` (counted over both steps) of `worker`, which comes after `clock`: of each worker,
   so many instructions. Accesses must come in an order that happens-before allows. */
void tw_shadow_access(tw_shadow *sh, const tw_access *a, int worker, int64_t index, bool second_step,
                      const uint32_t *clock);

/* After both steps: every output must have been written whole. */
void tw_shadow_finish(tw_shadow *sh);

#endif
