/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/again.h"

#include "base/clock.h"
#include "base/diag.h"
#include "tune/shortlist.h"
#include "tune/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_SAMPLES = 9 /* Samples of each of the fastest configurations. */ };

typedef struct running {
    const tw_family *f;
    tw_store *s;
    const int64_t *problem;
    const tw_again_options *o;
    tw_again_result *out;
    int64_t began;     /* When the run began, by tw_now_ns. */
    tw_shortlist list; /* The configurations of the current step. It has room for all of the family. */
    tw_choice drawn;   /* The fastest of the drawn configurations. macro -1: none was drawn. */
} running;

static double since(const running *r) {
    return (double)(tw_now_ns() - r->began) * 1e-9;
}

static bool interrupted(void *context) {
    const running *r = context;
    return r->o->interrupted && r->o->interrupted(r->o->context);
}

/* Tells whether the run is to end, by an interruption or by its budget. */
static bool over(void *context) {
    const running *r = context;
    const bool late = r->o->seconds > 0 && since(r) > r->o->seconds;
    if (late || interrupted(context)) r->out->progress.cut = true;
    return r->out->progress.cut;
}

/* Measures the listed configurations in a phase of the campaign, and reads their times. `ends` returns true to end the
   measurements. */
static tw_status measure(running *r, const char *phase, const tw_measure_protocol *p, bool (*ends)(void *),
                         tw_diag *diag) {
    const tw_shortlist *l = &r->list;
    char(*texts)[TW_FAMILY_WORDS] = malloc(((size_t)l->n + 1) * sizeof *texts);
    const char **configs = malloc(((size_t)l->n + 1) * sizeof *configs);
    if (!texts || !configs) {
        free(texts);
        free(configs);
        return tw_fail_memory(diag);
    }
    for (int i = 0; i < l->n; i++) {
        tw_family_config(r->f, l->of[i].macro, l->of[i].micro, texts[i], sizeof texts[i]);
        configs[i] = texts[i];
    }
    const tw_status st = tw_campaign_measure(r->f, r->s, r->o->name, phase, r->problem, configs, l->n, p, ends, r,
                                             &r->out->progress, diag);
    free(texts);
    free(configs);
    return st == TW_OK ? tw_shortlist_read(&r->list, r->s, r->problem, r->o->name, phase, diag) : st;
}

/* Lists all legal configurations. */
static void list_legal(running *r) {
    tw_shortlist *l = &r->list;
    l->n = 0;
    for (int i = 0; i < r->f->n_macros; i++) {
        if (tw_family_divide(r->f, i, r->problem).grid < 1) continue;
        for (int j = 0; j < r->f->macros[i].n_micros; j++) l->of[l->n++] = (tw_choice){i, j};
    }
    r->out->legal = l->n;
}

/* Removes random configurations from a list until it has at most `most`. */
static void draw(tw_shortlist *l, int most, uint64_t seed) {
    tw_random random = tw_random_seed(seed);
    for (int i = 0; i < most && i < l->n; i++) {
        const int j = i + (int)tw_random_below(&random, (uint64_t)(l->n - i));
        const tw_choice x = l->of[i];
        l->of[i] = l->of[j];
        l->of[j] = x;
    }
    if (l->n > most) l->n = most;
}

/* Measures random configurations of the problem once each, and adds the measurements to *t as trials of screening. */
static tw_status screen(running *r, tw_trials *t, tw_diag *diag) {
    static const tw_measure_protocol once = {.samples = 1};
    const tw_shortlist *l = &r->list;
    draw(&r->list, r->o->first, r->o->seed);
    const tw_status st = measure(r, TW_AGAIN_DRAW, &once, over, diag);
    if (st != TW_OK) return st;
    t->screens.at = malloc(((size_t)l->n + 1) * sizeof *t->screens.at);
    if (!t->screens.at) return tw_fail_memory(diag);
    for (int i = 0; i < l->n; i++) {
        if (!(l->time[i] > 0)) continue;
        tw_trial *x = &t->screens.at[t->screens.n++];
        *x = (tw_trial){.macro = l->of[i].macro, .micro = l->of[i].micro, .time = l->time[i]};
        memcpy(x->problem, r->problem, sizeof x->problem);
    }
    const int best = tw_shortlist_fastest(l, -1);
    if (best >= 0) r->drawn = l->of[best];
    return TW_OK;
}

