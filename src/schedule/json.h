/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SCHEDULE_JSON_H
#define TW_SCHEDULE_JSON_H

#include "base/json.h"
#include "tilewright/schedule.h"

/* A schedule from bytes; `path` is only for the diagnostic. */
tw_status tw_schedule_parse(tw_schedule **out, const char *data, size_t size, const char *path, tw_diag *diag);
tw_status tw_schedule_from_json(tw_schedule **out, const json_t *root, const char *path, tw_diag *diag);

#endif
