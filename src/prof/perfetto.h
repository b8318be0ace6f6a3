/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a file for Perfetto (ui.perfetto.dev, trace_processor), in its own format: messages of Protocol Buffers,
   whose numbers are those of perfetto/trace/trace_packet.proto.

   An SM is a process and a row of the layout a thread of it; lanes of asynchronous events are tracks of the process.
   A thread block is a slice around what its warp did. Engines are categories. An arrow leads from what an edge begins
   at to the wait. Values are counters. Times are nanoseconds since the trace's beginning, on a clock whose beginning is
   given in nanoseconds since 1970; an operation of the emulator counts as a nanosecond. Files of more than
   TW_PERFETTO_PLAIN bytes hold their events as compressed packets. */
#ifndef TW_PROF_PERFETTO_H
#define TW_PROF_PERFETTO_H

#include "base/buf.h"
#include "prof/trace.h"

enum { TW_PERFETTO_PLAIN = 16 << 20 };

/* Appends the file to `out`. TW_ERR_USAGE: the trace cannot be laid out (tw_layout_make). TW_ERR_MEMORY. */
tw_status tw_perfetto_encode(tw_buf *out, const tw_trace *t, tw_diag *diag);
/* The same, in packets that are compressed if there are more than `plain` bytes. */
tw_status tw_perfetto_encode_above(tw_buf *out, const tw_trace *t, size_t plain, tw_diag *diag);
/* Writes the file beside `path` and renames it. TW_ERR_IO, too. */
tw_status tw_perfetto_write(const tw_trace *t, const char *path, tw_diag *diag);

#endif
