/* SPDX-License-Identifier: Apache-2.0 */
/* Putting one concrete graph into another. */
#ifndef TW_GRAPH_GRAFT_H
#define TW_GRAPH_GRAFT_H

#include "graph/graph.h"

/* Puts the nodes of a concrete graph behind those of another, whose values in[i] are its inputs. Constants whose data
   lie at lent[i], not NULL, are in[i], too. The values out[i] become its outputs; constants[i] becomes the content of
   one that is constant, which nothing makes then, and NULL for others. `from` loses the memory of its contents to `to`,
   and what it refers to beside must live as long as `to`. */
tw_status tw_graph_graft(tw_graph *to, tw_graph *from, const int *in, const void *const *lent, const int *out,
                         int n_out, const tw_array **constants, tw_diag *diag);

#endif
