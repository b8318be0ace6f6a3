/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text, both ways: what was printed whole is read as a graph that prints the same. docs/graph.md has the
   grammar. */
#ifndef TW_GRAPH_TEXT_H
#define TW_GRAPH_TEXT_H

#include "graph/graph.h"

enum { TW_GRAPH_SET = 27 /* The set of operators of a text that names none. */ };

/* print.c. Writes a graph, a node a line. Contents of more than a few elements are "...", and so are those of types
   that nothing is computed with. */
void tw_graph_print(const tw_graph *g, tw_buf *out);
/* Writes all contents of types that are computed with. */
void tw_graph_print_whole(const tw_graph *g, tw_buf *out);

/* Writes the type and extents of a value, like "f32[batch, 768]". What is cut ends with NUL, too. */
void tw_value_describe(const tw_graph *g, const tw_value *v, char *out, size_t size);

/* parse.c. Reads a graph, which is not resolved yet. `path` is for diagnostics, which give line and column. */
tw_status tw_graph_parse(tw_graph **out, const char *text, size_t size, const char *path, tw_diag *diag);

/* Whether a name may have a character without quotes. */
bool tw_graph_is_bare(char c);

#endif
