/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface: opening, describing and comparing graphs. */
#include "base/buf.h"
#include "base/diag.h"
#include "graph/golden.h"
#include "graph/onnx/onnx.h"
#include "graph/run.h"
#include "graph/shapes/infer.h"
#include "graph/text.h"
#include "tilewright/graph.h"

/* What a file says of types of outputs is not needed, but whoever reads outputs by it would get other numbers. */
static tw_status check_outputs(const tw_graph *g, const char *path, tw_diag *diag) {
    for (int i = 0; i < g->n_outputs; i++) {
        const tw_value *v = &g->values[g->outputs[i]];
        if (v->said != TW_E_none && v->type != TW_E_none && v->said != v->type)
            return tw_fail_at(diag, TW_ERR_FORMAT, path, -1, "output \"%s\" is of %s, and the file says of %s", v->name,
                              tw_element_name(v->type), tw_element_name(v->said));
    }
    return TW_OK;
}

tw_status tw_graph_open(tw_graph **out, const char *path, tw_diag *diag) {
    tw_status st = tw_onnx_open(out, path, diag);
    if (st == TW_OK) st = tw_graph_resolve(*out, path, diag);
    if (st == TW_OK) st = tw_graph_infer(*out, diag);
    if (st == TW_OK) st = check_outputs(*out, path, diag);
    if (st == TW_OK) return TW_OK;
    tw_graph_free(*out);
    *out = NULL;
    return st;
}

void tw_graph_close(tw_graph *graph) {
    tw_graph_free(graph);
}

void tw_graph_describe(const tw_graph *g, tw_graph_info *info) {
    *info = (tw_graph_info){
        .name = g->name ? g->name : "", .nodes = g->n_nodes, .inputs = g->n_inputs, .outputs = g->n_outputs};
    for (int i = 0; i < g->n_values; i++) {
        if (!g->values[i].content) continue;
        const int64_t bytes = tw_array_bytes(g->values[i].content);
        info->constants++;
        info->constant_bytes += bytes > 0 ? bytes : 0;
    }
}

char *tw_graph_text(const tw_graph *g) {
    tw_buf out = {0};
    tw_graph_print(g, &out);
    if (!out.failed) return out.data;
    tw_buf_free(&out);
    return NULL;
}

tw_status tw_graph_verify(const tw_graph *g, const char *golden, tw_graph_verdict *verdict, tw_diag *diag) {
    tw_golden f;
    tw_difference d = {0};
    *verdict = (tw_graph_verdict){0};
    tw_status st = tw_golden_open(&f, golden, diag);
    const tw_array **in = tw_arena_array(&f.arena, (size_t)g->n_inputs + 1, sizeof *in);
    tw_array *out = tw_arena_array(&f.arena, (size_t)g->n_outputs + 1, sizeof *out);
    if (st == TW_OK && (!in || !out)) st = tw_fail_memory(diag);
    if (st == TW_OK) st = tw_golden_inputs(&f, g, in, diag);
    if (st == TW_OK) st = tw_graph_run(g, in, &f.arena, out, diag);
    if (st == TW_OK) st = tw_golden_compare(&f, g, out, 0, &d, diag);
    if (st == TW_OK && *d.first) st = tw_fail_at(diag, TW_ERR_MISMATCH, golden, -1, "%s", d.first);
    *verdict = (tw_graph_verdict){.outputs = d.outputs, .elements = d.elements, .worst = d.allowed};
    tw_golden_close(&f);
    return st;
}
