/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/trim.h"

#include "base/diag.h"
#include "tune/cover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 1500 /* Number of random problems. */, SEED = 17 /* Seed of the problems. */ };

/* Predicts the times of all configurations for the random problems. Configurations that cannot compute a problem are
   left out of it. */
static void predict(const tw_spline *s, tw_trial_list *out) {
    tw_random r = tw_random_seed(SEED);
    for (int i = 0; i < PROBLEMS; i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        tw_family_draw(s->family, &r, problem);
        for (int k = 0; k < s->n; k++) {
            tw_trial *t = &out->at[out->n];
            *t = (tw_trial){
                .macro = s->configs[k].macro, .micro = s->configs[k].micro, .time = tw_spline_time(s, k, problem)};
            memcpy(t->problem, problem, sizeof t->problem);
            out->n += isfinite(t->time);
        }
    }
}

static bool is_chosen(const tw_choice *choices, int n, const tw_spline_config *c) {
    for (int i = 0; i < n; i++)
        if (choices[i].macro == c->macro && choices[i].micro == c->micro) return true;
    return false;
}

tw_status tw_spline_trim(tw_spline *s, int most, tw_diag *diag) {
    if (s->n <= most) return TW_OK;
    tw_trial_list all = {.at = malloc(((size_t)s->n * PROBLEMS + 1) * sizeof *all.at)};
    tw_choice *choices = calloc((size_t)most + 1, sizeof *choices);
    int n = 0, kept = 0;
    tw_status st = all.at && choices ? TW_OK : tw_fail_memory(diag);
    if (st == TW_OK) {
        predict(s, &all);
        st = tw_cover_apart(s->family, &all, TW_COVER_PREDICTIONS, most, choices, &n, diag);
    }
    for (int i = 0; i < s->n && st == TW_OK; i++)
        if (is_chosen(choices, n, &s->configs[i])) s->configs[kept++] = s->configs[i];
    if (st == TW_OK) s->n = kept;
    free(all.at);
    free(choices);
    return st;
}

void tw_spline_doubt(tw_spline *s) {
    const tw_family *f = s->family;
    int own = -1;
    for (int i = 0; i < s->n; i++)
        if (s->configs[i].macro == f->macro && s->configs[i].micro == f->micro) own = i;
    if (own < 0) return;
    if (s->gain <= s->gain_error) {
        s->configs[0] = s->configs[own];
        s->n = 1;
        return;
    }
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < TW_SPLINE_TERMS && i != own; k++) s->configs[i].c[k] *= 1 + s->caution;
}
