/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph is run with: arrays from files, by the names of inputs, and extents of symbols. */
#ifndef TW_GRAPH_INPUTS_H
#define TW_GRAPH_INPUTS_H

#include "graph/graph.h"
#include "graph/numpy.h"

/* Reads the arrays of a file: all of a .npz, with their names; one of a .npy, whose name is ""; one of a TensorProto,
   with its name. What they are is told by how the file begins. Arrays lie in the arena. */
tw_status tw_arrays_open(tw_arena *arena, const char *path, tw_npz_entry **out, int *n, tw_diag *diag);

/* Finds each input of a graph among arrays, as "NAME" or "in_NAME". in[i] becomes NULL where there is none. */
void tw_graph_pick(const tw_graph *g, const tw_npz_entry *entries, int n, const tw_array **in);

/* The extent of a symbol. */
typedef struct tw_binding {
    const char *symbol;
    int64_t extent;
} tw_binding;

/* Finds types and extents of all inputs, from arrays that are there (given[i], or NULL; given may be NULL) and from
   bindings. out[i] becomes the array, or a type and extents without content. TW_ERR_USAGE: an input has another type or
   rank, a symbol has two extents or none, there is no such symbol, or an extent has no name and no array. */
tw_status tw_graph_bind(const tw_graph *g, const tw_binding *bindings, int n, const tw_array *const *given,
                        tw_array *out, tw_diag *diag);

#endif
