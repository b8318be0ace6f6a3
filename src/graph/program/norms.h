/* SPDX-License-Identifier: Apache-2.0 */
/* Norms of products' results that become part of the products that read them. Such a norm waits: it is stored if
   anybody needs it in memory after all. */
#ifndef TW_GRAPH_PROGRAM_NORMS_H
#define TW_GRAPH_PROGRAM_NORMS_H

#include "graph/program/lower.h"

typedef struct tw_norm {
    int value;      /* What it computes. */
    int node;       /* The node that is the norm. */
    bool layer;     /* Otherwise an RMS norm. */
    double eps;     /* Is added to the variance. */
    int gain, beta; /* Values. beta -1: there is none. */
    int step;       /* The product whose result is normed. */
    tw_view x;      /* That result. */
} tw_norm;

/* Lets a norm wait, of which value, node, layer, eps, gain and beta are known. False: it has to be stored. */
bool tw_norm_wait(tw_lowering *l, const tw_norm *norm);
/* The norm that computes a value and waits. NULL: there is none. */
const tw_norm *tw_norm_of(const tw_lowering *l, int value);
/* Stores a norm that waits. */
void tw_norm_store(tw_lowering *l, int value);

/* Multiplies k rows of a constant matrix by the norm's gains. `from` is k x n, or n x k where `trans`, and `to` may be
   the same. Adds beta's share of each sum to `shift`, unless it is NULL. False: an element leaves the type's range. */
bool tw_norm_scale(tw_lowering *l, const tw_norm *norm, const void *from, void *to, int64_t n, bool trans,
                   double *shift);
/* Adds to a key what the norm's scaling depends on, and if wanted its shares of a bias. */
void tw_norm_words(const tw_lowering *l, const tw_norm *norm, bool beta, tw_made_key *key);
/* Makes it the norm of an epilogue's A. */
void tw_norm_enter(const tw_norm *norm, tw_lower_epilogue *e);
/* The view of what is normed, with the norm's extents. */
tw_view tw_norm_x(const tw_lowering *l, const tw_norm *norm);
/* Lets the last step, a product, read the sums of rows that the norm needs. */
void tw_norm_attach(tw_lowering *l, const tw_norm *norm);

#endif
