/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/shortlist.h"

#include "tune/trials.h"

typedef struct reading {
    tw_shortlist *l;
    const char *campaign, *phase;
} reading;

int tw_shortlist_index(const tw_shortlist *l, int macro, int micro) {
    for (int i = 0; i < l->n; i++)
        if (l->of[i].macro == macro && l->of[i].micro == micro) return i;
    return -1;
}

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    const reading *r = context;
    int macro, micro;
    tw_stats s;
    if (m->status != TW_OK || (r->campaign && !tw_trials_key_is(m->key, r->campaign, r->phase))) return TW_OK;
    if (!tw_family_find(r->l->f, m->config, &macro, &micro)) return TW_OK;
    const int i = tw_shortlist_index(r->l, macro, micro);
    if (i < 0) return TW_OK;
    const tw_status st = tw_store_stats(m, &s, diag);
    if (st == TW_OK) r->l->time[i] = tw_family_time(r->l->f, &s);
    return st;
}

tw_status tw_shortlist_read(tw_shortlist *l, tw_store *s, const int64_t *problem, const char *campaign,
                            const char *phase, tw_diag *diag) {
    char words[TW_FAMILY_WORDS];
    reading r = {l, campaign, phase};
    tw_family_print(l->f, problem, words, sizeof words);
    const tw_store_filter filter = {l->f->environment, l->f->name, words};
    for (int i = 0; i < l->n; i++) l->time[i] = 0;
    return tw_store_read(s, &filter, take, &r, NULL, diag);
}

int tw_shortlist_fastest(const tw_shortlist *l, int but) {
    int best = -1;
    for (int i = 0; i < l->n; i++)
        if (i != but && l->time[i] > 0 && (best < 0 || l->time[i] < l->time[best])) best = i;
    return best;
}
