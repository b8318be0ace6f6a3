/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/shortlist.h"

#include "base/diag.h"
#include "tune/spline.h"

#include <math.h>
#include <stdlib.h>

static const double MARGIN = 1.1;     /* Times up to so many times the least one are kept. */
static const double MOST_ERROR = 0.9; /* Larger errors count as this one. */

struct tw_shortlist {
    const tw_family *f;
    const tw_choice *choices;
    int n;
    tw_trial_list trials; /* The screened trials of the choices. */
    tw_spline *models;    /* NULL: no choice has a model. */
    int *model;           /* [choice]: number of its model. -1: it has none. */
};

static bool is_chosen(const tw_shortlist *l, const tw_trial *t) {
    for (int i = 0; i < l->n; i++)
        if (l->choices[i].macro == t->macro && l->choices[i].micro == t->micro) return true;
    return false;
}

static void find_models(tw_shortlist *l) {
    for (int i = 0; i < l->n; i++) {
        l->model[i] = -1;
        for (int k = 0; l->models && k < l->models->n; k++)
            if (l->models->configs[k].macro == l->choices[i].macro &&
                l->models->configs[k].micro == l->choices[i].micro)
                l->model[i] = k;
    }
}

tw_status tw_shortlist_make(tw_shortlist **out, const tw_family *f, const tw_trial_list *screens,
                            const tw_choice *choices, int n, tw_diag *diag) {
    tw_shortlist *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return tw_fail_memory(diag);
    *l = (tw_shortlist){.f = f, .choices = choices, .n = n};
    l->model = malloc(((size_t)n + 1) * sizeof *l->model);
    l->trials.at = malloc(((size_t)screens->n + 1) * sizeof *l->trials.at);
    tw_status st = l->model && l->trials.at ? TW_OK : tw_fail_memory(diag);
    for (int i = 0; i < screens->n && st == TW_OK; i++)
        if (is_chosen(l, &screens->at[i])) l->trials.at[l->trials.n++] = screens->at[i];
    const tw_trials trials = {.screens = l->trials};
    if (st == TW_OK) st = tw_spline_fit(&l->models, f, &trials, diag);
    if (st == TW_OK) find_models(l);
    if (st == TW_OK)
        *out = l;
    else
        tw_shortlist_free(l);
    return st;
}

void tw_shortlist_free(tw_shortlist *l) {
    if (!l) return;
    tw_spline_free(l->models);
    free(l->trials.at);
    free(l->model);
    free(l);
}

void tw_shortlist_pick(const tw_shortlist *l, const int64_t *problem, bool *keep) {
    double least[2] = {(double)INFINITY,
                       (double)INFINITY}; /* Upper bounds of the least time of all, and of own ones. */
    for (int i = 0; i < l->n; i++) {
        if (l->model[i] < 0) continue;
        const double error = fmin(l->models->configs[l->model[i]].error, MOST_ERROR);
        const double high = tw_spline_time(l->models, l->model[i], problem) * (1 + error);
        least[0] = fmin(least[0], high);
        if (!tw_family_is_vendor(l->f, l->choices[i].macro)) least[1] = fmin(least[1], high);
    }
    for (int i = 0; i < l->n; i++) {
        keep[i] = tw_family_divide(l->f, l->choices[i].macro, problem).grid > 0;
        if (!keep[i] || l->model[i] < 0) continue;
        const double error = fmin(l->models->configs[l->model[i]].error, MOST_ERROR);
        const double low = tw_spline_time(l->models, l->model[i], problem) * (1 - error);
        keep[i] = low <= MARGIN * least[!tw_family_is_vendor(l->f, l->choices[i].macro)];
    }
}
