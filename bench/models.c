/* SPDX-License-Identifier: Apache-2.0 */
/* bench_models STORE [--device TEXT] [--commit NAME] [--forms [--only FORM]] [--sizes] [--data] [--estimates
   [--campaign NAME]] [--ranges]: judges models of a recorded GPU's bf16 products, and prints a line of JSON for each.
   The models learn from the campaigns of the store, and are judged on the problems of its evaluation, which must be
   others.

     --forms  judges each form of model (tune/models.h), with few configurations to choose from and with all. Of
              networks it also prints the predictions per second: on rows that lie problem by problem, and in random
              order
     --sizes  judges networks of the sizes of ISAAC's Table 2, with logarithms as features and without
     --data   judges three forms that learned from fewer problems, and networks without logarithms as well
     --estimates [--campaign NAME]
              judges the order in which tw_gemm_estimate ranks own configurations, on the problems that the campaign
              screened (without NAME: any campaign) and on the evaluated ones. best_of_k is the least time of all over
              the least time of the k that are estimated to be fastest. The bandwidth of memory, which a store lacks,
              is an H200's
     --ranges judges the model by waves when it learned from the first waves alone, and from some of the points of each
              wave (WaveTune's Figure 11): for an M below 1,024, and for larger ones. waves 0: it learned from all waves
              that the store has

   A model chooses among the configurations with a time on the problem. The oracle is the fastest of them. Fields
   own_... are of choices and oracles without vendors' configurations. If the store has a wrong result, no row is
   correct. */
#include "tune/models.h"
#include "base/clock.h"
#include "base/diag.h"
#include "base/stats.h"
#include "kernels/gemm/estimate.h"
#include "tilewright/device.h"
#include "tune/gemm_gpu.h"
#include "tune/train.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    PROBLEMS = 400, /* The most evaluated problems. */
    ROUNDS = 5,     /* How many times each problem is decided to time decisions. */
    SPEED = 16384   /* The most configurations whose predictions are timed. */
};

/* An evaluated problem. Arrays have an element for each configuration, in the order of tw_features. */
typedef struct held {
    char words[120];
    int64_t problem[TW_SELECT_AXES];
    double *time;    /* Median time of each configuration in its latest stage, in microseconds. 0: there is none. */
    int *stage;      /* Stage of each time: 1 "first", 2 "close", 3 "final". 0: there is no time. */
    double base;     /* Time of the family's default. 0: there is none. */
    double least[2]; /* Time of the oracle. [0]: of all configurations. [1]: of those that are no vendor's. */
} held;

typedef struct bench {
    tw_family f;
    char environment[2048];
    tw_trials trials;
    tw_features *features; /* Numbers the configurations. */
    bool *vendor;          /* True for each configuration that is a vendor's. */
    held of[PROBLEMS];
    int n;          /* Number of evaluated problems. */
    int64_t wrong;  /* Number of measurements with a wrong result. */
    double *scores; /* A model's score of each configuration for one problem. */
} bench;

/* The result of judging a model. */
typedef struct worth {
    tw_evaluate_summary shares; /* Shares: the oracle's time divided by that of the choice. */
    double error;               /* Mean relative error of predicted times. 0: the model predicts no times. */
    double squared;             /* Mean squared error of natural logarithms of times. 0: the model predicts no times. */
    double ns;                  /* Median time of a decision in nanoseconds. */
} worth;

/* ---- data */

static tw_status take_environment(void *context, const tw_measurement *m, tw_diag *diag) {
    bench *b = context;
    (void)diag;
    if (strcmp(m->space, "gemm-gpu-bf16") != 0) return TW_OK;
    snprintf(b->environment, sizeof b->environment, "%s", m->environment);
    return TW_ERR_REJECTED;
}

static held *find_problem(bench *b, const char *words) {
    for (int i = b->n - 1; i >= 0; i--)
        if (!strcmp(b->of[i].words, words)) return &b->of[i];
    held *h = b->n < PROBLEMS ? &b->of[b->n] : NULL;
    if (!h || tw_family_parse(&b->f, h->problem, words, NULL) != TW_OK) return NULL;
    snprintf(h->words, sizeof h->words, "%s", words);
    h->time = calloc((size_t)b->features->configs, sizeof *h->time);
    h->stage = calloc((size_t)b->features->configs, sizeof *h->stage);
    if (!h->time || !h->stage) return NULL;
    b->n++;
    return h;
}

