/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SCHEDULE_FORMATS_H
#define TW_SCHEDULE_FORMATS_H

#include "tilewright/schedule.h"

/* tw_schedule_file_read of a file's bytes; `path` is only for the diagnostic. */
tw_status tw_schedule_file_parse(tw_schedule_file **out, const char *data, size_t size, const char *path,
                                 tw_schedule_format format, tw_diag *diag);

#endif
