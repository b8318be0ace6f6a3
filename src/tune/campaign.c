/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "tune/campaign.h"

#include "base/clock.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/text.h"
#include "tune/cover.h"
#include "tune/trials.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- measuring */

typedef struct keeping {
    const tw_family *f;
    tw_store *store;
    const char *name, *phase;
    char problem[TW_FAMILY_WORDS], protocol[TW_FAMILY_WORDS];
    double work;                /* Operations of the problem. */
    const char *const *configs; /* Configurations that the family measures. */
    int told;                   /* Number of configurations whose result the family has passed on. */
    bool (*interrupted)(void *context);
    void *context;
    tw_campaign_progress *progress;
} keeping;

/* Writes a hash of the family's environment and name as 16 hexadecimal digits. */
static void name_family(const tw_family *f, char out[17]) {
    uint64_t sum[2];
    tw_hash h = tw_hash_begin();
    tw_hash_add(&h, f->environment, strlen(f->environment) + 1);
    tw_hash_add(&h, f->name, strlen(f->name));
    tw_hash_end(&h, sum);
    snprintf(out, 17, "%016llx", (unsigned long long)sum[0]);
}

enum { KEY = 3 * TW_FAMILY_WORDS };

/* Writes the key of a configuration's measurement, and tells whether the store has that measurement. If the store has
   the key for another environment or family, the hash of name_family is appended to it. */
static tw_status find_key(const keeping *k, const char *config, char key[KEY], bool *has, tw_diag *diag) {
    const tw_family *f = k->f;
    tw_store_found found;
    tw_trials_key(key, KEY, k->name, k->phase, k->problem, config);
    tw_status st = tw_store_find(k->store, key, f->environment, f->name, &found, diag);
    if (st == TW_OK && found == TW_STORE_OTHER) {
        char name[17];
        const size_t length = strlen(key);
        name_family(f, name);
        snprintf(key + length, KEY - length, "|%s", name);
        st = tw_store_find(k->store, key, f->environment, f->name, &found, diag);
    }
    *has = found == TW_STORE_SAME;
    return st;
}

/* Returns the measurement of a result. Its texts are those of the arguments. */
static tw_measurement measurement_of(const tw_family *f, const tw_measured *m, const char *key, const char *problem,
                                     const char *config, const char *protocol) {
    return (tw_measurement){.key = key,
                            .environment = f->environment,
                            .space = f->name,
                            .problem = problem,
                            .config = config,
                            .protocol = protocol,
                            .unit = f->unit,
                            .status = m->status,
                            .message = m->status == TW_OK ? "" : m->diag->message,
                            .samples = m->samples,
                            .n = (int)m->time.n,
                            .clock_mhz = tw_power_clock(f->power),
                            .watts = tw_power_watts(f->power),
                            .began = m->began};
}

static tw_status keep(void *context, const tw_measured *m, tw_diag *diag) {
    keeping *k = context;
    char key[KEY];
    bool has;
    k->told++;
    const char *config = k->configs[m->candidate];
    const tw_status st = find_key(k, config, key, &has, diag);
    if (st != TW_OK) return st;
    const tw_measurement one = measurement_of(k->f, m, key, k->problem, config, k->protocol);
    k->progress->measured++;
    k->progress->wrong += m->status == TW_ERR_MISMATCH;
    k->progress->failed += m->status != TW_OK && m->status != TW_ERR_MISMATCH;
    if (m->status == TW_OK)
        k->progress->best = fmax(k->progress->best, k->work / (tw_family_time(k->f, &m->time) * 1e-6));
    return tw_store_add(k->store, &one, NULL, diag);
}

static bool is_interrupted(void *context) {
    const keeping *k = context;
    return k->interrupted && k->interrupted(k->context);
}

