/* SPDX-License-Identifier: Apache-2.0 */
/* Runs programs of graphs plainly, a step after another: what lowering made is judged by it. */
#ifndef TW_TESTS_GRAPH_RUN_PROGRAM_H
#define TW_TESTS_GRAPH_RUN_PROGRAM_H

#include "graph/program/program.h"

/* Scratch memory and outputs begin with what makes sums wrong. Outputs' contents lie in the arena. */
tw_status run_program(const tw_program *p, const tw_array *const *in, tw_arena *arena, tw_array *out, tw_diag *diag);

#endif
