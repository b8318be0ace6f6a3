/* SPDX-License-Identifier: Apache-2.0 */
/* Lowering of a graph's nodes to steps. A value is lazy until a step needs it in memory: it is an expression of
   elements of buffers, so that what only moves elements costs nothing, and what computes them one by one becomes part
   of the step behind it. */
#ifndef TW_GRAPH_PROGRAM_LOWER_H
#define TW_GRAPH_PROGRAM_LOWER_H

#include "base/diag.h"
#include "graph/program/program.h"
#include "kernels/pointwise/map.h"
#include "kernels/rows/rows.h"

#include <string.h>

/* An operand of an expression: a buffer's elements. */
typedef struct tw_source {
    int buffer;
    int64_t offset; /* Bytes from the buffer's beginning to the element whose indices are all 0. */
    tw_element type;
    int64_t strides[TW_ARRAY_RANK]; /* In elements, along the dimensions of the lazy array. */
    int by;                         /* The source of integers by which it gathers. -1: it does not. */
    int64_t gather_stride;          /* Elements from one gathered place to the next. */
    tw_view table;                  /* With `by`: all that may be read, the gathered dimension first. */
} tw_source;

typedef struct tw_lazy {
    tw_element type;
    int rank;
    int64_t dims[TW_ARRAY_RANK];
    int n; /* Number of sources. */
    tw_source of[TW_POINT_OPERANDS];
    tw_cells cells; /* No cells: an element is source 0's, which does not gather. The array is then a view. */
} tw_lazy;

static inline bool tw_lazy_is_view(const tw_lazy *x) {
    return !x->cells.n;
}

/* What the kernels call an element type. False: they have no such type. */
bool tw_memory_of(tw_element t, tw_memory_type *out);

/* lazy.c. An array that is a view, and the view that such an array is. */
tw_lazy tw_lazy_of_view(const tw_view *v);
tw_view tw_lazy_view(const tw_lazy *x);
/* Begins an array without sources and cells. */
tw_lazy tw_lazy_begin(tw_element type, int rank, const int64_t *dims);
/* Adds the value of another array, which is broadcast, as a cell. -1: there is no room for it, or it does not fit. `to`
   is then of no use any more. */
int tw_lazy_add(tw_lazy *to, const tw_lazy *x);
/* Tells whether the value is computed as a double. */
bool tw_lazy_has_doubles(const tw_lazy *x);
/* Gives a view cells of its own, as any other array has. False: the kernels do not know its type. */
bool tw_lazy_open(tw_lazy *x);
/* Adds a cell's value converted from an element type to another's class, without what the type's bits cut off. -1:
   there is no room for it, or the kernels do not know the type. */
int tw_lazy_cast(tw_lazy *x, int cell, tw_element from, tw_element to);
/* Change how elements are numbered. False: there are no strides that do, and nothing changes. */
bool tw_lazy_reshape(tw_lazy *x, int rank, const int64_t *dims);
void tw_lazy_transpose(tw_lazy *x, const int *order);
void tw_lazy_slice(tw_lazy *x, int axis, int64_t start, int64_t step, int64_t count);
/* Broadcasts to extents. */
void tw_lazy_expand(tw_lazy *x, int rank, const int64_t *dims);
/* Strides for other extents of an array. False: there are none. */
bool tw_reshape_strides(int rank, const int64_t *dims, const int64_t *strides, int new_rank, const int64_t *new_dims,
                        int64_t *new_strides);
/* Collapses dimensions that n lists of strides walk alike, also those of one element. Those from `keep` on stay as they
   are. Returns the new rank. */
int tw_collapse(int rank, int64_t *dims, int64_t *const *strides, int n, int keep);

typedef struct tw_lowering {
    tw_program *p;
    const tw_graph *g;
    tw_program_options options;
    tw_program_made *made;  /* Has the constants that are made. */
    tw_lazy **values;       /* By number of a value. NULL: it is not lowered yet. */
    int *uses;              /* Operands of live nodes and outputs that a value is. */
    int *consumers;         /* The last node that has it as an operand. -1: none. */
    bool *live;             /* Nodes that outputs need. */
    tw_view *masks;         /* Of each value: where it lies as a mask of attention. buffer -1: nowhere yet. */
    tw_view *targets;       /* Where a value is to lie. buffer -1: anywhere. */
    struct tw_norm **norms; /* Of each value: the norm that computes it, and waits (norms.h). NULL: there is none. */
    int node;               /* The node that is being lowered. */
    bool failed;            /* Out of memory. */
} tw_lowering;

