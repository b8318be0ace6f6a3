/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers by names. */
#ifndef TW_GRAPH_NAMES_H
#define TW_GRAPH_NAMES_H

#include <stdbool.h>

typedef struct tw_name {
    const char *name; /* Lives as long as the names. NULL: the slot is empty. */
    int number;
} tw_name;

/* Begins with all 0. */
typedef struct tw_names {
    tw_name *slots; /* Where hashes of names lead. */
    int room;       /* How many slots: a power of two. */
    int n;          /* Slots that are taken. */
} tw_names;

/* Returns the number of a name. -1: there is none. */
int tw_names_find(const tw_names *names, const char *name);
/* Adds a name that is not there. False: out of memory. */
bool tw_names_add(tw_names *names, const char *name, int number);
void tw_names_free(tw_names *names);

#endif
