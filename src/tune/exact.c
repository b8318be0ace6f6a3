/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/exact.h"

#include "base/diag.h"

#include <string.h>

/* An artefact whose macro choices may grow. */
typedef struct adding {
    tw_artefact *a;
    tw_arena *arena;
    const tw_family *f;
    tw_artefact_macro *macros;
} adding;

/* Finds the artefact's choice of the family's configuration. Adds a macro choice if there is none. */
static bool find(adding *x, const tw_trial *t, int *macro, int *micro) {
    static const char *const alone[] = {""};
    const tw_family those = {.macros = x->macros, .n_macros = x->a->n_macros};
    char config[TW_FAMILY_WORDS];
    tw_family_config(x->f, t->macro, t->micro, config, sizeof config);
    if (tw_family_find(&those, config, macro, micro)) return true;
    tw_artefact_macro m = x->f->macros[t->macro];
    m.config = tw_arena_strdup(x->arena, config);
    m.micros = alone;
    m.n_micros = 1;
    *macro = x->a->n_macros;
    *micro = 0;
    x->macros[x->a->n_macros++] = m;
    return m.config != NULL;
}

/* Lists the problem whose trials are first to end - 1. */
static bool list(adding *x, const tw_trial *first, const tw_trial *end, tw_artefact_exact *out) {
    const tw_trial *best = first, *second = NULL;
    for (const tw_trial *t = first; t != end; t++)
        if (t->time < best->time) best = t;
    /* Several campaigns may have measured the fastest configuration. */
    for (const tw_trial *t = first; t != end; t++)
        if ((t->macro != best->macro || t->micro != best->micro) && (!second || t->time < second->time)) second = t;
    *out = (tw_artefact_exact){.second_macro = -1, .second_micro = -1, .time = best->time};
    memcpy(out->problem, best->problem, sizeof out->problem);
    if (!find(x, best, &out->macro, &out->micro)) return false;
    if (!second) return true;
    out->second_time = second->time;
    return find(x, second, &out->second_macro, &out->second_micro);
}

tw_status tw_exact_add(tw_artefact *a, tw_arena *arena, const tw_family *f, const tw_trial_list *exact, tw_diag *diag) {
    if (!exact->n) return TW_OK;
    const size_t room = (size_t)a->n_macros + (size_t)f->n_macros + (size_t)exact->n;
    adding x = {a, arena, f, tw_arena_array(arena, room, sizeof *x.macros)};
    tw_artefact_exact *problems = tw_arena_array(arena, (size_t)exact->n, sizeof *problems);
    double least;
    if (!x.macros || !problems) return tw_fail_memory(diag);
    if (!a->n_macros) {
        a->macros = f->macros;
        a->n_macros = f->n_macros;
        a->macro = f->macro;
        a->micro = f->micro;
    }
    memcpy(x.macros, a->macros, (size_t)a->n_macros * sizeof *x.macros);
    a->macros = x.macros;
    a->n_exact = 0;
    for (int i = 0, end; i < exact->n; i = end) {
        end = tw_trials_end(exact, i, tw_trials_by_problem, &least);
        if (!list(&x, &exact->at[i], &exact->at[end], &problems[a->n_exact++])) return tw_fail_memory(diag);
    }
    a->exact = problems;
    return TW_OK;
}