/* emit.c */
/* The node that is being lowered, for steps. */
static inline const tw_node *tw_lower_node(const tw_lowering *l) {
    return l->node < 0 ? NULL : &l->g->nodes[l->node];
}
/* A new scratch buffer of a dense array, whose dimensions lie in memory in an order, the outermost first. order NULL:
   as they are. */
tw_view tw_lower_scratch(tw_lowering *l, const char *name, tw_element type, int rank, const int64_t *dims,
                         const int *order);
/* Where a value is to be stored: where another node wants it, or in a new buffer. */
tw_view tw_lower_target(tw_lowering *l, int value);
/* A constant buffer with content of its own, which is copied. */
int tw_lower_constant(tw_lowering *l, const char *name, const void *content, int64_t bytes);
/* A constant buffer with content that is among those made. NULL: out of memory. */
int tw_lower_made(tw_lowering *l, const char *name, const void *content, int64_t bytes);
/* Keeps what was just made. False: it cannot be made, or there is no memory for it. */
bool tw_lower_keep(tw_lowering *l, tw_made *m);
void tw_lower_step(tw_lowering *l, tw_step_kind kind, const tw_step *s, const tw_view *in, int n_in, const tw_view *out,
                   int n_out);
/* Stores an array. False: no kernel does. */
bool tw_lower_store(tw_lowering *l, const tw_lazy *x, const tw_view *to);
/* An array that is a value's, which may still be an expression. Of one that several want it is a view. NULL: the value
   is left out, or no kernel computes it. */
const tw_lazy *tw_lower_take(tw_lowering *l, int value);
/* The same without storing what several want. */
const tw_lazy *tw_lower_peek(tw_lowering *l, int value);
/* A value in memory, wherever it lies. False: no kernel stores it. */
bool tw_lower_in_memory(tw_lowering *l, int value, tw_view *out);
/* An array in memory: as it is, or stored in a buffer whose dimensions lie in an order. */
bool tw_lower_stored(tw_lowering *l, const tw_lazy *x, const char *name, const int *order, tw_view *out);
/* Gives an array other extents, that of a copy where it has no strides that do. False: no kernel stores it. */
bool tw_lower_reshape(tw_lowering *l, tw_lazy *x, int rank, const int64_t *dims);
/* Sets what a value is. */
void tw_lower_set(tw_lowering *l, int value, const tw_lazy *x);
void tw_lower_set_view(tw_lowering *l, int value, const tw_view *v);
/* An array as points of a map or of rows: collapses dimensions, all but the last `keep`. `also` are strides of more
   operands over the same dimensions, which change alike. Only the last `keep` dimensions may be numbered in the
   expression. False: it has too many dimensions. */
bool tw_lower_points(tw_lowering *l, const tw_lazy *x, int keep, int64_t *const *also, int n_also, tw_points *out);
tw_point_operand tw_lower_operand(const tw_lowering *l, const tw_view *v, int rank, const int64_t *strides);
/* The operands' views of a step of points. */
int tw_lower_point_views(const tw_lazy *x, tw_view *out);

/* Each lowers a node of some kinds. False: it is of no such kind, or there is no step for it. */
typedef bool tw_lower_fn(tw_lowering *l, const tw_node *n);
tw_lower_fn tw_lower_elementwise; /* elementwise.c */
tw_lower_fn tw_lower_move;        /* move.c */
tw_lower_fn tw_lower_rows;        /* rows.c */
tw_lower_fn tw_lower_product;     /* product.c */
tw_lower_fn tw_lower_attention;   /* attention.c */
tw_lower_fn tw_lower_rotary;      /* rotary.c */
tw_lower_fn tw_lower_places;      /* index.c */
tw_lower_fn tw_lower_reduce;      /* reduce.c */
tw_lower_fn tw_lower_scatter;     /* scatter.c */

/* Whole numbers up to this one are reals of 32 bits. */
enum { TW_LOWER_WHOLES = 1 << 24 };

/* index.c. Adds the index along a dimension as a cell, which is an operand of its own, so that it stays what it is
   however the array is turned. -1: there is no room for it. */
int tw_lower_index(tw_lowering *l, tw_lazy *x, int axis);
/* The places in a row-major array of extents `dims` that tuples of indices mean, the last dimension of which has a
   tuple. A tuple with an index that is none has a place that is none. */
bool tw_lower_tuples(tw_lowering *l, const tw_view *tuples, const int64_t *dims, tw_view *out);
/* A view of dimensions from .. from + count - 1 joined, of a copy where they cannot be. */
bool tw_lower_joined(tw_lowering *l, const tw_view *v, int from, int count, tw_view *out);
/* Makes an array without sources one of a table's elements, source 1, whose places along `axis` are the integers `by`,
   source 0. Strides of both along the array's dimensions are the caller's to set. */
