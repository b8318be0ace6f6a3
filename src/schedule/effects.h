/* SPDX-License-Identifier: Apache-2.0 */
/* What an instruction reads and writes: the one function that the check, the lowering and the machine's debug mode
   share. */
#ifndef TW_SCHEDULE_EFFECTS_H
#define TW_SCHEDULE_EFFECTS_H

#include "schedule/access.h"
#include "schedule/schedule.h"

/* Appends to `list` the accesses of `in`, whose operands and parameters must be in range as references (the check's
   first rule). TW_ERR_FORMAT with a message when shapes or parameters do not fit the op; TW_ERR_MEMORY. */
tw_status tw_instr_effects(const tw_schedule *s, const tw_instr *in, tw_access_list *list, tw_diag *diag);

#endif
