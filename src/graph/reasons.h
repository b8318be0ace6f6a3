/* SPDX-License-Identifier: Apache-2.0 */
/* Why nodes are refused: all of them at once, those of one operator and one reason in one line, so that the list of a
   large model is whole. */
#ifndef TW_GRAPH_REASONS_H
#define TW_GRAPH_REASONS_H

#include "graph/graph.h"

enum { TW_REASON_NAMES = 3 /* Nodes of a line that are named. */ };

typedef struct tw_reason {
    const tw_node *nodes[TW_REASON_NAMES]; /* The first of them. */
    const char *why;
    int n; /* How many nodes it holds for. */
} tw_reason;

typedef struct tw_reasons {
    tw_arena arena;
    tw_reason *list;
    int n, room;
} tw_reasons;

/* Adds a node, which must live until the reasons are told. */
void tw_reasons_add(tw_reasons *r, const tw_node *n, const char *why);
/* Writes all reasons into the diagnostic, with fewer names if there are many, and frees them. Returns TW_OK if there
   are none, and st otherwise. */
tw_status tw_reasons_tell(tw_reasons *r, tw_status st, const char *path, tw_diag *diag);

#endif