static tw_status take_held(void *context, const tw_measurement *m, tw_diag *diag) {
    static const char *const stages[] = {"first", "close", "final"};
    bench *b = context;
    int stage = 0, macro, micro;
    tw_stats s;
    for (int i = 0; i < 3; i++)
        if (tw_trials_key_is(m->key, "eval", stages[i])) stage = i + 1;
    if (m->status == TW_ERR_MISMATCH) b->wrong++;
    if (!stage || m->status != TW_OK) return TW_OK;
    held *h = find_problem(b, m->problem);
    if (!h) return tw_fail(diag, TW_ERR_USAGE, "more than %d problems, or not enough memory", PROBLEMS);
    const tw_status st = tw_store_stats(m, &s, diag);
    char base[TW_FAMILY_WORDS];
    b->f.calls->baseline(b->f.self, 0, h->problem, base, sizeof base);
    if (st == TW_OK && !strcmp(m->config, base)) h->base = s.median;
    if (st != TW_OK || !tw_family_find(&b->f, m->config, &macro, &micro)) return st;
    const int k = b->features->first[macro] + micro;
    if (stage < h->stage[k]) return st;
    h->stage[k] = stage;
    h->time[k] = s.median;
    return TW_OK;
}

static tw_status read_all(bench *b, const char *path, tw_diag *diag) {
    tw_store *s;
    tw_status st = tw_store_open(&s, path, true, diag);
    if (st != TW_OK) return st;
    tw_store_read(s, NULL, take_environment, b, NULL, diag);
    st = tw_gemm_gpu_recorded(&b->f, (tw_gemm_kind){.type = TW_GEMM_BF16}, b->environment, s, diag);
    if (st == TW_OK) st = tw_features_make(&b->features, &b->f, true, diag);
    if (st == TW_OK) st = tw_trials_read(&b->trials, &b->f, s, NULL, diag);
    const tw_store_filter filter = {b->f.environment, b->f.name, NULL};
    if (st == TW_OK) st = tw_store_read(s, &filter, take_held, b, NULL, diag);
    tw_store_close(s);
    b->scores = st == TW_OK ? malloc((size_t)b->features->configs * sizeof *b->scores) : NULL;
    b->vendor = st == TW_OK ? calloc((size_t)b->features->configs, sizeof *b->vendor) : NULL;
    if (st == TW_OK && (!b->scores || !b->vendor)) st = tw_fail_memory(diag);
    if (st != TW_OK) return st;
    for (int i = 0; i < b->f.n_macros; i++)
        for (int j = 0; j < b->f.macros[i].n_micros; j++)
            b->vendor[b->features->first[i] + j] = b->f.macros[i].properties & TW_MACRO_VENDOR;
    for (int i = 0; i < b->n; i++) {
        held *h = &b->of[i];
        h->least[0] = h->least[1] = (double)INFINITY;
        for (int k = 0; k < b->features->configs; k++) {
            if (!(h->time[k] > 0)) continue;
            h->least[0] = fmin(h->least[0], h->time[k]);
            if (!b->vendor[k]) h->least[1] = fmin(h->least[1], h->time[k]);
        }
    }
    return st;
}

/* Copies the trials of a share of the problems. A number drawn from a problem's hash decides whether it is kept, so
   that a larger share has all problems of a smaller one. False: out of memory. */
static bool keep(tw_trial_list *to, const tw_trial_list *from, double share) {
    *to = (tw_trial_list){malloc(((size_t)from->n + 1) * sizeof *to->at), 0, from->n};
    for (int i = 0; to->at && i < from->n; i++) {
        uint64_t hash = 77;
        for (int a = 0; a < TW_SELECT_AXES; a++) hash = (hash ^ (uint64_t)from->at[i].problem[a]) * 0x9e3779b97f4a7c15u;
        tw_random r = tw_random_seed(hash);
        if (tw_random_unit(&r) < share) to->at[to->n++] = from->at[i];
    }
    return to->at != NULL;
}

