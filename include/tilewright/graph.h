/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: models of the ONNX format, opened, understood whole, or refused with every reason. */
#ifndef TILEWRIGHT_GRAPH_H
#define TILEWRIGHT_GRAPH_H

#include "tilewright/base.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_graph tw_graph;

/* Opens a model. The file is mapped, and so are files with external data, which must lie in its folder. Constants are
   not copied. TW_ERR_FORMAT: the file is damaged, or no model. TW_ERR_UNSUPPORTED: the diagnostic has a line for each
   node that is not supported, with the reason. The caller closes the graph. */
tw_status tw_graph_open(tw_graph **out, const char *path, tw_diag *diag);
void tw_graph_close(tw_graph *graph); /* NULL is fine. */

/* Plain facts. */
typedef struct tw_graph_info {
    const char *name; /* Owned by the graph. */
    int64_t nodes, constants, inputs, outputs;
    int64_t constant_bytes; /* Bytes of all constants. */
} tw_graph_info;
void tw_graph_describe(const tw_graph *graph, tw_graph_info *info);

/* Returns the graph as text, a line for each input, constant, node and output. The caller frees it. NULL: out of
   memory. */
char *tw_graph_text(const tw_graph *graph);

/* What a comparison came to. */
typedef struct tw_graph_verdict {
    int64_t outputs, elements; /* Numbers of outputs and of elements that were compared. */
    /* The largest difference, as a share of what is allowed: 1e-4 of the greater of an element's magnitude and the root
       of the mean square of its output, and 1e-2 for outputs of 16 bits. */
    double worst;
} tw_graph_verdict;

/* Computes the outputs of a .npz file's inputs, and compares them with its outputs. Arrays are named in_NAME and
   out_NAME, or out_0, out_1 and so on in the graph's order. Dimensions that the graph leaves open are those of the
   inputs. TW_ERR_MISMATCH: the first output that differs. TW_ERR_USAGE: the file lacks an input, has no output, or
   has an out_ array that is none of the graph's outputs. */
tw_status tw_graph_verify(const tw_graph *graph, const char *golden, tw_graph_verdict *verdict, tw_diag *diag);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
