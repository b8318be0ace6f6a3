/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Fuses models that exporters wrote:

     exports FOLDER

   Each model in the folder is made concrete for two batches and lengths, its patterns are fused, and it is lowered to
   programs: for a processor, and for a GPU in f32 and in f16. All results are compared with those of the graph as it
   was. A line a model says which nodes are left. Exit 1: results differ, different nodes are left for other extents, or
   a node has no kernel. */
#include "base/diag.h"
#include "base/random.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/program/program.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "graph/specialize.h"
#include "tilewright/graph.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 8, OUTPUTS = 8, PAST = 5 /* Rows of a cache. */ };

/* Makes contents of inputs: numbers of words, masks that hide the last ones of every second text, and rows of a cache,
   which masks see, too. */
static void make_inputs(const tw_graph *g, int64_t batch, int64_t length, tw_arena *arena, tw_array *in) {
    tw_random r = tw_random_seed(3);
    const bool cached = strstr(g->values[g->inputs[g->n_inputs - 1]].name, "past") != NULL;
    for (int i = 0; i < g->n_inputs; i++) {
        const tw_value *v = &g->values[g->inputs[i]];
        const bool mask = strstr(v->name, "mask") != NULL, rows = strstr(v->name, "past") != NULL;
        const int64_t columns = mask && cached ? PAST + length : length;
        in[i] = (tw_array){.type = v->type, .rank = 2, .dims = {batch, columns}};
        if (rows) in[i] = (tw_array){.type = v->type, .rank = 4, .dims = {batch, v->dims[1], PAST, v->dims[3]}};
        const int64_t n = tw_array_elements(&in[i]);
        void *data = tw_arena_array(arena, (size_t)n + 1, 8);
        for (int64_t e = 0; e < n; e++) {
            const int64_t hidden = e / columns % 2 ? 2 : 0;
            const int64_t x = mask ? e % columns < columns - hidden : (int64_t)tw_random_below(&r, 40);
            const double real = tw_random_normal(&r);
            if (rows)
                tw_array_set_reals(v->type, data, e, 1, &real);
            else
                tw_array_set_integers(v->type, data, e, 1, &x);
        }
        in[i].data = data;
    }
}

static bool agree(const tw_array *x, const tw_array *y, double allowed) {
    const int64_t n = tw_array_elements(x);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += tw_array_real(x, i) * tw_array_real(x, i);
    const double scale = sqrt(sum / (double)n);
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(tw_array_real(x, i) - tw_array_real(y, i)) <= allowed * scale)) return false;
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

/* What is compared. */
typedef struct trial {
    const tw_array *const *in;
    const tw_array *want;
    tw_arena *arena;
    tw_diag *diag;
} trial;

static tw_status compare(const trial *t, const tw_graph *g, const tw_array *out, double allowed, const char *what) {
    for (int i = 0; i < g->n_outputs; i++)
        if (!agree(&t->want[i], &out[i], allowed)) return tw_fail(t->diag, TW_ERR_MISMATCH, "results differ %s", what);
    return TW_OK;
}

/* Lowers a graph, and runs the program plainly. */
static tw_status run_lowered(const trial *t, const tw_graph *g, const tw_program_options *options, double allowed,
                             const char *what) {
    tw_array out[OUTPUTS];
    tw_program *p = NULL;
    tw_status st = tw_program_lower(&p, g, options, t->diag);
    if (st == TW_OK) st = tw_program_verify(p, t->diag);
    if (st == TW_OK) st = run_program(p, t->in, t->arena, out, t->diag);
    if (st == TW_OK) st = compare(t, g, out, allowed, what);
    tw_program_free(p);
    return st;
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
    const trial t = {operands, x, &arena, diag};
    if (st == TW_OK) st = compare(&t, g, y, 1e-5, "fused");
    if (st == TW_OK) describe(g, out);
    const tw_program_options cpu = {.attention = TW_PROGRAM_FUSE_ALL},
                             gpu = {.attention = TW_PROGRAM_FUSE_GPU, .gpu = true},
                             norms = {.attention = TW_PROGRAM_FUSE_GPU, .gpu = true, .norms = true};
    if (st == TW_OK) st = run_lowered(&t, g, &cpu, 1e-4, "on a processor");
    if (st == TW_OK) st = run_lowered(&t, g, &gpu, 1e-4, "on a GPU");
    if (st == TW_OK) st = tw_graph_convert(g, TW_E_f16, diag);
    if (st == TW_OK) st = run_lowered(&t, g, &gpu, 3e-2, "in f16");
    if (st == TW_OK) st = run_lowered(&t, g, &norms, 3e-2, "in f16 with norms in products");
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
