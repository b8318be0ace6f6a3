/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting findings: the check never aborts, it says what it saw. */
#ifndef TW_SCHEDULE_REPORT_H
#define TW_SCHEDULE_REPORT_H

#include "base/arena.h"
#include "tilewright/schedule.h"

enum { TW_MAX_FINDINGS = 100 };

/* Starts an empty report; TW_ERR_MEMORY leaves it freed. */
tw_status tw_report_start(tw_report *r);

/* Adds a finding, its texts copied. Beyond TW_MAX_FINDINGS only `cut` is set. */
void tw_report_add(tw_report *r, const char *rule, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* What --explain says of a finding; copied. Without memory it is left out. */
void tw_report_say_how(tw_report *r, size_t finding, const char *how);

#endif