/* Adds the fastest drawn configuration to the list, if it is not there. */
static void add_drawn(running *r) {
    if (r->drawn.macro < 0 || tw_shortlist_index(&r->list, r->drawn.macro, r->drawn.micro) >= 0) return;
    r->list.of[r->list.n++] = r->drawn;
}

/* Fits the model, and lists the configurations that it ranks first. */
static tw_status rank(running *r, tw_diag *diag) {
    tw_model_options o = tw_model_defaults();
    tw_model *m = NULL;
    tw_trials t;
    o.all = true;
    tw_status st = tw_trials_read(&t, r->f, r->s, NULL, diag);
    if (st != TW_OK) return st;
    if (!t.screens.n && !t.spread.n) {
        tw_trials_free(&t);
        t = (tw_trials){.wrong = 0};
        st = screen(r, &t, diag);
    }
    r->out->learned = t.screens.n + t.spread.n;
    if (st == TW_OK && !interrupted(r)) st = tw_model_fit(&m, r->o->form, r->f, &t, &o, diag);
    if (m) r->list.n = tw_model_rank(m, r->problem, r->o->k, r->list.of);
    if (m) add_drawn(r);
    tw_model_free(m);
    tw_trials_free(&t);
    r->out->learn_seconds = since(r);
    return st;
}

/* Reduces a list to its TW_AGAIN_LAST fastest configurations, the fastest first. places[i] becomes the place from 1
   that configuration i had in the list. */
static void keep_fastest(tw_shortlist *l, int places[TW_AGAIN_LAST]) {
    tw_choice of[TW_AGAIN_LAST];
    int n = 0;
    for (int best; n < TW_AGAIN_LAST && (best = tw_shortlist_fastest(l, -1)) >= 0; n++) {
        places[n] = best + 1;
        of[n] = l->of[best];
        l->time[best] = 0;
    }
    memcpy(l->of, of, (size_t)n * sizeof *of);
    l->n = n;
}

/* Writes the configuration and the time of an element of the list. */
static void tell(const running *r, int i, char config[TW_FAMILY_WORDS], double *time) {
    tw_family_config(r->f, r->list.of[i].macro, r->list.of[i].micro, config, TW_FAMILY_WORDS);
    *time = r->list.time[i];
}

static tw_status run(running *r, tw_diag *diag) {
    static const tw_measure_protocol once = {.samples = 1},
                                     last = {.warmups = 1, .samples = LAST_SAMPLES, .turns = true};
    int places[TW_AGAIN_LAST] = {0};
    list_legal(r);
    tw_status st = r->o->k ? rank(r, diag) : TW_OK;
    if (st == TW_OK && !interrupted(r)) st = measure(r, TW_AGAIN_TRY, &once, over, diag);
    if (st != TW_OK || interrupted(r)) return st;
    keep_fastest(&r->list, places);
    st = measure(r, TW_TRIALS_EXACT, &last, interrupted, diag);
    const int best = tw_shortlist_fastest(&r->list, -1), second = tw_shortlist_fastest(&r->list, best);
    if (st != TW_OK || best < 0) return st;
    r->out->rank = r->o->k ? places[best] : 0;
    tell(r, best, r->out->config, &r->out->time);
    if (second >= 0) tell(r, second, r->out->second, &r->out->second_time);
    return st;
}

tw_status tw_again(const tw_family *f, tw_store *s, const int64_t *problem, const tw_again_options *o,
                   tw_again_result *out, tw_diag *diag) {
    running r = {.f = f, .s = s, .problem = problem, .o = o, .out = out, .began = tw_now_ns(), .drawn = {-1, -1}};
    const size_t configs = (size_t)tw_family_configs(f) + 1;
    *out = (tw_again_result){.legal = 0};
    if (f->recorded) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s is recorded: nothing can be measured of it", f->name);
    r.list =
        (tw_shortlist){.f = f, .of = malloc(configs * sizeof *r.list.of), .time = malloc(configs * sizeof(double))};
    const tw_status st = r.list.of && r.list.time ? run(&r, diag) : tw_fail_memory(diag);
    free(r.list.of);
    free(r.list.time);
    out->seconds = since(&r);
    return st;
}
