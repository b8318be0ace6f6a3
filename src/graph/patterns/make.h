/* SPDX-License-Identifier: Apache-2.0 */
/* Making what a pattern becomes. */
#ifndef TW_GRAPH_PATTERNS_MAKE_H
#define TW_GRAPH_PATTERNS_MAKE_H

#include "graph/patterns/match.h"

enum { TW_MAKE_VERSION = 24 /* The operators' set that new nodes belong to. */ };

typedef struct tw_maker {
    tw_graph *g;
    tw_match *match;  /* Of the pattern. Names of values that are made are bound, too. */
    int root;         /* The node that is replaced. */
    const char *name; /* The root's, which new nodes get. */
    int *serial;      /* The number that the next value's name ends with. */
} tw_maker;

/* Makes a value by a term. `want` is the value that it becomes, whose type and extents it must have, or -1. Returns its
   number. -1: it is not made, and the graph has nodes and values at its end that nothing needs. */
int tw_make(tw_maker *k, const tw_term *t, int want);
/* Adds a node. What only constants decide is computed at once, and then there is no node. */
int tw_make_node(tw_maker *k, tw_node *n, int want);

/* Adds a constant. The data are the arena's, or outlive the graph. */
int tw_make_constant(tw_maker *k, const tw_array *content);
/* Adds Reshape(x) to extents. x itself: it has them already. */
int tw_make_reshape(tw_maker *k, int x, int rank, const int64_t *dims, int want);

enum { TW_MAKE_NONE = -2 /* An operand that is left out. */ };
/* Adds a node of the format's own, or of ours, with one result. Its attributes are the arena's. -1: an operand is, or
 * memory lacks.
 */
int tw_make_op(tw_maker *k, const char *op, const int *operands, int n, tw_attribute *attributes, int n_attributes,
               int want);
/* Adds Slice(x) from `from` to below `to` along an axis. */
int tw_make_slice(tw_maker *k, int x, int64_t axis, int64_t from, int64_t to, int64_t step);
/* Adds Transpose(x). `perm` is the order of dimensions, in the graph's arena. */
int tw_make_transpose(tw_maker *k, int x, int64_t *perm, int want);

/* functions.c. What a name with operands in small letters makes. */
typedef int tw_make_function(tw_maker *k, const int *args, int n, int want);
tw_make_function *tw_make_find(const char *name);

#endif
