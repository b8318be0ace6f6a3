/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs of checkpoints (model/model.h), which passes, patterns and runners then take like those of ONNX files. */
#ifndef TW_GRAPH_DECODER_H
#define TW_GRAPH_DECODER_H

#include "graph/graph.h"
#include "model/model.h"

/* Makes the graph of a whole forward pass without a cache: input "input_ids", i64 [batch, sequence], and output
   "logits", f32 [batch, sequence, vocab]. It computes in f32 whatever type weights have. Constants are the model's own
   memory where that lies as the graph wants it, so the model must outlive the graph. Mixtures compute all experts, and
   weigh by 0 those that were not chosen. The caller frees the graph. */
tw_status tw_graph_of_model(tw_graph **out, const tw_model *m, tw_diag *diag);

#endif
