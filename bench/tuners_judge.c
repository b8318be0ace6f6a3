/* SPDX-License-Identifier: Apache-2.0 */
/* What the choices of tuners are worth, by the times that a store has. */
#include "base/clock.h"
#include "base/diag.h"
#include "tune/bandit.h"
#include "tune/models.h"
#include "tune/trials.h"
#include "tuners.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEEDS = 100, /* Searches with chance in them are repeated with so many seeds. */
    TESTED = 30, /* Configurations that a search measures, as in the paper. */
    MOST = 4096, /* The most own configurations. */
    STEPS = 9    /* Lengths of searches. */
};
static const int steps[STEPS] = {1, 2, 5, 10, 20, 30, 50, 100, 200};

/* A product on which tuners are judged. */
typedef struct held {
    tuner_product p;
    int batch;
    int64_t problem[TW_SELECT_AXES];
    char words[TW_FAMILY_WORDS];
    tw_choice *list; /* Own configurations that ran. */
    double *time;    /* Time of each in its latest phase. */
    int *at;         /* Index of each in tw_features. */
    int n;
    int best;         /* Index of the fastest. */
    double vendor[2]; /* cuBLASLt's first choice, and the best of its first ones. 0: not measured. */
    double first_s;   /* Seconds of measuring all configurations once. 0: not known. */
    double all_s;     /* Seconds of all measurements. */
    int order[MOST];  /* A model's order of the list. */
} held;

typedef struct judging {
    tw_family f;
    tw_features *features;
    tw_trials trials;
    char environment[2048];
    char space[TW_GEMM_KIND_NAME];
    held of[TUNER_HELD];
    int n;
    double *time;         /* [configs]: times of one product while the store is read. */
    int *phase;           /* [configs]: 1 "first", 2 "close", 3 "final". */
    int64_t wrong;        /* Measurements with a wrong result. */
    int learned;          /* Products that were learned from. */
    double learn_seconds; /* Seconds of measuring them. */
} judging;

/* What the choices of a tuner take, [products]. */
typedef struct choices {
    double time[TUNER_HELD];
} choices;

/* ---- data */

static tw_status take_environment(void *context, const tw_measurement *m, tw_diag *diag) {
    judging *b = context;
    (void)diag;
    if (strcmp(m->space, b->space) != 0) return TW_OK;
    snprintf(b->environment, sizeof b->environment, "%s", m->environment);
    return TW_ERR_REJECTED;
}

static tw_status count_wrong(void *context, const tw_measurement *m, tw_diag *diag) {
    judging *b = context;
    (void)diag;
    b->wrong += m->status == TW_ERR_MISMATCH;
    return TW_OK;
}

typedef struct taking {
    judging *b;
    held *h;
} taking;

static tw_status take(void *context, const tw_measurement *m, tw_diag *diag) {
    static const char *const phases[] = {"first", "close", "final"};
    const taking *t = context;
    int phase = 0, macro, micro, place;
    tw_stats s;
    for (int i = 0; i < 3; i++)
        if (tw_trials_key_is(m->key, TUNERS_JUDGE, phases[i])) phase = i + 1;
    if (!phase || m->status != TW_OK) return TW_OK;
    const tw_status st = tw_store_stats(m, &s, diag);
    if (st != TW_OK) return st;
    if (sscanf(m->config, "by=cublaslt algorithm=%d", &place) == 1) {
        double *v = t->h->vendor;
        if (!place) v[0] = s.median;
        if (!(v[1] > 0) || s.median < v[1]) v[1] = s.median;
        return TW_OK;
    }
    if (!tw_family_find(&t->b->f, m->config, &macro, &micro)) return TW_OK;
    const int k = t->b->features->first[macro] + micro;
    if (phase < t->b->phase[k]) return TW_OK;
    t->b->phase[k] = phase;
    t->b->time[k] = s.median;
    return TW_OK;
}

