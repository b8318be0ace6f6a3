/* SPDX-License-Identifier: Apache-2.0 */
/* AutoMegaKernel's schedules, as its IR 0.2 writes them to disk, for the check. Nothing here runs them. */
#ifndef TW_SCHEDULE_AMK_AMK_H
#define TW_SCHEDULE_AMK_AMK_H

#include "base/json.h"
#include "tilewright/schedule.h"

typedef struct tw_amk tw_amk;

/* Whether a JSON value looks like one: an object with tasks or an ir_version. */
bool tw_amk_recognise(const json_t *root);

/* TW_ERR_FORMAT with the place when a field is missing, of the wrong type or of an unknown version. What is well-formed
   and wrong is for the check to find. */
tw_status tw_amk_from_json(tw_amk **out, const json_t *root, const char *path, tw_diag *diag);
void tw_amk_free(tw_amk *p);
void tw_amk_describe(const tw_amk *p, tw_schedule_info *info);

/* Adds every finding to a report that was started. TW_OK or TW_ERR_MEMORY: findings are not an error. */
tw_status tw_amk_check(tw_amk *p, tw_report *report);

/* As tw_schedule_dot. */
tw_status tw_amk_dot(tw_amk *p, const tw_report *report, const char *path, tw_diag *diag);

#endif
