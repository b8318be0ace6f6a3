/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over concrete graphs. Each leaves a graph that tw_graph_check accepts. */
#ifndef TW_GRAPH_PASSES_PASSES_H
#define TW_GRAPH_PASSES_PASSES_H

#include "graph/graph.h"

/* What a pass keeps. */
enum {
    TW_KEEPS_INTERFACE = 1, /* Names, types and extents of inputs and outputs. */
    TW_KEEPS_RESULTS = 2,   /* Each bit of outputs, other than the sign of a zero. */
    TW_KEEPS_ALL = 3
};

typedef struct tw_graph_pass {
    const char *name;
    tw_status (*run)(tw_graph *g, bool *changed, tw_diag *diag); /* *changed is set to true or left as it is. */
    int keeps;                                                   /* TW_KEEPS_ */
} tw_graph_pass;

/* Nodes that change nothing: identities, casts to the same type, moves that move nothing, adding 0, multiplying by 1.
 */
tw_status tw_pass_identities(tw_graph *g, bool *changed, tw_diag *diag);
/* Nodes that undo or go on with what one before did: Reshape of Reshape, Transpose of Transpose, Cast of Cast. */
tw_status tw_pass_merges(tw_graph *g, bool *changed, tw_diag *diag);
/* Nodes and constants that there are already. */
tw_status tw_pass_common_nodes(tw_graph *g, bool *changed, tw_diag *diag);

/* Pads heads of attention of 16 bits to a multiple of 8 elements, by zeros in constants of the products around it. */
tw_status tw_pass_heads(tw_graph *g, bool *changed, tw_diag *diag);

/* Runs passes one after another, again while one changes something, and checks the graph after each. */
tw_status tw_graph_passes(tw_graph *g, const tw_graph_pass *passes, int n, tw_diag *diag);

/* Runs the passes above, but for tw_pass_heads. */
tw_status tw_graph_simplify(tw_graph *g, tw_diag *diag);

/* Lets a concrete graph compute in f16 or bf16 what it computed in f32. Constants are converted, and those out of range
   become finite; inputs and outputs stay f32, and are cast. Nodes whose results would leave the range stay f32 with all
   that angles depend on (stays.h), and so do those whose operators take no such type. */
tw_status tw_graph_convert(tw_graph *g, tw_element to, tw_diag *diag);

#endif