static int count_problems(const tw_trial_list *l) {
    int n = 0;
    for (int i = 0; i < l->n; i++) n += !i || tw_trials_by_problem(&l->at[i - 1], &l->at[i]) != 0;
    return n;
}

/* ---- judging */

/* Returns the median of the times of decisions, in nanoseconds. */
static double time_decisions(const bench *b, tw_model *m) {
    static double times[PROBLEMS * ROUNDS];
    char config[400];
    int n = 0;
    for (int r = 0; r < ROUNDS; r++)
        for (int i = 0; i < b->n; i++) {
            const int64_t began = tw_now_ns();
            tw_model_choose(m, b->of[i].problem, config, sizeof config);
            times[n++] = (double)(tw_now_ns() - began);
        }
    return tw_stats_of(times, (size_t)n).median;
}

/* Judges a model. With `own` vendors' configurations are left out. */
static worth judge(bench *b, tw_model *m, bool own) {
    static double shares[PROBLEMS];
    worth w = {.ns = 0};
    int n = 0;
    for (int i = 0; i < b->n; i++) {
        const held *h = &b->of[i];
        double least = (double)INFINITY;
        shares[i] = 0;
        tw_model_score(m, h->problem, b->scores);
        for (int k = 0; k < b->features->configs; k++) {
            if (!(h->time[k] > 0) || !isfinite(b->scores[k]) || (own && b->vendor[k])) continue;
            const double off = b->scores[k] - log(h->time[k]);
            w.error += fabs(exp(off) - 1);
            w.squared += off * off;
            n++;
            if (b->scores[k] >= least) continue;
            least = b->scores[k];
            shares[i] = h->least[own] / h->time[k];
        }
    }
    w.error = tw_model_predicts(m) && n ? w.error / n : 0;
    w.squared = tw_model_predicts(m) && n ? w.squared / n : 0;
    w.shares = tw_evaluate_summarise(shares, b->n);
    w.ns = time_decisions(b, m);
    return w;
}

static void print(json_t *o) {
    char *text = json_dumps(o, JSON_REAL_PRECISION(6));
    if (text) puts(text);
    fflush(stdout);
    free(text);
    json_decref(o);
}

/* A model that is judged. */
typedef struct subject {
    const char *kind; /* Field "case" of its rows. */
    const char *name; /* Field "form" of its rows. */
    tw_model_form form;
    const tw_trials *trials; /* The trials that it learns from. */
    tw_model_options options;
    double seconds; /* Time of training. */
} subject;

static tw_status fit(bench *b, subject *s, tw_model **m, tw_diag *diag) {
    const int64_t began = tw_now_ns();
    const tw_status st = tw_model_fit(m, s->form, &b->f, s->trials, &s->options, diag);
    s->seconds = (double)(tw_now_ns() - began) * 1e-9;
    return st;
}

/* Lets a model choose among other configurations. A policy learns anew. */
static tw_status restrict_to(bench *b, subject *s, tw_model **m, bool all, bool own, tw_diag *diag) {
    s->options.all = all;
    s->options.own = own;
    tw_model_allow(*m, s->trials, all, own);
    if (tw_model_predicts(*m)) return TW_OK;
    tw_model_free(*m);
    return fit(b, s, m, diag);
}