tw_status tw_campaign_measure(const tw_family *f, tw_store *s, const char *name, const char *phase,
                              const int64_t *problem, const char *const *configs, int n, const tw_measure_protocol *p,
                              bool (*interrupted)(void *context), void *context, tw_campaign_progress *progress,
                              tw_diag *diag) {
    keeping k = {.f = f,
                 .store = s,
                 .name = name,
                 .phase = phase,
                 .work = tw_family_work(f, problem),
                 .interrupted = interrupted,
                 .context = context,
                 .progress = progress};
    const char **left = malloc((size_t)(n + 1) * sizeof *left);
    int count = 0;
    tw_status st = TW_OK;
    if (!left) return tw_fail_memory(diag);
    tw_family_print(f, problem, k.problem, sizeof k.problem);
    tw_text protocol = {k.protocol, sizeof k.protocol, 0};
    tw_text_add(&protocol, "samples=%d warmups=%d %s", p->samples, p->warmups, f->protocol);
    tw_measure_protocol own = *p;
    if (f->energy) {
        own.power = f->power;
        own.power_seconds = TW_CAMPAIGN_POWER;
        tw_text_add(&protocol, " energy_seconds=%g", TW_CAMPAIGN_POWER);
    }
    for (int i = 0; i < n && st == TW_OK; i++) {
        char key[KEY];
        bool has;
        st = find_key(&k, configs[i], key, &has, diag);
        if (st != TW_OK) break;
        if (has)
            progress->had++;
        else
            left[count++] = configs[i];
    }
    k.configs = left;
    const tw_family_listener l = {keep, is_interrupted, &k};
    if (st == TW_OK && count && !f->recorded) {
        st = f->calls->measure(f->self, problem, left, count, &own, &l, diag);
        progress->cut |= k.told < count;
    }
    free(left);
    return st;
}

/* ---- phases */

typedef struct running {
    const tw_family *f;
    tw_store *store;
    const tw_campaign_options *o;
    int64_t began; /* When the run began, by tw_now_ns. */
    tw_campaign_progress progress;
    bool *keep, *likes;             /* Results of tw_campaign_learn. */
    char (*texts)[TW_FAMILY_WORDS]; /* Room for the texts of `configs`. */
    const char **configs;           /* Configurations of the current job. */
    int n;                          /* Number of configurations of the current job. */
    double referred; /* Seconds from `began` to the last measurement of the reference. 0: there is none. */
    double first;    /* First time of the reference. 0: it was not measured yet. */
} running;

static double now(const running *r) {
    return (double)(tw_now_ns() - r->began) * 1e-9;
}

/* Sets the problem and the configuration of the reference. False: the family's default cannot compute the problem, or
   no usual problem is small enough. */
static bool find_reference(const tw_family *f, int64_t *problem, char config[TW_FAMILY_WORDS]) {
    double middle[TW_SELECT_AXES], least[TW_SELECT_AXES] = {0};
    for (int a = 0; a < TW_SELECT_AXES; a++) middle[a] = 0.5;
    if (!tw_family_place(f, middle, problem) && !tw_family_place(f, least, problem)) return false;
    tw_family_config(f, f->macro, f->micro, config, TW_FAMILY_WORDS);
    return tw_family_divide(f, f->macro, problem).grid > 0;
}

/* Tells whether a limit or an interruption ends the campaign. */
static bool is_over(running *r) {
    const tw_campaign_options *o = r->o;
    r->progress.seconds = now(r);
    r->progress.cut |= (o->seconds > 0 && r->progress.seconds >= o->seconds) ||
                       (o->most > 0 && r->progress.measured >= o->most) ||
                       (o->interrupted && o->interrupted(o->context));
    return r->progress.cut;
}

static void add_config(running *r, int macro, int micro) {
    tw_family_config(r->f, macro, micro, r->texts[r->n], TW_FAMILY_WORDS);
    r->configs[r->n] = r->texts[r->n];
    r->n++;
}

/* A measurement of the reference. */
typedef struct referring {
    running *r;
    char problem[TW_FAMILY_WORDS], config[TW_FAMILY_WORDS];
} referring;

