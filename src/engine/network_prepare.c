/* SPDX-License-Identifier: Apache-2.0 */
/* From a model and extents of its inputs to a program. */
#include "base/diag.h"
#include "engine/network.h"
#include "engine/package.h"
#include "graph/passes/passes.h"
#include "graph/run.h"
#include "graph/specialize.h"

#include <stdlib.h>
#include <string.h>

void tw_bucket_free(struct tw_network *n, tw_bucket *b) {
    if (!b) return;
    if (b->state) n->runner->drop(b);
    tw_program_free(b->program);
    tw_graph_free(b->graph);
    tw_fusions_free(&b->fusions);
    tw_arena_free(&b->results);
    tw_arena_free(&b->arena);
    free(b);
}

/* Gives an array memory for its content. */
static bool room(tw_bucket *b, tw_array *a) {
    const int64_t bytes = tw_array_bytes(a);
    a->data = bytes < 0 ? NULL : tw_arena_alloc(&b->arena, (size_t)bytes + 1);
    return a->data;
}

/* Sets inputs and outputs of a bucket. Outputs of a graph that runs plainly without extents get theirs from a run. */
static tw_status set_interface(struct tw_network *n, tw_bucket *b, const tw_array *inputs, tw_diag *diag) {
    const tw_graph *g = b->graph ? b->graph : n->model;
    b->inputs = tw_arena_array(&b->arena, (size_t)g->n_inputs + 1, sizeof *b->inputs);
    b->outputs = tw_arena_array(&b->arena, (size_t)g->n_outputs + 1, sizeof *b->outputs);
    if (!b->inputs || !b->outputs) return tw_fail_memory(diag);
    for (int i = 0; i < g->n_inputs; i++) {
        b->inputs[i] = inputs[i];
        if (!room(b, &b->inputs[i])) return tw_fail_memory(diag);
    }
    for (int i = 0; i < g->n_outputs && b->graph; i++) {
        tw_value_array(&g->values[g->outputs[i]], &b->outputs[i]);
        if (b->program && !room(b, &b->outputs[i])) return tw_fail_memory(diag);
    }
    return TW_OK;
}

static tw_status lower(struct tw_network *n, tw_bucket *b, tw_diag *diag) {
    tw_program_options o = {.attention = n->options.apart ? TW_PROGRAM_FUSE_NONE
                                         : n->runner->gpu ? TW_PROGRAM_FUSE_GPU
                                                          : TW_PROGRAM_FUSE_ALL,
                            .gpu = n->runner->gpu,
                            .made = &n->made};
    if (n->runner->lowering) n->runner->lowering(n, &o);
    const tw_status st = tw_program_lower(&b->program, b->graph, &o, diag);
    return st == TW_OK ? tw_program_verify(b->program, diag) : st;
}

/* Finishes a bucket whose graph has gone through all passes. On errors the bucket is freed. */
static tw_status finish(struct tw_network *n, tw_bucket *b, const tw_array *inputs, tw_bucket **out, tw_diag *diag) {
    tw_status st = TW_OK;
    if (n->runner->lowers && b->graph) st = lower(n, b, diag);
    if (st == TW_OK) st = set_interface(n, b, inputs, diag);
    /* A processor's program is asked what it reads. Others read all, and load machine code. */
    const bool before = n->package && n->runner != &tw_runner_cpu, after = n->package && !before;
    if (st == TW_OK && before) st = tw_network_check_read(n, b, diag);
    if (st == TW_OK && n->runner->prepare && b->program) st = n->runner->prepare(n, b, diag);
    if (st == TW_OK && after) st = tw_network_check_read(n, b, diag);
    if (st != TW_OK) {
        tw_bucket_free(n, b);
        return st;
    }
    *out = b;
    return TW_OK;
}

/* Makes attention one that a GPU has a kernel for. */
static tw_status fit_heads(const struct tw_network *n, tw_graph *g, tw_diag *diag) {
    const tw_graph_pass heads = {"heads", tw_pass_heads, TW_KEEPS_ALL};
    return n->runner->gpu && !n->options.apart ? tw_graph_passes(g, &heads, 1, diag) : TW_OK;
}

/* Patterns are found in f32, where nodes are as exporters write them. */
static tw_status through_passes(struct tw_network *n, tw_bucket *b, tw_diag *diag) {
    tw_status st = n->options.unfused ? tw_graph_simplify(b->graph, diag) : tw_graph_fuse(b->graph, &b->fusions, diag);
    if (st == TW_OK && n->type != TW_E_none) {
        st = tw_graph_convert(b->graph, n->type, diag);
        if (st == TW_OK) st = tw_graph_simplify(b->graph, diag);
    }
    if (st == TW_OK) st = fit_heads(n, b->graph, diag);
    if (st == TW_OK) st = tw_contents_share(&n->contents, b->graph, diag);
    return st == TW_OK ? tw_graph_resolve(b->graph, n->path, diag) : st;
}

/* Makes the graph for extents. Where these depend on contents, only the model itself runs, on a processor. */
static tw_status make_graph(struct tw_network *n, tw_bucket *b, const tw_array *inputs, tw_diag *diag) {
    const tw_graph *model = n->package ? n->package->model : n->model;
    const tw_array **in = tw_arena_array(&b->arena, (size_t)n->model->n_inputs + 1, sizeof *in);
    tw_diag why = {0};
    if (!in) return tw_fail_memory(diag);
    for (int i = 0; i < n->model->n_inputs; i++) in[i] = &inputs[i];
    tw_status st = tw_graph_specialize(&b->graph, model, in, &why);
    if (st == TW_OK) return through_passes(n, b, diag);
    b->graph = NULL;
    if (st == TW_ERR_UNSUPPORTED && !n->package && !n->runner->gpu && n->type == TW_E_none) return TW_OK;
    if (diag) *diag = why;
    return st;
}

/* Finds a package's graph for extents, or makes it of the model if that was kept. */
static tw_status find_graph(struct tw_network *n, tw_bucket *b, const tw_array *inputs, tw_diag *diag) {
    const tw_package *p = n->package;
    for (int i = 0; i < p->n_graphs; i++) {
        const tw_graph *g = p->graphs[i];
        bool same = true;
        for (int k = 0; k < g->n_inputs && same; k++) {
            const tw_value *v = &g->values[g->inputs[k]];
            same = v->type == inputs[k].type && v->rank == inputs[k].rank;
            for (int d = 0; d < v->rank && same; d++) same = v->dims[d] == inputs[k].dims[d];
        }
        if (!same) continue;
        b->graph = tw_graph_keep(g);
        return TW_OK;
    }
    if (p->model) {
        const tw_status st = tw_network_check_graph(n, p->model, diag);
        return st == TW_OK ? make_graph(n, b, inputs, diag) : st;
    }
    for (int i = 0; i < p->n_graphs; i++) {
        char text[512];
        tw_package_describe_shapes(p, i, text, sizeof text);
        tw_diag_add(diag, TW_ERR_UNSUPPORTED, n->path, "%s%s", i ? "and for " : "the package was built for ", text);
    }
    return TW_ERR_UNSUPPORTED;
}

tw_status tw_bucket_make(struct tw_network *n, const tw_array *inputs, tw_bucket **out, tw_diag *diag) {
    tw_bucket *b = calloc(1, sizeof *b);
    if (!b) return tw_fail_memory(diag);
    const tw_status st = n->package ? find_graph(n, b, inputs, diag) : make_graph(n, b, inputs, diag);
    if (st == TW_OK) return finish(n, b, inputs, out, diag);
    tw_bucket_free(n, b);
    return st;
}
