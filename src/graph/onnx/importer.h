/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of models, nodes and attributes share. */
#ifndef TW_GRAPH_ONNX_IMPORTER_H
#define TW_GRAPH_ONNX_IMPORTER_H

#include "graph/names.h"
#include "graph/onnx/reader.h"

enum {
    TW_ONNX_DEEPEST = 32,        /* Functions in functions, and graphs in graphs. */
    TW_ONNX_MOST_NODES = 1 << 18 /* Nodes of a graph into which functions are put. */
};

/* A set of operators. */
typedef struct tw_onnx_set {
    const char *domain;
    int64_t version;
} tw_onnx_set;

typedef struct tw_onnx_sets {
    tw_onnx_set list[16];
    int n;
} tw_onnx_sets;

/* A function of the model: nodes that stand for one. */
typedef struct tw_onnx_function {
    const char *name, *domain, *overload;
    tw_wire_field body;
    tw_onnx_sets sets;
} tw_onnx_function;

/* Where names of values are looked for. */
typedef struct tw_onnx_scope {
    tw_names names;                  /* LEFT_OUT: an operand of a function that its node leaves out. */
    tw_graph *graph;                 /* Where nodes are put. */
    struct tw_onnx_scope *outer;     /* The graph around this one, whose values may be used. NULL: there is none. */
    int *captured, n_captured, room; /* Values of the outer graph that are used, in the order of this graph's inputs. */
    const tw_onnx_function *function; /* The function whose nodes are read. NULL: it is a graph. */
    const tw_node *call;              /* The node that stands for the function. */
    const tw_onnx_sets *sets;
} tw_onnx_scope;

typedef struct tw_onnx_importer {
    tw_onnx_reader reader;
    tw_onnx_scope *scope; /* The one that is being read. */
    tw_onnx_sets sets;
    tw_onnx_function *functions;
    int n_functions, room_functions;
    int depth; /* Functions and graphs around what is read. */
} tw_onnx_importer;

/* import.c */
const char *tw_onnx_plain_domain(const char *domain);
/* Reads a set of operators. */
tw_status tw_onnx_read_set(tw_onnx_importer *m, const tw_wire_field *f, tw_onnx_sets *sets);
/* Reads a graph into one that is empty. */
tw_status tw_onnx_read_graph(tw_onnx_importer *m, const tw_wire_field *f, tw_onnx_scope *scope);
/* Counts a message's fields of a number, which are bytes. */
size_t tw_onnx_fields(const tw_wire_field *f, uint32_t number);

/* node.c */
tw_status tw_onnx_read_node(tw_onnx_importer *m, const tw_wire_field *f);
/* Looks for a value. -1: there is none, or it is left out; *found tells. Values of graphs around become inputs. */
int tw_onnx_find(tw_onnx_importer *m, tw_onnx_scope *scope, const char *name, bool *found);
/* Adds a value to what is being read. -1: out of memory. */
int tw_onnx_add(tw_onnx_importer *m, const char *name);

/* attribute.c. Reads an attribute of a node. out->name is NULL where the attribute is one that the function's node
   leaves out. Graphs are read if `graphs` is true: their captured values are added to the scope's node by
   tw_onnx_read_node. */
tw_status tw_onnx_read_attribute(tw_onnx_importer *m, const tw_wire_field *f, tw_attribute *out, tw_wire_field *graph);

#endif
