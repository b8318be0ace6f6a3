/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/strategies.h"

#include <stdio.h>

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    const tw_strategy_model *m = context;
    return tw_train_choose(m->f, m->m, problem, out, size);
}

static bool choose_by(const tw_selector *selector, const int64_t *problem, unsigned flags, char *out, size_t size) {
    tw_selection s;
    if (tw_select_choose(selector, problem, flags, &s) != TW_OK) return false;
    snprintf(out, size, "%s", s.config);
    return true;
}

static bool choose_selected(void *context, const int64_t *problem, char *out, size_t size) {
    return choose_by(context, problem, 0, out, size);
}

static bool choose_own(void *context, const int64_t *problem, char *out, size_t size) {
    return choose_by(context, problem, TW_SELECT_OWN_ONLY, out, size);
}

/* Opens an artefact as two strategies: with vendors and without. */
static tw_status open_artefact(tw_strategies *s, tw_selector **selector, const char *path, const char *name,
                               const char *own, tw_diag *diag) {
    if (!path) return TW_OK;
    const tw_status st = tw_selector_open(selector, path, diag);
    if (st != TW_OK) return st;
    s->list[s->n++] = (tw_strategy){name, false, choose_selected, *selector};
    s->list[s->n++] = (tw_strategy){own, true, choose_own, *selector};
    return TW_OK;
}

/* Tells whether no sample is a vendor's. */
static bool is_own(const tw_family *f, const tw_training *t) {
    for (int i = 0; i < t->n; i++)
        if (tw_family_is_vendor(f, t->samples[i].macro)) return false;
    return true;
}

tw_status tw_strategies_open(tw_strategies *s, const tw_family *f, tw_store *store, const char *artefact,
                             const char *other, const char *campaign, tw_diag *diag) {
    tw_training t = {0};
    *s = (tw_strategies){0};
    tw_status st = open_artefact(s, &s->selector, artefact, "select", "select-own", diag);
    if (st == TW_OK) st = open_artefact(s, &s->other, other, "other", "other-own", diag);
    if (st == TW_OK) st = tw_training_read(&t, f, store, campaign, diag);
    for (int i = 0; i < TW_WAVE_FORMS && st == TW_OK && t.n; i++) {
        s->models[i].f = f;
        st = tw_train_fit(&s->models[i].m, f, &t, (tw_wave_form)i, diag);
        if (st == TW_OK)
            s->list[s->n++] = (tw_strategy){tw_train_form((tw_wave_form)i), is_own(f, &t), choose, &s->models[i]};
    }
    tw_training_free(&t);
    return st;
}

void tw_strategies_close(tw_strategies *s) {
    for (int i = 0; i < TW_WAVE_FORMS; i++) tw_wave_free(s->models[i].m);
    tw_selector_close(s->selector);
    tw_selector_close(s->other);
    *s = (tw_strategies){0};
}
