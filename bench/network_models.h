/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of well-known models' shapes with random weights. */
#ifndef TW_BENCH_NETWORK_MODELS_H
#define TW_BENCH_NETWORK_MODELS_H

#include "graph/graph.h"

/* Makes the graph of "bert-base", "gpt2", "open-llama-3b" and others for extents that are known, in f32, f16 or bf16.
   Inputs are ids, i64 [batch, length], and of llamas positions alike. `layers` 0: all. NULL: there is no such model, or
   out of memory. */
tw_graph *network_model(const char *name, tw_element type, int64_t batch, int64_t length, int layers);
extern const char network_model_names[]; /* For help texts. */

#endif
