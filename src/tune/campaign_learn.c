/* SPDX-License-Identifier: Apache-2.0 */
/* Finds from a campaign's earlier phases the macro and micro choices that its later phases measure. */
#include "tune/campaign.h"

#include "tune/trials.h"

#include <math.h>
#include <stdlib.h>

static int by_macro(const void *a, const void *b) {
    const tw_trial *x = a, *y = b;
    if (x->macro != y->macro) return x->macro < y->macro ? -1 : 1;
    return tw_trials_by_problem(a, b);
}

/* Keeps the macro choices that are within `slow` times the least time on some problem, those without measurements, and
   the default. */
static void find_kept(const tw_family *f, const tw_trial_list *screens, double slow, bool *keep) {
    double least;
    for (int m = 0; m < f->n_macros; m++) keep[m] = true;
    for (int i = 0; i < screens->n; i++) keep[screens->at[i].macro] = false;
    for (int first = 0, end; first < screens->n; first = end) {
        end = tw_trials_end(screens, first, tw_trials_by_problem, &least);
        for (int i = first; i < end; i++)
            if (screens->at[i].time <= slow * least) keep[screens->at[i].macro] = true;
    }
    keep[f->macro] = true;
}

/* A micro choice's time relative to the fastest one's: sum of logarithms, and their number. */
typedef struct standing {
    double sum;
    int n;
} standing;

/* Sets the likes of the macro choice whose points are `first` to `below` - 1: its `most` best micro choices. */
static void find_liked(const tw_family *f, const tw_trial_list *points, int first, int below, int most, bool *likes) {
    const int macro = points->at[first].macro, micros = f->macros[macro].n_micros;
    standing of[TW_ARTEFACT_MICROS] = {{0}};
    double least;
    for (int i = first, end; i < below; i = end) {
        end = tw_trials_end(points, i, by_macro, &least);
        for (int j = i; j < end; j++) {
            of[points->at[j].micro].sum += log(points->at[j].time / least);
            of[points->at[j].micro].n++;
        }
    }
    for (int j = 0; j < micros; j++) {
        int better = 0;
        for (int k = 0; k < micros; k++) better += of[k].n && of[j].n && of[k].sum / of[k].n < of[j].sum / of[j].n;
        likes[macro * TW_ARTEFACT_MICROS + j] = most <= 0 || !of[j].n || better < most;
    }
}

tw_status tw_campaign_learn(const tw_family *f, tw_store *s, const tw_campaign_options *o, bool *keep, bool *likes,
                            tw_diag *diag) {
    tw_trials t;
    const tw_status st = tw_trials_read(&t, f, s, o->name, diag);
    if (st != TW_OK) return st;
    const tw_trial_list *points = &t.points;
    find_kept(f, &t.screens, o->slow, keep);
    for (size_t i = 0; i < (size_t)f->n_macros * TW_ARTEFACT_MICROS; i++) likes[i] = true;
    if (points->n) qsort(points->at, (size_t)points->n, sizeof *points->at, by_macro);
    for (int i = 0, end; i < points->n; i = end) {
        for (end = i; end < points->n && points->at[end].macro == points->at[i].macro;) end++;
        find_liked(f, points, i, end, o->micros, likes);
    }
    tw_trials_free(&t);
    return TW_OK;
}
