/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs that are being rewritten: who uses what, and in which order nodes come. */
#ifndef TW_GRAPH_PATTERNS_EDIT_H
#define TW_GRAPH_PATTERNS_EDIT_H

#include "graph/graph.h"

typedef struct tw_edit {
    tw_graph *g;
    int *uses; /* Of each value: operands and outputs that are it. */
    int room_uses;
    int *keys; /* Of each node: where it belongs among the others. New nodes come where the old one was. */
    int room_keys;
    int n_values, n_nodes; /* That uses and keys have. */
} tw_edit;

/* False: out of memory. */
bool tw_edit_begin(tw_edit *r, tw_graph *g);
/* Takes nodes in that were added since, which come where node `at` was. */
bool tw_edit_add(tw_edit *r, int at);
/* Removes a node, and nodes that only it needed. Results that others use must have other producers. */
void tw_edit_drop(tw_edit *r, int node);
bool tw_edit_is_gone(const tw_graph *g, int node);
/* Puts value `to` in the place of `from` for all users. */
void tw_edit_replace(tw_edit *r, int from, int to);
/* Puts nodes in order, and drops what is gone. */
tw_status tw_edit_end(tw_edit *r, tw_diag *diag);
void tw_edit_free(tw_edit *r);

#endif
