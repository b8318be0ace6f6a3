/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a tw_diag. Every helper returns the status it was given, so that `return tw_fail(...)` reads well. Control
   characters of a message become "?", but for tabs, and for ends of lines, which only reasons that are added lose. */
#ifndef TW_BASE_DIAG_H
#define TW_BASE_DIAG_H

#include "tilewright/base.h"

#define TW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

void tw_diag_clear(tw_diag *d);

/* A failure that no file is to blame for. */
tw_status tw_fail(tw_diag *d, tw_status s, const char *fmt, ...) TW_PRINTF(3, 4);

/* A failure at byte `offset` of `path`; -1 when the whole file is meant. */
tw_status tw_fail_at(tw_diag *d, tw_status s, const char *path, int64_t offset, const char *fmt, ...) TW_PRINTF(5, 6);

/* A failure at a line and column of a text file. */
tw_status tw_fail_line(tw_diag *d, tw_status s, const char *path, int line, int column, const char *fmt, ...)
    TW_PRINTF(6, 7);

tw_status tw_fail_memory(tw_diag *d);

/* Adds one more reason as a line of its own; the first call sets path and status. What does not fit is dropped
   whole, and the last line says that there is more. */
void tw_diag_add(tw_diag *d, tw_status s, const char *path, const char *fmt, ...) TW_PRINTF(4, 5);

#endif
