/* SPDX-License-Identifier: Apache-2.0 */
/* Types and extents of a graph's values, with symbols. */
#ifndef TW_GRAPH_SHAPES_INFER_H
#define TW_GRAPH_SHAPES_INFER_H

#include "graph/graph.h"

/* Gives values of a resolved graph the types and extents that follow from those of inputs, whatever the symbols are.
   Extents that are sums of products of symbols become symbols of their own, with these as names: "batch*seq", "past+1".
   What does not follow, or follows only for some, stays unknown. Contents of lists of integers are followed, too, so
   that shapes that are computed fold. */
tw_status tw_graph_infer(tw_graph *g, tw_diag *diag);

/* Returns an extent for numbers of the graph's symbols; those that stand for others are not read. -1: it is not known.
 */
int64_t tw_graph_extent(const tw_graph *g, tw_dim d, const int64_t *symbols);

#endif