/* Judges a model, and prints its row. */
static tw_status print_row(bench *b, subject *s, tw_model **m, bool all, tw_diag *diag) {
    const tw_trials *t = s->trials;
    tw_status st = restrict_to(b, s, m, all, true, diag);
    if (st != TW_OK) return st;
    const worth own = judge(b, *m, true);
    st = restrict_to(b, s, m, all, false, diag);
    if (st != TW_OK) return st;
    const worth w = judge(b, *m, false);
    json_t *r = json_pack("{s:s, s:s, s:s, s:b, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:b}",
                          "case", s->kind, "form", s->name, "choices", all ? "all" : "few", "logarithms",
                          !s->options.plain, "samples", t->spread.n + t->screens.n, "train_problems",
                          count_problems(&t->spread) + count_problems(&t->screens), "problems", w.shares.n, "of_best",
                          w.shares.mean, "low5", w.shares.low5, "worst", w.shares.worst, "own_of_best", own.shares.mean,
                          "own_low5", own.shares.low5, "own_worst", own.shares.worst, "train_s", s->seconds,
                          "decision_ns", w.ns, "bytes", (json_int_t)tw_model_bytes(*m), "weights",
                          (json_int_t)tw_model_weights(*m), "correct", b->wrong == 0);
    if (r && tw_model_predicts(*m)) {
        json_object_set_new(r, "mean_error", json_real(w.error));
        json_object_set_new(r, "mse_log", json_real(w.squared));
    }
    if (r && tw_model_network(*m)) {
        json_object_set_new(r, "held_mse_log", json_real(tw_mlp_error(tw_model_network(*m))));
        json_object_set_new(r, "epochs", json_integer(tw_mlp_epochs(tw_model_network(*m))));
    }
    print(r);
    return TW_OK;
}

/* Rows of features whose predictions are timed. */
typedef struct timed {
    float *x, *y;
    int n;
} timed;

/* Lists the rows of all configurations of the evaluated problems, problem by problem. With `mixed` the order is
   random. */
static bool list_timed(const bench *b, bool mixed, timed *out) {
    const size_t columns = (size_t)b->features->columns, most = (size_t)b->n * (size_t)b->features->configs;
    tw_random r = tw_random_seed(1);
    *out = (timed){malloc(most * columns * sizeof *out->x), malloc(most * sizeof *out->y), 0};
    for (int h = 0; h < b->n && out->x; h++)
        for (int i = 0; i < b->f.n_macros; i++)
            for (int j = 0; j < b->f.macros[i].n_micros; j++)
                out->n += tw_features_row(b->features, b->of[h].problem, i, j, out->x + (size_t)out->n * columns);
    for (int i = out->n - 1; mixed && out->x && i > 0; i--) {
        float *a = out->x + (size_t)i * columns, *c = out->x + tw_random_below(&r, (uint64_t)i + 1) * columns;
        for (size_t k = 0; k < columns; k++) {
            const float x = a[k];
            a[k] = c[k];
            c[k] = x;
        }
    }
    return out->x && out->y;
}

/* Prints how many predictions a second a model's network makes from given features, by an instruction set. */
static void print_rate(const bench *b, tw_model *m, const char *name, const timed *t, bool mixed, uint32_t isa) {
    double times[ROUNDS * 4];
    const char *by = isa & TW_CPU_AVX512 ? "avx512" : isa & TW_CPU_AVX2 ? "avx2" : "c";
    const int n = t->n < SPEED ? t->n : SPEED;
    tw_mlp_limit(tw_model_network(m), isa);
    for (int r = 0; r < ROUNDS * 4; r++) {
        const int64_t began = tw_now_ns();
        tw_mlp_predict(tw_model_network(m), t->x, n, t->y);
        times[r] = (double)(tw_now_ns() - began);
    }
    const tw_stats ns = tw_stats_of(times, ROUNDS * 4);
    print(json_pack("{s:s, s:s, s:I, s:s, s:s, s:i, s:f, s:f, s:b}", "case", "speed", "form", name, "weights",
                    (json_int_t)tw_model_weights(m), "isa", by, "order", mixed ? "mixed" : "by problem", "rows", n,
                    "configs_per_second", n / ns.median * 1e9, "configs_per_second_best", n / ns.min * 1e9, "correct",
                    b->wrong == 0));
}

/* Prints the rates of a model's network: on rows problem by problem and mixed, by each instruction set. */
static tw_status print_speed(const bench *b, tw_model *m, const char *name, tw_diag *diag) {
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    for (int mixed = 0; mixed < 2; mixed++) {
        timed t;
        const bool good = list_timed(b, mixed, &t);
        for (uint32_t isa = 0; good && isa <= (TW_CPU_AVX2 | TW_CPU_AVX512); isa = 2 * isa + 1)
            if ((cpu.isa & isa) == isa) print_rate(b, m, name, &t, mixed, isa);
        free(t.x);
        free(t.y);
        if (!good) return tw_fail_memory(diag);
    }
    tw_mlp_limit(tw_model_network(m), UINT32_MAX);
    return TW_OK;
}

