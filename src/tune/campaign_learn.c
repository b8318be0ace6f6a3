/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier phases of a campaign say of choices. */
#include "tune/campaign.h"

#include "base/diag.h"
#include "base/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT = 400, SAMPLES = 64 /* The most samples that count of a measurement. */ };

/* A measurement. */
typedef struct seen {
    int64_t problem[TW_SELECT_AXES];
    int macro, micro;
    double time;
} seen;

typedef struct learning {
    const tw_family *f;
    char phase[TEXT]; /* Beginning of the phase's keys. */
    seen *all;
    int n, room;
} learning;

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    learning *l = context;
    seen one = {.macro = -1};
    double sorted[SAMPLES];
    if (!m->key || strncmp(m->key, l->phase, strlen(l->phase)) != 0 || m->status != TW_OK || m->n < 1) return TW_OK;
    if (!tw_family_find(l->f, m->config, &one.macro, &one.micro) ||
        tw_family_parse(l->f, one.problem, m->problem, NULL) != TW_OK)
        return TW_OK;
    const size_t n = m->n < SAMPLES ? (size_t)m->n : SAMPLES;
    memcpy(sorted, m->samples, n * sizeof *sorted);
    one.time = tw_stats_of(sorted, n).median;
    if (l->n == l->room) {
        const int room = l->room ? 2 * l->room : 1024;
        seen *wider = realloc(l->all, (size_t)room * sizeof *wider);
        if (!wider) return tw_fail_memory(diag);
        l->all = wider;
        l->room = room;
    }
    l->all[l->n++] = one;
    return TW_OK;
}

static tw_status read_phase(learning *l, tw_store *s, const char *name, const char *phase, tw_diag *diag) {
    const tw_store_filter filter = {.environment = l->f->environment, .space = l->f->name};
    snprintf(l->phase, sizeof l->phase, "%s|%s|", name, phase);
    l->n = 0;
    return tw_store_read(s, &filter, take, l, NULL, diag);
}

static int by_problem(const void *a, const void *b) {
    const seen *x = a, *y = b;
    return memcmp(x->problem, y->problem, sizeof x->problem);
}

static int by_macro(const void *a, const void *b) {
    const seen *x = a, *y = b;
    if (x->macro != y->macro) return x->macro < y->macro ? -1 : 1;
    return by_problem(a, b);
}

/* Finds the end of the measurements that are equal by an order, from `first` on, and the least time of them. */
static int find_end(const learning *l, int first, int (*by)(const void *, const void *), double *least) {
    int end = first;
    *least = (double)INFINITY;
    for (; end < l->n && !by(&l->all[first], &l->all[end]); end++) *least = fmin(*least, l->all[end].time);
    return end;
}

/* Keeps the macro choices that come near the fastest one on some problem, those that were not measured, and the
   default. */
static void find_kept(const learning *l, double slow, bool *keep) {
    double least;
    if (l->n) qsort(l->all, (size_t)l->n, sizeof *l->all, by_problem);
    for (int m = 0; m < l->f->n_macros; m++) keep[m] = true;
    for (int i = 0; i < l->n; i++) keep[l->all[i].macro] = false;
    for (int first = 0, end; first < l->n; first = end) {
        end = find_end(l, first, by_problem, &least);
        for (int i = first; i < end; i++)
            if (l->all[i].time <= slow * least) keep[l->all[i].macro] = true;
    }
    keep[l->f->macro] = true;
}

/* What is known of a micro choice: how many times the fastest one's time it takes, in the mean of the logarithms. */
typedef struct standing {
    double sum;
    int n;
} standing;

/* Likes the `most` best micro choices of the macro choice whose measurements are `first` to `below` - 1. */
static void find_liked(const learning *l, int first, int below, int most, bool *likes) {
    const int macro = l->all[first].macro, micros = l->f->macros[macro].n_micros;
    standing of[TW_ARTEFACT_MICROS] = {{0}};
    double least;
    for (int i = first, end; i < below; i = end) {
        end = find_end(l, i, by_macro, &least);
        for (int j = i; j < end; j++) {
            of[l->all[j].micro].sum += log(l->all[j].time / least);
            of[l->all[j].micro].n++;
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
    learning l = {.f = f};
    tw_status st = read_phase(&l, s, o->name, "screen", diag);
    if (st == TW_OK) {
        find_kept(&l, o->slow, keep);
        st = read_phase(&l, s, o->name, "points", diag);
    }
    for (size_t i = 0; i < (size_t)f->n_macros * TW_ARTEFACT_MICROS; i++) likes[i] = true;
    if (st == TW_OK && l.n) qsort(l.all, (size_t)l.n, sizeof *l.all, by_macro);
    for (int i = 0, end; i < l.n && st == TW_OK; i = end) {
        for (end = i; end < l.n && l.all[end].macro == l.all[i].macro;) end++;
        find_liked(&l, i, end, o->micros, likes);
    }
    free(l.all);
    return st;
}
