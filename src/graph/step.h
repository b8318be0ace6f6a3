/* SPDX-License-Identifier: Apache-2.0 */
/* One node, computed plainly: what runs of graphs and the folding of constants share. */
#ifndef TW_GRAPH_STEP_H
#define TW_GRAPH_STEP_H

#include "graph/ops/op.h"

/* Finds types and extents of a node's results. `values` has what is known of the graph's values, by number. `data` is
   NULL where a content is not known. The call lies in the arena. Errors are those of the operator. */
tw_status tw_step_begin(tw_call **out, const tw_node *n, const tw_array *values, tw_arena *arena, tw_diag *diag);

/* The same with operands as the graph's values have them: contents are those of constants. TW_ERR_USAGE, too: an
   operand has no type, or an extent that is no number. */
tw_status tw_step_of(tw_call **out, const tw_graph *g, const tw_node *n, tw_arena *arena, tw_diag *diag);

/* Returns the bytes of all results, which may be more than the machine has memory for. */
int64_t tw_step_bytes(const tw_call *c);

/* Computes contents of all results, no more than `most` bytes. Each result's `data` is then the caller's, to be given
   to free. On errors there is nothing to free. */
tw_status tw_step_compute(tw_call *c, int64_t most);

#endif
