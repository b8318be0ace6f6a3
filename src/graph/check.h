/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier of graphs. */
#ifndef TW_GRAPH_CHECK_H
#define TW_GRAPH_CHECK_H

#include "graph/graph.h"

/* Checks that each value is made once, before it is needed, and has a name of its own, and that numbers of values and
   producers are right. Of a node that is resolved, and whose operands have types and extents that are numbers, results
   are checked against what the operator makes of them. TW_ERR_REJECTED: the diagnostic says what is wrong. */
tw_status tw_graph_check(const tw_graph *g, tw_diag *diag);

#endif
