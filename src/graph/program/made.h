/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that lowering makes of a graph's, such as weights times gains. Programs of one model for several extents
   share them. Each is made once, and stays at its place, by which devices know it. */
#ifndef TW_GRAPH_PROGRAM_MADE_H
#define TW_GRAPH_PROGRAM_MADE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tw_made_kind {
    TW_MADE_COPIED, /* Of a content that is gone. */
    TW_MADE_PACKED, /* Rows are padded (product.c). */
    TW_MADE_GATES,  /* Gates and values in turn (gates.c). */
    TW_MADE_SCALED  /* A matrix with the gains of a norm (norms.c). */
} tw_made_kind;

/* What a constant is made of, and how: addresses of contents, types, extents. Words behind the last are 0. */
enum { TW_MADE_WORDS = 32 };
typedef struct tw_made_key {
    int64_t kind, n, of[TW_MADE_WORDS];
} tw_made_key;

typedef struct tw_made {
    tw_made_key key;
    void *data;    /* Given to free. NULL: it cannot be made. */
    double *shift; /* Shares of a bias that go with it, given to free. NULL: there are none. */
} tw_made;

/* Begins with all 0. Contents whose addresses are in keys must stay where they are as long as it lives. Not safe for
   threads: programs that share a list are lowered one after another. */
typedef struct tw_program_made {
    tw_made *list;
    int n, room;
} tw_program_made;

void tw_made_words(tw_made_key *key, const int64_t *words, int n);
/* Finds what has m's key. False: it was not made yet. */
bool tw_made_find(const tw_program_made *all, tw_made *m);
/* Adds what was not found, or frees it. False: out of memory. */
bool tw_made_add(tw_program_made *all, tw_made *m);
/* Frees what was not added. */
void tw_made_drop(tw_made *m);
/* A copy of a content, which equal contents share. NULL: out of memory. */
const void *tw_made_copy(tw_program_made *all, const void *content, int64_t bytes);
void tw_program_made_free(tw_program_made *all);

#endif
