/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/evaluate.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/grow.h"
#include "tune/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FINALISTS = 5,     /* The most finalists of our own, and as many of vendors'. */
    FINAL_SAMPLES = 9, /* Number of samples of a finalist. */
    CLOSE_SAMPLES = 3, /* Number of samples of a configuration that takes at most CLOSE times the least time. */
    TRIES = 1000       /* The most problems that are drawn to find one that is not left out. */
};
/* A configuration is near the fastest if its first sample is at most so many times the least one. */
static const double CLOSE = 1.5;

/* A configuration and its latest measurement. */
typedef struct entry {
    char config[TW_FAMILY_WORDS];
    bool vendor;      /* True: a vendor computes it. */
    tw_status status; /* Result of the latest measurement. */
    bool wrong;       /* True: a result was wrong in any measurement. The configuration has no time then. */
    double time;      /* Time of the latest measurement by tw_family_time. 0: there is none. */
    double low, high; /* 10th and 90th percentile of the latest measurement's samples. */
} entry;

typedef struct evaluating {
    const tw_family *f;
    tw_store *store;
    const tw_evaluate_options *o;
    /* All configurations of the problem: legal ones, then baselines, then strategies' choices that are neither. */
    entry *entries;
    int n, room;
    int legal; /* Number of legal configurations, among which the oracle is. */
    /* Words of the family's default choice and of the first baseline, if tw_family.renamed. "" otherwise. */
    char usual[TW_FAMILY_WORDS], baseline[TW_FAMILY_WORDS];
    const char *stage; /* Phase of the current measurements. */
    bool cut;          /* True: the evaluation was interrupted. */
} evaluating;

static entry *find_words(const evaluating *e, const char *config) {
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->entries[i].config, config)) return &e->entries[i];
    return NULL;
}

/* Returns the words in which a configuration is measured. */
static const char *words_of(const evaluating *e, const char *config) {
    return *e->usual && !strcmp(config, e->usual) ? e->baseline : config;
}

static entry *find(const evaluating *e, const char *config) {
    return find_words(e, words_of(e, config));
}

/* Returns the entry of a configuration, a new one if there is none. NULL: out of memory. */
static entry *add(evaluating *e, const char *config) {
    config = words_of(e, config);
    entry *old = find_words(e, config);
    if (old) return old;
    entry *const entries = tw_grow(e->entries, e->n, &e->room, 64, sizeof *entries);
    if (!entries) return NULL;
    e->entries = entries;
    e->entries[e->n] = (entry){.status = TW_OK};
    snprintf(e->entries[e->n].config, TW_FAMILY_WORDS, "%s", config);
    return &e->entries[e->n++];
}

/* Takes the result of a measurement of the current stage into its entry. */
static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    evaluating *e = context;
    entry *at = tw_trials_key_is(m->key, e->o->name, e->stage) ? find_words(e, m->config) : NULL;
    if (!at) return TW_OK;
    at->wrong |= m->status == TW_ERR_MISMATCH;
    if (m->status != TW_OK || m->n < 1 || at->wrong) {
        at->status = m->status;
        at->time = 0;
        return TW_OK;
    }
    tw_stats s;
    const tw_status st = tw_store_stats(m, &s, diag);
    if (st != TW_OK) return st;
    at->time = tw_family_time(e->f, &s);
    at->low = s.p10;
    at->high = s.p90;
    return TW_OK;
}

static bool interrupted(void *context) {
    evaluating *e = context;
    if (!e->cut && e->o->interrupted) e->cut = e->o->interrupted(e->o->context);
    return e->cut;
}

/* Measures the entries that `wanted` marks, and reads the stage's measurements from the store. */
static tw_status measure(evaluating *e, const char *stage, const int64_t *problem, const bool *wanted,
                         const tw_measure_protocol *p, tw_diag *diag) {
    char words[TW_FAMILY_WORDS];
    const char **configs = malloc((size_t)(e->n + 1) * sizeof *configs);
    tw_campaign_progress progress = {0};
    int n = 0;
    if (!configs) return tw_fail_memory(diag);
    for (int i = 0; i < e->n; i++)
        if (wanted[i]) configs[n++] = e->entries[i].config;
    tw_family_print(e->f, problem, words, sizeof words);
    e->stage = stage;
    tw_status st =
        tw_campaign_measure(e->f, e->store, e->o->name, stage, problem, configs, n, p, interrupted, e, &progress, diag);
    const tw_store_filter filter = {e->f->environment, e->f->name, words};
    if (st == TW_OK) st = tw_store_read(e->store, &filter, take, e, NULL, diag);
    free(configs);
    return st;
}

