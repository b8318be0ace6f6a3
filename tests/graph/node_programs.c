/* SPDX-License-Identifier: Apache-2.0 */
/* node_programs FOLDER: lowers ONNX's node tests in every way, before and after patterns are found, runs the programs
   plainly, and compares them with the graphs. A test whose extents depend on what its inputs contain has no program. */
#define _GNU_SOURCE
#include "base/diag.h"
#include "base/file.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/run_program.h"
#include "graph/specialize.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 /* Inputs and outputs. */ };

/* A test's graph for given extents, its inputs and what it computes. */
typedef struct test {
    tw_arena arena;
    tw_graph *graph;
    tw_array in[MOST], want[MOST];
    const tw_array *at[MOST];
} test;

static bool same(const tw_array *a, const tw_array *b) {
    const int64_t n = tw_array_elements(a);
    const double allowed = a->type == TW_E_f16 || a->type == TW_E_bf16 ? 1e-2 : 1e-4;
    double square = 0;
    if (n != tw_array_elements(b) || a->type != b->type) return false;
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(a, i);
        square += isfinite(x) ? x * x : 0;
    }
    const double least = sqrt(square / (double)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(a, i), y = tw_array_real(b, i);
        if ((isnan(x) && isnan(y)) || x == y) continue;
        if (!(fabs(x - y) <= allowed * fmax(fabs(x), least))) return false;
    }
    return true;
}

static tw_status read_inputs(test *t, const char *folder, const char *name, int n, tw_diag *diag) {
    tw_status st = n > MOST ? tw_fail(diag, TW_ERR_UNSUPPORTED, "has too many inputs") : TW_OK;
    for (int i = 0; i < n && st == TW_OK; i++) {
        char path[4096];
        const char *unused;
        tw_map map;
        snprintf(path, sizeof path, "%s/%s/test_data_set_0/input_%d.pb", folder, name, i);
        st = tw_map_open(&map, path, diag);
        if (st != TW_OK) break;
        void *copy = tw_arena_alloc(&t->arena, map.size + 1);
        if (copy) memcpy(copy, map.data, map.size);
        st = copy ? tw_onnx_read_tensor(&t->arena, copy, map.size, path, &unused, &t->in[i], diag)
                  : tw_fail_memory(diag);
        tw_map_close(&map);
        t->at[i] = &t->in[i];
    }
    return st;
}

/* Opens a test. *concrete: its graph has extents that are known. */
static tw_status open_test(test *t, const char *folder, const char *name, bool *concrete, tw_diag *diag) {
    char path[4096];
    tw_graph *g = NULL;
    bool known[MOST];
    snprintf(path, sizeof path, "%s/%s/model.onnx", folder, name);
    tw_status st = tw_onnx_open(&g, path, diag);
    if (st == TW_OK) st = tw_graph_resolve(g, path, diag);
    if (st == TW_OK) st = read_inputs(t, folder, name, g->n_inputs, diag);
    if (st == TW_OK) {
        /* Lists of integers are extents, axes and the like, if anything else does not do. */
        for (int i = 0; i < g->n_inputs; i++)
            known[i] = t->in[i].rank <= 1 && (t->in[i].type == TW_E_i64 || t->in[i].type == TW_E_i32);
        *concrete = tw_graph_specialize(&t->graph, g, t->at, NULL) == TW_OK ||
                    tw_graph_specialize_known(&t->graph, g, t->at, known, NULL) == TW_OK;
        if (*concrete) st = tw_graph_run(t->graph, t->at, &t->arena, t->want, diag);
    }
    tw_graph_free(g);
    return st;
}

/* Lowers the graph in one way. A GPU may have no kernel. */
static tw_status check(test *t, const tw_program_options *o, tw_diag *diag) {
    tw_array have[MOST];
    tw_program *p = NULL;
    tw_status st = tw_program_lower(&p, t->graph, o, diag);
    if (st == TW_ERR_UNSUPPORTED && o->gpu) return TW_OK;
    if (st == TW_OK) st = run_program(p, t->at, &t->arena, have, diag);
    for (int i = 0; i < t->graph->n_outputs && st == TW_OK; i++)
        if (!same(&t->want[i], &have[i]))
            st =
                tw_fail(diag, TW_ERR_MISMATCH, "output %d differs, gpu %d, attention %d", i, o->gpu, (int)o->attention);
    tw_program_free(p);
    return st;
}

static tw_status check_all(test *t, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int fused = 0; fused < 2 && st == TW_OK; fused++) {
        if (fused) st = tw_graph_simplify(t->graph, diag);
        if (fused && st == TW_OK) st = tw_graph_fuse(t->graph, NULL, diag);
        if (st == TW_OK) st = tw_graph_resolve(t->graph, "", diag);
        for (int way = 0; way < 6 && st == TW_OK; way++)
            st = check(t, &(tw_program_options){.gpu = way % 2, .attention = (tw_program_fuse)(way / 2)}, diag);
    }
    return st;
}

static bool run_test(const char *folder, const char *name) {
    test t = {0};
    tw_diag diag = {0};
    bool concrete = false;
    tw_status st = open_test(&t, folder, name, &concrete, &diag);
    if (st == TW_OK && concrete) st = check_all(&t, &diag);
    printf(st == TW_OK ? "passes %s\n" : "wrong %s: %s\n", name, diag.message);
    tw_graph_free(t.graph);
    tw_arena_free(&t.arena);
    return st == TW_OK;
}

int main(int argc, char **argv) {
    struct dirent **entries;
    const int n = argc == 2 ? scandir(argv[1], &entries, NULL, alphasort) : -1;
    int passed = 0, all = 0;
    if (n < 0) return fprintf(stderr, "node_programs FOLDER\n"), 2;
    for (int i = 0; i < n; i++) {
        if (*entries[i]->d_name != '.') {
            passed += run_test(argv[1], entries[i]->d_name);
            all++;
        }
        free(entries[i]);
    }
    free(entries);
    printf("%d tests: %d pass, 0 are refused, %d are wrong\n", all, passed, all - passed);
    return passed != all;
}
