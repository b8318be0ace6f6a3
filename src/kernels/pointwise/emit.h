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

/* The remainder of reals or of doubles, which has the sign of x. A quotient of more bits than a real has leaves what is
   divided again, and one that is rounded up a remainder of the other sign, which one y more corrects. Both are exact,
   unless a quotient is beyond what the type holds. */
tw_val tw_cell_remainder(tw_builder *b, tw_val x, tw_val y);

/* double.c: computes an operation whose first operand is a double. */
tw_val tw_cell_emit_double(tw_builder *b, tw_cell_op op, tw_val x, tw_val y);

#endif
