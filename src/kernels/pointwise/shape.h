/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of maps and rows, made simpler for a generated kernel. */
#ifndef TW_KERNELS_POINTWISE_SHAPE_H
#define TW_KERNELS_POINTWISE_SHAPE_H

#include "kernels/pointwise/map.h"

/* Drops dimensions of one element, and joins neighbouring ones that every operand, and every one of the `n` others,
   steps through evenly. What an element's value and place are stays, and rows keep their order. `columns`: the last
   dimension may be joined as well; otherwise it stays what it is. At least one dimension is left. */
void tw_points_join(tw_points *p, tw_point_operand *const *others, int n, bool columns);

/* Bit i: operand i is an element of the expression, or gathers one that is. */
unsigned tw_points_used(const tw_points *p);

/* The stride of a row's elements. */
static inline int64_t tw_points_step(const tw_points *p, const tw_point_operand *o) {
    return p->rank ? o->strides[p->rank - 1] : 0;
}

/* The least and the largest place, in elements, at which an operand is accessed. The array has elements. */
typedef struct tw_point_span {
    int64_t least, most;
} tw_point_span;
tw_point_span tw_point_span_of(const tw_points *p, const tw_point_operand *o);

#endif
