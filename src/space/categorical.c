/* SPDX-License-Identifier: Apache-2.0 */
#include "space/categorical.h"

#include "base/diag.h"

#include <stdlib.h>
#include <string.h>

struct tw_categorical {
    const tw_space *space;
    int first[TW_SPACE_PARAMS + 1]; /* Index of each parameter's first value in `count`. */
    double total[TW_SPACE_PARAMS];  /* Sum of each parameter's counts. */
    double count[];                 /* Count of each value: the prior's, and of legal points. */
};

tw_status tw_categorical_make(tw_categorical **out, const tw_space *s, double alpha, tw_diag *diag) {
    int n = 0;
    *out = NULL;
    for (int i = 0; i < s->n; i++) {
        const int values = tw_space_values(s, i);
        if (!values && s->params[i].role != TW_SPACE_GIVEN)
            return tw_fail(diag, TW_ERR_USAGE, "%s: parameter %s has no values to draw", s->name, s->params[i].name);
        n += values;
    }
    tw_categorical *x = calloc(1, sizeof *x + (size_t)n * sizeof *x->count);
    if (!x) return tw_fail_memory(diag);
    x->space = s;
    for (int i = 0; i < s->n; i++) {
        x->first[i + 1] = x->first[i] + tw_space_values(s, i);
        for (int k = x->first[i]; k < x->first[i + 1]; k++) x->count[k] = alpha;
        x->total[i] = alpha * tw_space_values(s, i);
    }
    *out = x;
    return TW_OK;
}

void tw_categorical_free(tw_categorical *x) {
    free(x);
}

double tw_categorical_probability(const tw_categorical *x, int i, int k) {
    return x->count[x->first[i] + k] / x->total[i];
}

/* Draws the index of one of a parameter's values. */
static int draw_value(const tw_categorical *x, int i, tw_random *random) {
    const int n = x->first[i + 1] - x->first[i];
    double left = tw_random_unit(random) * x->total[i];
    int k = 0;
    while (k < n - 1 && (left -= x->count[x->first[i] + k]) >= 0) k++;
    return k;
}

int64_t tw_categorical_learn(tw_categorical *x, const void *context, const void *config, int64_t draws,
                             tw_random *random) {
    const tw_space *s = x->space;
    _Alignas(8) char point[TW_SPACE_CONFIG_BYTES], drawn[TW_SPACE_CONFIG_BYTES];
    int64_t legal = 0;
    for (int64_t d = 0; d < draws; d++) {
        memcpy(drawn, config, s->bytes);
        tw_space_draw_any(s, NULL, random, drawn);
        /* The values that were drawn count, not those of the canonical form. */
        memcpy(point, drawn, s->bytes);
        if (tw_space_judge(s, context, point, NULL) != TW_OK) continue;
        legal++;
        for (int i = 0; i < s->n; i++) {
            if (!tw_space_values(s, i)) continue;
            x->count[x->first[i] + tw_space_place(s, i, tw_space_get(s, drawn, i))]++;
            x->total[i]++;
        }
    }
    return legal;
}

bool tw_categorical_draw(const tw_categorical *x, const void *context, const int64_t *keep, tw_random *random,
                         int tries, void *config, int64_t *drawn) {
    const tw_space *s = x->space;
    for (; tries > 0; tries--) {
        for (int i = 0; i < s->n; i++) {
            if (keep && keep[i] >= 0)
                tw_space_set(s, config, i, keep[i]);
            else if (tw_space_values(s, i))
                tw_space_set(s, config, i, tw_space_value(s, i, draw_value(x, i, random)));
        }
        if (drawn) ++*drawn;
        if (tw_space_judge(s, context, config, NULL) == TW_OK) return true;
    }
    return false;
}
