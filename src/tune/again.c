/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/again.h"

#include "base/clock.h"
#include "base/diag.h"
#include "tune/trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_SAMPLES = 9 };

typedef struct running {
    const tw_family *f;
    tw_store *s;
    const int64_t *problem;
    const tw_again_options *o;
    tw_again_result *out;
    int64_t began;
    tw_choice *of; /* The configurations of the current step. */
    double *time;  /* Time of each. 0: there is none. */
    int n;
    tw_choice drawn; /* The fastest of the drawn configurations. macro -1: none was drawn. */
    const char *phase;
} running;

static double since(const running *r) {
    return (double)(tw_now_ns() - r->began) * 1e-9;
}

/* Tells whether the run is over, by an interruption or by its budget. */
static bool over(void *context) {
    running *r = context;
    tw_again_result *out = r->out;
    if (r->o->interrupted && r->o->interrupted(r->o->context)) out->progress.cut = true;
    if (r->o->seconds > 0 && since(r) > r->o->seconds) out->progress.cut = true;
    return out->progress.cut;
}

static bool interrupted(void *context) {
    const running *r = context;
    return r->o->interrupted && r->o->interrupted(r->o->context);
}

/* Takes the time of a configuration of the current step. */
static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    running *r = context;
    int macro, micro;
    tw_stats s;
    if (m->status != TW_OK || !tw_trials_key_is(m->key, r->o->name, r->phase)) return TW_OK;
    if (!tw_family_find(r->f, m->config, &macro, &micro)) return TW_OK;
    for (int i = 0; i < r->n; i++) {
        if (r->of[i].macro != macro || r->of[i].micro != micro) continue;
        const tw_status st = tw_store_stats(m, &s, diag);
        if (st == TW_OK) r->time[i] = tw_family_time(r->f, &s);
        return st;
    }
    return TW_OK;
}

/* Measures the configurations of a step, and reads their times. */
static tw_status measure(running *r, const char *phase, const tw_measure_protocol *p, bool (*ends)(void *),
                         tw_diag *diag) {
    char problem[TW_FAMILY_WORDS];
    char(*texts)[TW_FAMILY_WORDS] = malloc(((size_t)r->n + 1) * sizeof *texts);
    const char **configs = malloc(((size_t)r->n + 1) * sizeof *configs);
    if (!texts || !configs) {
        free(texts);
        free(configs);
        return tw_fail_memory(diag);
    }
    for (int i = 0; i < r->n; i++) {
        tw_family_config(r->f, r->of[i].macro, r->of[i].micro, texts[i], sizeof texts[i]);
        configs[i] = texts[i];
        r->time[i] = 0;
    }
    r->phase = phase;
    const tw_status st = tw_campaign_measure(r->f, r->s, r->o->name, phase, r->problem, configs, r->n, p, ends, r,
                                             &r->out->progress, diag);
    free(texts);
    free(configs);
    tw_family_print(r->f, r->problem, problem, sizeof problem);
    const tw_store_filter filter = {r->f->environment, r->f->name, problem};
    return st == TW_OK ? tw_store_read(r->s, &filter, take, r, NULL, diag) : st;
}

/* Lists all legal configurations. */
static void list_legal(running *r) {
    r->n = 0;
    for (int i = 0; i < r->f->n_macros; i++) {
        if (tw_family_divide(r->f, i, r->problem).grid < 1) continue;
        for (int j = 0; j < r->f->macros[i].n_micros; j++) r->of[r->n++] = (tw_choice){i, j};
    }
    r->out->legal = r->n;
}

/* Leaves `most` random configurations of the list. */
static void draw(running *r, int most) {
    tw_random random = tw_random_seed(r->o->seed);
    for (int i = 0; i < most && i < r->n; i++) {
        const int j = i + (int)tw_random_below(&random, (uint64_t)(r->n - i));
        const tw_choice x = r->of[i];
        r->of[i] = r->of[j];
        r->of[j] = x;
    }
    if (r->n > most) r->n = most;
}

/* Returns the index of the fastest configuration that is not `but`. -1: there is none. */
static int fastest(const running *r, int but) {
    int best = -1;
    for (int i = 0; i < r->n; i++)
        if (i != but && r->time[i] > 0 && (best < 0 || r->time[i] < r->time[best])) best = i;
    return best;
}

