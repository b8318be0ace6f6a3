/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/session.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/grow.h"
#include "base/stats.h"
#include "tune/regime.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCREENS = 64,  /* The most problems that a session screens because time is left. */
    SPREAD = 2000, /* The most problems over which a session spreads configurations because time is left. */
    RUNS =
        40000, /* About so many products run in a campaign. The time for measuring divided by it limits their work. */
    QUESTIONS = 256 /* Problems that decisions are timed with. */
};
/* The share of the budget that measuring may take. On a shared device disturbed samples are taken again, so that
   held-out problems, of which each legal configuration is measured, take longer. */
static const double MEASURING = 0.7, MEASURING_SHARED = 0.5;

typedef struct problem_list {
    int64_t (*of)[TW_SELECT_AXES];
    int n;
    int room; /* Capacity in problems. */
} problem_list;

typedef struct running {
    tw_family family; /* The caller's, for problems of at most most_work. */
    tw_store *store;
    const tw_session_options *o;
    tw_session *out;
    tw_strategies strategies;
    problem_list seen; /* Problems that are not held out: those of the campaign, and those that were evaluated. */
    int64_t began;     /* Time at which the session began (tw_now_ns). */
    int64_t phase;     /* Time at which the current phase began (tw_now_ns). */
    double share;      /* Sum of the logarithms of the shares of the oracle that the artefact's choices have. */
    int shares;        /* Number of shares in the sum. */
    int evaluated;     /* Number of problems that were evaluated. */
    bool over;         /* True: the next problem would not end within the budget. */
} running;

static double seconds_since(int64_t began) {
    return (double)(tw_now_ns() - began) * 1e-9;
}

/* Returns the seconds of the budget that measuring may take. 0: no limit. */
static double measuring_seconds(const running *r) {
    return r->o->seconds * (r->family.shared ? MEASURING_SHARED : MEASURING);
}

static bool interrupted(running *r) {
    if (!r->out->interrupted && r->o->interrupted) r->out->interrupted = r->o->interrupted(r->o->context);
    return r->out->interrupted;
}

static bool is_interrupted(void *context) {
    return interrupted(context);
}

static void tell(running *r, tw_session_phase phase, double left) {
    const tw_session_progress p = {.phase = phase,
                                   .campaign = &r->out->campaign,
                                   .problems = r->evaluated,
                                   .planned = r->o->problems,
                                   .share = r->shares ? exp(r->share / r->shares) : 0,
                                   .seconds = seconds_since(r->began),
                                   .left = left > 0 ? left : 0};
    if (r->o->progress) r->o->progress(r->o->context, &p);
}

/* ---- how large problems may be */

#define RATE "rate" /* The phase that measures the family's default. */

/* The time of the family's default. */
typedef struct rate_of {
    const tw_family *f;
    double time; /* In the family's unit. 0: it did not run. */
} rate_of;

static tw_status take_time(void *context, const tw_measurement *m, tw_diag *diag) {
    rate_of *of = context;
    tw_stats stats;
    if (!tw_trials_key_is(m->key, NULL, RATE) || m->status != TW_OK || m->n < 1) return TW_OK;
    const tw_status st = tw_store_stats(m, &stats, diag);
    if (st == TW_OK) of->time = tw_family_time(of->f, &stats);
    return st;
}

/* Measures the family's default on a problem in the middle of the usual ones, unless the store has it. *rate is in
   operations a second. 0: it did not run. */
static tw_status find_rate(running *r, double *rate, tw_diag *diag) {
    static const tw_measure_protocol p = {.warmups = 1, .samples = 3};
    const tw_family *f = &r->family;
    int64_t problem[TW_SELECT_AXES] = {0};
    char words[TW_FAMILY_WORDS], config[TW_FAMILY_WORDS];
    const char *configs[] = {config};
    tw_campaign_progress progress = {0};
    rate_of of = {f, 0};
    for (int a = 0; a < f->n_axes; a++) {
        problem[a] = (int64_t)sqrt((double)f->least[a] * (double)f->most[a]) / f->step[a] * f->step[a];
        if (problem[a] < f->least[a]) problem[a] = f->least[a];
    }
    if (!tw_family_fits(f, problem)) memcpy(problem, f->least, sizeof problem);
    tw_family_config(f, f->macro, f->micro, config, sizeof config);
    tw_family_print(f, problem, words, sizeof words);
    const tw_store_filter filter = {f->environment, f->name, words};
    tw_status st = tw_campaign_measure(f, r->store, r->o->campaign.name, RATE, problem, configs, 1, &p, is_interrupted,
                                       r, &progress, diag);
    if (st == TW_OK) st = tw_store_read(r->store, &filter, take_time, &of, NULL, diag);
    *rate = of.time > 0 ? tw_family_work(f, problem) / (of.time * 1e-6) : 0;
    return st;
}

