/* SPDX-License-Identifier: Apache-2.0 */
#include "space/space.h"

#include <math.h>
#include <string.h>

const char *tw_space_role_name(tw_space_role role) {
    static const char *const names[TW_SPACE_ROLES] = {
        [TW_SPACE_MACRO] = "macro", [TW_SPACE_MICRO] = "micro", [TW_SPACE_GIVEN] = "given"};
    return names[role];
}

/* ---- parameters of a configuration */

int64_t tw_space_get(const tw_space *s, const void *config, int i) {
    const tw_param *p = &s->params[i];
    const char *at = (const char *)config + p->at;
    if (p->get) return p->get(config);
    if (p->form == TW_SPACE_FLAG) return *(const bool *)(const void *)at;
    if (p->form == TW_SPACE_INT64) return *(const int64_t *)(const void *)at;
    const int x = *(const int *)(const void *)at;
    if (p->form == TW_SPACE_INT32) return x;
    for (int k = 0; p->words[k]; k++)
        if ((p->codes ? p->codes[k] : k) == x) return k;
    return 0;
}

void tw_space_set(const tw_space *s, void *config, int i, int64_t value) {
    const tw_param *p = &s->params[i];
    char *at = (char *)config + p->at;
    if (p->set)
        p->set(config, value);
    else if (p->form == TW_SPACE_FLAG)
        *(bool *)(void *)at = value;
    else if (p->form == TW_SPACE_INT64)
        *(int64_t *)(void *)at = value;
    else
        *(int *)(void *)at = p->form == TW_SPACE_WORD && p->codes ? p->codes[value] : (int)value;
}

int tw_space_values(const tw_space *s, int i) {
    const tw_param *p = &s->params[i];
    int n = 0;
    if (p->role == TW_SPACE_GIVEN) return 0;
    if (p->form == TW_SPACE_FLAG) return 2;
    if (p->form != TW_SPACE_WORD) return p->n_values;
    while (p->words[n]) n++;
    return n;
}

int64_t tw_space_value(const tw_space *s, int i, int k) {
    const tw_param *p = &s->params[i];
    return p->form == TW_SPACE_FLAG || p->form == TW_SPACE_WORD ? k : p->values[k];
}

int tw_space_place(const tw_space *s, int i, int64_t value) {
    const int n = tw_space_values(s, i);
    int k = 0;
    while (k < n && tw_space_value(s, i, k) != value) k++;
    return k;
}

bool tw_space_same(const tw_space *s, const void *a, const void *b) {
    for (int i = 0; i < s->n; i++)
        if (tw_space_get(s, a, i) != tw_space_get(s, b, i)) return false;
    return true;
}

/* ---- points */

uint64_t tw_space_points(const tw_space *s, tw_space_role role) {
    uint64_t points = 1;
    for (int i = 0; i < s->n; i++) {
        const tw_space_role of = s->params[i].role;
        if (of == TW_SPACE_GIVEN || (role != TW_SPACE_ROLES && of != role)) continue;
        if (__builtin_mul_overflow(points, (uint64_t)tw_space_values(s, i), &points)) return UINT64_MAX;
    }
    return points;
}

bool tw_space_point(const tw_space *s, uint64_t n, void *config) {
    if (n >= tw_space_points(s, TW_SPACE_ROLES)) return false;
    for (int i = s->n - 1; i >= 0; i--) {
        if (s->params[i].role == TW_SPACE_GIVEN) continue;
        const uint64_t count = (uint64_t)tw_space_values(s, i);
        tw_space_set(s, config, i, tw_space_value(s, i, (int)(n % count)));
        n /= count;
    }
    return true;
}

bool tw_space_index(const tw_space *s, const void *config, uint64_t *n) {
    *n = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->params[i].role == TW_SPACE_GIVEN) continue;
        const int count = tw_space_values(s, i), k = tw_space_place(s, i, tw_space_get(s, config, i));
        if (k == count) return false;
        *n = *n * (uint64_t)count + (uint64_t)k;
    }
    return true;
}

tw_status tw_space_judge(const tw_space *s, const void *context, void *config, tw_diag *diag) {
    if (s->plain) s->plain(context, config);
    return s->legal ? s->legal(context, config, diag) : TW_OK;
}

/* ---- drawing */

void tw_space_draw_any(const tw_space *s, const int64_t *keep, tw_random *random, void *config) {
    for (int i = 0; i < s->n; i++) {
        if (s->params[i].role == TW_SPACE_GIVEN) continue;
        /* Fixed parameters draw a number too, so that the other draws do not depend on which are fixed. */
        const int k = (int)tw_random_below(random, (uint64_t)tw_space_values(s, i));
        tw_space_set(s, config, i, keep && keep[i] >= 0 ? keep[i] : tw_space_value(s, i, k));
    }
}

tw_space_size tw_space_count_legal(const tw_space *s, const void *context, const void *config, uint64_t most_judged,
                                   tw_random *random) {
    _Alignas(8) char point[TW_SPACE_CONFIG_BYTES];
    const uint64_t points = tw_space_points(s, TW_SPACE_ROLES);
    const bool exact = points <= most_judged;
    const uint64_t judged = exact ? points : most_judged;
    uint64_t legal = 0;
    for (uint64_t n = 0; n < judged; n++) {
        memcpy(point, config, s->bytes);
        if (exact)
            tw_space_point(s, n, point);
        else
            tw_space_draw_any(s, NULL, random, point);
        legal += tw_space_judge(s, context, point, NULL) == TW_OK;
    }
    if (exact) return (tw_space_size){(double)legal, true, 0, judged};
    return tw_space_estimate(s, legal, judged);
}

tw_space_size tw_space_estimate(const tw_space *s, uint64_t legal, uint64_t judged) {
    const double points = (double)tw_space_points(s, TW_SPACE_ROLES);
    const double share = judged ? (double)legal / (double)judged : 0;
    const double error = judged ? sqrt(share * (1 - share) / (double)judged) : 0;
    return (tw_space_size){share * points, false, error * points, judged};
}

bool tw_space_draw(const tw_space *s, const void *context, const int64_t *keep, tw_random *random, int tries,
                   void *config) {
    for (; tries > 0; tries--) {
        tw_space_draw_any(s, keep, random, config);
        if (tw_space_judge(s, context, config, NULL) == TW_OK) return true;
    }
    return false;
}

void tw_space_vary(const tw_space *s, const void *context, const int64_t *keep, tw_random *random, void *config) {
    for (int moves = 1 + (int)tw_random_below(random, 3); moves > 0; moves--) {
        const int i = (int)tw_random_below(random, (uint64_t)s->n), count = tw_space_values(s, i);
        const int at = tw_space_place(s, i, tw_space_get(s, config, i));
        int to = at + (tw_random_below(random, 2) ? 1 : -1);
        if (tw_random_below(random, 4) == 0) to = (int)tw_random_below(random, (uint64_t)count);
        if (at == count) to = (int)tw_random_below(random, (uint64_t)count);
        const bool kept = keep && keep[i] >= 0;
        if (to >= 0 && to < count && !kept) tw_space_set(s, config, i, tw_space_value(s, i, to));
    }
    if (s->plain) s->plain(context, config);
}
