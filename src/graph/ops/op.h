/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator does: to types and extents, and to contents. Contents are computed plainly, in double or in integers
   of 64 bits: for constants, and as the reference for everything that is fast. */
#ifndef TW_GRAPH_OPS_OP_H
#define TW_GRAPH_OPS_OP_H

#include "base/diag.h"
#include "graph/graph.h"

enum { TW_OP_OPERANDS = 64 /* The most operands, and the most results, of a node. */ };

/* A node whose operands have types and extents, and some have contents. */
typedef struct tw_call {
    const tw_node *node;
    tw_arena *arena; /* Memory that lasts as long as the results. */
    tw_diag *diag;
    int n_in, n_out;
    const tw_array *in[TW_OP_OPERANDS]; /* NULL: it is left out. Its `data` is NULL where its content is not known. */
    tw_array out[TW_OP_OPERANDS];
} tw_call;

/* Sets types and extents of the results. TW_ERR_FORMAT: the operands are none for it. TW_ERR_UNSUPPORTED: it is not
   computed for such. TW_ERR_USAGE: extents depend on an operand whose content is not known. */
typedef tw_status tw_op_shape(tw_call *c);
/* Computes results' contents, into memory that is there. All operands have theirs. */
typedef tw_status tw_op_compute(tw_call *c);

typedef struct tw_op {
    const char *name, *domain;
    int first;       /* The first version of its set from which this is right. */
    int least, most; /* Operands. */
    int results;     /* Results at most. */
    tw_op_shape *shape;
    tw_op_compute *compute;
    unsigned optional; /* Bits of operands that may be left out though others behind them are needed. */
    unsigned extents;  /* Bits of operands of which contents are not read, but types and extents alone. */
} tw_op;

/* table.c. Finds what a node does. NULL: it is not supported. */
const tw_op *tw_op_find(const char *domain, const char *name, int version);

/* Says what is wrong with a node. */
tw_status tw_call_fail(const tw_call *c, tw_status st, const char *why, ...) TW_PRINTF(3, 4);
/* Refuses a type that the operator is not computed for. */
tw_status tw_call_refuse_type(const tw_call *c, tw_element t);

/* Returns an operand, or NULL. */
static inline const tw_array *tw_call_in(const tw_call *c, int i) {
    return i < c->n_in ? c->in[i] : NULL;
}
/* Returns the place of an axis, which counts from the end if it is below 0. -1: there is none. */
static inline int tw_axis(int64_t axis, int rank) {
    return axis < -rank || axis >= rank ? -1 : (int)(axis < 0 ? axis + rank : axis);
}
/* Reads an operand of integers with one dimension or none, whose content must be known. *n: the most, and then the
   number of them. */
tw_status tw_call_integers(const tw_call *c, int operand, int64_t *out, int *n);
/* Reads integers from an operand, or, if there is none, from an attribute (`axes` was one until version 13). *n is 0,
 *and given false, if there is neither. */
tw_status tw_call_integers_or(const tw_call *c, int operand, const char *attribute, int64_t *out, int *n, bool *given);

/* Reads an operand that is one integer, whose content must be known. `usual` if there is none. */
tw_status tw_call_one(const tw_call *c, int operand, int64_t usual, int64_t *out);

/* Extents to which two are broadcast. False: they do not fit. */
bool tw_broadcast(const tw_array *a, const tw_array *b, tw_array *out);
/* Elements from one index of a dimension of `out` to the next, in `a`, which is broadcast to it. */
void tw_broadcast_strides(const tw_array *a, const tw_array *out, int64_t strides[TW_ARRAY_RANK]);
/* Elements from one index of each dimension to the next. */
void tw_strides(const tw_array *a, int64_t strides[TW_ARRAY_RANK]);
/* Compares two elements of an array: below 0, 0 or above 0. Nothing is less or more than a NaN. */
int tw_call_compare(const tw_array *a, int64_t i, int64_t j);
/* Counts elements of dimensions from to below - 1. */
int64_t tw_extent(const tw_array *a, int from, int below);

/* Goes through all indices of an array in order: index[] begins as zeros. False: that was the last. */
bool tw_index_next(const tw_array *a, int64_t index[TW_ARRAY_RANK]);

/* Converts all of an array. The memory is the arena's. NULL: out of memory. */
double *tw_call_reals(const tw_call *c, const tw_array *a);
int64_t *tw_call_wholes(const tw_call *c, const tw_array *a);
/* The memory of a result. */
static inline void *tw_call_out(tw_call *c, int i) {
    return (void *)c->out[i].data;
}

#endif
