/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_PATTERNS_JOIN_H
#define TW_GRAPH_PATTERNS_JOIN_H

#include "graph/patterns/edit.h"
#include "graph/patterns/make.h"

/* Joins a node that is a Product with later ones of the same A, whose B and bias are constants, too: one Product by all
   columns of their Bs, and a Split. Neither has an activation, a factor or a residual. Returns how many were joined, 0
   if there are no others. -1: out of memory. `serial` is that of tw_maker. */
int tw_join_products(tw_edit *r, int node, int *serial);

#endif
