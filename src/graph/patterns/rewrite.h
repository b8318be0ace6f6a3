/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are being rewritten: who uses what, and in which order nodes come. */
#ifndef TW_GRAPH_PATTERNS_REWRITE_H
#define TW_GRAPH_PATTERNS_REWRITE_H

#include "graph/graph.h"

typedef struct tw_rewriter {
    tw_graph *g;
    int *uses; /* Of each value: operands and outputs that are it. */
    int room_uses;
    int *keys; /* Of each node: where it belongs among the others. New nodes come where the old one was. */
    int room_keys;
    int n_values, n_nodes; /* That uses and keys have. */
} tw_rewriter;

/* False: out of memory. */
bool tw_rewrite_begin(tw_rewriter *r, tw_graph *g);
/* Takes nodes in that were added since, which come where node `at` was. */
bool tw_rewrite_add(tw_rewriter *r, int at);
/* Removes a node, and nodes that only it needed. Results that others use must have other producers. */
void tw_rewrite_remove(tw_rewriter *r, int node);
bool tw_rewrite_is_gone(const tw_graph *g, int node);
/* Puts value `to` in the place of `from` for all users. */
void tw_rewrite_replace(tw_rewriter *r, int from, int to);
/* Puts nodes in order, and drops what is gone. */
tw_status tw_rewrite_end(tw_rewriter *r, tw_diag *diag);
void tw_rewrite_free(tw_rewriter *r);

#endif
