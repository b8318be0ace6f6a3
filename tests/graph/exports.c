/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Fuses models that exporters wrote:

     exports FOLDER

   Each model in the folder is made concrete for two batches and lengths, its patterns are fused, and its results are
   compared with those of the graph as it was. A line a model says which nodes are left. Exit 1: results differ, or
   different nodes are left for other extents. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "tilewright/graph.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 8, OUTPUTS = 8 };

/* Makes contents of inputs: numbers of words, and masks that hide the last ones of every second text. */
static void make_inputs(const tw_graph *g, int64_t batch, int64_t length, tw_arena *arena, tw_array *in) {
    tw_random r = tw_random_seed(3);
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        const bool mask = strstr(v->name, "mask") != NULL;
        in[i] = (tw_array){.type = v->type, .rank = 2, .dims = {batch, length}};
        void *data = tw_arena_array(arena, (size_t)(batch * length) + 1, 8);
        for (int64_t e = 0; e < batch * length; e++) {
            const int64_t hidden = e / length % 2 ? 2 : 0;
            const int64_t x = mask ? e % length < length - hidden : (int64_t)tw_random_below(&r, 40);
            tw_array_set_integers(v->type, data, e, 1, &x);
        }
        in[i].data = data;
    }
}

static bool agree(const tw_array *x, const tw_array *y) {
    const int64_t n = tw_array_elements(x);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += tw_array_real(x, i) * tw_array_real(x, i);
    const double scale = sqrt(sum / (double)n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(tw_array_real(x, i) - tw_array_real(y, i)) <= 1e-5 * scale)) return false;
    return n == tw_array_elements(y) && scale > 0;
}

/* Writes "Product 8, Attention 2", in the order in which they come first. */
static void describe(const tw_graph *g, tw_buf *out) {
    for (int i = 0; i < g->n_nodes; i++) {
        int before = 0, all = 0;
        for (int j = 0; j < g->n_nodes; j++) {
            const bool same = !strcmp(g->nodes[i].op, g->nodes[j].op);
            before += same && j < i;
            all += same;
        }
        if (!before) tw_buf_printf(out, "%s%s %d", i ? ", " : "", g->nodes[i].op, all);
    }
}

static tw_status fuse(const tw_graph *model, int64_t batch, int64_t length, tw_buf *out, tw_diag *diag) {
    tw_arena arena = {0};
    tw_array in[INPUTS], x[OUTPUTS], y[OUTPUTS];
    const tw_array *operands[INPUTS];
    tw_graph *g = NULL;
    make_inputs(model, batch, length, &arena, in);
    for (int i = 0; i < model->n_inputs; i++) operands[i] = &in[i];
    tw_status st = tw_graph_specialize(&g, model, operands, diag);
    if (st == TW_OK) st = tw_graph_run(g, operands, &arena, x, diag);
    if (st == TW_OK) st = tw_graph_fuse(g, NULL, diag);
    if (st == TW_OK) st = tw_graph_run(g, operands, &arena, y, diag);
    for (int i = 0; i < model->n_outputs && st == TW_OK; i++)
        if (!agree(&x[i], &y[i])) st = tw_fail(diag, TW_ERR_MISMATCH, "results differ");
    if (st == TW_OK) describe(g, out);
    tw_graph_free(g);
    tw_arena_free(&arena);
    return st;
}

static bool run_model(const char *folder, const char *name) {
    char path[4096];
    tw_graph *model = NULL;
    tw_buf first = {0}, second = {0};
    tw_diag diag = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    tw_status st = tw_graph_open(&model, path, &diag);
    if (st == TW_OK && (model->n_inputs > INPUTS || model->n_outputs > OUTPUTS)) st = TW_ERR_UNSUPPORTED;
    if (st == TW_OK) st = fuse(model, 2, 6, &first, &diag);
    if (st == TW_OK) st = fuse(model, 1, 9, &second, &diag);
    const bool same = st == TW_OK && !strcmp(first.data, second.data);
    printf("%.*s: %s%s\n", (int)strcspn(name, "."), name, st == TW_OK ? first.data : diag.message,
           same || st != TW_OK ? "" : " (other nodes for other extents)");
    tw_graph_close(model);
    tw_buf_free(&first);
    tw_buf_free(&second);
    return same;
}

static int is_model(const struct dirent *e) {
    return strstr(e->d_name, ".onnx") != NULL;
}

int main(int argc, char **argv) {
    struct dirent **entries;
    const int n = argc == 2 ? scandir(argv[1], &entries, is_model, alphasort) : -1;
    bool good = n > 0;
    for (int i = 0; i < n; i++) {
        good &= run_model(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return !good;
}
