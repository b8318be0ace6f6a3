/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/rivals.h"

#include "base/diag.h"

#include <stdio.h>
#include <string.h>

static const char AGAIN[] = "-again", OWN[] = "-own";

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    return tw_model_choose(((tw_rival *)context)->m, problem, out, size);
}

/* A search for the fastest of a few configurations. */
typedef struct looking {
    const tw_rival *r;
    tw_choice of[TW_RIVALS_AGAIN];
    double time[TW_RIVALS_AGAIN]; /* Time of the last measurement. 0: there is none. */
    int n;
} looking;

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    looking *l = context;
    int macro, micro;
    tw_stats s;
    if (m->status != TW_OK || !tw_family_find(l->r->f, m->config, &macro, &micro)) return TW_OK;
    for (int i = 0; i < l->n; i++) {
        if (l->of[i].macro != macro || l->of[i].micro != micro) continue;
        const tw_status st = tw_store_stats(m, &s, diag);
        if (st == TW_OK) l->time[i] = tw_family_time(l->r->f, &s);
        return st;
    }
    return TW_OK;
}

/* Chooses the fastest of the first configurations. */
static bool choose_again(void *context, const int64_t *problem, char *out, size_t size) {
    looking l = {.r = context};
    const tw_family *f = l.r->f;
    char words[TW_FAMILY_WORDS];
    int best = -1;
    tw_family_print(f, problem, words, sizeof words);
    l.n = tw_model_rank(l.r->m, problem, TW_RIVALS_AGAIN, l.of);
    const tw_store_filter filter = {f->environment, f->name, words};
    if (tw_store_read(l.r->of, &filter, take, &l, NULL, NULL) != TW_OK) return false;
    for (int i = 0; i < l.n; i++)
        if (l.time[i] > 0 && (best < 0 || l.time[i] < l.time[best])) best = i;
    if (best < 0) return false;
    tw_family_config(f, l.of[best].macro, l.of[best].micro, out, size);
    return true;
}

/* Tells whether a name of *length bytes ends in a tail, and leaves the tail out of *length. */
static bool ends_in(const char *name, size_t *length, const char *tail) {
    const size_t n = strlen(tail);
    if (*length <= n || memcmp(name + *length - n, tail, n) != 0) return false;
    *length -= n;
    return true;
}

/* Adds the model of a name. */
static tw_status add(tw_rivals *r, const tw_family *f, tw_store *store, const tw_trials *t, const char *name,
                     size_t length, tw_diag *diag) {
    size_t form_length = length;
    const bool again = ends_in(name, &form_length, AGAIN), own = ends_in(name, &form_length, OWN);
    tw_model_options o = tw_model_defaults();
    tw_model_form form;
    if (!tw_model_form_find(name, form_length, &form))
        return tw_fail(diag, TW_ERR_USAGE,
                       "\"%.*s\" is no model: mlp, trees, tree, near, spline, residual, mix, distilled or analytic",
                       (int)length, name);
    for (int i = 0; i < r->n; i++)
        if (strlen(r->of[i].name) == length && !memcmp(r->of[i].name, name, length))
            return tw_fail(diag, TW_ERR_USAGE, "the model %.*s is given twice", (int)length, name);
    tw_rival *one = &r->of[r->n];
    *one = (tw_rival){.f = f, .of = again ? store : NULL};
    snprintf(one->name, sizeof one->name, "%.*s", (int)length, name);
    o.all = again;
    o.own = own;
    const tw_status st = tw_model_fit(&one->m, form, f, t, &o, diag);
    if (st == TW_OK) r->list[r->n++] = (tw_strategy){one->name, own, again ? choose_again : choose, one};
    return st;
}

tw_status tw_rivals_open(tw_rivals *r, const tw_family *f, tw_store *store, const char *names, const char *campaign,
                         tw_diag *diag) {
    tw_trials t;
    *r = (tw_rivals){.n = 0};
    tw_status st = tw_trials_read(&t, f, store, campaign, diag);
    if (st != TW_OK) return st;
    for (const char *at = names; at && st == TW_OK;) {
        const size_t length = strcspn(at, ",");
        st = add(r, f, store, &t, at, length, diag);
        at = at[length] ? at + length + 1 : NULL;
    }
    tw_trials_free(&t);
    return st;
}

void tw_rivals_close(tw_rivals *r) {
    for (int i = 0; i < r->n; i++) tw_model_free(r->of[i].m);
    *r = (tw_rivals){.n = 0};
}