/* Takes the time of the reference, and adds the measurement to the store. A failed measurement is not added. */
static tw_status take_reference(void *context, const tw_measured *m, tw_diag *diag) {
    const referring *of = context;
    running *r = of->r;
    char phase[64], key[KEY];
    if (m->status != TW_OK || m->time.n < 1) return TW_OK;
    snprintf(phase, sizeof phase, "reference-%lld", (long long)m->began);
    tw_trials_key(key, sizeof key, r->o->name, phase, of->problem, of->config);
    const double time = tw_family_time(r->f, &m->time);
    if (!r->first) r->first = time;
    r->progress.references++;
    r->progress.drift = fmax(r->progress.drift, fmax(time / r->first, r->first / time) - 1);
    const tw_measurement one = measurement_of(r->f, m, key, of->problem, of->config, r->f->protocol);
    return tw_store_add(r->store, &one, NULL, diag);
}

static bool reference_interrupted(void *context) {
    const tw_campaign_options *o = ((const referring *)context)->r->o;
    return o->interrupted && o->interrupted(o->context);
}

/* Measures the reference if it is time to. */
static tw_status refer(running *r, tw_diag *diag) {
    const tw_measure_protocol p = {.warmups = 1, .samples = 5};
    referring of = {.r = r};
    const tw_family_listener l = {take_reference, reference_interrupted, &of};
    int64_t problem[TW_SELECT_AXES] = {0};
    if (!(r->o->reference > 0) || r->f->recorded || r->f->energy || now(r) - r->referred < r->o->reference)
        return TW_OK;
    if (!find_reference(r->f, problem, of.config)) return TW_OK;
    tw_family_print(r->f, problem, of.problem, sizeof of.problem);
    const char *const configs[] = {of.config};
    const tw_status st = r->f->calls->measure(r->f->self, problem, configs, 1, &p, &l, diag);
    r->referred = now(r);
    return st;
}

/* Measures the current job's configurations of a problem. */
static tw_status run_job(running *r, const char *phase, const int64_t *problem, tw_measure_protocol p, tw_diag *diag) {
    const tw_campaign_options *o = r->o;
    tw_status st = refer(r, diag);
    if (st != TW_OK) return st;
    if (o->seconds > 0) p.seconds = fmax(o->seconds - now(r), 1e-3);
    st = tw_campaign_measure(r->f, r->store, o->name, phase, problem, r->configs, r->n, &p, o->interrupted, o->context,
                             &r->progress, diag);
    r->progress.jobs++;
    r->progress.seconds = now(r);
    if (st == TW_OK && o->progress) o->progress(o->context, &r->progress);
    return st;
}

/* The jobs of a phase. All processes that run a campaign have the same jobs in the same order. */
typedef struct jobs {
    const char *phase;            /* Name of the phase (tune/trials.h). */
    tw_measure_protocol protocol; /* How each configuration is measured. */
    int64_t n;                    /* Number of jobs. */
    /* Sets the problem and the configurations of job i. False: the job is left out. */
    bool (*set)(running *r, const void *context, int64_t i, int64_t *problem);
    const void *context; /* Passed to `set`. */
    /* Seconds since the campaign began. After them no job but the first one begins. 0: no limit. */
    double until;
} jobs;

static void wait_a_little(void) {
    const struct timespec t = {.tv_nsec = 20000000};
    nanosleep(&t, NULL);
}

/* Runs a job. *busy becomes true if another process has claimed it, and then nothing is done. */
static tw_status run_claimed(running *r, const jobs *j, int64_t i, bool *busy, tw_diag *diag) {
    int64_t problem[TW_SELECT_AXES] = {0};
    char words[TW_FAMILY_WORDS], name[3 * TW_FAMILY_WORDS];
    bool mine;
    r->n = 0;
    *busy = false;
    if (!j->set(r, j->context, i, problem)) return TW_OK;
    tw_family_print(r->f, problem, words, sizeof words);
    name_family(r->f, name);
    tw_trials_key(name + 16, sizeof name - 16, r->o->name, j->phase, words, r->n ? r->configs[0] : "");
    tw_status st = tw_store_claim(r->store, name, &mine, diag);
    *busy = !mine;
    if (st != TW_OK || !mine) return st;
    st = run_job(r, j->phase, problem, j->protocol, diag);
    tw_store_release(r->store, name);
    return st;
}

/* Runs jobs in order. Jobs that other processes have claimed come last. Each of them is run when its claim is released:
   its measurements are then in the store, or its process ended before it was done. So all jobs of a phase are done
   before the next phase begins. */
