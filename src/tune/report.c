/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/report.h"

#include "base/diag.h"
#include "base/json.h"
#include "base/stats.h"
#include "tune/regime.h"
#include "tune/report_parts.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL = 2048, /* Bytes of a cell's text. Commands and values of the environment are long. */
    TEXT = 480,  /* Bytes of a problem in words, or of a note. */
    CELLS = 12   /* The most columns of a table. */
};

/* The least regret that the logarithmic axis shows, in percent. */
static const double LEAST_REGRET = 0.1;

/* A row of cells that is being filled. */
typedef struct row {
    char cells[CELLS][CELL];
    int n;
} row;

static void add_cell(row *r, const char *fmt, va_list ap) {
    vsnprintf(r->cells[r->n++], CELL, fmt, ap);
}

static void cell(row *r, const char *fmt, ...) TW_PRINTF(2, 3);
static void cell(row *r, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_cell(r, fmt, ap);
    va_end(ap);
}

/* Adds a number, or a dash where it is not known. */
static void number(row *r, bool known, const char *fmt, ...) TW_PRINTF(3, 4);
static void number(row *r, bool known, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    if (known)
        add_cell(r, fmt, ap);
    else
        cell(r, "–");
    va_end(ap);
}

static void end_row(row *r, tw_page *p) {
    const char *cells[CELLS];
    for (int i = 0; i < r->n; i++) cells[i] = r->cells[i];
    tw_page_row(p, cells);
    r->n = 0;
}

/* Adds a row of two cells: a name and a value. */
static void add_pair(tw_page *p, const char *name, const char *fmt, ...) TW_PRINTF(3, 4);
static void add_pair(tw_page *p, const char *name, const char *fmt, ...) {
    row w = {.n = 0};
    va_list ap;
    va_start(ap, fmt);
    cell(&w, "%s", name);
    add_cell(&w, fmt, ap);
    va_end(ap);
    end_row(&w, p);
}

static void figure(tw_page *p, const char *meaning, const char *fmt, ...) TW_PRINTF(3, 4);
static void figure(tw_page *p, const char *meaning, const char *fmt, ...) {
    row w = {.n = 0};
    va_list ap;
    va_start(ap, fmt);
    add_cell(&w, fmt, ap);
    va_end(ap);
    tw_page_figure(p, w.cells[0], meaning);
}

/* Returns the number of strategies, baselines included. */
static int strategies(const tw_session *s) {
    return s->n ? s->problems[0].result.n : 0;
}

static const char *name_of(const tw_session *s, int of) {
    return s->problems[0].result.of[of].name;
}

/* Returns the index of a strategy. -1: the session does not have it. */
static int find_strategy(const tw_session *s, const char *name) {
    for (int i = 0; i < strategies(s); i++)
        if (!strcmp(name_of(s, i), name)) return i;
    return -1;
}

/* ---- headline */

static void add_figures(const tw_tune_report *r, tw_page *p) {
    const tw_session *s = r->session;
    const tw_session_summary chosen = tw_session_summarise(r->family, s, s->select, 0);
    const tw_session_summary vendor = tw_session_summarise(r->family, s, TW_SESSION_VENDOR, 0);
    if (chosen.n) {
        figure(p, "of the oracle's speed, geometric mean", "%.1f %%", chosen.mean * 100);
        figure(p, "of the oracle's, 5 % of problems are below", "%.1f %%", chosen.low5 * 100);
        figure(p, "of the oracle's, 1 % of problems are below", "%.1f %%", chosen.low1 * 100);
        figure(p, "of the oracle's, the worst problem", "%.1f %%", chosen.worst * 100);
        if (chosen.over > 0) figure(p, "the default's speed", "%.2f ×", chosen.over);
        if (vendor.n && vendor.over > 0) figure(p, "the fastest vendor's speed", "%.2f ×", chosen.over / vendor.over);
    }
    if (s->decisions.first > 0) figure(p, "to decide on a new problem", "%.0f ns", s->decisions.first);
    figure(p, "in the artefact", "%.0f KB", (double)s->artefact_bytes * 1e-3);
}