/* Trains and judges a model, and prints its rows. */
static tw_status rows(bench *b, subject s, tw_diag *diag) {
    const bool few_only = s.form == TW_MODEL_SPLINE || s.form == TW_MODEL_RESIDUAL || s.form == TW_MODEL_MIX ||
                          s.form == TW_MODEL_DISTILLED || s.form == TW_MODEL_NEAR || s.form == TW_MODEL_TREE ||
                          !strcmp(s.kind, "data");
    tw_model *m;
    tw_status st = fit(b, &s, &m, diag);
    if (st != TW_OK) return st;
    for (int all = 0; all < (few_only ? 1 : 2) && st == TW_OK; all++) st = print_row(b, &s, &m, all, diag);
    if (st == TW_OK && s.form == TW_MODEL_MLP && strcmp(s.kind, "data") != 0 && !s.options.plain)
        st = print_speed(b, m, s.name, diag);
    tw_model_free(m);
    return st;
}

/* ---- the runs */

static tw_status forms(bench *b, const char *only, tw_diag *diag) {
    tw_status st = TW_OK;
    for (int i = 0; i < TW_MODEL_FORMS && st == TW_OK; i++) {
        const char *name = tw_model_name((tw_model_form)i);
        if (only && strcmp(only, name) != 0) continue;
        st = rows(b, (subject){"form", name, (tw_model_form)i, &b->trials, tw_model_defaults(), 0}, diag);
    }
    return st;
}

static tw_status sizes(bench *b, tw_diag *diag) {
    static const struct {
        const char *name;
        int n, of[TW_MLP_LAYERS];
    } all[] = {{"64", 1, {64}},
               {"512", 1, {512}},
               {"32, 64, 32", 3, {32, 64, 32}},
               {"64, 128, 64", 3, {64, 128, 64}},
               {"32, 64, 128, 64, 32", 5, {32, 64, 128, 64, 32}},
               {"64, 128, 256, 128, 64", 5, {64, 128, 256, 128, 64}},
               {"64, 128, 192, 256, 192, 128, 64", 7, {64, 128, 192, 256, 192, 128, 64}}};
    tw_status st = TW_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int plain = 0; plain < 2 && st == TW_OK; plain++) {
            subject s = {"size", all[i].name, TW_MODEL_MLP, &b->trials, tw_model_defaults(), 0};
            s.options.plain = plain;
            s.options.mlp.n_layers = all[i].n;
            memcpy(s.options.mlp.layers, all[i].of, sizeof s.options.mlp.layers);
            st = rows(b, s, diag);
        }
    return st;
}

static tw_status data(bench *b, tw_diag *diag) {
    static const double shares[] = {0.05, 0.1, 0.2, 0.4, 0.7, 1};
    static const tw_model_form of[] = {TW_MODEL_MLP, TW_MODEL_MLP, TW_MODEL_TREES, TW_MODEL_SPLINE};
    tw_status st = TW_OK;
    for (size_t i = 0; i < sizeof shares / sizeof *shares && st == TW_OK; i++) {
        tw_trials t = {.wrong = 0};
        if (!keep(&t.spread, &b->trials.spread, shares[i]) || !keep(&t.screens, &b->trials.screens, shares[i]))
            st = tw_fail_memory(diag);
        for (int k = 0; k < 4 && st == TW_OK; k++) {
            subject one = {"data", tw_model_name(of[k]), of[k], &t, tw_model_defaults(), 0};
            one.options.plain = k == 1;
            st = rows(b, one, diag);
        }
        tw_trials_free(&t);
    }
    return st;
}

/* ---- estimates */

enum { FIRSTS = 4 };
static const int firsts[FIRSTS] = {1, 4, 16, 64};

/* How well estimates rank the configurations of several problems. The share of a problem for i is its least time over
   the least time of the firsts[i] configurations that are estimated to be fastest. */
