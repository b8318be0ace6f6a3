/* SPDX-License-Identifier: Apache-2.0 */
/* Files of inputs and outputs that a graph is held against: arrays in_NAME, and out_NAME or out_0, out_1 and so on. */
#ifndef TW_GRAPH_GOLDEN_H
#define TW_GRAPH_GOLDEN_H

#include "graph/graph.h"
#include "graph/numpy.h"

typedef struct tw_golden {
    tw_arena arena;
    const char *path;
    tw_npz_entry *entries;
    int n;
} tw_golden;

/* What a comparison found. Starts from {0}. */
typedef struct tw_difference {
    int64_t outputs, elements;
    double allowed; /* The largest difference, as a share of what is allowed. Above 1: it is too large. */
    /* Both are relative to the root of the mean square of the output that they are of. */
    double worst;    /* The largest difference of an element. */
    double rms;      /* The root of the mean square of an output's differences, of the output where it is largest. */
    char first[512]; /* The first element that differs by too much. */
} tw_difference;

/* Compares an array with what it should be, and adds what it finds to *d. An element may differ by `share` of the
   greater of its magnitude and the root of the mean square of `theirs`; 0: 1e-2 in arrays of 16 bits, and otherwise
   1e-4. TW_ERR_MISMATCH: they have another type or shape. */
tw_status tw_array_compare(const char *name, const tw_array *ours, const tw_array *theirs, double share,
                           tw_difference *d, tw_diag *diag);

/* `path` must outlive the result. */
tw_status tw_golden_open(tw_golden *f, const char *path, tw_diag *diag);
void tw_golden_close(tw_golden *f);

/* Finds contents of a graph's inputs. TW_ERR_USAGE: one is missing. */
tw_status tw_golden_inputs(const tw_golden *f, const tw_graph *g, const tw_array **in, tw_diag *diag);
/* Compares a graph's outputs. TW_ERR_USAGE: there is no output, or one that the graph does not have. */
tw_status tw_golden_compare(const tw_golden *f, const tw_graph *g, const tw_array *out, double share, tw_difference *d,
                            tw_diag *diag);

#endif