static tw_status limit_work(running *r, tw_diag *diag) {
    double rate = 0;
    const bool limited = r->o->seconds > 0 && !r->family.recorded;
    const tw_status st = limited ? find_rate(r, &rate, diag) : TW_OK;
    const double most = rate * measuring_seconds(r) / RUNS;
    if (most > 0 && (!(r->family.most_work > 0) || most < r->family.most_work)) r->family.most_work = most;
    tw_family_admit_least(&r->family);
    r->out->most_work = r->family.most_work;
    return st;
}

/* ---- measuring */

static void measured(void *context, const tw_campaign_progress *p) {
    running *r = context;
    r->out->campaign = *p;
    const double by_jobs = p->jobs ? p->seconds / (double)p->jobs * (double)(p->planned - p->jobs) : 0;
    const double by_budget = measuring_seconds(r) - p->seconds;
    const double rest = r->o->seconds > 0 ? fmin(by_jobs, by_budget) : by_jobs;
    tell(r, TW_SESSION_MEASURING, rest + r->o->seconds - measuring_seconds(r));
}

/* Runs the campaign once. Its options are the session's, with other numbers of problems. */
static tw_status run_campaign(running *r, int screens, int spread, tw_campaign_progress *out, tw_diag *diag) {
    tw_campaign_options o = r->o->campaign;
    o.screens = screens;
    o.spread = spread;
    o.seconds = r->o->seconds > 0 ? fmax(measuring_seconds(r) - seconds_since(r->began), 1e-3) : 0;
    o.interrupted = is_interrupted;
    o.progress = measured;
    o.context = r;
    return tw_campaign_run(&r->family, r->store, &o, out, diag);
}

static int more_of(int n, int most) {
    return n < 1 ? 1 : 2 * n < most ? 2 * n : most;
}

/* Runs the campaign, and again with more problems while time is left.
   - If the device's speed varies, more problems are spread. The configurations stay the same. So all of a problem's
     are measured at the same time, and a change of speed favours none of them.
   - If it does not vary, more problems are screened. A cover of more problems has better configurations, which are then
     spread too. The forms of the model by waves are judged on the screened problems. */
static tw_status measure(running *r, tw_diag *diag) {
    tw_campaign_progress *all = &r->out->campaign, more = {0};
    int screens = r->o->campaign.screens, spread = r->o->campaign.spread;
    tw_status st = run_campaign(r, screens, spread, all, diag);
    const bool limited = r->o->seconds > 0 && !r->family.recorded;
    const bool varies = r->o->campaign.cover && (r->family.shared || r->family.drifts);
    while (st == TW_OK && limited && !all->cut && (varies ? spread < SPREAD : screens < SCREENS)) {
        const tw_campaign_progress before = *all;
        if (varies)
            spread = more_of(spread, SPREAD);
        else
            screens = more_of(screens, SCREENS);
        st = run_campaign(r, screens, spread, &more, diag);
        *all = before;
        all->measured += more.measured;
        all->wrong += more.wrong;
        all->failed += more.failed;
        all->best = fmax(more.best, before.best);
        all->references += more.references;
        all->drift = fmax(more.drift, before.drift);
        all->seconds = seconds_since(r->phase);
        if (more.cut) break;
    }
    return st;
}

/* ---- training */

static tw_status train(running *r, tw_diag *diag) {
    tw_selector_info info;
    tell(r, TW_SESSION_TRAINING, r->o->seconds - seconds_since(r->began));
    const char *name = r->o->campaign.name;
    tw_status st = tw_train(&r->family, r->store, name, r->o->artefact, &r->out->trained, diag);
    if (st == TW_ERR_USAGE)
        return tw_fail(diag, st, "the budget was over before there was anything to learn from: give it more seconds");
    if (st == TW_OK) st = tw_strategies_open(&r->strategies, &r->family, r->store, r->o->artefact, NULL, name, diag);
    if (st != TW_OK) return st;
    tw_selector_describe(r->strategies.selector, &info);
    r->out->artefact_bytes = info.bytes;
    return TW_OK;
}

