/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions in a generated kernel. A real is an f32 there, a double an f64, an integer an i64, and a truth a
   predicate. */
#ifndef TW_KERNELS_POINTWISE_EMIT_H
#define TW_KERNELS_POINTWISE_EMIT_H

#include "ir/builder.h"
#include "kernels/pointwise/expression.h"

/* The register type of a class. */
tw_type tw_class_register(tw_class c);
/* Computes the expression of one element from its operands, and from its index (i32) where the expression uses that. */
tw_val tw_cells_emit(tw_builder *b, const tw_cells *e, const tw_val *operands, const tw_val *index);

/* Computes the remainder of x / y in f32 or f64, with the sign of x. The result is exact unless the quotient overflows.
   A quotient that the type cannot hold exactly is subtracted in several steps. A quotient that was rounded up leaves a
   remainder of the other sign, which is corrected by y. */
tw_val tw_cell_remainder(tw_builder *b, tw_val x, tw_val y);

/* Returns x where it wins or is NaN, and y elsewhere: the lesser or the larger of two reals, or of two doubles. */
tw_val tw_cell_extreme(tw_builder *b, tw_val x, tw_val y, tw_val wins);

/* double.c: computes an operation whose first operand is a double (f64). */
tw_val tw_cell_emit_double(tw_builder *b, tw_cell_op op, tw_val x, tw_val y);

#endif
