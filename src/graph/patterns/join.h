/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_PATTERNS_JOIN_H
#define TW_GRAPH_PATTERNS_JOIN_H

#include "graph/patterns/make.h"
#include "graph/patterns/rewrite.h"

/* Joins a node that is a Product with later ones of the same A, whose B and bias are constants, too: one Product by all
   columns of their Bs, and a Split. Neither has an activation, a factor or a residual. Returns how many were joined, 0
   if there are no others. -1: out of memory. */
int tw_join_products(tw_rewriter *r, int node);

#endif
