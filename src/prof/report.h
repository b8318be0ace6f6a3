/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as a report: one HTML file with the timeline and the summary. */
#ifndef TW_PROF_REPORT_H
#define TW_PROF_REPORT_H

#include "prof/memory.h"
#include "prof/trace.h"
#include "report/page.h"

/* More events than these are not drawn. Of a larger trace a report shows the SMs that end last, first, and in the
   middle, and if these have more, what begins first. It says so. */
enum { TW_TRACE_DRAWN = 6000 };

/* Opens a page with headline figures, the timeline, and tables of what the summary has. The caller may add sections,
   writes the page and closes it. NULL: TW_ERR_USAGE (tw_layout_make) or TW_ERR_MEMORY, and `diag` says so. */
tw_page *tw_trace_page(const tw_trace *t, tw_diag *diag);

/* Writes the page of tw_trace_page to a file. `memory` adds a section about the use of memory. NULL: there is none.
   `plots` is as for tw_page_write. TW_ERR_USAGE, TW_ERR_MEMORY, TW_ERR_IO, TW_ERR_UNSUPPORTED. */
tw_status tw_trace_report(const tw_trace *t, const tw_prof_memory_report *memory, const char *path, const char *plots,
                          tw_diag *diag);

#endif
