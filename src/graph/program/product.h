/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are products, read into one struct, and the views of their operands. */
#ifndef TW_GRAPH_PROGRAM_PRODUCT_H
#define TW_GRAPH_PROGRAM_PRODUCT_H

#include "graph/program/lower.h"

typedef struct tw_product_node {
    int a, b, bias, mul, residual; /* Values. -1: there is none. */
    bool trans_a, trans_b;
    double alpha, beta; /* beta multiplies the bias. */
    const char *activation;
} tw_product_node;

/* product.c */
/* Reads a node that is a product. False: it is none, or one that is not computed. */
bool tw_product_read(const tw_node *n, tw_product_node *p);
void tw_product_swap(tw_view *v);
/* Gives a stack of matrices the dimensions of a batch. */
void tw_product_spread(tw_view *v, const tw_view *to);
/* An operand's view with the extents of the result. False: it does not fit. */
bool tw_product_operand(tw_lowering *l, int value, const tw_view *to, bool vector, tw_view *out);

/* gates.c */
/* Tells whether a product's result is what product `v` multiplies its own by, and both can be one. `to` is the value
   that this computes. */
bool tw_product_is_gate(const tw_lowering *l, const tw_product_node *g, int out, const tw_product_node *v, int to);
/* Finds the gate of a product of values. */
bool tw_product_find_gate(const tw_lowering *l, const tw_product_node *v, int to, tw_product_node *gate);
bool tw_lower_gated(tw_lowering *l, const tw_product_node *gate, const tw_product_node *value, int out);

/* norms.c. Lowers a product with the norm of its A or of its residual, which nobody has stored. False: it has none, or
   one that does not become part of it. */
bool tw_lower_normed(tw_lowering *l, const tw_product_node *p, int out);

#endif
