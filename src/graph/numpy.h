/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays in NumPy's files: .npy (one array) and .npz (a zip of them, stored or deflated).
   https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef TW_GRAPH_NUMPY_H
#define TW_GRAPH_NUMPY_H

#include "graph/array.h"

/* Reads the bytes of a .npy file. The array's data lie in these bytes. */
tw_status tw_npy_read(const void *data, size_t size, const char *path, tw_array *out, tw_diag *diag);

typedef struct tw_npz_entry {
    const char *name; /* Without ".npy". */
    tw_array array;
} tw_npz_entry;

/* Reads a .npz file. The entries lie in the arena. */
tw_status tw_npz_open(tw_arena *arena, const char *path, tw_npz_entry **out, int *n, tw_diag *diag);
const tw_array *tw_npz_find(const tw_npz_entry *entries, int n, const char *name); /* NULL: there is none. */

/* Returns NumPy's name of a type. NULL: it has none. */
const char *tw_npy_type(tw_element type);

/* numpy_write.c. Writes a .npz file, stored, as tw_file_write does. Elements of bf16 are written as f32.
   TW_ERR_UNSUPPORTED: NumPy has no such elements. */
tw_status tw_npz_write(const char *path, const tw_npz_entry *entries, int n, tw_diag *diag);

#endif
