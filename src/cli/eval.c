/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `eval` measures what choices are worth on problems that no model has seen. */
#include "cli/tuning.h"
#include "tune/evaluate.h"
#include "tune/train.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluating {
    const tw_family *f;
    bool json;
    double *shares[TW_EVALUATE_STRATEGIES];
    const char *names[TW_EVALUATE_STRATEGIES];
    int n, most, strategies;
} evaluating;

typedef struct by_waves {
    const tw_family *f;
    tw_wave_model *m;
} by_waves;

static bool choose(void *context, const int64_t *problem, char *out, size_t size) {
    const by_waves *w = context;
    tw_wave_division d[512];
    for (int i = 0; i < w->f->n_macros && i < 512; i++) d[i] = tw_family_divide(w->f, i, problem);
    const tw_wave_choice c = tw_wave_select(w->m, d);
    if (c.micro < 0) return false;
    tw_family_config(w->f, c.macro, c.micro, out, size);
    return true;
}

static void print_json(const evaluating *e, const tw_evaluation *r) {
    json_t *o = json_object(), *of = json_object();
    for (int a = 0; a < e->f->n_axes; a++) json_object_set_new(o, e->f->axes[a], json_integer(r->problem[a]));
    json_object_set_new(o, "configs", json_integer(r->configs));
    json_object_set_new(o, "wrong", json_integer(r->wrong));
    json_object_set_new(o, "oracle", json_string(r->oracle));
    json_object_set_new(o, "oracle_us", json_real(r->time));
    json_object_set_new(o, "noise", json_real(r->noise));
    for (int i = 0; i < r->n; i++)
        json_object_set_new(
            of, r->of[i].name,
            json_pack("{s:s, s:f, s:f}", "config", r->of[i].config, "us", r->of[i].time, "share", r->of[i].share));
    json_object_set_new(o, "of", of);
    char *line = json_dumps(o, JSON_REAL_PRECISION(6));
    if (line) puts(line);
    free(line);
    json_decref(o);
}

static tw_status take(void *context, const tw_evaluation *r, tw_diag *diag) {
    evaluating *e = context;
    (void)diag;
    if (e->json) {
        print_json(e, r);
    } else {
        char problem[200];
        tw_family_print(e->f, r->problem, problem, sizeof problem);
        printf("%-26s best of %4d %10.1f us (+-%.1f %%)", problem, r->configs, r->time, r->noise * 100);
        for (int i = 0; i < r->n; i++) printf("  %s %.1f %%", r->of[i].name, r->of[i].share * 100);
        putchar('\n');
    }
    fflush(stdout);
    for (int i = 0; i < r->n && e->n < e->most; i++) {
        e->names[i] = r->of[i].name;
        e->shares[i][e->n] = r->of[i].share;
    }
    e->strategies = r->n;
    e->n++;
    return TW_OK;
}

static void print_summary(evaluating *e) {
    for (int i = 0; i < e->strategies; i++) {
        const tw_evaluate_summary s = tw_evaluate_summarise(e->shares[i], e->n);
        if (!s.n) continue;
        if (!e->json) {
            printf("%-10s of %d problems: %.2f %% of the best, 5 %% are below %.1f %%, worst %.1f %%\n", e->names[i],
                   s.n, s.mean * 100, s.low5 * 100, s.worst * 100);
            continue;
        }
        json_t *o = json_pack("{s:s, s:s, s:i, s:f, s:f, s:f}", "case", "summary", "strategy", e->names[i], "problems",
                              s.n, "share", s.mean, "low5", s.low5, "worst", s.worst);
        char *line = json_dumps(o, JSON_REAL_PRECISION(6));
        if (line) puts(line);
        free(line);
        json_decref(o);
    }
}

static int run(const cli_verb *verb, int argc, char **argv) {
    static const char *const forms[] = {"wave", "linear", "step"};
    const char *words[8];
    cli_tuning t = {0};
    int64_t problems = 10, seed = 1000, alone = 4;
    tw_evaluate_options o = {.name = "eval", .interrupted = cli_tuning_interrupted, .result = take};
    evaluating e = {0};
    const cli_flag flags[] = {
        CLI_TUNING_FLAGS(t),
        {"--problems", CLI_INT, &problems, "N", "problems, drawn at random (default 10)"},
        {"--alone", CLI_INT, &alone, "N", "waves"},
        {"--budget", CLI_REAL, &o.seconds, "SECONDS", "no problem begins after it"},
        {"--seed", CLI_INT, &seed, "N", "decides the problems (default 1000)"},
        {"--json", CLI_FLAG, &e.json, NULL, "print as JSON"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, 8, &n, &status)) return status;
    if (problems < 1 || problems > 100000) return cli_usage("eval: --problems: from 1 to 100000");
    o.problems = (int)problems;
    o.seed = (uint64_t)seed;
    o.context = &e;
    if (cli_tuning_open(&t, words, n, &d) != TW_OK) return cli_fail(&d);
    e.f = &t.family;
    e.most = o.problems;
    for (int i = 0; i < TW_EVALUATE_STRATEGIES; i++) e.shares[i] = calloc((size_t)problems, sizeof(double));
    tw_store *s = NULL;
    tw_training training = {0};
    by_waves w[3] = {{0}};
    tw_strategy strategies[3];
    cli_interrupted();
    tw_status st = tw_store_open(&s, t.store, false, &d);
    if (st == TW_OK) st = tw_training_read(&training, &t.family, s, NULL, &d);
    for (int i = 0; i < 3 && st == TW_OK; i++) {
        const tw_wave_options wo = {.form = (tw_wave_form)i, .alone = (int)alone};
        w[i].f = &t.family;
        st = tw_train_fit(&w[i].m, &t.family, &training, &wo, &d);
        if (st != TW_OK) break;
        const tw_wave_quality q = tw_wave_judge(w[i].m, training.samples, training.n);
        fprintf(stderr, "%s: %d samples, R2 %.4f mean error %.1f %% worst %.1f %%\n", forms[i], q.n, q.r2, q.mean * 100,
                q.worst * 100);
        strategies[i] = (tw_strategy){forms[i], choose, &w[i]};
    }
    o.strategies = strategies;
    o.n_strategies = 3;
    if (st == TW_OK) st = tw_evaluate(&t.family, s, &o, &d);
    if (st == TW_OK) print_summary(&e);
    tw_store_close(s);
    tw_family_close(&t.family);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_eval = {"eval", "gemm [type=T]", "what choices are worth on problems that no model has seen",
                           "tilewright eval gemm type=bf16 --problems 20 --store tuned.db", run};