/* Lists a configuration, if the problem is one that it can compute. */
static bool list_choice(evaluating *e, const int64_t *problem, tw_choice c) {
    char config[TW_FAMILY_WORDS];
    if (!tw_family_divide(e->f, c.macro, problem).grid) return true;
    tw_family_config(e->f, c.macro, c.micro, config, sizeof config);
    entry *at = add(e, config);
    if (at) at->vendor = tw_family_is_vendor(e->f, c.macro);
    return at;
}

/* Lists the legal configurations of a problem among which the oracle is looked for, and the baselines. */
static tw_status list(evaluating *e, const int64_t *problem, tw_diag *diag) {
    char config[TW_FAMILY_WORDS];
    bool good = true;
    e->n = 0;
    if (e->f->renamed) {
        tw_family_config(e->f, e->f->macro, e->f->micro, e->usual, sizeof e->usual);
        e->f->calls->baseline(e->f->self, 0, problem, e->baseline, sizeof e->baseline);
    }
    for (int i = 0; i < e->o->n_only && good; i++) good = list_choice(e, problem, e->o->only[i]);
    for (int m = 0; m < e->f->n_macros && !e->o->only; m++)
        for (int i = 0; i < e->f->macros[m].n_micros && good; i++) good = list_choice(e, problem, (tw_choice){m, i});
    e->legal = e->n;
    for (int b = 0; b < e->f->n_baselines && good; b++) {
        e->f->calls->baseline(e->f->self, b, problem, config, sizeof config);
        entry *at = add(e, config);
        good = at;
        if (at) at->vendor |= b > 0;
    }
    return good ? TW_OK : tw_fail_memory(diag);
}

static double least_time(const evaluating *e) {
    double least = (double)INFINITY;
    for (int i = 0; i < e->n; i++)
        if (e->entries[i].time > 0) least = fmin(least, e->entries[i].time);
    return least;
}

/* Marks the fastest entries of vendors, or the fastest own ones. */
static void mark_fastest(const evaluating *e, bool vendor, bool *wanted) {
    for (int k = 0; k < FINALISTS; k++) {
        int best = -1;
        for (int i = 0; i < e->n; i++)
            if (!wanted[i] && e->entries[i].vendor == vendor && e->entries[i].time > 0 &&
                (best < 0 || e->entries[i].time < e->entries[best].time))
                best = i;
        if (best >= 0) wanted[best] = true;
    }
}

/* Asks all strategies, and marks their choices. */
static tw_status choose(evaluating *e, tw_evaluation *r, bool **wanted, tw_diag *diag) {
    char config[TW_FAMILY_WORDS];
    for (int b = 0; b < e->f->n_baselines; b++) {
        tw_evaluated *of = &r->of[r->n++];
        of->name = e->f->baselines[b];
        e->f->calls->baseline(e->f->self, b, r->problem, of->config, sizeof of->config);
    }
    for (int i = 0; i < e->o->n_strategies; i++) {
        const tw_strategy *s = &e->o->strategies[i];
        tw_evaluated *of = &r->of[r->n++];
        of->name = s->name;
        of->own = s->own;
        const int64_t began = tw_now_ns();
        const bool chosen = s->choose(s->context, r->problem, config, sizeof config);
        of->ns = (double)(tw_now_ns() - began);
        if (!chosen) continue;
        snprintf(of->config, sizeof of->config, "%s", config);
        if (!add(e, config)) return tw_fail_memory(diag);
    }
    bool *wider = realloc(*wanted, (size_t)(e->n + 1) * sizeof *wider);
    if (!wider) return tw_fail_memory(diag);
    *wanted = wider;
    memset(wider, 0, (size_t)e->n * sizeof *wider);
    mark_fastest(e, false, wider);
    mark_fastest(e, true, wider);
    for (int i = 0; i < r->n; i++)
        if (*r->of[i].config) wider[find(e, r->of[i].config) - e->entries] = true;
    return TW_OK;
}

/* Finds the fastest legal entry of the last measurement, of all or of the own ones. NULL: there is none. */
static const entry *find_oracle(const evaluating *e, const bool *final, bool own) {
    const entry *oracle = NULL;
    for (int i = 0; i < e->legal; i++) {
        const entry *x = &e->entries[i];
        if (final[i] && x->time > 0 && !(own && x->vendor) && (!oracle || x->time < oracle->time)) oracle = x;
    }
    return oracle;
}