/* ---- strategies */

static void add_summary(const tw_tune_report *r, tw_page *p, row *w, const char *name, int of) {
    const tw_session_summary s = tw_session_summarise(r->family, r->session, of, 0);
    if (!s.n) return;
    cell(w, "%s", name);
    cell(w, "%d", s.n);
    cell(w, "%.1f %%", s.mean * 100);
    cell(w, "%.1f %%", s.low5 * 100);
    cell(w, "%.1f %%", s.low1 * 100);
    cell(w, "%.1f %%", s.worst * 100);
    cell(w, "%.3f", s.over);
    end_row(w, p);
}

static void add_regrets(const tw_session *s, tw_page *p, int of, double *room) {
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const double share = s->problems[i].result.of[of].share;
        if (share > 0) room[n++] = fmax((1 / share - 1) * 100, LEAST_REGRET);
    }
    if (!n) return;
    tw_stats_sort(room, (size_t)n);
    tw_page_series(p, name_of(s, of), TW_PAGE_STEPS);
    tw_page_point(p, LEAST_REGRET, 0, NULL);
    for (int i = 0; i < n; i++) tw_page_point(p, room[i], (i + 1) * 100.0 / n, NULL);
}

/* Tells whether the artefact's model is that of tune/spline.h. */
static bool is_spline(const tw_session *s) {
    return s->trained.form && !strcmp(s->trained.form, "spline");
}

static void add_strategies(const tw_tune_report *r, tw_page *p, double *room) {
    const tw_session *s = r->session;
    static const char *const columns[] = {"strategy",      "problems", "of the oracle",         "5 % are below",
                                          "1 % are below", "worst",    "speed over the default"};
    row w = {.n = 0};
    tw_page_section(
        p, "Choices against the oracle",
        is_spline(s) ? "The oracle is the fastest of all legal configurations, each of which was measured. Select is "
                       "the artefact that this session wrote. The default is none of those configurations on a "
                       "processor, and may be faster than the oracle."
                     : "The oracle is the fastest of all legal configurations, each of which was measured. Select is "
                       "the artefact that this session wrote. Wave, linear and step are the forms of its model, of "
                       "which it holds the one that chooses best.");
    tw_page_table(p, NULL, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < strategies(s); i++) add_summary(r, p, &w, name_of(s, i), i);
    add_summary(r, p, &w, "best of vendors", TW_SESSION_VENDOR);
    add_summary(r, p, &w, "oracle", TW_SESSION_ORACLE);
    tw_page_add_plot(
        p, &(tw_page_plot){.title = "Regret",
                           .x = "regret: time above the oracle's, %",
                           .y = "problems at most that far off, %",
                           .note = "Higher and further left is better. A regret below 0.1 % is drawn at 0.1 %.",
                           .log_x = true,
                           .zero_y = true});
    for (int i = 0; i < strategies(s); i++) add_regrets(s, p, i, room);
    tw_page_add_plot(p, &(tw_page_plot){.title = "Speed over the default",
                                        .x = "strategy",
                                        .y = "speed, default = 1",
                                        .note = "Geometric mean over the problems. Higher is better.",
                                        .zero_y = true});
    tw_page_series(p, "speed over the default", TW_PAGE_BARS);
    for (int i = 0; i < strategies(s); i++)
        tw_page_point(p, 0, tw_session_summarise(r->family, s, i, 0).over, name_of(s, i));
    if (tw_session_summarise(r->family, s, TW_SESSION_VENDOR, 0).n)
        tw_page_point(p, 0, tw_session_summarise(r->family, s, TW_SESSION_VENDOR, 0).over, "best of vendors");
    tw_page_point(p, 0, tw_session_summarise(r->family, s, TW_SESSION_ORACLE, 0).over, "oracle");
}

/* ---- regimes */

