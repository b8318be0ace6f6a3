/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a trace's report share. */
#ifndef TW_PROF_REPORT_PARTS_H
#define TW_PROF_REPORT_PARTS_H

#include "prof/rows.h"
#include "prof/report.h"
#include "prof/summary.h"

/* A copy of a text in which bytes that are not UTF-8 are question marks. NULL: out of memory. The caller frees it. */
char *trace_text(const char *text);

/* Spells a time with its unit: "35.20 µs". */
enum { TRACE_TIME = 96 };
void trace_time(char out[TRACE_TIME], double time, const char *unit);

/* Adds the section with the timeline, and when each SM ended. Returns false if memory runs out. */
bool trace_timeline(tw_page *p, const tw_trace *t, const tw_layout *l);

#endif
