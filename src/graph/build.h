/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs made by C code. A value below 0 stands for "there is none"; running out of memory gives -1, too, and marks the
   graph's arena as failed, so that code need look only once, in the end. */
#ifndef TW_GRAPH_BUILD_H
#define TW_GRAPH_BUILD_H

#include "graph/graph.h"

/* Attributes of nodes. */
#define TW_INT(NAME, VALUE)  ((tw_attribute){.name = (NAME), .kind = TW_ATTRIBUTE_INT, .integer = (VALUE)})
#define TW_REAL(NAME, VALUE) ((tw_attribute){.name = (NAME), .kind = TW_ATTRIBUTE_REAL, .real = (VALUE)})
#define TW_TEXT(NAME, VALUE) ((tw_attribute){.name = (NAME), .kind = TW_ATTRIBUTE_TEXT, .text = (VALUE)})

/* Lists for tw_graph_op. */
#define TW_OPERANDS(...) (const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int))
#define TW_ATTRIBUTES(...)                                                                                             \
    (const tw_attribute[]){__VA_ARGS__}, (int)(sizeof(tw_attribute[]){__VA_ARGS__} / sizeof(tw_attribute))
#define TW_NO_ATTRIBUTES NULL, 0

enum { TW_GRAPH_VERSION = 23 /* The operators' set of nodes that are made here. */ };

/* Adds a node of the format's own operators. Returns its first result; the others, if it has several, have the numbers
   that follow. Texts of attributes must live as long as the graph. */
int tw_graph_op_several(tw_graph *g, const char *op, const int *in, int n_in, const tw_attribute *attributes,
                        int n_attributes, int results);
/* The same with one result. */
int tw_graph_op(tw_graph *g, const char *op, const int *in, int n_in, const tw_attribute *attributes, int n_attributes);

/* Adds an input. A dimension is an extent, or tw_dim_of_symbol(tw_graph_symbol(...)). */
int tw_graph_input(tw_graph *g, const char *name, tw_element type, int rank, const tw_dim *dims);
void tw_graph_output(tw_graph *g, int value, const char *name);

/* Adds a constant, whose data are the caller's and must live as long as the graph. */
int tw_graph_constant(tw_graph *g, const tw_array *content);
/* Adds constants whose data are copied: one number, or a list of integers. */
int tw_graph_real(tw_graph *g, double x);
int tw_graph_integer(tw_graph *g, int64_t x);
int tw_graph_integers(tw_graph *g, const int64_t *x, int n);
#define TW_INTEGERS(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof(int64_t[]){__VA_ARGS__} / sizeof(int64_t))

#endif