static tw_status run_jobs(running *r, const jobs *j, tw_diag *diag) {
    int64_t *others = malloc(((size_t)j->n + 1) * sizeof *others), n = 0;
    tw_status st = others ? TW_OK : tw_fail_memory(diag);
    bool busy;
    for (int64_t i = 0; i < j->n && st == TW_OK && !is_over(r); i++) {
        if (i && j->until > 0 && now(r) > j->until) break;
        st = run_claimed(r, j, i, &busy, diag);
        if (st == TW_OK && busy) others[n++] = i;
    }
    for (int64_t k = 0; k < n && st == TW_OK; k++) do {
            if (is_over(r)) break;
            st = run_claimed(r, j, others[k], &busy, diag);
            if (busy) wait_a_little();
        } while (st == TW_OK && busy);
    free(others);
    return st;
}

/* Computes point i of an additive recurrence of low discrepancy in the unit cube of n axes. Its steps are the negative
   powers of the positive root of x^(n+1) = x + 1, which generalises the golden ratio (Roberts 2018). `shift` is the
   point 0. */
static void find_place(int n, const double *shift, int64_t i, double *unit) {
    double root = 2, step = 1;
    for (int t = 0; t < 32; t++) root = pow(1 + root, 1.0 / (n + 1));
    for (int a = 0; a < n; a++) {
        step /= root;
        unit[a] = fmod(shift[a] + (double)i * step, 1);
    }
}

/* Tells whether a problem is among the first n of a list. */
static bool is_among(int64_t (*list)[TW_SELECT_AXES], int n, const int64_t *problem) {
    for (int i = 0; i < n; i++)
        if (!memcmp(list[i], problem, sizeof *list)) return true;
    return false;
}

/* Lists at most `most` problems that fill the range evenly, each once. `shift` says where the sequence begins. Returns
   their number: small ranges have few. */
static int list_evenly(const running *r, const double *shift, int most, int64_t (*list)[TW_SELECT_AXES]) {
    enum { TRIES = 20 };
    double unit[TW_SELECT_AXES];
    int n = 0;
    for (int64_t i = 0; n < most && i < TRIES * (int64_t)most; i++) {
        find_place(r->f->n_axes, shift, i, unit);
        memset(list[n], 0, sizeof *list);
        if (tw_family_place(r->f, unit, list[n]) && !is_among(list, n, list[n])) n++;
    }
    return n;
}

/* Sets the configurations of a screened problem. */
static bool set_screen(running *r, const void *context, int64_t i, int64_t *problem) {
    const int64_t *all = context;
    memcpy(problem, all + i * TW_SELECT_AXES, TW_SELECT_AXES * sizeof *all);
    for (int m = 0; m < r->f->n_macros; m++)
        for (int k = 0; k < r->f->macros[m].n_micros && tw_family_divide(r->f, m, problem).grid; k++)
            if (!k || r->o->thorough) add_config(r, m, k);
    return true;
}

/* Screened problems decide which configurations a campaign learns about. They are the same in every campaign of a
   family, so that campaigns differ in what they measured, and not in what they chose from. */
static int list_screens(const running *r, int64_t (*list)[TW_SELECT_AXES]) {
    double middle[TW_SELECT_AXES];
    for (int a = 0; a < TW_SELECT_AXES; a++) middle[a] = 0.5;
    return list_evenly(r, middle, r->o->screens, list);
}

static int draw_screens(const running *r, int64_t (*list)[TW_SELECT_AXES]) {
    tw_random random = tw_random_seed(r->o->seed);
    for (int i = 0; i < r->o->screens; i++) tw_family_draw(r->f, &random, list[i]);
    return r->o->screens;
}

static tw_status screen(running *r, tw_diag *diag) {
    /* A single sample of a shared device may be delayed. */
    const tw_measure_protocol once = {.samples = r->f->shared ? 2 : 1, .turns = r->f->shared};
    int64_t(*list)[TW_SELECT_AXES] = calloc((size_t)r->o->screens + 1, sizeof *list);
    if (!list) return tw_fail_memory(diag);
    const int n = r->o->cover ? list_screens(r, list) : draw_screens(r, list);
    r->progress.planned = n;
    const jobs j = {.phase = TW_TRIALS_SCREENS,
                    .protocol = once,
                    .n = n,
                    .set = set_screen,
                    .context = list,
                    .until = r->o->cover ? TW_CAMPAIGN_SCREEN * r->o->seconds : 0};
    const tw_status st = run_jobs(r, &j, diag);
    free(list);
    return st;
}

