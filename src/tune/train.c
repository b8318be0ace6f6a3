/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/train.h"

#include "base/arena.h"
#include "base/diag.h"
#include "base/stats.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tw_train_form(tw_wave_form form) {
    static const char *const names[] = {"wave", "linear", "step"};
    return names[form];
}

/* ---- measurements */

tw_status tw_training_read(tw_training *out, const tw_family *f, tw_store *s, const char *name, tw_diag *diag) {
    *out = (tw_training){.n = 0};
    const tw_status st = tw_trials_read(&out->trials, f, s, name, diag);
    if (st != TW_OK) return st;
    const tw_trial_list *points = &out->trials.points;
    out->samples = malloc(((size_t)points->n + 1) * sizeof *out->samples);
    if (!out->samples) {
        tw_training_free(out);
        return tw_fail_memory(diag);
    }
    for (int i = 0; i < points->n; i++) {
        const tw_trial *x = &points->at[i];
        const tw_wave_division d = tw_family_divide(f, x->macro, x->problem);
        out->samples[out->n++] = (tw_wave_sample){x->macro, x->micro, d.grid, d.loops, x->time};
    }
    return TW_OK;
}

void tw_training_free(tw_training *t) {
    tw_trials_free(&t->trials);
    free(t->samples);
    *t = (tw_training){.n = 0};
}

/* ---- the model */

tw_status tw_train_fit(tw_wave_model **out, const tw_family *f, const tw_training *t, tw_wave_form form,
                       tw_diag *diag) {
    const tw_wave_options o = {.form = form, .alone = TW_TRAIN_WAVES};
    int64_t *slots = malloc(((size_t)f->n_macros + 1) * sizeof *slots);
    *out = NULL;
    if (!slots) return tw_fail_memory(diag);
    for (int i = 0; i < f->n_macros; i++) slots[i] = f->macros[i].slots;
    const tw_status st = tw_wave_fit(out, t->samples, t->n, slots, f->n_macros, &o, diag);
    free(slots);
    return st;
}

/* Finds the choice of least predicted time. False: there is no prediction. */
static bool choose(const tw_family *f, const tw_wave_model *m, const int64_t *problem, tw_wave_choice *best) {
    *best = (tw_wave_choice){-1, -1, (double)INFINITY};
    for (int i = 0; i < f->n_macros; i++) {
        const tw_wave_division d = tw_family_divide(f, i, problem);
        const double time = d.grid ? tw_wave_time(m, i, d.grid, d.loops) : (double)INFINITY;
        if (time < best->time) *best = (tw_wave_choice){i, tw_wave_micro(m, i, d.grid, d.loops), time};
    }
    return best->micro >= 0;
}

bool tw_train_choose(const tw_family *f, const tw_wave_model *m, const int64_t *problem, char *out, size_t size) {
    tw_wave_choice c;
    if (!choose(f, m, problem, &c)) return false;
    tw_family_config(f, c.macro, c.micro, out, size);
    return true;
}

/* Computes the share of a model by its choices on the screened problems. Where the chosen micro choice was not
   screened, another one of the macro choice counts in its place. */
static void judge_choices(const tw_family *f, const tw_training *t, const tw_wave_model *m, tw_trained *out) {
    const tw_trial_list *screens = &t->trials.screens;
    double sum = 0;
    out->problems = 0;
    for (int i = 0, end; i < screens->n; i = end) {
        double least, time = 0;
        tw_wave_choice c;
        const bool chosen = choose(f, m, screens->at[i].problem, &c);
        end = tw_trials_end(screens, i, tw_trials_by_problem, &least);
        for (int j = i; j < end; j++) {
            const tw_trial *x = &screens->at[j];
            if (chosen && x->macro == c.macro && (x->micro == c.micro || !time)) time = x->time;
        }
        if (!time) continue;
        sum += log(least / time);
        out->problems++;
    }
    out->share = out->problems ? exp(sum / out->problems) : 0;
}

/* ---- the artefact */

/* The residuals of a fit. */
typedef struct judged {
    double *errors; /* Magnitudes of the samples' relative residuals, ascending. */
    int n;
} judged;

typedef struct writing {
    tw_arena arena;
    const tw_family *f;
    const tw_training *t;
    const tw_wave_model *m;
    tw_wave_form form;
} writing;

static int64_t wave_of(const tw_artefact_macro *k, int64_t grid) {
    return (grid - 1) / k->slots + 1;
}

/* Computes the residuals of a macro choice's samples in waves `first` to `last` whose micro choice the model would
   take. */
static judged judge(writing *w, int macro, int64_t first, int64_t last) {
    judged j = {tw_arena_array(&w->arena, (size_t)w->t->n + 1, sizeof(double)), 0};
    for (int i = 0; i < w->t->n && j.errors; i++) {
        const tw_wave_sample *s = &w->t->samples[i];
        if (s->macro != macro) continue;
        const int64_t wave = wave_of(&w->f->macros[macro], s->grid);
        if (wave < first || wave > last || tw_wave_micro(w->m, macro, s->grid, s->loops) != s->micro) continue;
        const double time = tw_wave_time(w->m, macro, s->grid, s->loops);
        if (isfinite(time)) j.errors[j.n++] = fabs(time / s->time - 1);
    }
    if (j.errors) tw_stats_of(j.errors, (size_t)j.n);
    return j;
}

