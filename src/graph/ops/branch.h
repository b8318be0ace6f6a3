/* SPDX-License-Identifier: Apache-2.0 */
/* If: a node with two graphs, one of which is computed. Values of the graph around that a branch uses are operands
   behind the condition, those of then_branch first; in a branch they are its inputs. */
#ifndef TW_GRAPH_OPS_BRANCH_H
#define TW_GRAPH_OPS_BRANCH_H

#include "graph/ops/op.h"

/* Whether a node is an If whose branches are there, with the operands and results that they need. */
bool tw_is_branch(const tw_node *n);
/* Returns the branch that is taken, or NULL where the condition is not known. *first becomes the operand that is its
   first input. */
const tw_graph *tw_branch_of(const tw_call *c, int *first);

tw_op_shape tw_if_shape;
tw_op_compute tw_if_compute;

#endif
