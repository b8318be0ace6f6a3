/* SPDX-License-Identifier: Apache-2.0 */
/* Finding patterns in graphs. */
#ifndef TW_GRAPH_PATTERNS_MATCH_H
#define TW_GRAPH_PATTERNS_MATCH_H

#include "graph/patterns/term.h"

enum { TW_MATCH_NODES = 32 /* The most nodes of a pattern. */ };

typedef struct tw_match {
    const tw_graph *g;
    const int *uses;             /* Of each value: operands and outputs that are it. */
    int bound[TW_TERM_SLOTS];    /* Values of names. -1: not yet. */
    int nodes[TW_MATCH_NODES];   /* The root is the first. */
    bool shared[TW_MATCH_NODES]; /* The node may have other users. */
    int n_nodes;
} tw_match;

/* Tells whether a value is computed as the term says. Nodes within are used by nobody else, if they are not marked. */
bool tw_match_find(tw_match *m, const tw_graph *g, const int *uses, const tw_term *t, int value);

#endif
