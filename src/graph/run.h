/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a graph plainly, a node after another: the reference of all that is faster. */
#ifndef TW_GRAPH_RUN_H
#define TW_GRAPH_RUN_H

#include "graph/graph.h"

/* Finds what each node does. TW_ERR_UNSUPPORTED: the diagnostic lists all nodes that are not supported, with reasons.
   `path` is the file that they are said to be in. */
tw_status tw_graph_resolve(tw_graph *g, const char *path, tw_diag *diag);

/* Checks that each input is given, with a type and extents that the graph leaves room for. TW_ERR_USAGE: one is not. */
tw_status tw_graph_check_input(const tw_graph *g, int input, const tw_array *a, tw_diag *diag);
tw_status tw_graph_check_inputs(const tw_graph *g, const tw_array *const *in, tw_diag *diag);

/* Computes the outputs of a resolved graph. `in` are the inputs' contents, in order; a NULL one is an error. The
   outputs' contents lie in the arena. Memory of values between is freed before this returns. */
tw_status tw_graph_run(const tw_graph *g, const tw_array *const *in, tw_arena *arena, tw_array *out, tw_diag *diag);

#endif
