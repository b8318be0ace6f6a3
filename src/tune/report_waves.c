/* SPDX-License-Identifier: Apache-2.0 */
/* The plot of one macro choice's times over its waves. */
#include "base/diag.h"
#include "base/stats.h"
#include "tune/report_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TEXT = 480,
    LINES = 4,  /* The most values of L in the plot. Each has a line. */
    GRIDS = 240 /* A line has about so many points besides those at the ends of waves. */
};

typedef struct waves {
    tw_training training;
    tw_wave_model *model;
    int macro; /* The macro choice that is shown. -1: none. */
} waves;

static bool is_chosen(const waves *w, const tw_wave_sample *s) {
    return s->macro == w->macro && tw_wave_micro(w->model, s->macro, s->grid, s->loops) == s->micro;
}

/* Finds the macro choice to show: the one with the largest product of samples and choices by select. */
static void find_macro(const tw_tune_report *r, waves *w) {
    const tw_session *s = r->session;
    int *chosen = calloc((size_t)r->family->n_macros + 1, sizeof *chosen);
    w->macro = -1;
    for (int i = 0; i < s->n && chosen; i++) {
        int macro, micro;
        if (tw_family_find(r->family, s->problems[i].result.of[s->select].config, &macro, &micro)) chosen[macro]++;
    }
    double most = 0;
    for (int m = 0; m < r->family->n_macros && chosen; m++) {
        int samples = 0;
        for (int i = 0; i < w->training.n; i++) samples += w->training.samples[i].macro == m;
        const double worth = samples * (1.0 + chosen[m]);
        if (worth <= most) continue;
        most = worth;
        w->macro = m;
    }
    free(chosen);
}

/* Lists at most LINES values of L that samples have. */
static int list_loops(const waves *w, double *loops) {
    int n = 0;
    for (int i = 0; i < w->training.n && n < LINES; i++) {
        const tw_wave_sample *s = &w->training.samples[i];
        bool known = !is_chosen(w, s);
        for (int k = 0; k < n; k++) known |= loops[k] == s->loops;
        if (!known) loops[n++] = s->loops;
    }
    tw_stats_sort(loops, (size_t)n);
    return n;
}

static void add_line(const tw_tune_report *r, tw_page *p, const waves *w, double loops) {
    const tw_artefact_macro *m = &r->family->macros[w->macro];
    char name[64];
    int64_t most = 0;
    snprintf(name, sizeof name, "measured, L = %g", loops);
    tw_page_series(p, name, TW_PAGE_POINTS);
    for (int i = 0; i < w->training.n; i++) {
        const tw_wave_sample *s = &w->training.samples[i];
        if (!is_chosen(w, s) || s->loops != loops) continue;
        char label[64];
        snprintf(label, sizeof label, "G = %lld", (long long)s->grid);
        tw_page_point(p, (double)s->grid / (double)m->slots, s->time, label);
        if (s->grid > most) most = s->grid;
    }
    snprintf(name, sizeof name, "model, L = %g", loops);
    tw_page_series(p, name, TW_PAGE_LINE);
    /* Both sides of a wave's end are points, so that a step is upright. */
    for (int64_t g = 1; g <= most; g++)
        if (g % m->slots <= 1 || g % (1 + most / GRIDS) == 0)
            tw_page_point(p, (double)g / (double)m->slots, tw_wave_time(w->model, w->macro, g, loops), NULL);
}

tw_status tw_report_add_waves(const tw_tune_report *r, tw_page *p, tw_diag *diag) {
    waves w = {.macro = -1};
    int form = 0;
    for (int i = 0; i < TW_WAVE_FORMS; i++)
        if (!strcmp(tw_train_form((tw_wave_form)i), r->session->trained.form)) form = i;
    tw_status st = tw_training_read(&w.training, r->family, r->store, r->campaign, diag);
    if (st == TW_OK) st = tw_train_fit(&w.model, r->family, &w.training, (tw_wave_form)form, diag);
    if (st == TW_OK) find_macro(r, &w);
    if (st == TW_OK && w.macro >= 0) {
        char text[TEXT], note[TEXT], y[64];
        double loops[LINES];
        const tw_artefact_macro *m = &r->family->macros[w.macro];
        const int n = list_loops(&w, loops);
        snprintf(
            text, sizeof text,
            "A kernel of G blocks, each of L rounds, fills the device's %lld slots G / %lld times. Each begun wave is "
            "paid in full, so time goes up in steps.",
            (long long)m->slots, (long long)m->slots);
        snprintf(note, sizeof note, "Macro choice %s, in the micro choices that the model takes. Form %s of the model.",
                 m->config, r->session->trained.form);
        snprintf(y, sizeof y, "time, %s", r->family->unit);
        tw_page_section(p, "Time by waves", text);
        tw_page_add_plot(p, &(tw_page_plot){.title = "Time of one macro choice",
                                            .x = "waves: blocks G over slots",
                                            .y = y,
                                            .note = note,
                                            .zero_y = true});
        for (int i = 0; i < n; i++) add_line(r, p, &w, loops[i]);
    }
    tw_wave_free(w.model);
    tw_training_free(&w.training);
    return st;
}