bool tw_lower_gathered(const tw_view *table, int axis, const tw_view *by, tw_lazy *out);
/* move.c. Integers of an operand whose content is known or, in older sets, of an attribute. Returns their number, or
   -1: they are not known, or are more than `most`. */
int tw_lower_integers(const tw_lowering *l, const tw_node *n, int operand, const char *attribute, int64_t *out,
                      int most);

/* rows.c. Stores a norm of rows. False: there is no step for it. */
bool tw_lower_norm(tw_lowering *l, const tw_node *n);
/* rows.c. Stores a reduction of x's last dimension. `to` has the others. The last dimension may be numbered. */
bool tw_lower_reduction(tw_lowering *l, tw_rows_of of, const tw_lazy *x, const tw_view *to);
/* reduce.c. Reduces lines, which are x's last dimension, into new memory. The result has a last dimension of one
   element. It is of f64 if x is computed in f64, and of f32 otherwise. */
bool tw_lower_reduced(tw_lowering *l, tw_rows_of of, const tw_lazy *x, tw_view *out);
/* Begins an array of the extents of lines, with their elements and one number for each line. Returns the cell of the
   elements, and *number becomes that of the numbers. -1: they do not fit. */
int tw_lower_with_each(const tw_lazy *lines, const tw_view *each, tw_lazy *x, int *number);
/* Sets values to the mean of each line, which is x's last dimension, and to 1 / sqrt(variance + eps).
   -1: nobody wants it. */
bool tw_lower_moments(tw_lowering *l, const tw_lazy *x, double eps, int mean, int deviation);
/* scan.c. Lowers a CumProd of integers along an axis. False: there is no step for it. */
bool tw_lower_products(tw_lowering *l, const tw_node *n, int axis);
/* rows.c. Stores the softmax of x's last dimension. The last two dimensions may be numbered in x's expression. */
bool tw_lower_softmax(tw_lowering *l, const tw_lazy *x, const tw_view *to);

/* doubles.c. Stores alpha times the product of two matrices of f64. False: there is no step for it. */
bool tw_lower_multiply_doubles(tw_lowering *l, const tw_view *a, const tw_view *b, double alpha, const tw_view *to);
/* Stores the softmax of x's last dimension in f64. `log`: stores the logarithm of the softmax. x's expression must not
   use the numbers of dimensions. */
bool tw_lower_softmax_doubles(tw_lowering *l, const tw_lazy *x, bool log, const tw_view *to);

/* attention.c. A value's heads: [sequence][head][row][element]. False: it is no array of so many heads (0: any), or no
   kernel stores it. */
bool tw_lower_heads(tw_lowering *l, int value, int64_t heads, tw_view *out);
/* rotary.c. Lowers the rotations of an attention's queries and keys that wait for it. False: no kernel does. */
bool tw_lower_rotations(tw_lowering *l, const tw_node *attention);
/* Tells whether the GPU's kernel reads heads where they lie. */
bool tw_heads_fit(const tw_view *v);

/* product.c. Computes op(A) op(B) of stacks of matrices, whose rows and columns are the last two dimensions, into `to`,
   which has the batch's dimensions, rows and columns. Operands are copied where kernels cannot read them. */
typedef struct tw_lower_epilogue {
    double alpha;
    tw_gemm_activation activation;
    bool gated;                  /* As in tw_program_product. */
    tw_view bias, mul, residual; /* buffer -1: there is none. */
    tw_program_norm norm;        /* As in tw_program_product. Then the product is one, of no batch. */
    bool norm_residual;
    double eps;
    tw_view vector; /* Operand 6. buffer -1: there is none. */
} tw_lower_epilogue;
/* An epilogue that changes nothing. */
static inline tw_lower_epilogue tw_lower_no_epilogue(void) {
    const tw_view none = {.buffer = -1};
    return (tw_lower_epilogue){.alpha = 1, .bias = none, .mul = none, .residual = none, .vector = none};
}
bool tw_lower_multiply(tw_lowering *l, const tw_view *a, const tw_view *b, const tw_lower_epilogue *e,
                       const tw_view *to);

static inline const tw_value *tw_lower_of(const tw_lowering *l, int value) {
    return &l->g->values[value];
}
static inline bool tw_is_op(const tw_node *n, const char *domain, const char *op) {
    const char *own = !strcmp(n->domain, "ai.onnx") ? "" : n->domain;
    return !strcmp(n->op, op) && !strcmp(own, domain);
}

#endif
