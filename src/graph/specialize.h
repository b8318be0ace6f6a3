/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs for given extents. */
#ifndef TW_GRAPH_SPECIALIZE_H
#define TW_GRAPH_SPECIALIZE_H

#include "graph/graph.h"

/* Makes the concrete graph of a resolved one: each value has a type, a rank and extents that are numbers. What depends
   on constants and on extents alone is computed and becomes constant, other than what would take far more memory than
   its operands. Nodes that no output needs are gone. `in` are types and extents of the inputs, in order, and `data` are
   not looked at. Inputs and outputs keep their order, and an output may be a constant or an input.
   TW_ERR_UNSUPPORTED: the diagnostic lists the nodes whose results have extents that depend on what inputs contain.
   *out keeps g: the caller may free g at once. */
tw_status tw_graph_specialize(tw_graph **out, const tw_graph *g, const tw_array *const *in, tw_diag *diag);

/* Takes contents of the inputs with known[i] as constants, too, and copies them. These inputs stay, and nobody uses
   them. known: NULL for none. */
tw_status tw_graph_specialize_known(tw_graph **out, const tw_graph *g, const tw_array *const *in, const bool *known,
                                    tw_diag *diag);
/* The same without copies: the data of known inputs live as long as *out. */
tw_status tw_graph_specialize_lent(tw_graph **out, const tw_graph *g, const tw_array *const *in, const bool *known,
                                   tw_diag *diag);

#endif
