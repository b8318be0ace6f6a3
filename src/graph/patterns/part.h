/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TW_GRAPH_PATTERNS_PART_H
#define TW_GRAPH_PATTERNS_PART_H

#include "graph/patterns/make.h"

/* A check of a pattern: the value is the first or the last half of a product's columns. B of the product is constant,
   and nothing reads the product but its two halves. */
bool tw_is_half_of_product(const tw_graph *g, int value);
/* part(x): x, which is a part of a product, as a product of its own. */
int tw_make_part(tw_maker *k, const int *args, int n, int want);

#endif
