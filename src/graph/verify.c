/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface: opening, describing and comparing graphs. */
#include "base/buf.h"
#include "base/diag.h"
#include "graph/inputs.h"
#include "graph/onnx/onnx.h"
#include "graph/run.h"
#include "graph/shapes/infer.h"
#include "graph/text.h"
#include "tilewright/graph.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tw_status tw_graph_open(tw_graph **out, const char *path, tw_diag *diag) {
    tw_status st = tw_onnx_open(out, path, diag);
    if (st == TW_OK) st = tw_graph_resolve(*out, path, diag);
    if (st == TW_OK) st = tw_graph_infer(*out, diag);
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

/* ---- comparing */

/* Returns what elements of an output may differ by, of their magnitude. */
static double allowed_of(tw_element t) {
    return t == TW_E_f16 || t == TW_E_bf16 ? 1e-2 : 1e-4;
}

/* Returns the root of the mean square of an array's finite elements, of which the largest is 1 while squares are added,
   so that none is too large. */
static double magnitude_of(const tw_array *a, int64_t n) {
    double most = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = fabs(tw_array_real(a, i));
        if (isfinite(x)) most = fmax(most, x);
    }
    for (int64_t i = 0; i < n && most > 0; i++) {
        const double x = tw_array_real(a, i) / most;
        if (isfinite(x)) sum += x * x;
    }
    return n ? most * sqrt(sum / (double)n) : 0;
}

static tw_status compare(const char *name, const tw_array *ours, const tw_array *theirs, tw_graph_verdict *v,
                         tw_diag *diag) {
    char a[128], b[128];
    tw_array_describe(ours, a, sizeof a);
    tw_array_describe(theirs, b, sizeof b);
    if (strcmp(a, b) != 0)
        return tw_fail(diag, TW_ERR_MISMATCH, "output \"%s\" is %s here and %s in the file", name, a, b);
    const int64_t n = tw_array_elements(ours);
    const bool real = tw_element_kind(ours->type) == TW_KIND_real;
    const double scale = real ? magnitude_of(theirs, n) : 0, share = allowed_of(ours->type);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(ours, i), y = tw_array_real(theirs, i);
        if (real ? x == y || (isnan(x) && isnan(y)) : tw_array_integer(ours, i) == tw_array_integer(theirs, i))
            continue;
        const double by = fabs(x - y) / (share * fmax(fabs(y), scale));
        if (!real || !(by <= 1))
            return tw_fail(diag, TW_ERR_MISMATCH,
                           "output \"%s\": element %" PRId64 " is %.9g here and %.9g in the file", name, i, x, y);
        if (by > v->worst) v->worst = by;
    }
    v->outputs++;
    v->elements += n;
    return TW_OK;
}

/* Finds the golden contents of an output, by its name or by its number. */
static const tw_array *wanted(const tw_npz_entry *entries, int n, const char *name, int number) {
    char key[512];
    snprintf(key, sizeof key, "out_%s", name);
    const tw_array *a = tw_npz_find(entries, n, key);
    if (a) return a;
    snprintf(key, sizeof key, "out_%d", number);
    return tw_npz_find(entries, n, key);
}

static bool is_of_output(const tw_graph *g, const tw_npz_entry *entries, int n, const tw_array *a) {
    for (int i = 0; i < g->n_outputs; i++)
        if (wanted(entries, n, g->values[g->outputs[i]].name, i) == a) return true;
    return false;
}

static tw_status compare_all(const tw_graph *g, const tw_npz_entry *entries, int n, const char *path, tw_arena *arena,
                             tw_graph_verdict *v, tw_diag *diag) {
    const tw_array **in = tw_arena_array(arena, (size_t)g->n_inputs + 1, sizeof *in);
    tw_array *out = tw_arena_array(arena, (size_t)g->n_outputs + 1, sizeof *out);
    if (!in || !out) return tw_fail_memory(diag);
    tw_graph_pick(g, entries, n, in);
    for (int i = 0; i < g->n_inputs; i++)
        if (!in[i])
            return tw_fail_at(diag, TW_ERR_USAGE, path, -1, "there is no array in_%s", g->values[g->inputs[i]].name);
    tw_status st = tw_graph_run(g, in, arena, out, diag);
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++) {
        const char *name = g->values[g->outputs[i]].name;
        const tw_array *theirs = wanted(entries, n, name, i);
        if (theirs) st = compare(name, &out[i], theirs, v, diag);
    }
    if (st != TW_OK) return st;
    if (!v->outputs) return tw_fail_at(diag, TW_ERR_USAGE, path, -1, "there is no array of an output, like out_0");
    /* An array that was compared with nothing must not look as if it agreed. */
    for (int i = 0; i < n; i++)
        if (!strncmp(entries[i].name, "out_", 4) && !is_of_output(g, entries, n, &entries[i].array))
            return tw_fail_at(diag, TW_ERR_USAGE, path, -1, "%s is no output of the model", entries[i].name);
    return TW_OK;
}

tw_status tw_graph_verify(const tw_graph *g, const char *golden, tw_graph_verdict *verdict, tw_diag *diag) {
    tw_arena arena = {0};
    tw_npz_entry *entries;
    int n = 0;
    *verdict = (tw_graph_verdict){0};
    tw_status st = tw_npz_open(&arena, golden, &entries, &n, diag);
    if (st == TW_OK) st = compare_all(g, entries, n, golden, &arena, verdict, diag);
    tw_arena_free(&arena);
    return st;
}
