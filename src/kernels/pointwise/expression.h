/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of one element: cells, each of which computes a value from those before it. Reals are computed in f32,
   doubles in f64, integers in 64 bits, with a sign unless an operation says otherwise. What operations there are stands
   in expression.def.

   As text an expression is a formula: "add(mul(x0,0.5),x1)". x0, x1, ... are elements of operands, d0, d1, ... the
   element's index along dimension 0, 1, ... A number without a point is an integer, or a real where the other operand
   is real; beside a double either is one, and so is a number with a d behind it; `true`, `false`, `inf` and `nan` are
   there as well. A value that is needed more than once gets a name: "c0=exp(x0);div(c0,add(c0,1))". Blanks are of no
   account. */
#ifndef TW_KERNELS_POINTWISE_EXPRESSION_H
#define TW_KERNELS_POINTWISE_EXPRESSION_H

#include "base/diag.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tw_class { TW_CLASS_real, TW_CLASS_integer, TW_CLASS_truth, TW_CLASS_double } tw_class;

typedef enum tw_memory_type {
#define MEMORY(name, class, bytes) TW_M_##name,
#include "kernels/pointwise/memory.def"
    TW_MEMORY_TYPES
} tw_memory_type;

const char *tw_memory_name(tw_memory_type t);
bool tw_memory_from_name(const char *name, tw_memory_type *out);
tw_class tw_memory_class(tw_memory_type t);
int tw_memory_bytes(tw_memory_type t);

typedef enum tw_cell_op {
    TW_CELL_operand, /* an element of operand of[0] */
    TW_CELL_index,   /* an integer: the element's index along dimension of[0] */
    TW_CELL_number,
#define CELL(name, ...) TW_CELL_##name,
#include "kernels/pointwise/expression.def"
    TW_CELL_OPS
} tw_cell_op;

const char *tw_cell_name(tw_cell_op op);
/* Finds an operation of expression.def. False: there is none. */
bool tw_cell_from_name(const char *name, tw_cell_op *out);
/* The classes of an operation of expression.def. Its operands are one fewer than letters. */
const char *tw_cell_classes(tw_cell_op op);

/* A value of one class. */
typedef union tw_cell_value {
    double real;   /* A real or a double. */
    int64_t whole; /* An integer, or a truth: 0 or 1. */
} tw_cell_value;

typedef struct tw_cell {
    uint8_t op;          /* tw_cell_op */
    uint8_t class;       /* tw_class of the value. */
    uint8_t of[3];       /* Numbers of the cells it is computed from. */
    tw_cell_value value; /* Of TW_CELL_number. */
} tw_cell;

enum { TW_CELLS = 64, TW_CELLS_TEXT = 1024 };

/* An expression. All zeros: it has no cells yet. */
typedef struct tw_cells {
    tw_cell of[TW_CELLS];
    int n;
    int value;   /* The cell whose value is the expression's: the one that was added last. */
    bool failed; /* An operation did not fit its operands, or there were too many cells. */
} tw_cells;

/* Add a cell, and return its number. What is there already is not added twice, and operations on numbers are computed
   at once. -1: it does not fit, and the failure sticks in the expression. */
int tw_cells_operand(tw_cells *e, int number, tw_memory_type type);
int tw_cells_index(tw_cells *e, int dimension);
int tw_cells_real(tw_cells *e, double x);
int tw_cells_double(tw_cells *e, double x);
int tw_cells_integer(tw_cells *e, int64_t x);
int tw_cells_truth(tw_cells *e, bool x);
/* Operands that the operation does not have are ignored. -1 among the others fails. */
int tw_cells_apply(tw_cells *e, tw_cell_op op, int a, int b, int c);

/* The class of the expression's value. */
static inline tw_class tw_cells_class(const tw_cells *e) {
    return (tw_class)e->of[e->value].class;
}

/* Adds a number of class `of`, which is real or double. */
int tw_cells_number(tw_cells *e, tw_class of, double x);
/* Adds a number of the class of a cell, which is real or double. */
int tw_cells_like(tw_cells *e, int cell, double x);
/* Adds a number that is a cell of another expression. */
int tw_cells_constant(tw_cells *e, const tw_cell *number);
/* Tells whether some cell that the value may depend on is a double. */
bool tw_cells_has_doubles(const tw_cells *e);

/* Reads an expression of n operands, whose types are types[]. TW_ERR_USAGE: the text makes no sense, and *diag says
   why. `diag` may be NULL. */
tw_status tw_cells_parse(tw_cells *e, const char *text, const tw_memory_type *types, int n, tw_diag *diag);
/* Writes the text, without blanks, cut to `size` bytes with its end. Returns the length it has uncut. */
size_t tw_cells_print(const tw_cells *e, char *out, size_t size);
/* Tells whether a class is of floating-point numbers: reals (f32) or doubles (f64). */
static inline bool tw_class_is_real(tw_class c) {
    return c == TW_CLASS_real || c == TW_CLASS_double;
}
/* The value of a cell whose operands, those of them that it has, have the values a, b and c. All are of class `of`, but
   for those of `where`. */
tw_cell_value tw_cell_apply(const tw_cell *cell, tw_class of, tw_cell_value a, tw_cell_value b, tw_cell_value c);
/* Computes the value from the operands' elements and the index. Reals are computed in double. */
tw_cell_value tw_cells_compute(const tw_cells *e, const tw_cell_value *operands, const int64_t *index);

/* Reads and writes element `at` in memory. Reals and integers are rounded, or cut to the type's bits. */
tw_cell_value tw_memory_read(tw_memory_type t, const void *data, int64_t at);
void tw_memory_write(tw_memory_type t, void *data, int64_t at, tw_cell_value x);

#endif
