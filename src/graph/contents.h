/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of constants that graphs share. Graphs of one model for several extents convert, join and fold the same
   weights; memory has them once, and a content stays at its place, so that what a device has is known by that. */
#ifndef TW_GRAPH_CONTENTS_H
#define TW_GRAPH_CONTENTS_H

#include "graph/graph.h"

typedef struct tw_content {
    uint64_t sum; /* base/sum.h. Equal ones are compared. */
    int64_t bytes;
    void *data; /* Given to free. */
} tw_content;

/* Begins with all 0. */
typedef struct tw_contents {
    tw_content *list;
    int n, room;
    int64_t bytes;    /* Of all. */
    const void *kept; /* Memory that outlives all graphs, whose contents stay where they are. NULL: none. */
    size_t kept_bytes;
} tw_contents;

/* Lets a graph's constants lie among the contents, other than those in files that are mapped. The contents must outlive
   the graph. */
tw_status tw_contents_share(tw_contents *c, tw_graph *g, tw_diag *diag);
void tw_contents_free(tw_contents *c);

#endif
