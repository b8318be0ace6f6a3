/* SPDX-License-Identifier: Apache-2.0 */
/* What checks share. */
#ifndef TW_GRAPH_PATTERNS_CHECKS_H
#define TW_GRAPH_PATTERNS_CHECKS_H

#include "graph/patterns/term.h"

typedef struct tw_check_row {
    const char *name;
    tw_check *check;
} tw_check_row;

/* checks_attention.c. The last row has no name. */
extern const tw_check_row tw_attention_checks[];

/* checks.c */
bool tw_node_has(const tw_node *n, int operand);
/* Tells whether a value is a Transpose of this order of dimensions. */
bool tw_has_perm(const tw_graph *g, int v, const int64_t *want, int rank);
bool tw_is_last(const tw_graph *g, int v);
bool tw_is_scalar(const tw_graph *g, int v);

/* checks_attention.c. Tells whether a Slice is of the first elements of the last axis, or of the last ones. */
bool tw_is_end(const tw_graph *g, int v, bool back);

#endif
