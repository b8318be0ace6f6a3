/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx_nodes_gpu.h"

#include "base/diag.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "vm/network/network.h"

#include <stdlib.h>

/* What of the inputs is taken as a constant: nothing, then single elements, as axes are, and then lists of integers, as
   extents are. */
enum { NOTHING, SINGLES, LISTS, LEVELS };

static bool is_known(const tw_array *a, int level) {
    const bool list = a->rank <= 1 && (a->type == TW_E_i64 || a->type == TW_E_i32);
    const bool single = tw_element_kind(a->type) != TW_KIND_other && tw_array_elements(a) == 1;
    return (level >= SINGLES && single) || (level >= LISTS && list);
}

/* Makes a graph that is lowered, as tilewright's networks make it. */
static tw_status prepare(tw_graph **out, const tw_graph *g, const tw_array *const *in, int level, tw_arena *arena,
                         tw_diag *diag) {
    const tw_graph_pass heads = {"heads", tw_pass_heads, TW_KEEPS_ALL};
    bool *known = tw_arena_array(arena, (size_t)g->n_inputs + 1, sizeof *known);
    *out = NULL;
    if (!known) return tw_fail_memory(diag);
    for (int i = 0; i < g->n_inputs; i++) known[i] = is_known(in[i], level);
    tw_status st = tw_graph_specialize_known(out, g, in, known, diag);
    if (st == TW_OK) st = tw_graph_fuse(*out, NULL, diag);
    if (st == TW_OK) st = tw_graph_passes(*out, &heads, 1, diag);
    return st == TW_OK ? tw_graph_resolve(*out, "", diag) : st;
}

static tw_status run(tw_gpu *gpu, const tw_program *p, const tw_array *const *in, tw_arena *arena, tw_array *out,
                     tw_diag *diag) {
    const tw_graph *g = p->graph;
    const void **inputs = tw_arena_array(arena, (size_t)g->n_inputs + 1, sizeof *inputs);
    void **outputs = tw_arena_array(arena, (size_t)g->n_outputs + 1, sizeof *outputs);
    tw_network_weights *w = NULL;
    tw_cuda_network *n = NULL;
    if (!inputs || !outputs) return tw_fail_memory(diag);
    for (int i = 0; i < g->n_inputs; i++) inputs[i] = in[i]->data;
    for (int i = 0; i < g->n_outputs; i++) {
        tw_value_array(&g->values[g->outputs[i]], &out[i]);
        outputs[i] = tw_arena_alloc(arena, (size_t)tw_array_bytes(&out[i]) + 1);
        out[i].data = outputs[i];
        if (!outputs[i]) return tw_fail_memory(diag);
    }
    tw_status st = tw_network_weights_open(&w, gpu, diag);
    if (st == TW_OK) st = tw_cuda_network_open(&n, p, w, &(tw_cuda_network_options){0}, NULL, diag);
    /* The second run is the captured graph's. */
    for (int times = 0; times < 2 && st == TW_OK; times++) st = tw_cuda_network_run(n, inputs, outputs, diag);
    tw_cuda_network_close(n);
    tw_network_weights_close(w);
    return st;
}

tw_status onnx_nodes_run_on(tw_gpu *gpu, const tw_graph *g, const tw_array *const *in, tw_arena *arena, tw_array *out,
                            tw_diag *diag) {
    const tw_program_options o = {.gpu = true, .attention = TW_PROGRAM_FUSE_GPU};
    tw_status st = TW_ERR_UNSUPPORTED;
    bool lowered = false; /* Extents are known, so that a graph that folds would prove nothing. */
    for (int level = NOTHING; level < LEVELS && st == TW_ERR_UNSUPPORTED; level++) {
        tw_graph *concrete;
        tw_program *p = NULL;
        tw_diag why = {0};
        st = prepare(&concrete, g, in, level, arena, &why);
        const bool folds = st == TW_OK && lowered && !concrete->n_nodes;
        lowered = lowered || st == TW_OK;
        if (folds) st = TW_ERR_UNSUPPORTED;
        if (st == TW_OK) st = tw_program_lower(&p, concrete, &o, &why);
        if (st == TW_OK) st = run(gpu, p, in, arena, out, &why);
        if (st != TW_OK && !folds) *diag = why;
        tw_program_free(p);
        tw_graph_free(concrete);
    }
    return st;
}