static bool keep(judging *b, held *h) {
    const int configs = b->features->configs;
    h->list = malloc((size_t)configs * sizeof *h->list);
    h->time = malloc((size_t)configs * sizeof *h->time);
    h->at = malloc((size_t)configs * sizeof *h->at);
    if (!h->list || !h->time || !h->at) return false;
    h->best = -1;
    for (int i = 0; i < b->f.n_macros; i++)
        for (int j = 0; j < b->f.macros[i].n_micros; j++) {
            const int k = b->features->first[i] + j;
            if (!(b->time[k] > 0) || tw_family_is_vendor(&b->f, i)) continue;
            if (h->best < 0 || b->time[k] < h->time[h->best]) h->best = h->n;
            h->list[h->n] = (tw_choice){i, j};
            h->at[h->n] = k;
            h->time[h->n++] = b->time[k];
        }
    return true;
}

static tw_status read_held(judging *b, tw_store *s, tw_diag *diag) {
    tuner_product of[TUNER_HELD];
    int batch[TUNER_HELD];
    const int n = tuners_products(true, of, batch, TUNER_HELD);
    for (int i = 0; i < n; i++) {
        held *h = &b->of[b->n];
        *h = (held){.p = of[i], .batch = batch[i], .problem = {of[i].m, of[i].n, of[i].k}};
        tw_family_print(&b->f, h->problem, h->words, sizeof h->words);
        memset(b->time, 0, (size_t)b->features->configs * sizeof *b->time);
        memset(b->phase, 0, (size_t)b->features->configs * sizeof *b->phase);
        taking t = {b, h};
        const tw_store_filter filter = {b->f.environment, b->f.name, h->words};
        const tw_status st = tw_store_read(s, &filter, take, &t, NULL, diag);
        if (st != TW_OK) return st;
        if (!keep(b, h)) return tw_fail_memory(diag);
        b->n += h->n > 0;
    }
    return b->n ? TW_OK : tw_fail(diag, TW_ERR_USAGE, "the store has none of the products of " TUNERS_MODEL);
}

static tw_status read_all(judging *b, const char *path, tw_gemm_type type, tw_diag *diag) {
    tw_store *s;
    tw_status st = tw_store_open(&s, path, true, diag);
    if (st != TW_OK) return st;
    tw_gemm_kind_name((tw_gemm_kind){.type = type}, b->space);
    tw_store_read(s, NULL, take_environment, b, NULL, diag);
    st = tw_gemm_gpu_recorded(&b->f, (tw_gemm_kind){.type = type}, b->environment, s, diag);
    if (st == TW_OK) st = tw_features_make(&b->features, &b->f, true, diag);
    if (st == TW_OK) st = tw_trials_read(&b->trials, &b->f, s, TUNERS_LEARN, diag);
    b->time = st == TW_OK ? malloc((size_t)b->features->configs * sizeof *b->time) : NULL;
    b->phase = st == TW_OK ? malloc((size_t)b->features->configs * sizeof *b->phase) : NULL;
    if (st == TW_OK && (!b->time || !b->phase)) st = tw_fail_memory(diag);
    if (st == TW_OK) st = read_held(b, s, diag);
    const tw_store_filter filter = {b->f.environment, b->f.name, NULL};
    if (st == TW_OK) st = tw_store_read(s, &filter, count_wrong, b, NULL, diag);
    tw_store_close(s);
    const tw_trial_list *l = &b->trials.screens;
    for (int i = 0; i < l->n; i++) b->learned += !i || tw_trials_by_problem(&l->at[i - 1], &l->at[i]) != 0;
    return st;
}

