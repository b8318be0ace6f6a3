/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/golden.h"

#include "base/diag.h"
#include "graph/inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

tw_status tw_golden_open(tw_golden *f, const char *path, tw_diag *diag) {
    *f = (tw_golden){.path = path};
    return tw_npz_open(&f->arena, path, &f->entries, &f->n, diag);
}

void tw_golden_close(tw_golden *f) {
    tw_arena_free(&f->arena);
}

tw_status tw_golden_inputs(const tw_golden *f, const tw_graph *g, const tw_array **in, tw_diag *diag) {
    tw_graph_pick(g, f->entries, f->n, in);
    for (int i = 0; i < g->n_inputs; i++)
        if (!in[i])
            return tw_fail_at(diag, TW_ERR_USAGE, f->path, -1, "there is no array in_%s", g->values[g->inputs[i]].name);
    return TW_OK;
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

tw_status tw_array_compare(const char *name, const tw_array *ours, const tw_array *theirs, double share,
                           tw_difference *d, tw_diag *diag) {
    char a[128], b[128];
    tw_array_describe(ours, a, sizeof a);
    tw_array_describe(theirs, b, sizeof b);
    if (strcmp(a, b) != 0)
        return tw_fail(diag, TW_ERR_MISMATCH, "output \"%s\" is %s here and %s in the file", name, a, b);
    const int64_t n = tw_array_elements(ours);
    const bool real = tw_element_kind(ours->type) == TW_KIND_real;
    const double scale = real ? magnitude_of(theirs, n) : 0;
    double sum = 0;
    if (!share) share = allowed_of(ours->type);
    for (int64_t i = 0; i < n; i++) {
        const double x = tw_array_real(ours, i), y = tw_array_real(theirs, i);
        if (real ? x == y || (isnan(x) && isnan(y)) : tw_array_integer(ours, i) == tw_array_integer(theirs, i))
            continue;
        double by = real ? fabs(x - y) / (share * fmax(fabs(y), scale)) : INFINITY;
        if (isnan(by)) by = INFINITY;
        if (!(by <= 1) && !*d->first)
            snprintf(d->first, sizeof d->first,
                     "output \"%.200s\": element %" PRId64 " is %.9g here and %.9g in the file", name, i, x, y);
        d->allowed = fmax(d->allowed, by);
        d->worst = fmax(d->worst, isinf(by) || !(scale > 0) ? INFINITY : fabs(x - y) / scale);
        sum += isinf(by) || !(scale > 0) ? INFINITY : (x - y) / scale * ((x - y) / scale);
    }
    d->rms = fmax(d->rms, n ? sqrt(sum / (double)n) : 0);
    d->outputs++;
    d->elements += n;
    return TW_OK;
}

/* Finds the golden contents of an output, by its name or by its number. */
static const tw_array *wanted(const tw_npz_entry *entries, int n, const char *name, int number) {
    char key[32];
    for (int i = 0; i < n; i++)
        if (!strncmp(entries[i].name, "out_", 4) && !strcmp(entries[i].name + 4, name)) return &entries[i].array;
    snprintf(key, sizeof key, "out_%d", number);
    return tw_npz_find(entries, n, key);
}

static bool is_of_output(const tw_graph *g, const tw_npz_entry *entries, int n, const tw_array *a) {
    for (int i = 0; i < g->n_outputs; i++)
        if (wanted(entries, n, g->values[g->outputs[i]].name, i) == a) return true;
    return false;
}

tw_status tw_golden_compare(const tw_golden *f, const tw_graph *g, const tw_array *out, double share, tw_difference *d,
                            tw_diag *diag) {
    *d = (tw_difference){0};
    tw_status st = TW_OK;
    for (int i = 0; i < g->n_outputs && st == TW_OK; i++) {
        const char *name = g->values[g->outputs[i]].name;
        const tw_array *theirs = wanted(f->entries, f->n, name, i);
        if (theirs) st = tw_array_compare(name, &out[i], theirs, share, d, diag);
    }
    if (st != TW_OK && diag && !*diag->path) snprintf(diag->path, sizeof diag->path, "%s", f->path);
    if (st != TW_OK) return st;
    if (!d->outputs) return tw_fail_at(diag, TW_ERR_USAGE, f->path, -1, "there is no array of an output, like out_0");
    /* An array that was compared with nothing must not look as if it agreed. */
    for (int i = 0; i < f->n; i++)
        if (!strncmp(f->entries[i].name, "out_", 4) && !is_of_output(g, f->entries, f->n, &f->entries[i].array))
            return tw_fail_at(diag, TW_ERR_USAGE, f->path, -1, "%s is no output of the model", f->entries[i].name);
    return TW_OK;
}
