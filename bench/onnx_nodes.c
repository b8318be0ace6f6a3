/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
/* Runs node tests of the ONNX project, as its package has them up to version 1.22.0 (onnx/backend/test/data/node):

     onnx_nodes FOLDER [--device cuda:N|emulator] [--every K] [--json COMMIT]

   With a device each graph is fused, lowered and run there; refused are then those with a node without a kernel.
   Without one each graph is run as it is, then as a concrete graph that is simplified, then with its patterns fused,
   then as one that is converted to f16, which need only run, and then as one whose inputs' contents are known, so that
   all of it folds. FOLDER has a folder for each test, with model.onnx and test_data_set_0/input_0.pb, output_0.pb and
   so on. A line says of each test whether it passes, is refused, and why, or is wrong; --json prints a file of results
   for bench/results. Tolerances are the runner's, 1e-3 of an element and 1e-7. Exit 1: a test is wrong. */
#include "base/diag.h"
#include "graph/check.h"
#include "graph/onnx/onnx.h"
#include "graph/passes/passes.h"
#include "graph/patterns/fuse.h"
#include "graph/run.h"
#include "graph/specialize.h"
#include "onnx_nodes_gpu.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPERANDS = 128, FOLDER = 2048, PATH = FOLDER + 64 };

typedef enum verdict { PASSES, REFUSED, WRONG, VERDICTS } verdict;
static const char *const verdicts[] = {"passes", "refused", "wrong"};

/* The arrays of a test's files. */
typedef struct files {
    tw_arena arena;
    tw_map maps[2 * OPERANDS];
    int n;
} files;

static tw_status read_array(files *f, const char *folder, const char *what, int i, tw_array *out, tw_diag *diag) {
    char path[PATH];
    snprintf(path, sizeof path, "%.*s/test_data_set_0/%s_%d.pb", FOLDER, folder, what, i);
    tw_status st = tw_map_open(&f->maps[f->n], path, diag);
    if (st != TW_OK) return st;
    const tw_map *m = &f->maps[f->n++];
    const char *name;
    return tw_onnx_read_tensor(&f->arena, m->data, m->size, path, &name, out, diag);
}

static tw_status compare(const tw_array *ours, const tw_array *theirs, int output, tw_diag *diag) {
    char a[128], b[128];
    tw_array_describe(ours, a, sizeof a);
    tw_array_describe(theirs, b, sizeof b);
    if (strcmp(a, b) != 0) return tw_fail(diag, TW_ERR_MISMATCH, "output %d is %s, and should be %s", output, a, b);
    const int64_t n = tw_array_elements(ours);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(ours, i), y = tw_array_real(theirs, i);
        if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-7 + 1e-3 * fabs(y)) continue;
        return tw_fail(diag, TW_ERR_MISMATCH, "element %lld of output %d is %.9g, and should be %.9g", (long long)i,
                       output, x, y);
    }
    return TW_OK;
}

/* Runs a graph, and compares its outputs with those of the files. */
static tw_status judge(const tw_graph *g, const tw_array *const *in, const tw_array *want, files *f, tw_diag *diag) {
    tw_array out[OPERANDS];
    tw_status st = tw_graph_run(g, in, &f->arena, out, diag);
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++) st = compare(&out[i], &want[i], i, diag);
    return st;
}

/* Converts a graph to f16. It must run; what it computes may differ by a lot where inputs are rounded. */
static tw_status run_narrow(tw_graph *g, const tw_array *const *in, files *f, tw_diag *diag) {
    tw_array out[OPERANDS];
    tw_status st = tw_graph_convert(g, TW_E_f16, diag);
    if (st == TW_OK) st = tw_graph_check(g, diag);
    if (st == TW_OK) st = tw_graph_run(g, in, &f->arena, out, diag);
    return st == TW_OK ? st : tw_fail(diag, TW_ERR_MISMATCH, "the converted graph does not run");
}

typedef enum way { SIMPLIFIED, FUSED, KNOWN } way;

static tw_status judge_concrete(const tw_graph *g, const tw_array *const *in, const tw_array *want, way w, files *f,
                                tw_diag *diag) {
    const bool known = w == KNOWN;
    bool all[OPERANDS];
    tw_graph *concrete;
    memset(all, known, sizeof all);
    tw_status st = tw_graph_specialize_known(&concrete, g, in, all, diag);
    /* Extents may depend on contents. */
    if (st == TW_ERR_UNSUPPORTED && !known) return TW_OK;
    if (st != TW_OK) return tw_fail(diag, TW_ERR_MISMATCH, "the concrete graph is refused");
    if (w == SIMPLIFIED) st = tw_graph_simplify(concrete, diag);
    if (w == FUSED) st = tw_graph_fuse(concrete, NULL, diag);
    if (st != TW_OK) {
        tw_graph_free(concrete);
        return tw_fail(diag, TW_ERR_MISMATCH, "the concrete graph cannot be rewritten");
    }
    st = concrete->n_nodes && known ? tw_fail(diag, TW_ERR_MISMATCH, "what is known does not fold")
                                    : judge(concrete, in, want, f, diag);
    if (st == TW_OK && !known) st = run_narrow(concrete, in, f, diag);
    tw_graph_free(concrete);
    return st;
}

/* Runs a graph on a GPU. */
static tw_status judge_on(tw_gpu *gpu, const tw_graph *g, const tw_array *const *in, const tw_array *want, files *f,
                          tw_diag *diag) {
    tw_array out[OPERANDS];
    tw_status st = onnx_nodes_run_on(gpu, g, in, &f->arena, out, diag);
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++) st = compare(&out[i], &want[i], i, diag);
    return st;
}

