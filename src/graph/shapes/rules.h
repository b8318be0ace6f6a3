/* SPDX-License-Identifier: Apache-2.0 */
/* What operators do to extents with symbols. */
#ifndef TW_GRAPH_SHAPES_RULES_H
#define TW_GRAPH_SHAPES_RULES_H

#include "graph/graph.h"
#include "graph/shapes/formula.h"

enum { TW_FACT_ELEMENTS = 64 /* The most elements of a content that is followed. */ };

/* What is known of a value. */
typedef struct tw_fact {
    tw_element type; /* TW_E_none: not known. */
    int rank;        /* Or TW_RANK_UNKNOWN. */
    const tw_formula *dims[TW_ARRAY_RANK];
    const tw_formula **content; /* Elements of a list of integers or truths, or of a single one. NULL: not followed. */
    int n;                      /* Elements of `content`. */
} tw_fact;

/* The graph's symbols while extents are found. */
typedef struct tw_symbols {
    tw_graph *graph;
    tw_arena *arena;
    int64_t *samples; /* Of each symbol: a number that it may be. */
    int room;
} tw_symbols;

/* symbols.c. Returns the smaller of a number above 0 and an extent, which is a new symbol. NULL: out of memory, or the
   symbol's name stands for another already. */
const tw_formula *tw_least_make(tw_symbols *s, const tw_formula *number, const tw_formula *extent);
/* Whether a is the smaller of a number and b. */
bool tw_least_of(const tw_symbols *s, const tw_formula *a, const tw_formula *b);
/* Whether a >= b, or a != b, hold whatever the symbols are, none of which is below 0. */
bool tw_at_least(const tw_symbols *s, const tw_formula *a, const tw_formula *b);
bool tw_differs(const tw_symbols *s, const tw_formula *a, const tw_formula *b);
/* Makes samples for all symbols of the graph. False: out of memory. */
bool tw_symbols_begin(tw_symbols *s);
/* Returns the dimension that an extent is, which may become a new symbol. */
tw_dim tw_symbols_dim(tw_symbols *s, const tw_formula *e);

/* A node whose operands are known as far as they are. */
typedef struct tw_inference {
    tw_arena *arena;
    tw_symbols *symbols;
    const tw_node *node;
    int n_in, n_out;
    const tw_fact *const *in; /* NULL: the operand is left out. */
    tw_fact *out;             /* Types and ranks are there, where they follow; dims and contents are to be found. */
} tw_inference;

/* dims.c. Finds the results' extents. False: there is no rule for the operator. */
bool tw_infer_dims(tw_inference *x);
/* slice.c. Finds the extents of a Slice: no more than there are. */
void tw_infer_slice(tw_inference *x);
/* contents.c. Finds contents of results, where they are lists of integers. */
void tw_infer_contents(tw_inference *x);

/* Returns an operand, or NULL. */
static inline const tw_fact *tw_infer_in(const tw_inference *x, int i) {
    return i < x->n_in ? x->in[i] : NULL;
}
/* Finds the dimensions that Shape gives: from `from` to below *below. */
void tw_infer_range(const tw_inference *x, int *from, int *below);
/* Reads numbers from an operand's content, or, if there is none, from an attribute. False: they are not known. *n is -1
   if there is neither. */
bool tw_infer_numbers(const tw_inference *x, int operand, const char *attribute, int64_t *out, int *n);

#endif
