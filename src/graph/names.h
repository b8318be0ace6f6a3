/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a graph by their names. */
#ifndef TW_GRAPH_NAMES_H
#define TW_GRAPH_NAMES_H

#include "graph/graph.h"

typedef struct tw_names {
    const tw_graph *graph;
    int *slots; /* Numbers of values, where hashes of their names lead. -1: empty. */
    int room;   /* How many slots: a power of two. */
    int n;      /* Slots that are taken. */
} tw_names;

/* Returns the value of a name. -1: there is none. */
int tw_names_find(const tw_names *names, const char *name);
/* Adds a value whose name is not there. False: out of memory. */
bool tw_names_add(tw_names *names, int value);
void tw_names_free(tw_names *names);

#endif
