/* SPDX-License-Identifier: Apache-2.0 */
#include "vm/network_emulated.h"

#include "base/diag.h"
#include "graph/arrays.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 /* Inputs and outputs. */ };

/* Counts launches of products that are split along k. */
static int count_splits(const tw_buf *explained) {
    int n = 0;
    for (const char *s = strstr(explained->data, " kg="); s; s = strstr(s + 1, " kg=")) n += atoi(s + 4) > 1;
    for (const char *s = strstr(explained->data, " stream=1"); s; s = strstr(s + 1, " stream=1")) n++;
    return n;
}

/* Leaves no zeros where counters of splits are. */
static void soil(const tw_cuda_network *n) {
    const size_t bytes = 2 * (size_t)n->own.zeroed_bytes;
    char *soiled = malloc(bytes + 1);
    tw_diag diag = {0};
    assert_non_null(soiled);
    memset(soiled, 1, bytes);
    good(tw_gpu_upload(n->gpu, n->own.zeroed, soiled, bytes, &diag), &diag);
    free(soiled);
}

/* Runs a concrete graph plainly and in the emulator. Counters that are cleared are soiled before each run. Returns how
   many of its products are split along k. */
static int check(const tw_graph *g, const tw_array *const *in, const tw_program_options *o,
                 const tw_cuda_network_options *ways, tw_network_plan *plan, double most, bool show) {
    tw_arena arena = {0};
    tw_array want[MOST], have[MOST];
    tw_program *p = NULL;
    tw_diag diag = {0};
    tw_gpu *gpu;
    tw_network_weights *w;
    tw_cuda_network *n;
    const void *inputs[MOST];
    void *outputs[MOST];
    good(tw_graph_run(g, in, &arena, want, &diag), &diag);
    good(tw_program_lower(&p, g, o, &diag), &diag);
    tw_buf text = {0};
    if (show) {
        tw_program_print(p, &text);
        fprintf(stderr, "%.*s\n", (int)text.size, text.data);
    }
    good(tw_gpu_open(&gpu, "emulator", &diag), &diag);
    good(tw_network_weights_open(&w, gpu, &diag), &diag);
    good(tw_cuda_network_open(&n, p, w, ways, plan, &diag), &diag);
    text.size = 0;
    good(tw_cuda_network_explain(n, false, &text, &diag), &diag);
    if (show) fprintf(stderr, "%.*s\n", (int)text.size, text.data);
    const int splits = count_splits(&text);
    for (int i = 0; i < g->n_inputs; i++) inputs[i] = in[i]->data;
    for (int i = 0; i < g->n_outputs; i++) {
        have[i] = want[i];
        outputs[i] = tw_arena_alloc(&arena, (size_t)tw_array_bytes(&want[i]) + 1);
        have[i].data = outputs[i];
    }
    for (int times = 0; times < 2; times++) {
        if (ways->clear) soil(n);
        good(tw_cuda_network_run(n, inputs, outputs, &diag), &diag);
        for (int i = 0; i < g->n_outputs; i++) arrays_compare(&want[i], &have[i], most, "in the emulator");
    }
    tw_cuda_network_close(n);
    tw_network_weights_close(w);
    tw_gpu_close(gpu);
    tw_buf_free(&text);
    tw_program_free(p);
    tw_arena_free(&arena);
    return splits;
}

int network_check_ways(tw_graph *g, const int64_t *const *dims, const tw_program_options *o,
                       const tw_cuda_network_options *ways, tw_network_plan *plan, double most, tw_element to,
                       bool show) {
    tw_arena arena = {0};
    tw_array in[MOST];
    const tw_array *at[MOST];
    tw_diag diag = {0};
    tw_graph *c = NULL;
    good(tw_graph_resolve(g, "", &diag), &diag);
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        int64_t extents[TW_ARRAY_RANK];
        for (int d = 0; d < v->rank; d++) extents[d] = v->dims[d] < 0 ? dims[i][d] : v->dims[d];
        in[i] = arrays_random(&arena, v, extents, 7 + (uint64_t)i, 2);
        at[i] = &in[i];
    }
    good(tw_graph_specialize(&c, g, at, &diag), &diag);
    tw_graph_free(g);
    good(tw_graph_simplify(c, &diag), &diag);
    good(tw_graph_fuse(c, NULL, &diag), &diag);
    if (to != TW_E_none) good(tw_graph_convert(c, to, &diag), &diag);
    good(tw_graph_simplify(c, &diag), &diag);
    const tw_graph_pass heads = {"heads", tw_pass_heads, TW_KEEPS_ALL};
    if (o->attention == TW_PROGRAM_FUSE_GPU) good(tw_graph_passes(c, &heads, 1, &diag), &diag);
    good(tw_graph_resolve(c, "", &diag), &diag);
    const int splits = check(c, at, o, ways, plan, most, show);
    tw_graph_free(c);
    tw_arena_free(&arena);
    return splits;
}

void network_check_random(tw_graph *g, const int64_t *const *dims, const tw_program_options *o, double most,
                          tw_element to, bool show) {
    network_check_ways(g, dims, o, &(tw_cuda_network_options){0}, NULL, most, to, show);
}

int network_constant(tw_graph *g, tw_element type, int rank, const int64_t *dims, uint64_t seed) {
    const tw_value v = {.type = type, .rank = rank};
    const tw_array a = arrays_random(&g->arena, &v, dims, seed, 5);
    return tw_graph_constant(g, &a);
}