/* Adds the seconds that measuring printed. */
static void read_log(judging *b, const char *path) {
    FILE *f = path ? fopen(path, "r") : NULL;
    char line[1000];
    while (f && fgets(line, sizeof line, f)) {
        const char *campaign, *phase, *problem;
        double seconds;
        json_t *o = json_loads(line, 0, NULL);
        if (!json_unpack(o, "{s:s, s:s, s:s, s:F}", "campaign", &campaign, "phase", &phase, "problem", &problem,
                         "seconds", &seconds)) {
            if (!strcmp(campaign, TUNERS_LEARN)) b->learn_seconds += seconds;
            for (int i = 0; i < b->n && !strcmp(campaign, TUNERS_JUDGE); i++) {
                if (strcmp(b->of[i].words, problem) != 0) continue;
                b->of[i].all_s += seconds;
                if (!strcmp(phase, "first")) b->of[i].first_s += seconds;
            }
        }
        json_decref(o);
    }
    if (f) fclose(f);
}

/* ---- what choices are worth */

static double share(const judging *b, const choices *c, int i) {
    return c->time[i] > 0 ? b->of[i].time[b->of[i].best] / c->time[i] : 0;
}

static double mean_share(const judging *b, const choices *c) {
    double sum = 0;
    for (int i = 0; i < b->n; i++) sum += log(share(b, c, i)) / b->n;
    return exp(sum);
}

/* Returns what the products of a whole model would take, all over those of the choices; the mean of the batches. */
static double model_share(const judging *b, const choices *c) {
    double sum = 0;
    int n = 0;
    for (int k = 0; k < TUNER_BATCHES; k++) {
        double least = 0, time = 0;
        for (int i = 0; i < b->n; i++) {
            if (b->of[i].batch != tuner_batches[k]) continue;
            least += b->of[i].p.count * b->of[i].time[b->of[i].best];
            time += b->of[i].p.count * c->time[i];
        }
        if (!(time > 0)) continue;
        sum += log(least / time);
        n++;
    }
    return n ? exp(sum / n) : 0;
}

/* Returns the geometric mean of cuBLASLt's first choice over the choices. 0: it was not measured. */
static double over_vendor(const judging *b, const choices *c) {
    double sum = 0;
    for (int i = 0; i < b->n; i++) {
        if (!(b->of[i].vendor[0] > 0)) return 0;
        sum += log(b->of[i].vendor[0] / c->time[i]) / b->n;
    }
    return exp(sum);
}

/* Prints the row of a tuner that measures `measured` configurations of a product and takes `own_s` seconds beside. */
static void print_tuner(const judging *b, const char *name, const choices *c, double measured, double own_s,
                        double learn_s) {
    json_t *shares = json_object();
    double worst = 1, search_s = own_s;
    for (int i = 0; i < b->n; i++) {
        worst = fmin(worst, share(b, c, i));
        json_object_set_new(shares, b->of[i].words, json_real(share(b, c, i)));
        search_s += b->of[i].first_s * fmin(measured / b->of[i].n, 1);
    }
    tuners_print(json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:b}", "case", "tuner", "tuner", name,
                           "measured", measured, "of_best", mean_share(b, c), "worst", worst, "of_model",
                           model_share(b, c), "over_cublaslt", over_vendor(b, c), "search_s", search_s, "learn_s",
                           learn_s, "shares", shares, "correct", b->wrong == 0));
}

static void print_step(const judging *b, const char *name, int measured, double of_best) {
    tuners_print(json_pack("{s:s, s:s, s:i, s:f, s:b}", "case", "search", "tuner", name, "measured", measured,
                           "of_best", of_best, "correct", b->wrong == 0));
}

/* ---- tuners that learn */

/* Orders a product's list by a model's scores, the least first. */
static void rank(held *h, const double *scores) {
    for (int i = 0; i < h->n; i++) {
        int to = i;
        for (; to > 0 && scores[h->at[i]] < scores[h->at[h->order[to - 1]]]; to--) h->order[to] = h->order[to - 1];
        h->order[to] = i;
    }
}

/* Lets each product take the fastest of the first `measured` of its order. */
static choices fastest(const judging *b, int measured) {
    choices c = {{0}};
    for (int i = 0; i < b->n; i++) {
        const held *h = &b->of[i];
        c.time[i] = (double)INFINITY;
        for (int k = 0; k < measured && k < h->n; k++) c.time[i] = fmin(c.time[i], h->time[h->order[k]]);
    }
    return c;
}

