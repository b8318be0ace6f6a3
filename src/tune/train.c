/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/train.h"

#include "base/diag.h"
#include "base/json.h"
#include "tune/describe.h"
#include "tune/exact.h"
#include "tune/trim.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The most configurations of an artefact: its size, and the time of a decision, are proportional to their number. */
enum { CHOICES = 200 };

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

/* Writes the origin of an artefact as JSON (tw_selector_info.about). NULL: out of memory. */
static char *describe_training(const tw_family *f, const tw_trained *r) {
    json_t *environment = json_loads(f->environment, 0, NULL);
    json_t *o = json_pack("{s:o?, s:s, s:i, s:i, s:f, s:f, s:i, s:f}", "environment", environment, "form", r->form,
                          "samples", r->quality.n, "problems", r->problems, "r2", r->quality.r2, "mean_error",
                          r->quality.mean, "macro_choices", f->n_macros, "share_of_best", r->share);
    char *text = tw_json_text(o, JSON_REAL_PRECISION(6));
    json_decref(o);
    return text;
}

/* Fits all forms, and keeps the one that chooses best. */
static tw_status fit_best(const tw_family *f, const tw_training *t, tw_wave_model **best, tw_wave_form *form,
                          tw_trained *out, tw_diag *diag) {
    *best = NULL;
    for (int i = 0; i < TW_WAVE_FORMS; i++) {
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

/* Widens the range of usual problems so that it has all problems of the trials. A campaign may have been of another
   range than the one that is given now, and a model of it is of no use where its lattice ends before its samples do. */
static void widen(tw_family *f, const tw_trial_list *l) {
    for (int i = 0; i < l->n; i++)
        for (int a = 0; a < f->n_axes; a++) {
            const int64_t extent = l->at[i].problem[a];
            if (extent < f->least[a]) f->least[a] = extent;
            if (extent > f->most[a]) f->most[a] = extent;
        }
}

/* Trims the model of configurations to CHOICES of them and describes it. The errors in *out are of the whole model, and
   each is of a sample that is predicted without itself. */
static tw_status train_spline(tw_artefact *a, tw_arena *arena, tw_spline *s, tw_trained *out, tw_diag *diag) {
    out->form = "spline";
    out->problems = s->problems;
    out->share = s->share;
    out->quality.mean = s->error;
    for (int i = 0; i < s->n; i++) out->quality.n += s->configs[i].samples;
    out->quality.r2 = s->r2;
    if (isfinite(s->gain_error)) {
        out->gain = s->gain;
        out->gain_error = s->gain_error;
        out->caution = s->family->shared ? s->caution : 0;
    }
    if (s->family->shared) tw_spline_doubt(s);
    const tw_status st = tw_spline_trim(s, CHOICES, diag);
    return st == TW_OK ? tw_describe_spline(a, arena, s, diag) : st;
}

tw_status tw_train(const tw_family *f, tw_store *s, const char *name, const char *path, tw_trained *out,
                   tw_diag *diag) {
    tw_training t;
    tw_arena arena = {0};
    tw_wave_model *m = NULL;
    tw_spline *spline = NULL;
    tw_wave_form form;
    tw_artefact a = tw_describe_family(f);
    tw_family wide = *f; /* With a range that has the problems of the trials. */
    tw_status st = tw_training_read(&t, f, s, name, diag);
    if (st != TW_OK) return st;
    widen(&wide, &t.trials.screens);
    widen(&wide, &t.trials.spread);
    *out = (tw_trained){.wrong = t.trials.wrong, .unknown = t.trials.unknown};
    if (t.trials.spread.n) st = tw_spline_fit(&spline, &wide, &t.trials, diag);
    if (st == TW_OK && spline) {
        st = train_spline(&a, &arena, spline, out, diag);
    } else if (st == TW_OK && t.n) {
        st = fit_best(f, &t, &m, &form, out, diag);
        if (st == TW_OK) st = tw_describe_waves(&a, &arena, f, &t, m, form, diag);
    } else if (st == TW_OK && t.trials.exact.n) {
        out->form = "none";
    } else if (st == TW_OK) {
        st = tw_fail(diag, TW_ERR_USAGE, "the store has too few measurements of %s on this device", f->name);
    }
    if (st == TW_OK) st = tw_exact_add(&a, &arena, f, &t.trials.exact, diag);
    char *about = st == TW_OK ? describe_training(f, out) : NULL;
    a.about = about;
    if (st == TW_OK) st = about ? tw_artefact_write(&a, path, diag) : tw_fail_memory(diag);
    free(about);
    tw_spline_free(spline);
    tw_wave_free(m);
    tw_arena_free(&arena);
    tw_training_free(&t);
    return st;
}
