/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/describe.h"

#include "base/diag.h"
#include "base/stats.h"

#include <math.h>

/* The errors of a fit. */
typedef struct judged {
    double *errors; /* [n]: relative residuals of the fit's samples, in ascending order. NULL: out of memory. */
    int n;
} judged;

typedef struct describing {
    tw_arena *arena;
    const tw_family *f;
    const tw_training *t;
    const tw_wave_model *m;
    tw_wave_form form;
} describing;

static int64_t wave_of(const tw_artefact_macro *k, int64_t grid) {
    return (grid - 1) / k->slots + 1;
}

/* Collects the relative residuals of a macro choice's samples from wave `first` to `last`, of those micro choices that
   the model would take. */
static judged judge(describing *w, int macro, int64_t first, int64_t last) {
    judged j = {tw_arena_array(w->arena, (size_t)w->t->n + 1, sizeof(double)), 0};
    for (int i = 0; i < w->t->n && j.errors; i++) {
        const tw_wave_sample *s = &w->t->samples[i];
        if (s->macro != macro) continue;
        const int64_t wave = wave_of(&w->f->macros[macro], s->grid);
        if (wave < first || wave > last || tw_wave_micro(w->m, macro, s->grid, s->loops) != s->micro) continue;
        const double time = tw_wave_time(w->m, macro, s->grid, s->loops);
        if (isfinite(time)) j.errors[j.n++] = fabs(time / s->time - 1);
    }
    if (j.errors) tw_stats_sort(j.errors, (size_t)j.n);
    return j;
}

/* Writes fit i of the model, which holds for waves `first` to `last`. Beyond the last wave of its own, the step form's
   number of waves is written as that of the blocks, G / slots + 1/2 in the mean. */
static tw_artefact_fit describe_fit(describing *w, int macro, int i, int64_t first, int64_t last) {
    const tw_wave_fit_view v = tw_wave_fit_at(w->m, macro, i);
    tw_artefact_anchor *anchors = tw_arena_array(w->arena, (size_t)v.anchors + 1, sizeof *anchors);
    const judged j = judge(w, macro, first, last);
    tw_artefact_fit out = {.anchors = anchors, .n_anchors = v.anchors, .samples = j.n};
    double c[4] = {v.c[0], v.c[1], v.c[2], v.c[3]};
    if (w->form == TW_WAVE_STEP) {
        const double slots = (double)w->f->macros[macro].slots;
        c[2] += c[0] / 2;
        c[3] += c[1] / 2;
        c[0] /= slots;
        c[1] /= slots;
    }
    for (int t = 0; t < 4; t++) out.c[t] = (float)c[t];
    /* Points have whole tiles, and with them whole numbers of rounds. */
    for (int a = 0; a < v.anchors && anchors; a++)
        anchors[a] = (tw_artefact_anchor){(int64_t)(v.rounds[a] + 0.5), v.micros[a]};
    if (j.n) out.error = fmin(j.errors[(j.n - 1) * 9 / 10], TW_ARTEFACT_ERROR);
    return out;
}

/* Lists a fit for each wave. A wave without one takes that of the next. */
static void list_fits(describing *w, int macro, tw_artefact_macro *out) {
    const int n = tw_wave_fits(w->m, macro);
    const int64_t waves = n > 1 ? tw_wave_fit_at(w->m, macro, n - 2).wave : 0;
    const int64_t dense = waves < TW_ARTEFACT_FITS - 1 ? waves : TW_ARTEFACT_FITS - 1;
    tw_artefact_fit *fits = tw_arena_array(w->arena, (size_t)dense + 1, sizeof *fits);
    if (!fits) return;
    int i = 0;
    for (int64_t wave = 1; wave <= dense; wave++) {
        while (tw_wave_fit_at(w->m, macro, i).wave < wave) i++;
        const int64_t of = tw_wave_fit_at(w->m, macro, i).wave;
        fits[wave - 1] = describe_fit(w, macro, i, of, of);
    }
    fits[dense] = describe_fit(w, macro, n - 1, dense + 1, INT64_MAX);
    out->fits = fits;
    out->n_fits = (int)dense + 1;
}

tw_status tw_describe_waves(tw_artefact *a, tw_arena *arena, const tw_family *f, const tw_training *t,
                            const tw_wave_model *m, tw_wave_form form, tw_diag *diag) {
    describing w = {arena, f, t, m, form};
    tw_artefact_macro *macros = tw_arena_array(arena, (size_t)f->n_macros + 1, sizeof *macros);
    for (int i = 0; i < f->n_macros && macros; i++) {
        macros[i] = f->macros[i];
        list_fits(&w, i, &macros[i]);
    }
    a->macros = macros;
    a->n_macros = f->n_macros;
    a->macro = f->macro;
    a->micro = f->micro;
    return arena->failed ? tw_fail_memory(diag) : TW_OK;
}
