/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that tests run graphs on. A failure fails the test. */
#ifndef TW_TESTS_GRAPH_ARRAYS_H
#define TW_TESTS_GRAPH_ARRAYS_H

#include "graph/graph.h"

/* Makes an array of a value's type and rank, in the arena: reals between -1 and 1, whole numbers from 0 to below
 * `below`.
 */
tw_array arrays_random(tw_arena *arena, const tw_value *v, const int64_t *dims, uint64_t seed, int64_t below);
/* Compares with the right array `a`. `most`: the largest difference of an element, relative to it or to the root of the
   mean square of all. */
void arrays_compare(const tw_array *a, const tw_array *b, double most, const char *what);

#endif