static void add_regimes(const tw_tune_report *r, tw_page *p) {
    static const char *const columns[] = {"regime",        "meaning", "problems",         "of the oracle",
                                          "5 % are below", "worst",   "over the default", "over the best of vendors"};
    row w = {.n = 0};
    tw_page_section(p, "By regime", "A problem may be in several regimes, or in none. The figures are select's.");
    tw_page_table(p, NULL, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < TW_REGIMES; i++) {
        const tw_session_summary s = tw_session_summarise(r->family, r->session, r->session->select, 1u << i);
        const tw_session_summary v = tw_session_summarise(r->family, r->session, TW_SESSION_VENDOR, 1u << i);
        cell(&w, "%s", tw_regime_name(i));
        cell(&w, "%s", tw_regime_meaning(i));
        cell(&w, "%d", s.n);
        number(&w, s.n, "%.1f %%", s.mean * 100);
        number(&w, s.n, "%.1f %%", s.low5 * 100);
        number(&w, s.n, "%.1f %%", s.worst * 100);
        number(&w, s.over > 0, "%.2f ×", s.over);
        number(&w, v.over > 0, "%.2f ×", s.over / v.over);
        end_row(&w, p);
    }
}

/* ---- problems */

static void add_speeds(const tw_tune_report *r, tw_page *p, const char *name, int of) {
    const tw_session *s = r->session;
    tw_page_series(p, name, TW_PAGE_POINTS);
    for (int i = 0; i < s->n; i++) {
        const tw_evaluation *e = &s->problems[i].result;
        const double usual = e->n ? e->of[0].time : 0;
        const double time = tw_session_time(e, of);
        char words[TEXT];
        tw_family_print(r->family, e->problem, words, sizeof words);
        if (time > 0 && usual > 0) tw_page_point(p, tw_family_work(r->family, e->problem) * 1e-9, usual / time, words);
    }
}

static void add_predictions(const tw_tune_report *r, tw_page *p) {
    const tw_session *s = r->session;
    double least = (double)INFINITY, most = 0, error = 0;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const double time = s->problems[i].result.of[s->select].time, predicted = s->problems[i].predicted;
        if (!(time > 0) || !(predicted > 0)) continue;
        least = fmin(least, fmin(time, predicted));
        most = fmax(most, fmax(time, predicted));
        error += fabs(predicted / time - 1);
        n++;
    }
    if (!n) return;
    char note[TEXT], x[64], y[64];
    snprintf(note, sizeof note, "Of select's choices. The mean error is %.1f %%.", error / n * 100);
    snprintf(x, sizeof x, "measured time, %s", r->family->unit);
    snprintf(y, sizeof y, "predicted time, %s", r->family->unit);
    tw_page_add_plot(
        p,
        &(tw_page_plot){.title = "Predicted and measured", .x = x, .y = y, .note = note, .log_x = true, .log_y = true});
    tw_page_series(p, "held-out problems", TW_PAGE_POINTS);
    for (int i = 0; i < s->n; i++) {
        char words[TEXT];
        tw_family_print(r->family, s->problems[i].result.problem, words, sizeof words);
        tw_page_point(p, s->problems[i].result.of[s->select].time, s->problems[i].predicted, words);
    }
    tw_page_series(p, "exact", TW_PAGE_LINE);
    tw_page_point(p, least, least, NULL);
    tw_page_point(p, most, most, NULL);
}

static void add_problem_plots(const tw_tune_report *r, tw_page *p) {
    const tw_session *s = r->session;
    tw_page_section(p, "Problem by problem", NULL);
    tw_page_add_plot(p, &(tw_page_plot){.title = "Speed over the default, by problem",
                                        .x = "work of the problem, billions of operations",
                                        .y = "speed, default = 1",
                                        .note = "A point is a held-out problem. Above 1 is faster than the default.",
                                        .log_x = true});
    add_speeds(r, p, "select", s->select);
    add_speeds(r, p, "oracle", TW_SESSION_ORACLE);
    if (tw_session_summarise(r->family, s, TW_SESSION_VENDOR, 0).n)
        add_speeds(r, p, "best of vendors", TW_SESSION_VENDOR);
    add_predictions(r, p);
}

