/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as JSON in Chrome's format of trace events, which chrome://tracing, ui.perfetto.dev and scripts read.

   The process's number is that of the SM, and the thread's is 64 for each place of the thread block and the warp in it.
   Regions are pairs of B and E that nest, asynchronous events are pairs of b and e of which each lane has an id, marks
   are i and values C. An arrow is a pair of s and f with an id of its own. Times are microseconds since the trace's
   beginning, with three decimals; an operation of the emulator counts as a nanosecond. `baseTimeNanoseconds` is that
   beginning in nanoseconds since 1970. */
#ifndef TW_PROF_CHROME_H
#define TW_PROF_CHROME_H

#include "base/buf.h"
#include "prof/trace.h"

/* Appends the file to `out`. TW_ERR_USAGE: the trace cannot be laid out (tw_layout_make). TW_ERR_MEMORY. */
tw_status tw_chrome_encode(tw_buf *out, const tw_trace *t, tw_diag *diag);
/* Writes the file beside `path` and renames it. TW_ERR_IO, too. */
tw_status tw_chrome_write(const tw_trace *t, const char *path, tw_diag *diag);

#endif