/* Measures random configurations of the problem, and takes them for trials of screening. */
static tw_status screen(running *r, tw_trials *t, tw_diag *diag) {
    static const tw_measure_protocol once = {.samples = 1};
    draw(r, r->o->first);
    const tw_status st = measure(r, TW_AGAIN_DRAW, &once, over, diag);
    if (st != TW_OK) return st;
    t->screens.at = malloc(((size_t)r->n + 1) * sizeof *t->screens.at);
    if (!t->screens.at) return tw_fail_memory(diag);
    for (int i = 0; i < r->n; i++) {
        if (!(r->time[i] > 0)) continue;
        tw_trial *x = &t->screens.at[t->screens.n++];
        *x = (tw_trial){.macro = r->of[i].macro, .micro = r->of[i].micro, .time = r->time[i]};
        memcpy(x->problem, r->problem, sizeof x->problem);
    }
    const int best = fastest(r, -1);
    if (best >= 0) r->drawn = r->of[best];
    return TW_OK;
}

/* Adds the fastest drawn configuration to the list, if it is not there. */
static void add_drawn(running *r) {
    for (int i = 0; i < r->n; i++)
        if (r->of[i].macro == r->drawn.macro && r->of[i].micro == r->drawn.micro) return;
    if (r->drawn.macro >= 0) r->of[r->n++] = r->drawn;
}

/* Fits the model, and leaves in the list what it puts first. */
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
    if (m) r->n = tw_model_rank(m, r->problem, r->o->k, r->of);
    if (m) add_drawn(r);
    tw_model_free(m);
    tw_trials_free(&t);
    r->out->learn_seconds = since(r);
    return st;
}

/* Leaves the fastest configurations in the list, with their places before. */
static void keep_fastest(running *r, int places[TW_AGAIN_LAST]) {
    tw_choice of[TW_AGAIN_LAST];
    int n = 0;
    for (int best; n < TW_AGAIN_LAST && (best = fastest(r, -1)) >= 0; n++) {
        places[n] = best + 1;
        of[n] = r->of[best];
        r->time[best] = 0;
    }
    memcpy(r->of, of, (size_t)n * sizeof *of);
    r->n = n;
}

static tw_status run(running *r, tw_diag *diag) {
    static const tw_measure_protocol once = {.samples = 1},
                                     last = {.warmups = 1, .samples = LAST_SAMPLES, .turns = true};
    int places[TW_AGAIN_LAST] = {0};
    list_legal(r);
    tw_status st = r->o->k ? rank(r, diag) : TW_OK;
    if (st == TW_OK && !interrupted(r)) st = measure(r, TW_AGAIN_TRY, &once, over, diag);
    if (st != TW_OK || interrupted(r)) return st;
    keep_fastest(r, places);
    st = measure(r, TW_TRIALS_EXACT, &last, interrupted, diag);
    const int best = fastest(r, -1), second = fastest(r, best);
    if (st != TW_OK || best < 0) return st;
    r->out->rank = r->o->k ? places[best] : 0;
    r->out->time = r->time[best];
    tw_family_config(r->f, r->of[best].macro, r->of[best].micro, r->out->config, sizeof r->out->config);
    if (second < 0) return st;
    r->out->second_time = r->time[second];
    tw_family_config(r->f, r->of[second].macro, r->of[second].micro, r->out->second, sizeof r->out->second);
    return st;
}

tw_status tw_again(const tw_family *f, tw_store *s, const int64_t *problem, const tw_again_options *o,
                   tw_again_result *out, tw_diag *diag) {
    running r = {.f = f, .s = s, .problem = problem, .o = o, .out = out, .began = tw_now_ns(), .drawn = {-1, -1}};
    size_t configs = 1;
    *out = (tw_again_result){.legal = 0};
    if (f->recorded) return tw_fail(diag, TW_ERR_UNSUPPORTED, "%s is recorded: nothing can be measured of it", f->name);
    for (int i = 0; i < f->n_macros; i++) configs += (size_t)f->macros[i].n_micros;
    r.of = malloc(configs * sizeof *r.of);
    r.time = malloc(configs * sizeof *r.time);
    const tw_status st = r.of && r.time ? run(&r, diag) : tw_fail_memory(diag);
    free(r.of);
    free(r.time);
    out->seconds = since(&r);
    return st;
}
