/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/rivals.h"

#include "base/diag.h"

#include <string.h>

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    return tw_model_choose(context, problem, out, size);
}

/* Returns the form of a name. TW_MODEL_FORMS: there is none. */
static tw_model_form find_form(const char *name, size_t length) {
    for (int i = 0; i < TW_MODEL_FORMS; i++) {
        const char *other = tw_model_name((tw_model_form)i);
        if (strlen(other) == length && !memcmp(other, name, length)) return (tw_model_form)i;
    }
    return TW_MODEL_FORMS;
}

/* Adds the model of a name. */
static tw_status add(tw_rivals *r, const tw_family *f, const tw_trials *t, const char *name, size_t length,
                     tw_diag *diag) {
    const tw_model_options o = tw_model_defaults();
    const tw_model_form form = find_form(name, length);
    if (form == TW_MODEL_FORMS)
        return tw_fail(diag, TW_ERR_USAGE,
                       "\"%.*s\" is no model: mlp, trees, tree, near, spline, residual, mix, distilled or analytic",
                       (int)length, name);
    if (r->of[form]) return tw_fail(diag, TW_ERR_USAGE, "the model %.*s is given twice", (int)length, name);
    const tw_status st = tw_model_fit(&r->of[form], form, f, t, &o, diag);
    if (st == TW_OK)
        r->list[r->n++] = (tw_strategy){.name = tw_model_name(form), .choose = choose, .context = r->of[form]};
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
        st = add(r, f, &t, at, length, diag);
        at = at[length] ? at + length + 1 : NULL;
    }
    tw_trials_free(&t);
    return st;
}

void tw_rivals_close(tw_rivals *r) {
    for (int i = 0; i < TW_MODEL_FORMS; i++) tw_model_free(r->of[i]);
    *r = (tw_rivals){.n = 0};
}
