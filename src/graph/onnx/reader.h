/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of messages share. */
#ifndef TW_GRAPH_ONNX_READER_H
#define TW_GRAPH_ONNX_READER_H

#include "base/diag.h"
#include "graph/graph.h"
#include "graph/onnx/wire.h"

typedef struct tw_onnx_reader {
    tw_graph *graph; /* Gets external data's maps. NULL: external data are refused. */
    tw_arena *arena; /* Gets copies. */
    const unsigned char *begin;
    const char *path;
    tw_diag *diag;
    struct {
        const char *location; /* A file beside the model's. */
        tw_map map;
    } * external; /* Files of external data that are mapped. */
    int n_external, room_external;
} tw_onnx_reader;

/* Says what is wrong at a place of the file. */
#define TW_ONNX_FAIL(r, at, ...)                                                                                       \
    tw_fail_at((r)->diag, TW_ERR_FORMAT, (r)->path, (int64_t)((at) - (r)->begin), __VA_ARGS__)

/* Says what is wrong with the wire, if something is. */
tw_status tw_onnx_check(const tw_onnx_reader *r, const tw_wire *w);
/* Copies bytes as text, which a byte of value 0 ends. What is not UTF-8, and control characters, become "?": names are
   printed, and written as JSON. */
const char *tw_onnx_text(const tw_onnx_reader *r, const tw_wire_field *f);

/* tensor.c. Reads a TensorProto. *name becomes its name, "" if it has none. */
tw_status tw_onnx_tensor(tw_onnx_reader *r, const tw_wire_field *f, const char **name, tw_array *out);

#endif