static void add_problem_table(const tw_tune_report *r, tw_page *p) {
    const tw_session *s = r->session;
    char time[64], best[64];
    snprintf(time, sizeof time, "time, %s", r->family->unit);
    snprintf(best, sizeof best, "oracle, %s", r->family->unit);
    const char *const columns[] = {"problem",          "regimes", "select's choice", time,     best, "regret",
                                   "over the default", "noise",   "configurations",  "verdict"};
    row w = {.n = 0};
    tw_page_section(p, "Held-out problems",
                    "None of them was measured by the campaign. Noise is half the distance from the 10th to the 90th "
                    "percentile of the oracle's samples. Every configuration's result is compared with a reference in "
                    "double precision before it is timed.");
    tw_page_table(p, NULL, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < s->n; i++) {
        const tw_evaluation *e = &s->problems[i].result;
        const tw_evaluated *of = &e->of[s->select];
        const unsigned regimes = tw_regimes_of(r->family, e->problem);
        char words[TEXT], names[64] = "";
        tw_family_print(r->family, e->problem, words, sizeof words);
        for (int k = 0, used = 0; k < TW_REGIMES; k++)
            if (regimes & 1u << k)
                used +=
                    snprintf(names + used, sizeof names - (size_t)used, "%s%s", used ? ", " : "", tw_regime_name(k));
        cell(&w, "%s", words);
        cell(&w, "%s", names);
        cell(&w, "%s", *of->config ? of->config : "none");
        number(&w, of->time > 0, "%.1f", of->time);
        cell(&w, "%.1f", e->time);
        number(&w, of->share > 0, "%.1f %%", (1 / of->share - 1) * 100);
        number(&w, of->time > 0 && e->of[0].time > 0, "%.2f ×", e->of[0].time / of->time);
        cell(&w, "%.1f %%", e->noise * 100);
        cell(&w, "%d", e->configs);
        if (e->wrong)
            cell(&w, "%d configurations wrong", e->wrong);
        else
            cell(&w, of->time > 0 ? "right" : "select's choice did not run");
        end_row(&w, p);
    }
}

/* ---- deciding, cost, environment */

/* A way of deciding. */
typedef struct way {
    const char *name;
    double ns; /* Median time of a decision in nanoseconds. */
    int of;    /* Index of the strategy that decides. */
} way;

static void add_decisions(const tw_tune_report *r, tw_page *p) {
    const tw_session *s = r->session;
    const tw_session_decisions *d = &s->decisions;
    static const char *const columns[] = {"who decides", "median time, ns", "speed over the default"};
    if (!(d->first > 0) || !s->n) return;
    char names[TW_WAVE_FORMS][32];
    way ways[2 + TW_WAVE_FORMS] = {{"select, a new problem", d->first, s->select},
                                   {"select, a problem seen before", d->again, s->select}};
    int n = 2;
    for (int i = 0; i < TW_WAVE_FORMS; i++) {
        const int of = find_strategy(s, tw_train_form((tw_wave_form)i));
        if (of < 0) continue;
        snprintf(names[i], sizeof names[i], "%s form, in memory", tw_train_form((tw_wave_form)i));
        ways[n++] = (way){names[i], d->forms[i], of};
    }
    row w = {.n = 0};
    tw_page_section(p, "Deciding", NULL);
    tw_page_table(p, NULL, columns, sizeof columns / sizeof *columns);
    for (int i = 0; i < n; i++) {
        cell(&w, "%s", ways[i].name);
        cell(&w, "%.0f", ways[i].ns);
        cell(&w, "%.3f", tw_session_summarise(r->family, s, ways[i].of, 0).over);
        end_row(&w, p);
    }
    tw_page_add_plot(
        p,
        &(tw_page_plot){
            .title = "Speed against the time to decide",
            .x = "time to decide, ns",
            .y = "speed, default = 1",
            .note =
                "Speed is the geometric mean. Higher and further left is better. Each time includes reading the clock.",
            .log_x = true});
    for (int i = 0; i < n; i++) {
        tw_page_series(p, ways[i].name, TW_PAGE_POINTS);
        tw_page_point(p, ways[i].ns, tw_session_summarise(r->family, s, ways[i].of, 0).over, NULL);
    }
}