/* Fills in the result. Times are of the last measurement alone. */
static void conclude(const evaluating *e, const bool *final, tw_evaluation *r) {
    const entry *oracle = find_oracle(e, final, false), *own = find_oracle(e, final, true);
    for (int i = 0; i < e->n; i++) {
        const entry *x = &e->entries[i];
        r->wrong += x->wrong;
        if (x->vendor && final[i] && x->time > 0 && (!r->vendor || x->time < r->vendor)) r->vendor = x->time;
    }
    for (int i = 0; i < e->legal; i++) {
        r->failed += e->entries[i].status != TW_OK && !e->entries[i].wrong;
        r->configs += e->entries[i].time > 0;
    }
    if (!oracle) return;
    r->correct = !r->wrong;
    snprintf(r->oracle, sizeof r->oracle, "%s", oracle->config);
    r->time = oracle->time;
    r->noise = (oracle->high - oracle->low) / 2 / oracle->time;
    snprintf(r->own, sizeof r->own, "%s", own ? own->config : "");
    r->own_time = own ? own->time : 0;
    for (int i = 0; i < r->n; i++) {
        tw_evaluated *of = &r->of[i];
        if (!*of->config) continue;
        of->time = find(e, of->config)->time;
        if (of->time > 0) of->share = (of->own ? r->own_time : r->time) / of->time;
    }
}

static tw_status evaluate_one(evaluating *e, const int64_t *problem, tw_diag *diag) {
    const tw_measure_protocol first = {.samples = 1},
                              close = {.samples = CLOSE_SAMPLES, .turns = e->f->shared || e->f->drifts},
                              final = {.warmups = 1, .samples = FINAL_SAMPLES, .turns = true};
    tw_evaluation r = {.n = 0};
    memcpy(r.problem, problem, sizeof r.problem);
    tw_status st = list(e, problem, diag);
    if (st != TW_OK) return st;
    bool *wanted = calloc((size_t)e->n + 1, sizeof *wanted);
    if (!wanted) return tw_fail_memory(diag);
    for (int i = 0; i < e->n; i++) wanted[i] = true;
    st = measure(e, "first", problem, wanted, &first, diag);
    const double least = least_time(e);
    for (int i = 0; i < e->n && st == TW_OK; i++)
        wanted[i] = e->entries[i].time > 0 && e->entries[i].time <= CLOSE * least;
    if (st == TW_OK && !e->cut) st = measure(e, "close", problem, wanted, &close, diag);
    if (st == TW_OK && !e->cut) st = choose(e, &r, &wanted, diag);
    if (st == TW_OK && !e->cut) st = measure(e, "final", problem, wanted, &final, diag);
    if (st == TW_OK && !e->cut) {
        conclude(e, wanted, &r);
        st = e->o->result(e->o->context, &r, diag);
    }
    free(wanted);
    return st;
}

/* Draws a problem. False: TRIES problems in turn were left out. */
static bool draw(const evaluating *e, tw_random *r, int64_t *problem) {
    for (int i = 0; i < TRIES; i++) {
        tw_family_draw(e->f, r, problem);
        if (!e->o->leaves_out || !e->o->leaves_out(e->o->context, problem)) return true;
    }
    return false;
}

tw_status tw_evaluate(const tw_family *f, tw_store *s, const tw_evaluate_options *o, tw_diag *diag) {
    if (f->n_baselines + o->n_strategies > TW_EVALUATE_STRATEGIES)
        return tw_fail(diag, TW_ERR_USAGE, "more than %d strategies", TW_EVALUATE_STRATEGIES);
    evaluating e = {.f = f, .store = s, .o = o};
    tw_random r = tw_random_seed(o->seed);
    const int64_t began = tw_now_ns();
    tw_status st = TW_OK;
    for (int i = 0; i < o->problems && st == TW_OK && !interrupted(&e); i++) {
        int64_t problem[TW_SELECT_AXES] = {0};
        if (o->seconds > 0 && (double)(tw_now_ns() - began) * 1e-9 >= o->seconds) break;
        if (!draw(&e, &r, problem)) break;
        st = evaluate_one(&e, problem, diag);
    }
    free(e.entries);
    return st;
}

tw_evaluate_summary tw_evaluate_summarise(double *shares, int n) {
    tw_evaluate_summary s = {0};
    double sum = 0;
    tw_stats_sort(shares, (size_t)n);
    int first = 0;
    while (first < n && !(shares[first] > 0)) first++;
    s.n = n - first;
    if (!s.n) return s;
    for (int i = first; i < n; i++) sum += log(shares[i]);
    s.mean = exp(sum / s.n);
    s.worst = shares[first];
    s.low5 = shares[first + s.n / 20];
    return s;
}
