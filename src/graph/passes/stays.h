/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes go on computing in f32 when a graph is converted to 16 bits. */
#ifndef TW_GRAPH_PASSES_STAYS_H
#define TW_GRAPH_PASSES_STAYS_H

#include "graph/graph.h"

/* Sets stays[i] of each node of a graph whose values have types. They are: those whose results leave f16's range though
   operands are in it (powers, sums, exponentials); elementwise nodes whose operands of type f32 are all made by such or
   are constants; and all that angles depend on (of Sin and Cos), since positions have no room in 16 bits. */
void tw_find_stays(const tw_graph *g, bool *stays);

#endif