/* ---- evaluating */

static bool add_seen(problem_list *l, const int64_t *problem) {
    int64_t(*const of)[TW_SELECT_AXES] = tw_grow(l->of, l->n, &l->room, 256, sizeof *of);
    if (!of) return false;
    l->of = of;
    memcpy(l->of[l->n++], problem, sizeof *l->of);
    return true;
}

static tw_status take_seen(void *context, const tw_measurement *m, tw_diag *diag) {
    running *r = context;
    int64_t problem[TW_SELECT_AXES] = {0};
    static const char *const phases[] = {TW_TRIALS_SCREENS, TW_TRIALS_SPREAD, TW_TRIALS_POINTS};
    bool learned = false;
    for (int i = 0; i < 3; i++) learned = learned || tw_trials_key_is(m->key, r->o->campaign.name, phases[i]);
    if (!learned) return TW_OK;
    if (tw_family_parse(&r->family, problem, m->problem, NULL) != TW_OK) return TW_OK;
    /* Measurements of a problem follow each other. */
    if (r->seen.n && !memcmp(r->seen.of[r->seen.n - 1], problem, sizeof problem)) return TW_OK;
    return add_seen(&r->seen, problem) ? TW_OK : tw_fail_memory(diag);
}

static bool is_seen(void *context, const int64_t *problem) {
    const running *r = context;
    for (int i = 0; i < r->seen.n; i++)
        if (!memcmp(r->seen.of[i], problem, sizeof *r->seen.of)) return true;
    return false;
}

static bool ends(void *context) {
    running *r = context;
    return r->over || interrupted(r);
}

static int find_select(const tw_evaluation *e) {
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->of[i].name, "select")) return i;
    return 0;
}

static tw_status take_result(void *context, const tw_evaluation *e, tw_diag *diag) {
    running *r = context;
    tw_session *s = r->out;
    tw_selection choice;
    const double left = r->o->seconds - seconds_since(r->began);
    const double each = seconds_since(r->phase) / ++r->evaluated;
    r->over = r->o->seconds > 0 && left < each;
    if (!add_seen(&r->seen, e->problem)) return tw_fail_memory(diag);
    if (e->time > 0) {
        tw_session_problem *p = &s->problems[s->n++];
        *p = (tw_session_problem){.result = *e};
        s->select = find_select(e);
        if (tw_select_choose(r->strategies.selector, e->problem, 0, &choice) == TW_OK) p->predicted = choice.time;
        if (e->of[s->select].share > 0) {
            r->share += log(e->of[s->select].share);
            r->shares++;
        }
    } else {
        s->without++;
    }
    const double by_problems = each * (r->o->problems - r->evaluated);
    tell(r, TW_SESSION_EVALUATING, r->o->seconds > 0 ? fmin(by_problems, left) : by_problems);
    return TW_OK;
}

static tw_status evaluate(running *r, tw_diag *diag) {
    const tw_store_filter filter = {.environment = r->family.environment, .space = r->family.name};
    const double left = r->o->seconds - seconds_since(r->began);
    const tw_evaluate_options o = {.name = "eval",
                                   .problems = r->o->problems,
                                   .seconds = r->o->seconds > 0 ? fmax(left, 1e-3) : 0,
                                   .seed = r->o->seed,
                                   .strategies = r->strategies.list,
                                   .n_strategies = r->strategies.n,
                                   .interrupted = ends,
                                   .leaves_out = is_seen,
                                   .result = take_result,
                                   .context = r};
    r->out->problems = calloc((size_t)r->o->problems, sizeof *r->out->problems);
    if (!r->out->problems) return tw_fail_memory(diag);
    tell(r, TW_SESSION_EVALUATING, left);
    const tw_status st = tw_store_read(r->store, &filter, take_seen, r, NULL, diag);
    return st == TW_OK ? tw_evaluate(&r->family, r->store, &o, diag) : st;
}

/* ---- decisions */

static double median(double *x, size_t n) {
    return tw_stats_of(x, n).median;
}

