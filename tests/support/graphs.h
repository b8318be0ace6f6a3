/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of tests: written as text, and run on inputs that are drawn. */
#ifndef TW_TEST_GRAPHS_H
#define TW_TEST_GRAPHS_H

#include "graph/graph.h"

/* Parses and resolves a graph. Fails the test with what is wrong. */
tw_graph *test_graph(const char *text);
/* Makes the concrete graph. Each symbol has the extent `extents` names ("batch=2 seq=7"), or 5. */
tw_graph *test_concrete(const tw_graph *g, const char *extents);
/* Fails the test unless the graph prints as `text`. */
void test_prints(const tw_graph *g, const char *text);

/* Draws contents for the inputs of a concrete graph: reals in [-2, 2), truths, and integers in [0, 4). */
const tw_array **test_draw(const tw_graph *g, tw_arena *arena, uint64_t seed);
/* Fails the test unless two graphs with the same inputs give the same outputs: an element may differ by `share` of the
   root of the mean square of its output, and infinities and NaNs are where they were. */
void test_same_outputs(const tw_graph *a, const tw_graph *b, const tw_array *const *in, double share);
/* The same on inputs that are drawn for a. */
void test_same_on_drawn(const tw_graph *a, const tw_graph *b, double share);

#endif