static void add_cost(const tw_tune_report *r, tw_page *p) {
    const tw_session *s = r->session;
    const tw_campaign_progress *c = &s->campaign;
    tw_page_section(p, "What it cost", NULL);
    tw_page_table(p, NULL, (const char *const[]){"what", "this run"}, 2);
    add_pair(p, "measuring", "%.1f s", s->measure_seconds);
    add_pair(p, "training", "%.3f s", s->train_seconds);
    add_pair(p, "evaluating", "%.1f s", s->evaluate_seconds);
    add_pair(p, "problems of the campaign", "%lld of %lld%s", (long long)c->jobs, (long long)c->planned,
             c->cut ? ", the budget was over" : "");
    add_pair(p, "configurations measured", "%lld", (long long)c->measured);
    add_pair(p, "configurations that the store had", "%lld", (long long)c->had);
    add_pair(p, "configurations with a wrong result", "%lld", (long long)c->wrong);
    add_pair(p, "configurations that did not run", "%lld", (long long)c->failed);
    if (c->references)
        add_pair(p, "drift of the reference", "%.1f %% at most, %d times measured", c->drift * 100, c->references);
    add_pair(p, "samples of the model", "%d", s->trained.quality.n);
    add_pair(p, "form of the model", "%s", s->trained.form);
    add_pair(p, is_spline(s) ? "R² of samples, each predicted without itself" : "R² on its own samples", "%.4f",
             s->trained.quality.r2);
    add_pair(p, is_spline(s) ? "mean error of samples, each predicted without itself" : "mean error on its own samples",
             "%.1f %%", s->trained.quality.mean * 100);
    add_pair(p, "artefact", "%zu bytes", s->artefact_bytes);
}

static void add_environment(const tw_tune_report *r, tw_page *p) {
    const tw_family *f = r->family;
    const char *key;
    const json_t *value;
    json_t *environment = json_loads(f->environment, 0, NULL);
    tw_page_section(p, "Environment", NULL);
    tw_page_table(p, NULL, (const char *const[]){"what", "value"}, 2);
    add_pair(p, "command", "%s", r->command);
    add_pair(p, "date", "%s", r->date);
    add_pair(p, "version", "tilewright %s", TW_VERSION);
    add_pair(p, "family", "%s", f->name);
    add_pair(p, "measured on", "%s", f->device);
    add_pair(p, "artefact", "%s", r->artefact);
    for (int a = 0; a < f->n_axes; a++)
        add_pair(p, f->axes[a], "from %lld to %lld, multiples of %lld", (long long)f->least[a], (long long)f->most[a],
                 (long long)f->step[a]);
    if (r->session->most_work > 0)
        add_pair(p, "work of a problem", "at most %.3g billions of operations", r->session->most_work * 1e-9);
    add_pair(p, "samples", "%s", f->protocol);
    json_object_foreach(environment, key, value) {
        char *text = json_is_string(value) ? NULL : tw_json_text(value, 0);
        add_pair(p, key, "%s", json_is_string(value) ? json_string_value(value) : text ? text : "");
        free(text);
    }
    json_decref(environment);
}

tw_status tw_tune_report_write(const tw_tune_report *r, const char *path, tw_diag *diag) {
    const tw_session *s = r->session;
    char title[256], lead[512];
    snprintf(title, sizeof title, "Tuning %s", r->family->name);
    snprintf(
        lead, sizeof lead,
        "%s. %d held-out problems, none of which the campaign measured; the figures are of the artefact's choices on "
        "them.",
        r->family->device, s->n);
    tw_page *p = tw_page_open(title, lead);
    double *room = calloc((size_t)s->n + 1, sizeof *room);
    tw_status st = p && room ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) {
        add_figures(r, p);
        if (s->n) {
            add_strategies(r, p, room);
            add_regimes(r, p);
            add_problem_plots(r, p);
        }
        st = tw_report_add_waves(r, p, diag);
    }
    if (st == TW_OK) {
        add_decisions(r, p);
        add_cost(r, p);
        add_problem_table(r, p);
        add_environment(r, p);
        st = tw_page_write(p, path, r->plots, diag);
    }
    free(room);
    tw_page_close(p);
    return st;
}
