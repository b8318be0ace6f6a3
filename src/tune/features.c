/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/features.h"

#include "base/arena.h"
#include "base/diag.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 64 /* The most columns of parameters. */ };

struct owner {
    tw_features features;
    tw_arena arena;
};

/* A column of parameters: the values of numbers "name=", or whether the word `name` is given. */
typedef struct column {
    const char *name;
    size_t length;
    bool number;
} column;

typedef struct listing {
    column columns[WORDS];
    int n;
    bool full; /* True: there were more columns than fit. */
} listing;

/* ---- parameters */

/* Splits a word such as "ml=64". Returns the length of the column's name: up to the sign if the value is a number, else
   that of the whole word. */
static size_t split(const char *word, size_t length, double *value) {
    const char *sign = memchr(word, '=', length);
    char *end;
    *value = sign ? strtod(sign + 1, &end) : 1;
    if (sign && end == word + length && end > sign + 1) return (size_t)(sign - word) + 1;
    *value = 1;
    return length;
}

static int find_column(const listing *l, const char *name, size_t length) {
    for (int i = 0; i < l->n; i++)
        if (l->columns[i].length == length && !memcmp(l->columns[i].name, name, length)) return i;
    return -1;
}

/* Visits the words of a text. `row` NULL: columns are added. Otherwise values are written to it. */
static void visit(listing *l, const char *text, double *row) {
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " ")) {
        const size_t length = strcspn(at, " ");
        double value;
        const size_t name = split(at, length, &value);
        const int i = find_column(l, at, name);
        if (i < 0 && !row) {
            if (l->n == WORDS)
                l->full = true;
            else
                l->columns[l->n++] = (column){at, name, at[name - 1] == '='};
        }
        if (i >= 0 && row) row[i] = value;
        at += length;
    }
}

/* Returns a size as a feature. Sizes below 1 are steps below the size 1. */
static float size_of(const tw_features *x, double size) {
    return (float)(!x->logarithms ? size : size >= 1 ? log2(size) : size - 1);
}

/* Writes the parameter columns of all configurations, except those that are the same in all of them. */
static bool describe(tw_features *x, tw_arena *arena, listing *l) {
    const tw_family *f = x->family;
    const size_t configs = (size_t)x->configs;
    double *all = calloc(configs * WORDS + 1, sizeof *all);
    float *of = tw_arena_array(arena, configs * WORDS + 1, sizeof *of);
    bool differs[WORDS] = {false};
    if (!all || !of) {
        free(all);
        return false;
    }
    for (int i = 0, at = 0; i < f->n_macros; i++)
        for (int j = 0; j < f->macros[i].n_micros; j++, at++) {
            double *row = all + (size_t)at * WORDS;
            visit(l, f->macros[i].config, row);
            visit(l, f->macros[i].micros[j], row);
            for (int k = 0; k < l->n; k++) differs[k] |= row[k] != all[k];
        }
    for (int k = 0; k < l->n; k++) x->params += differs[k];
    for (size_t at = 0; at < configs; at++)
        for (int k = 0, to = 0; k < l->n; k++) {
            const double value = all[at * WORDS + (size_t)k];
            if (!differs[k]) continue;
            of[at * (size_t)x->params + (size_t)to++] = l->columns[k].number ? size_of(x, value) : (float)value;
        }
    x->of = of;
    free(all);
    return true;
}

/* ---- rows */

/* Writes the columns of a problem, G and L. Returns their number. */
static int describe_problem(const tw_features *x, int macro, const int64_t *problem, tw_wave_division d, float *row) {
    const tw_family *f = x->family;
    const tw_artefact_macro *m = &f->macros[macro];
    const double slots = (double)m->slots, waves = ceil((double)d.grid / slots);
    double point[TW_SELECT_AXES];
    int n = 0;
    tw_family_point(f, problem, point);
    for (int a = 0; a < f->n_axes; a++) row[n++] = size_of(x, point[a]);
    row[n++] = size_of(x, tw_family_work(f, problem));
    row[n++] = size_of(x, (double)d.grid);
    row[n++] = size_of(x, d.loops);
    row[n++] = size_of(x, waves);
    row[n++] = (float)((double)d.grid / (slots * waves));
    row[n++] = size_of(x, waves * d.loops);
    for (int a = 0; a < f->n_axes; a++) {
        const double parts = (double)tw_family_tiles(f, macro, a, problem);
        row[n++] = size_of(x, parts);
        row[n++] = (float)(m->grid[a] ? (double)problem[a] / (parts * (double)m->grid[a]) : 1);
    }
    return n;
}

