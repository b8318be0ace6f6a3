/* SPDX-License-Identifier: Apache-2.0 */
/* Node tests on a GPU, or in its emulator. */
#ifndef TW_BENCH_ONNX_NODES_GPU_H
#define TW_BENCH_ONNX_NODES_GPU_H

#include "graph/graph.h"
#include "tilewright/kernel.h"

/* Computes the outputs of a graph as networks do: concrete, fused, and lowered for a GPU. Single elements of inputs,
   and then lists of integers, are taken as constants if nothing else does. Contents of `out` are the arena's.
   TW_ERR_UNSUPPORTED: the diagnostic lists the nodes that no kernel computes. */
tw_status onnx_nodes_run_on(tw_gpu *gpu, const tw_graph *g, const tw_array *const *in, tw_arena *arena, tw_array *out,
                            tw_diag *diag);

#endif