static tw_status judge_model(judging *b, tw_model_form form, double *scores, tw_diag *diag) {
    tw_model_options o = tw_model_defaults();
    tw_model *m;
    char again[40];
    o.all = o.own = true;
    o.policy.to_split = 4; /* There are some forty products, where WaveTune's trees have hundreds. */
    o.policy.leaf = 2;
    int64_t began = tw_now_ns();
    const tw_status st = tw_model_fit(&m, form, &b->f, &b->trials, &o, diag);
    if (st != TW_OK) return st;
    const double learn_s = (double)(tw_now_ns() - began) * 1e-9;
    began = tw_now_ns();
    for (int i = 0; i < b->n; i++) {
        tw_model_score(m, b->of[i].problem, scores);
        rank(&b->of[i], scores);
    }
    const double own_s = (double)(tw_now_ns() - began) * 1e-9;
    tw_model_free(m);
    const choices first = fastest(b, 1), more = fastest(b, TESTED);
    print_tuner(b, tw_model_name(form), &first, 0, own_s, learn_s);
    snprintf(again, sizeof again, "%s, measured again", tw_model_name(form));
    print_tuner(b, again, &more, TESTED, own_s, learn_s);
    for (int k = 0; k < STEPS; k++) {
        const choices c = fastest(b, steps[k]);
        print_step(b, tw_model_name(form), steps[k], mean_share(b, &c));
    }
    return TW_OK;
}

/* ---- searches without a model */

/* A replayed search: the times that it asked for. */
typedef struct replay {
    const held *h;
    double best[200]; /* The least time after each measurement. */
    int n;
} replay;

static double replay_time(void *context, int i) {
    replay *r = context;
    const double time = r->h->time[i], before = r->n ? r->best[r->n - 1] : (double)INFINITY;
    if (r->n < (int)(sizeof r->best / sizeof *r->best)) r->best[r->n++] = fmin(before, time);
    return time;
}

/* Draws configurations, each once. */
static void search_random(const held *h, uint64_t seed, replay *r) {
    tw_random random = tw_random_seed(seed);
    int order[MOST]; /* A model's order of the list. */
    for (int i = 0; i < h->n; i++) order[i] = i;
    for (int i = 0; i < h->n && i < steps[STEPS - 1]; i++) {
        const int k = i + (int)tw_random_below(&random, (uint64_t)(h->n - i)), x = order[k];
        order[k] = order[i];
        order[i] = x;
        replay_time(r, x);
    }
}

/* Replays a search with all seeds. Shares and times are geometric means over the seeds. */
static tw_status judge_search(judging *b, bool bandit, tw_diag *diag) {
    const char *name = bandit ? "bandit" : "random";
    double logs[STEPS][TUNER_HELD] = {{0}};
    tw_bandit_options o = tw_bandit_defaults();
    const int64_t began = tw_now_ns();
    o.measurements = steps[STEPS - 1];
    for (int i = 0; i < b->n; i++)
        for (int seed = 0; seed < SEEDS; seed++) {
            replay r = {.h = &b->of[i]};
            tw_bandit_result found;
            o.seed = (uint64_t)(seed * TUNER_HELD + i);
            tw_status st = TW_OK;
            if (bandit)
                st = tw_bandit_search(&found, b->features, b->of[i].list, b->of[i].n, &o, replay_time, &r, diag);
            else
                search_random(&b->of[i], o.seed, &r);
            if (st != TW_OK) return st;
            for (int k = 0; k < STEPS; k++) logs[k][i] += log(r.best[(steps[k] < r.n ? steps[k] : r.n) - 1]) / SEEDS;
        }
    const double own_s = (double)(tw_now_ns() - began) * 1e-9 / SEEDS;
    for (int k = 0; k < STEPS; k++) {
        choices c = {{0}};
        for (int i = 0; i < b->n; i++) c.time[i] = exp(logs[k][i]);
        if (steps[k] == TESTED) print_tuner(b, name, &c, TESTED, own_s, 0);
        print_step(b, name, steps[k], mean_share(b, &c));
    }
    return TW_OK;
}

