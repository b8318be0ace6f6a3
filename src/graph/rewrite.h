/* SPDX-License-Identifier: Apache-2.0 */
/* Rewriting a graph, node by node in order. Nodes that are kept, changed or new are put into the new list of nodes;
   those that are not put are gone. Values may come to stand for others.
     tw_rewrite w;
     if (!tw_rewrite_begin(&w, g)) return tw_fail_memory(diag);
     for (tw_node *n; (n = tw_rewrite_next(&w));) ... tw_rewrite_put(&w, n) ...
     return tw_rewrite_end(&w, &changed, diag); */
#ifndef TW_GRAPH_REWRITE_H
#define TW_GRAPH_REWRITE_H

#include "graph/graph.h"

typedef struct tw_rewrite {
    tw_graph *g;   /* Its nodes are those that were put so far. */
    tw_node *old;  /* The nodes that there were, from `at` on still to be looked at. */
    int n_old, at; /* Of `old`. */
    int *with;     /* What a value is replaced by. -1: nothing. */
    int n_with;    /* Values that there were in the beginning. Newer ones are not replaced. */
    bool changed;  /* Something was changed by one of the functions below. */
    tw_diag why;   /* Why a new node was refused by its operator. */
    tw_status st;
} tw_rewrite;

bool tw_rewrite_begin(tw_rewrite *w, tw_graph *g); /* False: out of memory, and there is nothing to end. */
/* Returns the next node, whose operands are the values that stand for those it had. NULL: there is none. */
tw_node *tw_rewrite_next(tw_rewrite *w);
void tw_rewrite_put(tw_rewrite *w, const tw_node *n);
/* Lets a value stand for another that has the same type and extents, for all nodes that come and for outputs. False: it
   cannot, as both have names that must stay, which inputs and outputs have; the node must be put then. */
bool tw_rewrite_replace(tw_rewrite *w, int value, int by);
/* Makes a new list of operands for a node. */
void tw_rewrite_operands(tw_rewrite *w, tw_node *n, const int *in, int n_in);
/* Makes a node one of another operator of the same set. */
void tw_rewrite_op(tw_rewrite *w, tw_node *n, const char *op);
/* Puts a node with one result, a new value, whose type and extents are what the operator says. Attributes are copied,
   what they refer to is not. -1: a failure, which tw_rewrite_end returns. */
int tw_rewrite_make(tw_rewrite *w, const tw_node *like, const int *in, int n_in);
/* Adds a value with a type and extents, named after another. -1: out of memory. */
int tw_rewrite_value(tw_rewrite *w, const char *like, const tw_array *type);
/* Adds a constant whose data stay where they are, and live as long as the graph. -1: out of memory. */
int tw_rewrite_borrow(tw_rewrite *w, const char *like, const tw_array *content);
/* Adds a constant, whose content is copied. -1: out of memory. */
int tw_rewrite_constant(tw_rewrite *w, const tw_array *content);
int tw_rewrite_integers(tw_rewrite *w, const int64_t *x, int n);
/* Returns the node that makes a value. NULL: it is an input or a constant. */
const tw_node *tw_rewrite_producer(const tw_rewrite *w, int value);

/* Removes what is no longer needed. *changed becomes true if something was changed, and is left as it is otherwise. */
tw_status tw_rewrite_end(tw_rewrite *w, bool *changed, tw_diag *diag);

#endif