static tw_status run_graph(tw_gpu *gpu, const tw_graph *g, files *f, const char *folder, tw_diag *diag) {
    tw_array in[OPERANDS], want[OPERANDS];
    const tw_array *operands[OPERANDS];
    tw_status st = TW_OK;
    if (g->n_inputs > OPERANDS || g->n_outputs > OPERANDS)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "too many operands");
    for (int i = 0; i < g->n_inputs && st == TW_OK; i++) {
        st = read_array(f, folder, "input", i, &in[i], diag);
        operands[i] = &in[i];
    }
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++) st = read_array(f, folder, "output", i, &want[i], diag);
    if (st == TW_OK && gpu) return judge_on(gpu, g, operands, want, f, diag);
    if (st == TW_OK) st = judge(g, operands, want, f, diag);
    for (way w = SIMPLIFIED; w <= KNOWN && st == TW_OK; w++) st = judge_concrete(g, operands, want, w, f, diag);
    return st;
}

static verdict run_test(tw_gpu *gpu, const char *folder, tw_diag *diag) {
    char path[PATH];
    tw_graph *g = NULL;
    files f = {.n = 0};
    snprintf(path, sizeof path, "%.*s/model.onnx", FOLDER, folder);
    tw_status st = tw_onnx_open(&g, path, diag);
    if (st == TW_OK) st = tw_graph_resolve(g, path, diag);
    if (st == TW_OK) st = run_graph(gpu, g, &f, folder, diag);
    tw_graph_free(g);
    tw_arena_free(&f.arena);
    for (int i = 0; i < f.n; i++) tw_map_close(&f.maps[i]);
    return st == TW_OK ? PASSES : st == TW_ERR_UNSUPPORTED ? REFUSED : WRONG;
}

static json_t *row_of(const char *name, verdict v, const char *why) {
    json_t *row = json_pack("{s:s, s:s}", "case", name, "verdict", verdicts[v]);
    if (v != REFUSED) json_object_set_new(row, "correct", json_boolean(v == PASSES));
    if (*why) json_object_set_new(row, "why", json_stringn(why, strcspn(why, "\n")));
    return row;
}

static void print_row(json_t *row) {
    json_dumpf(row, stdout, JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(row);
}

typedef struct options {
    const char *folder, *device, *commit; /* Device and commit NULL: not given. */
    int every;                            /* Of so many tests the first is run. */
} options;

/* Prints a file of results: its first line has the counts. */
static void print_results(json_t *rows, const options *o, const char *device, const int counts[VERDICTS]) {
    char date[16], command[256];
    const time_t now = time(NULL);
    struct tm t;
    strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &t));
    snprintf(command, sizeof command, "build/bench/onnx_nodes FOLDER%s%.64s --json %.64s",
             o->device ? " --device " : "", o->device ? o->device : "", o->commit);
    print_row(json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "device", device, "date", date, "commit",
                        o->commit, "command", command, "suite", "onnx 1.22.0, backend/test/data/node", "tests",
                        (int)json_array_size(rows), "passes", counts[PASSES], "refused", counts[REFUSED], "wrong",
                        counts[WRONG]));
    for (size_t i = 0; i < json_array_size(rows); i++) print_row(json_incref(json_array_get(rows, i)));
}

static int is_test(const struct dirent *e) {
    return e->d_name[0] != '.';
}

static bool parse(int argc, char **argv, options *o) {
    *o = (options){.every = 1};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--json") && more)
            o->commit = argv[++i];
        else if (!strcmp(argv[i], "--device") && more)
            o->device = argv[++i];
        else if (!strcmp(argv[i], "--every") && more)
            o->every = atoi(argv[++i]);
        else if (!o->folder && argv[i][0] != '-')
            o->folder = argv[i];
        else
            return false;
    }
    return o->folder && o->every > 0;
}

static int run_all(const options *o, tw_gpu *gpu) {
    struct dirent **entries;
    json_t *rows = json_array();
    int counts[VERDICTS] = {0}, run = 0;
    const int n = scandir(o->folder, &entries, is_test, alphasort);
    if (n < 0) fprintf(stderr, "onnx_nodes: needs a folder of node tests\n");
    for (int i = 0; i < n; i++) {
        char folder[FOLDER];
        tw_diag diag = {0};
        snprintf(folder, sizeof folder, "%.*s/%.255s", FOLDER - 300, o->folder, entries[i]->d_name);
        if (i % o->every == 0) {
            const verdict v = run_test(gpu, folder, &diag);
            const char *why = v == PASSES ? "" : diag.message;
            counts[v]++;
            run++;
            if (o->commit)
                json_array_append_new(rows, row_of(entries[i]->d_name, v, why));
            else
                printf("%-8s %s%s%.*s\n", verdicts[v], entries[i]->d_name, *why ? ": " : "", (int)strcspn(why, "\n"),
                       why);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    if (n >= 0 && o->commit) print_results(rows, o, gpu ? tw_gpu_name(gpu) : "cpu", counts);
    if (n >= 0 && !o->commit)
        printf("%d tests: %d pass, %d are refused, %d are wrong\n", run, counts[PASSES], counts[REFUSED],
               counts[WRONG]);
    json_decref(rows);
    return n < 0 ? 2 : counts[WRONG] != 0;
}

int main(int argc, char **argv) {
    options o;
    tw_gpu *gpu = NULL;
    tw_diag diag = {0};
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "onnx_nodes FOLDER [--device cuda:N|emulator] [--every K] [--json COMMIT]\n");
        return 2;
    }
    if (o.device && tw_gpu_open(&gpu, o.device, &diag) != TW_OK) {
        fprintf(stderr, "onnx_nodes: %s\n", diag.message);
        return 2;
    }
    const int status = run_all(&o, gpu);
    tw_gpu_close(gpu);
    return status;
}