/* On a shared device the second phase measures a FEWER-th of the configurations at FEWER times as many problems. Times
   are noisy there, and the least of many noisy predictions is too low, so that the choice among fewer configurations is
   better. */
enum { FEWER = 3 };

static int most_spread(const running *r) {
    return r->f->shared ? FEWER * r->o->spread : r->o->spread;
}

static int most_cover(const running *r) {
    return r->f->shared ? (r->o->cover + FEWER - 1) / FEWER : r->o->cover;
}

/* Lists the problems of the spread, which begins where the seed says. */
static int list_spread(const running *r, int64_t (*list)[TW_SELECT_AXES]) {
    tw_random random = tw_random_seed(~r->o->seed);
    double shift[TW_SELECT_AXES];
    for (int a = 0; a < r->f->n_axes; a++) shift[a] = tw_random_unit(&random);
    return list_evenly(r, shift, most_spread(r), list);
}

/* The jobs of the second phase. Each is a problem in all choices that can compute it. */
typedef struct spreading {
    int64_t (*list)[TW_SELECT_AXES]; /* The problems. */
    const tw_choice *choices;        /* The choices. */
    int n;                           /* Number of choices. */
} spreading;

static bool set_spread(running *r, const void *context, int64_t i, int64_t *problem) {
    const spreading *s = context;
    memcpy(problem, s->list[i], sizeof *s->list);
    for (int k = 0; k < s->n; k++)
        if (tw_family_divide(r->f, s->choices[k].macro, problem).grid)
            add_config(r, s->choices[k].macro, s->choices[k].micro);
    return true;
}

/* Returns the number of samples of a configuration. On a shared device the least one counts, for which more are needed
   than for a median. */
static int samples_of(const running *r) {
    return r->f->shared ? 2 * r->o->samples : r->o->samples;
}

static tw_status spread_over(running *r, const tw_choice *choices, int n, tw_diag *diag) {
    spreading s = {calloc((size_t)most_spread(r) + 1, sizeof *s.list), choices, n};
    if (!s.list) return tw_fail_memory(diag);
    const jobs j = {.phase = TW_TRIALS_SPREAD,
                    .protocol = {.warmups = 1, .samples = samples_of(r), .turns = r->f->shared || r->f->drifts},
                    .n = list_spread(r, s.list),
                    .set = set_spread,
                    .context = &s};
    r->progress.planned = r->progress.jobs + j.n;
    const tw_status st = run_jobs(r, &j, diag);
    free(s.list);
    return st;
}

/* Returns how many configurations are measured at each problem of the spread. With a budget they are so few that SPREAD
   problems fit into what is left, as far as screening tells the time of a configuration. A campaign that goes on keeps
   their number. */
static int count_cover(const running *r, const tw_trial_list *spread) {
    enum { LEAST = 4, SPREAD = 30 };
    /* Time of a configuration in this phase divided by its time in screening, roughly. On a shared device it is run 7
       times in this phase, and twice in screening. */
    const double dearer = r->f->shared ? 3.5 : 2;
    const tw_campaign_options *o = r->o;
    const int most = most_cover(r);
    int n = 0;
    if (!(o->seconds > 0)) return most;
    while (n < spread->n && !tw_trials_by_problem(&spread->at[n], &spread->at[0])) n++;
    if (!n && !r->progress.measured) return most;
    if (!n) {
        const double each = dearer * now(r) / (double)r->progress.measured;
        n = (int)fmin((o->seconds - now(r)) / (each * fmin(most_spread(r), SPREAD)), most);
    }
    if (n < LEAST) n = LEAST;
    return n < most ? n : most;
}

