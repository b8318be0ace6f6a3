/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/rivals.h"

#include "base/diag.h"
#include "tune/shortlist.h"

#include <stdio.h>
#include <string.h>

/* Endings of the name of a strategy (tw_rivals_open). */
static const char OWN[] = "-own", AGAIN[] = "-again";

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    return tw_model_choose(((tw_rival *)context)->m, problem, out, size);
}

/* Chooses, of the configurations that the model ranks first, the one that is the fastest in the store. */
static bool choose_again(void *context, const int64_t *problem, char *out, size_t size) {
    const tw_rival *r = context;
    tw_choice of[TW_RIVALS_AGAIN];
    double time[TW_RIVALS_AGAIN];
    tw_shortlist l = {r->f, of, time, tw_model_rank(r->m, problem, TW_RIVALS_AGAIN, of)};
    if (tw_shortlist_read(&l, r->store, problem, NULL, NULL, NULL) != TW_OK) return false;
    const int best = tw_shortlist_fastest(&l, -1);
    if (best < 0) return false;
    tw_family_config(r->f, of[best].macro, of[best].micro, out, size);
    return true;
}

/* Tells whether the first *length bytes of a name end in `tail`. If so, *length becomes what is before it. */
static bool ends_in(const char *name, size_t *length, const char *tail) {
    const size_t n = strlen(tail);
    if (*length <= n || memcmp(name + *length - n, tail, n) != 0) return false;
    *length -= n;
    return true;
}

/* Fits the model of a name of `length` bytes, and adds its strategy. */
static tw_status add(tw_rivals *r, const tw_family *f, tw_store *store, const tw_trials *t, const char *name,
                     size_t length, tw_diag *diag) {
    size_t form_length = length;
    const bool again = ends_in(name, &form_length, AGAIN), own = ends_in(name, &form_length, OWN);
    tw_model_options o = tw_model_defaults();
    tw_model_form form;
    if (!tw_model_form_find(name, form_length, &form))
        return tw_fail(
            diag, TW_ERR_USAGE,
            "\"%.*s\" is no model: mlp, trees, tree, near, spline, residual, mix, distilled, analytic or linear",
            (int)length, name);
    for (int i = 0; i < r->n; i++)
        if (strlen(r->of[i].name) == length && !memcmp(r->of[i].name, name, length))
            return tw_fail(diag, TW_ERR_USAGE, "the model %.*s is given twice", (int)length, name);
    tw_rival *one = &r->of[r->n];
    *one = (tw_rival){.f = f, .store = store};
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