/* Converts fit i of the model, which serves waves `first` to `last`, to an artefact's. Artefacts have no term for the
   number of waves: in the step form its mean, G / slots + 1/2, replaces it. */
static tw_artefact_fit describe_fit(writing *w, int macro, int i, int64_t first, int64_t last) {
    const tw_wave_fit_view v = tw_wave_fit_at(w->m, macro, i);
    tw_artefact_anchor *anchors = tw_arena_array(&w->arena, (size_t)v.anchors + 1, sizeof *anchors);
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
    /* Points have whole tiles, so rounds are whole numbers. */
    for (int a = 0; a < v.anchors && anchors; a++)
        anchors[a] = (tw_artefact_anchor){(int64_t)(v.rounds[a] + 0.5), v.micros[a]};
    if (j.n) out.error = fmin(j.errors[(j.n - 1) * 9 / 10], 15);
    return out;
}

/* Lists a fit for each wave. A wave without a fit takes that of the next wave. */
static void list_fits(writing *w, int macro, tw_artefact_macro *out) {
    const int n = tw_wave_fits(w->m, macro);
    const int64_t waves = n > 1 ? tw_wave_fit_at(w->m, macro, n - 2).wave : 0;
    const int64_t dense = waves < TW_ARTEFACT_FITS - 1 ? waves : TW_ARTEFACT_FITS - 1;
    tw_artefact_fit *fits = tw_arena_array(&w->arena, (size_t)dense + 1, sizeof *fits);
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

static tw_status write_artefact(writing *w, const char *about, const char *path, tw_diag *diag) {
    const tw_family *f = w->f;
    tw_artefact_macro *macros = tw_arena_array(&w->arena, (size_t)f->n_macros, sizeof *macros);
    tw_artefact a = {.kernel = f->name,
                     .unit = f->unit,
                     .device = f->device,
                     .alike = f->alike,
                     .architecture = f->architecture,
                     .about = about,
                     .n_axes = f->n_axes,
                     .macros = macros,
                     .n_macros = f->n_macros,
                     .macro = f->macro,
                     .micro = f->micro};
    for (int i = 0; i < f->n_axes; i++) {
        a.axes[i] = f->axes[i];
        a.shrinks[i] = f->shrinks[i];
    }
    for (int i = 0; i < f->n_macros && macros; i++) {
        macros[i] = f->macros[i];
        list_fits(w, i, &macros[i]);
    }
    return w->arena.failed ? tw_fail_memory(diag) : tw_artefact_write(&a, path, diag);
}

/* Describes an artefact's origin as JSON: environment, form, samples, quality. The caller frees it. NULL: out of
   memory. */
static char *describe_training(const tw_family *f, const tw_training *t, const tw_trained *r) {
    json_t *environment = json_loads(f->environment, 0, NULL);
    json_t *o = json_pack("{s:o?, s:s, s:i, s:i, s:f, s:f, s:i, s:f}", "environment", environment, "form", r->form,
                          "samples", t->n, "screened_problems", r->problems, "r2", r->quality.r2, "mean_error",
                          r->quality.mean, "macro_choices", f->n_macros, "share_of_screened_best", r->share);
    char *text = o ? json_dumps(o, JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    return text;
}

/* Fits all forms, and keeps the one that chooses best. */
static tw_status fit_best(const tw_family *f, const tw_training *t, tw_wave_model **best, tw_wave_form *form,
                          tw_trained *out, tw_diag *diag) {
    *best = NULL;
    for (int i = 0; i < 3; i++) {
        tw_wave_model *m;
        tw_trained r = {.form = tw_train_form((tw_wave_form)i), .wrong = t->trials.wrong, .unknown = t->trials.unknown};
        const tw_status st = tw_train_fit(&m, f, t, (tw_wave_form)i, diag);
        if (st != TW_OK) return st;
        r.quality = tw_wave_judge(m, t->samples, t->n);
        judge_choices(f, t, m, &r);
        if (*best && !(r.share > out->share)) {
            tw_wave_free(m);
            continue;
        }
        tw_wave_free(*best);
        *best = m;
        *form = (tw_wave_form)i;
        *out = r;
    }
    return TW_OK;
}

tw_status tw_train(const tw_family *f, tw_store *s, const char *name, const char *path, tw_trained *out,
                   tw_diag *diag) {
    tw_training t;
    tw_wave_model *m = NULL;
    tw_status st = tw_training_read(&t, f, s, name, diag);
    if (st != TW_OK) return st;
    writing w = {.f = f, .t = &t};
    if (!t.n) st = tw_fail(diag, TW_ERR_USAGE, "the store has no points of %s on this device", f->name);
    if (st == TW_OK) st = fit_best(f, &t, &m, &w.form, out, diag);
    w.m = m;
    char *about = st == TW_OK ? describe_training(f, &t, out) : NULL;
    if (st == TW_OK) st = about ? write_artefact(&w, about, path, diag) : tw_fail_memory(diag);
    free(about);
    tw_arena_free(&w.arena);
    tw_wave_free(m);
    tw_training_free(&t);
    return st;
}
