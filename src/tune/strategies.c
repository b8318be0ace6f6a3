/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/strategies.h"

#include <stdio.h>

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    const tw_strategy_model *m = context;
    return tw_train_choose(m->f, m->m, problem, out, size);
}

static bool choose_selected(void *context, const int64_t *problem, char *out, size_t size) {
    tw_selection s;
    if (tw_select_choose(context, problem, 0, &s) != TW_OK) return false;
    snprintf(out, size, "%s", s.config);
    return true;
}

tw_status tw_strategies_open(tw_strategies *s, const tw_family *f, tw_store *store, const char *artefact,
                             const char *campaign, tw_diag *diag) {
    tw_training t = {0};
    tw_status st = TW_OK;
    *s = (tw_strategies){0};
    if (artefact) {
        st = tw_selector_open(&s->selector, artefact, diag);
        if (st == TW_OK) s->list[s->n++] = (tw_strategy){"select", choose_selected, s->selector};
    }
    if (st == TW_OK) st = tw_training_read(&t, f, store, campaign, diag);
    for (int i = 0; i < TW_STRATEGIES_FORMS && st == TW_OK && t.n; i++) {
        s->models[i].f = f;
        st = tw_train_fit(&s->models[i].m, f, &t, (tw_wave_form)i, diag);
        if (st == TW_OK) s->list[s->n++] = (tw_strategy){tw_train_form((tw_wave_form)i), choose, &s->models[i]};
    }
    tw_training_free(&t);
    return st;
}

void tw_strategies_close(tw_strategies *s) {
    for (int i = 0; i < TW_STRATEGIES_FORMS; i++) tw_wave_free(s->models[i].m);
    tw_selector_close(s->selector);
    *s = (tw_strategies){0};
}
