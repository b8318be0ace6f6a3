/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/trials.h"

#include "base/diag.h"
#include "base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tw_trials_key(char *out, size_t size, const char *campaign, const char *phase, const char *problem,
                   const char *config) {
    snprintf(out, size, "%s|%s|%s|%s", campaign, phase, problem, config);
}

bool tw_trials_key_is(const char *key, const char *campaign, const char *phase) {
    if (!key) return false;
    const size_t before = campaign ? strlen(campaign) : strcspn(key, "|"), n = strlen(phase);
    return (!campaign || !strncmp(key, campaign, before)) && key[before] == '|' &&
           !strncmp(key + before + 1, phase, n) && key[before + 1 + n] == '|';
}

typedef struct reading {
    const tw_family *f;
    const char *campaign; /* NULL: any campaign. */
    tw_trials *t;
} reading;

static tw_status add(tw_trial_list *l, const tw_trial *trial, tw_diag *diag) {
    tw_trial *const at = tw_grow(l->at, l->n, &l->room, 1024, sizeof *at);
    if (!at) return tw_fail_memory(diag);
    l->at = at;
    at[l->n++] = *trial;
    return TW_OK;
}

/* Returns the list of a measurement. NULL: it belongs to none. */
static tw_trial_list *list_of(const reading *r, const char *key) {
    if (tw_trials_key_is(key, r->campaign, TW_TRIALS_SCREENS)) return &r->t->screens;
    if (tw_trials_key_is(key, r->campaign, TW_TRIALS_SPREAD)) return &r->t->spread;
    if (tw_trials_key_is(key, r->campaign, TW_TRIALS_EXACT)) return &r->t->exact;
    return tw_trials_key_is(key, r->campaign, TW_TRIALS_POINTS) ? &r->t->points : NULL;
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    const reading *r = context;
    tw_trial_list *list = list_of(r, m->key);
    tw_trial trial = {.macro = -1};
    tw_stats stats;
    if (!list) return TW_OK;
    const bool known = !strcmp(m->unit, r->f->unit) && tw_family_find(r->f, m->config, &trial.macro, &trial.micro) &&
                       tw_family_parse(r->f, trial.problem, m->problem, NULL) == TW_OK &&
                       tw_family_divide(r->f, trial.macro, trial.problem).grid;
    if (m->status != TW_OK || m->n < 1) {
        r->t->wrong++;
        return known && list == &r->t->screens ? add(&r->t->refused, &trial, diag) : TW_OK;
    }
    const tw_status st = tw_store_stats(m, &stats, diag);
    if (st != TW_OK) return st;
    trial.time = tw_family_time(r->f, &stats);
    if (known && trial.time > 0) return add(list, &trial, diag);
    r->t->unknown++;
    return TW_OK;
}

static void order(tw_trial_list *l) {
    if (l->n) qsort(l->at, (size_t)l->n, sizeof *l->at, tw_trials_by_problem);
}

tw_status tw_trials_read(tw_trials *out, const tw_family *f, tw_store *s, const char *campaign, tw_diag *diag) {
    *out = (tw_trials){0};
    reading r = {f, campaign, out};
    const tw_store_filter filter = {.environment = f->environment, .space = f->name};
    const tw_status st = tw_store_read(s, &filter, take, &r, NULL, diag);
    if (st != TW_OK) tw_trials_free(out);
    order(&out->screens);
    order(&out->spread);
    order(&out->exact);
    return st;
}

void tw_trials_free(tw_trials *t) {
    free(t->screens.at);
    free(t->spread.at);
    free(t->points.at);
    free(t->exact.at);
    free(t->refused.at);
    *t = (tw_trials){0};
}

int tw_trials_by_problem(const void *a, const void *b) {
    const tw_trial *x = a, *y = b;
    return memcmp(x->problem, y->problem, sizeof x->problem);
}

int tw_trials_end(const tw_trial_list *l, int first, int (*by)(const void *a, const void *b), double *least) {
    int end = first;
    *least = (double)INFINITY;
    for (; end < l->n && !by(&l->at[first], &l->at[end]); end++) *least = fmin(*least, l->at[end].time);
    return end;
}
