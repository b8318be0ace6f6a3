/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_PATTERNS_PART_H
#define TW_GRAPH_PATTERNS_PART_H

#include "graph/patterns/make.h"

/* A check: the value is the first or the last half of the columns of a product by constants, of which nobody takes more
   than both halves. */
bool tw_is_half_of_product(const tw_graph *g, int value);
/* part(x): x, which is a part of a product, as a product of its own. */
int tw_make_part(tw_maker *k, const int *args, int n, int want);

#endif