bool tw_features_row(const tw_features *x, const int64_t *problem, int macro, int micro, float *row) {
    const tw_wave_division d = tw_family_divide(x->family, macro, problem);
    if (!d.grid) return false;
    const size_t params = (size_t)x->params;
    memcpy(row, x->of + (size_t)(x->first[macro] + micro) * params, params * sizeof *row);
    describe_problem(x, macro, problem, d, row + params);
    return true;
}

tw_status tw_features_make(tw_features **out, const tw_family *f, bool logarithms, tw_diag *diag) {
    struct owner *o = calloc(1, sizeof *o);
    listing *l = calloc(1, sizeof *l);
    tw_status st = o && l ? TW_OK : tw_fail_memory(diag);
    *out = NULL;
    int *first = st == TW_OK ? tw_arena_array(&o->arena, (size_t)f->n_macros + 1, sizeof *first) : NULL;
    if (st == TW_OK && !first) st = tw_fail_memory(diag);
    for (int i = 0; i < f->n_macros && st == TW_OK; i++) {
        first[i] = o->features.configs;
        o->features.configs += f->macros[i].n_micros;
        visit(l, f->macros[i].config, NULL);
        for (int j = 0; j < f->macros[i].n_micros; j++) visit(l, f->macros[i].micros[j], NULL);
    }
    if (st == TW_OK && l->full) st = tw_fail(diag, TW_ERR_USAGE, "%s has more than %d parameters", f->name, WORDS);
    if (st == TW_OK) {
        o->features.family = f;
        o->features.logarithms = logarithms;
        o->features.first = first;
        if (!describe(&o->features, &o->arena, l)) st = tw_fail_memory(diag);
        o->features.columns = o->features.params + 6 + 3 * f->n_axes;
    }
    free(l);
    if (st == TW_OK) *out = &o->features;
    if (st != TW_OK && o) tw_features_free(&o->features);
    return st;
}

void tw_features_free(tw_features *x) {
    if (!x) return;
    struct owner *o = (struct owner *)(void *)x;
    tw_arena_free(&o->arena);
    free(o);
}

/* ---- tables */

/* Tells whether a problem is held: by a hash of it and the seed, so that lists and their order do not matter. */
static bool is_held(const int64_t *problem, double share, uint64_t seed) {
    uint64_t mixed = seed;
    for (int a = 0; a < TW_SELECT_AXES; a++) mixed = mixed * 0x9e3779b97f4a7c15u + (uint64_t)problem[a];
    tw_random r = tw_random_seed(mixed);
    return tw_random_unit(&r) < share;
}

tw_status tw_table_make(tw_table *out, const tw_features *x, const tw_trial_list *const *lists, int n_lists,
                        double held, uint64_t seed, tw_diag *diag) {
    size_t room = 1;
    for (int i = 0; i < n_lists; i++) room += (size_t)lists[i]->n;
    *out = (tw_table){.columns = x->columns};
    out->x = malloc(room * (size_t)x->columns * sizeof *out->x);
    out->y = malloc(room * sizeof *out->y);
    out->held = malloc(room * sizeof *out->held);
    if (!out->x || !out->y || !out->held) {
        tw_table_free(out);
        return tw_fail_memory(diag);
    }
    for (int i = 0; i < n_lists; i++)
        for (int k = 0; k < lists[i]->n; k++) {
            const tw_trial *t = &lists[i]->at[k];
            if (!tw_features_row(x, t->problem, t->macro, t->micro, out->x + (size_t)out->n * (size_t)x->columns))
                continue;
            out->y[out->n] = (float)log(t->time / tw_family_work(x->family, t->problem));
            out->held[out->n++] = is_held(t->problem, held, seed);
        }
    return TW_OK;
}

void tw_table_free(tw_table *t) {
    free(t->x);
    free(t->y);
    free(t->held);
    *t = (tw_table){0};
}
