/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of nodes become fewer, larger nodes: the standard's own (LayerNormalization, Attention, ...), and Product.
 */
#ifndef TW_GRAPH_PATTERNS_FUSE_H
#define TW_GRAPH_PATTERNS_FUSE_H

#include "base/buf.h"
#include "graph/graph.h"

/* One pattern that was found. */
typedef struct tw_fusion {
    const char *pattern; /* Its name in patterns.def. */
    const char *node;    /* The name of the node that was replaced. */
    int nodes;           /* How many nodes it was. */
} tw_fusion;

/* What was found in a graph, in order. Starts from {0}. */
typedef struct tw_fusions {
    tw_arena arena;
    tw_fusion *list;
    int n, room;
} tw_fusions;

/* Simplifies a concrete graph (tw_graph_specialize, passes.h), and rewrites it by patterns.def. `log` may be NULL.
   After an error the graph is of no use, and is to be freed. */
tw_status tw_graph_fuse(tw_graph *g, tw_fusions *log, tw_diag *diag);

/* Returns how often a pattern was found. */
int tw_fusions_count(const tw_fusions *f, const char *name);
/* Writes a line a pattern: how often, and how many nodes it was. `each`: and a line a place. */
void tw_fusions_print(const tw_fusions *f, bool each, tw_buf *out);
void tw_fusions_free(tw_fusions *f);

/* dot.c. Writes a graph for Graphviz: nodes with their attributes and results, without constants. */
void tw_graph_dot(const tw_graph *g, tw_buf *out);

#endif
