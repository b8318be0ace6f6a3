/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_SCHEDULE_DOT_H
#define TW_SCHEDULE_DOT_H

#include "base/buf.h"
#include "schedule/flow.h"

/* Graphviz: a cluster a worker, its order in gray, waits as edges from those who arrive (or from a counter that many
   arrive at), thresholds that do not fit in red, and whatever the report found something at filled. `report` may be
   NULL. False: no memory. */
bool tw_flow_dot(const tw_flow *f, const tw_report *report, tw_buf *out);

#endif