typedef struct ranking {
    int problems;           /* Number of problems. */
    int64_t configs;        /* Number of configurations of all problems. */
    double correlation;     /* Sum over problems of Spearman's rank correlation. */
    double off, squared;    /* Sums over configurations of the logarithm of estimate over time, and of its square. */
    double of_best[FIRSTS]; /* Sums over problems of the shares' logarithms. */
    double worst[FIRSTS];   /* Least shares. */
} ranking;

/* A configuration of a problem. */
typedef struct ranked {
    double estimate; /* Estimated microseconds. */
    double time;     /* Measured microseconds. */
    double rank;     /* Place by the measured time, from 0. */
    int index;       /* Number that orders equal estimates. */
} ranked;

static int by_estimate(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->estimate == y->estimate) return x->index - y->index;
    return x->estimate < y->estimate ? -1 : 1;
}

static int by_time(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return (x->time > y->time) - (x->time < y->time);
}

/* Adds a problem with n configurations. One with fewer than twice the most first ones is left out: it was not measured
   in all. */
static void add_problem(ranking *r, ranked *of, int n) {
    double squares = 0, least;
    if (n < 2 * firsts[FIRSTS - 1]) return;
    qsort(of, (size_t)n, sizeof *of, by_time);
    least = of[0].time;
    for (int i = 0; i < n; i++) of[i].rank = i;
    qsort(of, (size_t)n, sizeof *of, by_estimate);
    double best = (double)INFINITY;
    for (int i = 0, f = 0; i < n; i++) {
        const double off = log(of[i].estimate / of[i].time);
        squares += (of[i].rank - i) * (of[i].rank - i);
        r->off += off;
        r->squared += off * off;
        best = fmin(best, of[i].time);
        while (f < FIRSTS && (i + 1 == firsts[f] || i + 1 == n)) {
            r->of_best[f] += log(least / best);
            r->worst[f] = r->problems ? fmin(r->worst[f], least / best) : least / best;
            f++;
        }
    }
    r->correlation += 1 - 6 * squares / ((double)n * ((double)n * n - 1));
    r->configs += n;
    r->problems++;
}

/* Estimates the time of a configuration of the family. */
static double estimate(const bench *b, const tw_cuda_info *info, const int64_t *problem, int macro, int micro) {
    char words[TW_FAMILY_WORDS];
    tw_gemm_problem p = {
        .type = TW_GEMM_BF16, .m = problem[0], .n = problem[1], .k = problem[2], .trans_b = true, .alpha = 1};
    if (tw_gemm_problem_complete(&p, NULL) != TW_OK) return 1e30;
    tw_gemm_config c = tw_gemm_config_default(&p);
    tw_family_config(&b->f, macro, micro, words, sizeof words);
    return tw_gemm_config_parse(&c, words, NULL) == TW_OK ? tw_gemm_estimate(&p, &c, info) : 1e30;
}

static void print_ranking(const bench *b, const ranking *r, const char *on) {
    const double n = (double)r->configs, mean = r->off / n;
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:I, s:f, s:f, s:f, s:b}", "case", "estimate", "on", on, "problems", r->problems,
                  "configurations", (json_int_t)r->configs, "rank_correlation", r->correlation / r->problems,
                  "log_mean", mean, "log_deviation", sqrt(r->squared / n - mean * mean), "correct", b->wrong == 0);
    for (int f = 0; f < FIRSTS && o; f++) {
        char name[32];
        snprintf(name, sizeof name, "best_of_%d", firsts[f]);
        json_object_set_new(o, name, json_real(exp(r->of_best[f] / r->problems)));
        snprintf(name, sizeof name, "worst_of_%d", firsts[f]);
        json_object_set_new(o, name, json_real(r->worst[f]));
    }
    print(o);
}