/* Runs the second phase. Its choices cover the screened problems. */
static tw_status spread(running *r, tw_diag *diag) {
    tw_trials t;
    tw_choice *choices = calloc((size_t)r->o->cover + 1, sizeof *choices);
    int n = 0;
    if (!choices) return tw_fail_memory(diag);
    tw_status st = tw_trials_read(&t, r->f, r->store, r->o->name, diag);
    if (st == TW_OK) {
        st = tw_cover_apart(r->f, &t.screens, TW_COVER_SAMPLES, count_cover(r, &t.spread), choices, &n, diag);
        tw_trials_free(&t);
    }
    if (st == TW_OK) st = spread_over(r, choices, n, diag);
    free(choices);
    return st;
}

/* Jobs of tw_campaign_plan. */
typedef struct pointing {
    const tw_campaign_job *jobs;
    bool corners; /* True: the corners are run. False: the other jobs are. */
} pointing;

static bool set_point(running *r, const void *context, int64_t i, int64_t *problem) {
    const pointing *p = context;
    const tw_campaign_job *job = &p->jobs[i];
    if (job->corner != p->corners) return false;
    memcpy(problem, job->problem, sizeof job->problem);
    for (int k = 0; k < r->f->macros[job->macro].n_micros; k++)
        if (p->corners || r->likes[job->macro * TW_ARTEFACT_MICROS + k]) add_config(r, job->macro, k);
    return true;
}

static tw_status run_plan(running *r, const tw_campaign_job *plan, int64_t n, bool corners, tw_diag *diag) {
    const pointing p = {plan, corners};
    const jobs j = {.phase = TW_TRIALS_POINTS,
                    .protocol = {.warmups = 1, .samples = r->o->samples},
                    .n = n,
                    .set = set_point,
                    .context = &p};
    return run_jobs(r, &j, diag);
}

static tw_status run_points(running *r, tw_diag *diag) {
    tw_campaign_job *plan = NULL;
    int64_t n = 0;
    tw_status st = tw_campaign_learn(r->f, r->store, r->o, r->keep, r->likes, diag);
    if (st == TW_OK) st = tw_campaign_plan(r->f, r->o, r->keep, &plan, &n, diag);
    if (st == TW_OK && !n) {
        /* The tiles of what was kept are longer than the range, and have no waves in it. Others may have some. */
        free(plan);
        for (int m = 0; m < r->f->n_macros; m++) r->keep[m] = true;
        st = tw_campaign_plan(r->f, r->o, r->keep, &plan, &n, diag);
    }
    r->progress.planned += n;
    if (st == TW_OK) st = run_plan(r, plan, n, true, diag);
    if (st == TW_OK && !r->progress.cut) st = tw_campaign_learn(r->f, r->store, r->o, r->keep, r->likes, diag);
    if (st == TW_OK && !r->progress.cut) st = run_plan(r, plan, n, false, diag);
    free(plan);
    return st;
}

static tw_status run_phases(running *r, tw_diag *diag) {
    tw_status st = screen(r, diag);
    if (st == TW_OK && r->o->cover && !r->progress.cut) st = spread(r, diag);
    if (st == TW_OK && r->o->waves && !r->progress.cut) st = run_points(r, diag);
    return st;
}

tw_status tw_campaign_run(const tw_family *f, tw_store *s, const tw_campaign_options *o, tw_campaign_progress *out,
                          tw_diag *diag) {
    running r = {.f = f, .store = s, .o = o, .began = tw_now_ns(), .progress = {.energy = f->energy}};
    const size_t most = (size_t)tw_family_configs(f) + 1;
    tw_status st = o->waves ? tw_campaign_check_points(f, diag) : TW_OK;
    if (st != TW_OK) return st;
    r.keep = calloc((size_t)f->n_macros + 1, sizeof *r.keep);
    r.likes = calloc(((size_t)f->n_macros + 1) * TW_ARTEFACT_MICROS, sizeof *r.likes);
    r.texts = malloc(most * sizeof *r.texts);
    r.configs = malloc(most * sizeof *r.configs);
    st = r.keep && r.likes && r.texts && r.configs ? run_phases(&r, diag) : tw_fail_memory(diag);
    free(r.keep);
    free(r.likes);
    free(r.texts);
    free(r.configs);
    if (out) *out = r.progress;
    return st;
}