/* Times the artefact's choices twice over the same problems. The second time they come from its cache. */
static tw_status time_selector(running *r, const int64_t (*problems)[TW_SELECT_AXES], double *times, tw_diag *diag) {
    tw_selector *s;
    tw_selection choice;
    double *const results[] = {&r->out->decisions.first, &r->out->decisions.again};
    const tw_status st = tw_selector_open(&s, r->o->artefact, diag);
    if (st != TW_OK) return st;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < QUESTIONS; i++) {
            const int64_t began = tw_now_ns();
            tw_select_choose(s, problems[i], 0, &choice);
            times[i] = (double)(tw_now_ns() - began);
        }
        *results[round] = median(times, QUESTIONS);
    }
    tw_selector_close(s);
    return TW_OK;
}

static tw_status time_decisions(running *r, tw_diag *diag) {
    int64_t(*problems)[TW_SELECT_AXES] = calloc(QUESTIONS, sizeof *problems);
    double times[QUESTIONS];
    char config[TW_FAMILY_WORDS];
    tw_random random = tw_random_seed(r->o->seed + 1);
    if (!problems) return tw_fail_memory(diag);
    for (int i = 0; i < QUESTIONS; i++) tw_family_draw(&r->family, &random, problems[i]);
    const tw_status st = time_selector(r, (const int64_t(*)[TW_SELECT_AXES])problems, times, diag);
    for (int k = 0; k < TW_WAVE_FORMS && st == TW_OK; k++) {
        if (!r->strategies.models[k].m) continue;
        for (int i = 0; i < QUESTIONS; i++) {
            const int64_t began = tw_now_ns();
            tw_train_choose(&r->family, r->strategies.models[k].m, problems[i], config, sizeof config);
            times[i] = (double)(tw_now_ns() - began);
        }
        r->out->decisions.forms[k] = median(times, QUESTIONS);
    }
    free(problems);
    return st;
}

/* ---- the session */

/* Runs a phase. *seconds is the time that it took. */
static tw_status run_phase(running *r, tw_status (*phase)(running *r, tw_diag *diag), double *seconds, tw_diag *diag) {
    r->phase = tw_now_ns();
    const tw_status st = phase(r, diag);
    *seconds = seconds_since(r->phase);
    return st;
}

tw_status tw_session_run(tw_session *out, const tw_family *f, tw_store *store, const tw_session_options *o,
                         tw_diag *diag) {
    running r = {.family = *f, .store = store, .o = o, .out = out, .began = tw_now_ns()};
    double unused;
    *out = (tw_session){0};
    tw_status st = limit_work(&r, diag);
    if (st == TW_OK && !interrupted(&r)) st = run_phase(&r, measure, &out->measure_seconds, diag);
    if (st == TW_OK && !interrupted(&r)) st = run_phase(&r, train, &out->train_seconds, diag);
    if (st == TW_OK && !interrupted(&r)) st = run_phase(&r, evaluate, &out->evaluate_seconds, diag);
    if (st == TW_OK && !interrupted(&r)) st = run_phase(&r, time_decisions, &unused, diag);
    tw_strategies_close(&r.strategies);
    free(r.seen.of);
    return st;
}

void tw_session_free(tw_session *s) {
    free(s->problems);
    *s = (tw_session){0};
}

/* ---- summaries */

double tw_session_time(const tw_evaluation *e, int of) {
    if (of == TW_SESSION_ORACLE) return e->time;
    return of == TW_SESSION_VENDOR ? e->vendor : e->of[of].time;
}

tw_session_summary tw_session_summarise(const tw_family *f, const tw_session *s, int of, unsigned regimes) {
    double *shares = calloc((size_t)s->n + 1, sizeof *shares), over = 0;
    int n = 0, defaults = 0;
    for (int i = 0; i < s->n && shares; i++) {
        const tw_evaluation *e = &s->problems[i].result;
        const double time = tw_session_time(e, of), usual = e->n ? e->of[0].time : 0;
        if (!(time > 0) || (regimes && !(tw_regimes_of(f, e->problem) & regimes))) continue;
        shares[n++] = e->time / time;
        if (!(usual > 0)) continue;
        over += log(usual / time);
        defaults++;
    }
    const tw_evaluate_summary all = tw_evaluate_summarise(shares, n);
    const tw_session_summary out = {.n = n,
                                    .mean = all.mean,
                                    .low1 = n ? shares[n / 100] : 0,
                                    .low5 = all.low5,
                                    .worst = all.worst,
                                    .over = defaults ? exp(over / defaults) : 0};
    free(shares);
    return out;
}