static tw_status estimates(bench *b, const char *path, const char *campaign, tw_diag *diag) {
    tw_cuda_info info = {.target = tw_target_find("sm_90a"), .memory_clock_khz = 3201000, .memory_bus_bits = 6144};
    json_t *e = json_loads(b->environment, 0, NULL);
    const char *name = json_string_value(json_object_get(e, "device"));
    snprintf(info.name, sizeof info.name, "%s", name ? name : "");
    info.sms = (int)json_integer_value(json_object_get(e, "sms"));
    info.clock_khz = (int)json_integer_value(json_object_get(e, "clock_khz"));
    info.l2_bytes = json_integer_value(json_object_get(e, "l2_bytes"));
    json_decref(e);
    ranked *of = calloc((size_t)b->features->configs, sizeof *of);
    ranking screened = {0}, evaluated = {0};
    tw_store *s = NULL;
    tw_trials t = {0};
    tw_status st = of ? tw_store_open(&s, path, true, diag) : tw_fail_memory(diag);
    if (st == TW_OK) st = tw_trials_read(&t, &b->f, s, campaign, diag);
    for (int i = 0, n = 0; st == TW_OK && i < t.screens.n; i++) {
        const tw_trial *x = &t.screens.at[i];
        if (!b->vendor[b->features->first[x->macro]]) {
            of[n] = (ranked){estimate(b, &info, x->problem, x->macro, x->micro), x->time, 0, n};
            n++;
        }
        if (i + 1 < t.screens.n && !tw_trials_by_problem(x, x + 1)) continue;
        add_problem(&screened, of, n);
        n = 0;
    }
    for (int h = 0; st == TW_OK && h < b->n; h++) {
        int n = 0;
        for (int i = 0; i < b->f.n_macros; i++)
            for (int j = 0; j < b->f.macros[i].n_micros; j++) {
                const double time = b->of[h].time[b->features->first[i] + j];
                if (!(time > 0) || b->vendor[b->features->first[i] + j]) continue;
                of[n] = (ranked){estimate(b, &info, b->of[h].problem, i, j), time, 0, n};
                n++;
            }
        add_problem(&evaluated, of, n);
    }
    if (screened.problems) print_ranking(b, &screened, "screened");
    if (evaluated.problems) print_ranking(b, &evaluated, "evaluated");
    tw_trials_free(&t);
    tw_store_close(s);
    free(of);
    return st;
}

/* ---- ranges of profiling */

enum { PARTS = 4 /* Points that the store has of a wave. */ };

/* Tells whether a profile of the first `waves` waves (0: of all), with `parts` parts of each, has a sample's point. The
   store has PARTS points a wave, one at the end of each part. Of a coarser part it is the last of these. */
static bool within(const tw_family *f, const tw_wave_sample *s, int waves, int parts) {
    const int64_t slots = f->macros[s->macro].slots, wave = (s->grid - 1) / slots + 1;
    const int64_t in = s->grid - (wave - 1) * slots, part = (in * PARTS - 1) / slots + 1;
    return (!waves || wave <= waves) && part % (PARTS / parts) == 0;
}

/* Prints what a model by waves, which learned from `samples` points of so many waves and parts, is worth on the
   evaluated problems whose M is from `least` to `most`. */
static void print_range(const bench *b, const tw_wave_model *m, int waves, int parts, int samples, int64_t least,
                        int64_t most) {
    static double shares[PROBLEMS], over[PROBLEMS];
    char config[TW_FAMILY_WORDS];
    int n = 0, unknown = 0, macro, micro;
    double farthest = 0;
    for (int h = 0; h < b->n; h++) {
        const held *x = &b->of[h];
        if (x->problem[0] < least || x->problem[0] > most) continue;
        const bool chosen = tw_train_choose(&b->f, m, x->problem, config, sizeof config);
        const double time =
            chosen && tw_family_find(&b->f, config, &macro, &micro) ? x->time[b->features->first[macro] + micro] : 0;
        unknown += !(time > 0);
        if (!(time > 0)) continue;
        const tw_wave_division d = tw_family_divide(&b->f, macro, x->problem);
        farthest = fmax(farthest, ceil((double)d.grid / (double)b->f.macros[macro].slots));
        over[n] = x->base / time;
        shares[n++] = x->least[1] / time;
    }
    const tw_evaluate_summary of_default = tw_evaluate_summarise(over, n), s = tw_evaluate_summarise(shares, n);
    print(json_pack("{s:s, s:i, s:i, s:i, s:I, s:I, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:b}", "case", "range", "waves",
                    waves, "parts", parts, "samples", samples, "least_m", (json_int_t)least, "most_m", (json_int_t)most,
                    "problems", s.n, "unmeasured", unknown, "farthest_wave", (int)farthest, "of_best", s.mean, "low5",
                    s.low5, "worst", s.worst, "over_default", of_default.mean, "correct", b->wrong == 0));
}

