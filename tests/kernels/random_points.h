/* SPDX-License-Identifier: Apache-2.0 */
/* Random arrays of values for maps and rows: ranks, strides of both signs, broadcasts, gathers and types. */
#ifndef TESTS_KERNELS_RANDOM_POINTS_H
#define TESTS_KERNELS_RANDOM_POINTS_H

#include "base/random.h"
#include "kernels/pointwise/map.h"

/* What problems were made of, to be asserted by tests. */
typedef struct random_points_seen {
    int gathers, backward, broadcast, vectors, indices;
} random_points_seen;

/* Makes an array of at least `rank` dimensions. `real`: its values are reals. */
void random_points(tw_random *r, tw_points *p, int rank, bool real, random_points_seen *seen);
/* Makes an operand of an element type of that class that is stored to: no two elements lie in one place. */
tw_point_operand random_points_result(tw_random *r, const tw_points *p, tw_class class);

#endif
