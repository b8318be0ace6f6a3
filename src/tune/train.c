/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/train.h"

#include "base/arena.h"
#include "base/diag.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- samples */

typedef struct reading {
    const tw_family *f;
    const char *name;
    tw_training *t;
    int room;
    double *sorted;
    int sorted_room;
} reading;

/* Tells whether a key is of a point of the campaign `name`. */
static bool is_point(const char *key, const char *name) {
    static const char points[] = "|points|";
    const char *bar = key ? strchr(key, '|') : NULL;
    if (!bar || strncmp(bar, points, sizeof points - 1) != 0) return false;
    return !name || (strlen(name) == (size_t)(bar - key) && !strncmp(key, name, strlen(name)));
}

static tw_status median_of(reading *r, const tw_measurement *m, double *out, tw_diag *diag) {
    if (m->n > r->sorted_room) {
        double *wider = realloc(r->sorted, (size_t)m->n * sizeof *wider);
        if (!wider) return tw_fail_memory(diag);
        r->sorted = wider;
        r->sorted_room = m->n;
    }
    memcpy(r->sorted, m->samples, (size_t)m->n * sizeof *r->sorted);
    *out = tw_stats_of(r->sorted, (size_t)m->n).median;
    return TW_OK;
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    reading *r = context;
    tw_training *t = r->t;
    int64_t problem[TW_SELECT_AXES];
    tw_wave_sample s = {0};
    if (!is_point(m->key, r->name)) return TW_OK;
    if (m->status != TW_OK || m->n < 1) {
        t->wrong++;
        return TW_OK;
    }
    const bool known = !strcmp(m->unit, r->f->unit) && tw_family_find(r->f, m->config, &s.macro, &s.micro) &&
                       tw_family_parse(r->f, problem, m->problem, NULL) == TW_OK;
    const tw_wave_division d = known ? tw_family_divide(r->f, s.macro, problem) : (tw_wave_division){0};
    tw_status st = median_of(r, m, &s.time, diag);
    if (st != TW_OK) return st;
    if (!d.grid || !(s.time > 0)) {
        t->unknown++;
        return TW_OK;
    }
    if (t->n == r->room) {
        const int room = r->room ? 2 * r->room : 1024;
        tw_wave_sample *wider = realloc(t->samples, (size_t)room * sizeof *wider);
        if (!wider) return tw_fail_memory(diag);
        t->samples = wider;
        r->room = room;
    }
    s.grid = d.grid;
    s.loops = d.loops;
    t->samples[t->n++] = s;
    return TW_OK;
}

tw_status tw_training_read(tw_training *out, const tw_family *f, tw_store *s, const char *name, tw_diag *diag) {
    *out = (tw_training){0};
    reading r = {.f = f, .name = name, .t = out};
    const tw_store_filter filter = {.environment = f->environment, .space = f->name};
    const tw_status st = tw_store_read(s, &filter, take, &r, NULL, diag);
    free(r.sorted);
    if (st != TW_OK) tw_training_free(out);
    return st;
}

void tw_training_free(tw_training *t) {
    free(t->samples);
    *t = (tw_training){0};
}

tw_status tw_train_fit(tw_wave_model **out, const tw_family *f, const tw_training *t, const tw_wave_options *o,
                       tw_diag *diag) {
    int64_t *slots = malloc(((size_t)f->n_macros + 1) * sizeof *slots);
    *out = NULL;
    if (!slots) return tw_fail_memory(diag);
    for (int i = 0; i < f->n_macros; i++) slots[i] = f->macros[i].slots;
    const tw_status st = tw_wave_fit(out, t->samples, t->n, slots, f->n_macros, o, diag);
    free(slots);
    return st;
}

/* ---- the artefact */

/* A fit, and what is needed to say how far it is off. */
typedef struct judged {
    double *errors; /* Relative residuals of its samples, in ascending order. */
    int n;
} judged;

typedef struct writing {
    tw_arena arena;
    const tw_family *f;
    const tw_training *t;
    const tw_wave_model *m;
} writing;

static int64_t wave_of(const tw_artefact_macro *k, int64_t grid) {
    return (grid - 1) / k->slots + 1;
}

/* Collects the relative residuals of a macro choice's samples from wave `first` to `last`, of those micro choices that
   the model would take. */
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

/* Writes fit i of the model, which holds for waves `first` to `last`. */
static tw_artefact_fit describe_fit(writing *w, int macro, int i, int64_t first, int64_t last) {
    const tw_wave_fit_view v = tw_wave_fit_at(w->m, macro, i);
    tw_artefact_anchor *anchors = tw_arena_array(&w->arena, (size_t)v.anchors + 1, sizeof *anchors);
    const judged j = judge(w, macro, first, last);
    tw_artefact_fit out = {.anchors = anchors, .n_anchors = v.anchors, .samples = j.n};
    for (int t = 0; t < 4; t++) out.c[t] = (float)v.c[t];
    for (int a = 0; a < v.anchors && anchors; a++) anchors[a] = (tw_artefact_anchor){v.rounds[a], v.micros[a]};
    if (j.n) out.error = fmin(j.errors[(j.n - 1) * 9 / 10], 31);
    return out;
}

/* Lists a fit for each wave. A wave without one takes that of the next. */
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

tw_status tw_train_write(const tw_family *f, const tw_training *t, const tw_wave_model *m, const char *about,
                         const char *path, tw_diag *diag) {
    writing w = {.f = f, .t = t, .m = m};
    tw_artefact_macro *macros = tw_arena_array(&w.arena, (size_t)f->n_macros, sizeof *macros);
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
    for (int i = 0; i < f->n_axes; i++) a.axes[i] = f->axes[i];
    for (int i = 0; i < f->n_macros && macros; i++) {
        macros[i] = f->macros[i];
        list_fits(&w, i, &macros[i]);
    }
    const tw_status st = w.arena.failed ? tw_fail_memory(diag) : tw_artefact_write(&a, path, diag);
    tw_arena_free(&w.arena);
    return st;
}