static tw_status ranges(bench *b, const char *path, tw_diag *diag) {
    static const int waves[] = {1, 2, 4, 8, 0}, parts[] = {1, 2, 4};
    static const int64_t of_m[][2] = {{64, 1023}, {1024, 16384}};
    tw_store *s;
    tw_training all;
    tw_status st = tw_store_open(&s, path, true, diag);
    if (st == TW_OK) st = tw_training_read(&all, &b->f, s, NULL, diag);
    tw_store_close(s);
    if (st != TW_OK) return st;
    tw_training part = {.samples = malloc(((size_t)all.n + 1) * sizeof *part.samples)};
    if (!part.samples) st = tw_fail_memory(diag);
    for (size_t w = 0; w < sizeof waves / sizeof *waves; w++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts && st == TW_OK; p++) {
            tw_wave_model *m;
            part.n = 0;
            for (int i = 0; i < all.n; i++)
                if (within(&b->f, &all.samples[i], waves[w], parts[p])) part.samples[part.n++] = all.samples[i];
            st = tw_train_fit(&m, &b->f, &part, TW_WAVE_FULL, diag);
            if (st != TW_OK) break;
            for (int k = 0; k < 2; k++) print_range(b, m, waves[w], parts[p], part.n, of_m[k][0], of_m[k][1]);
            tw_wave_free(m);
        }
    free(part.samples);
    tw_training_free(&all);
    return st;
}

static void print_head(const bench *b, int argc, char **argv, const char *device, const char *commit) {
    char date[32], command[1000] = "bench_models";
    const time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    for (int i = 1; i < argc; i++) {
        strncat(command, " ", sizeof command - strlen(command) - 1);
        strncat(command, argv[i], sizeof command - strlen(command) - 1);
    }
    tw_cpu cpu;
    tw_cpu_detect(&cpu);
    print(json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:o?}", "device", device ? device : b->f.device, "date", date,
                    "commit", commit, "command", command, "family", b->f.name, "models_on", cpu.model, "environment",
                    json_loads(b->f.environment, 0, NULL)));
}

static const char *text_of(int argc, char **argv, const char *flag) {
    for (int i = 2; i + 1 < argc; i++)
        if (!strcmp(argv[i], flag)) return argv[i + 1];
    return NULL;
}

static bool asked(int argc, char **argv, const char *flag) {
    for (int i = 2; i < argc; i++)
        if (!strcmp(argv[i], flag)) return true;
    return false;
}

int main(int argc, char **argv) {
    static bench b;
    tw_diag d;
    if (argc < 2) {
        fputs("bench_models: no store\n", stderr);
        return 2;
    }
    const char *commit = text_of(argc, argv, "--commit");
    tw_status st = read_all(&b, argv[1], &d);
    if (st == TW_OK) print_head(&b, argc, argv, text_of(argc, argv, "--device"), commit ? commit : "");
    if (st == TW_OK && asked(argc, argv, "--forms")) st = forms(&b, text_of(argc, argv, "--only"), &d);
    if (st == TW_OK && asked(argc, argv, "--sizes")) st = sizes(&b, &d);
    if (st == TW_OK && asked(argc, argv, "--data")) st = data(&b, &d);
    if (st == TW_OK && asked(argc, argv, "--estimates"))
        st = estimates(&b, argv[1], text_of(argc, argv, "--campaign"), &d);
    if (st == TW_OK && asked(argc, argv, "--ranges")) st = ranges(&b, argv[1], &d);
    if (st != TW_OK) fprintf(stderr, "bench_models: %s\n", d.message);
    return st == TW_OK ? 0 : 1;
}