/* ---- rows */

static void print_products(const judging *b) {
    for (int i = 0; i < b->n; i++) {
        const held *h = &b->of[i];
        char config[TW_FAMILY_WORDS];
        tw_family_config(&b->f, h->list[h->best].macro, h->list[h->best].micro, config, sizeof config);
        tuners_print(json_pack("{s:s, s:s, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, s:b}", "case", "product", "problem",
                               h->words, "batch", h->batch, "count", h->p.count, "configs", h->n, "config", config,
                               "best_us", h->time[h->best], "cublaslt_us", h->vendor[0], "cublaslt_best_us",
                               h->vendor[1], "search_s", h->all_s, "correct", b->wrong == 0));
    }
}

/* The exhaustive search, the configuration without a tuner, and cuBLASLt. */
static void print_baselines(const judging *b) {
    choices best = {{0}}, usual = {{0}}, vendor[2] = {{{0}}};
    double all = 0, seconds = 0, again = 0;
    for (int i = 0; i < b->n; i++) {
        const held *h = &b->of[i];
        const int k = b->features->first[b->f.macro] + b->f.micro;
        best.time[i] = h->time[h->best];
        usual.time[i] = 0;
        for (int j = 0; j < h->n; j++)
            if (h->at[j] == k) usual.time[i] = h->time[j];
        for (int v = 0; v < 2; v++) vendor[v].time[i] = h->vendor[v];
        all += h->n;
        seconds += h->all_s;
        again += h->first_s;
    }
    print_tuner(b, "exhaustive", &best, all / b->n, seconds - again, 0);
    print_tuner(b, "default", &usual, 0, 0, 0);
    if (!(vendor[0].time[0] > 0)) return;
    print_tuner(b, "cuBLASLt, first choice", &vendor[0], 0, 0, 0);
    print_tuner(b, "cuBLASLt, best of 8", &vendor[1], 8, 0, 0);
}

static void print_head(const judging *b, json_t *head) {
    json_object_set_new(head, "family", json_string(b->f.name));
    json_object_set_new(head, "environment", json_loads(b->environment, 0, NULL));
    json_object_set_new(head, "learned_products", json_integer(b->learned));
    json_object_set_new(head, "learned_trials", json_integer(b->trials.screens.n));
    json_object_set_new(head, "learned_measuring_s", json_real(b->learn_seconds));
    if (!*json_string_value(json_object_get(head, "device")))
        json_object_set_new(head, "device", json_string(b->f.device));
    tuners_print(head);
}

tw_status tuners_judge(const char *path, tw_gemm_type type, const char *log, json_t *head, tw_diag *diag) {
    static const tw_model_form forms[] = {TW_MODEL_MLP, TW_MODEL_TREES, TW_MODEL_TREE, TW_MODEL_NEAR, TW_MODEL_LINEAR};
    static judging b;
    tw_status st = read_all(&b, path, type, diag);
    double *scores = st == TW_OK ? malloc((size_t)b.features->configs * sizeof *scores) : NULL;
    if (st == TW_OK && !scores) st = tw_fail_memory(diag);
    if (st != TW_OK) {
        json_decref(head);
        return st;
    }
    read_log(&b, log);
    print_head(&b, head);
    print_products(&b);
    print_baselines(&b);
    st = judge_search(&b, false, diag);
    if (st == TW_OK) st = judge_search(&b, true, diag);
    for (size_t i = 0; i < sizeof forms / sizeof *forms && st == TW_OK; i++)
        st = judge_model(&b, forms[i], scores, diag);
    free(scores);
    return st;
}
