/* SPDX-License-Identifier: Apache-2.0 */
/* Models of the ONNX format (https://onnx.ai/onnx/repo-docs/IR.html) as graphs. Files are mapped, and constants stay
   where they lie. */
#ifndef TW_GRAPH_ONNX_ONNX_H
#define TW_GRAPH_ONNX_ONNX_H

#include "graph/graph.h"

/* Reads a model. TW_ERR_FORMAT: the file is none. TW_ERR_UNSUPPORTED: it has what graphs do not have. *out is freed by
   tw_graph_free. */
tw_status tw_onnx_open(tw_graph **out, const char *path, tw_diag *diag);
/* Reads a model from memory, which must outlive the graph. `path` is what diagnostics call it, and external data lie
   beside. */
tw_status tw_onnx_read(tw_graph **out, const void *data, size_t size, const char *path, tw_diag *diag);

/* Reads a file with one TensorProto. *name becomes its name, "" if it has none. The array lies in the arena or in the
   bytes. */
tw_status tw_onnx_read_tensor(tw_arena *arena, const void *data, size_t size, const char *path, const char **name,
                              tw_array *out, tw_diag *diag);

#endif
