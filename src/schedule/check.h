/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SCHEDULE_CHECK_H
#define TW_SCHEDULE_CHECK_H

#include "tilewright/schedule.h"

/* The proof itself, without handing anything over: TW_OK, TW_ERR_REJECTED with findings in `report` (started by the
   caller), or TW_ERR_MEMORY. */
tw_status tw_schedule_examine(const tw_schedule *s, tw_report *report, tw_diag *diag);

#endif
