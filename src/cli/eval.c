/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `eval` measures how good choices are on problems that no model has seen. */
#include "base/diag.h"
#include "cli/results.h"
#include "cli/tuning.h"
#include "tune/rivals.h"
#include "tune/strategies.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The results of a strategy. */
typedef struct judged {
    const char *name;
    double *shares; /* [problem]: time of the oracle divided by the time of the choice (tw_evaluated.share). */
    double *over;   /* [problem]: time of the first baseline divided by the time of the choice. 0: one is unknown. */
    double *ns;     /* [problem]: nanoseconds that the strategy took to choose. */
} judged;

typedef struct evaluating {
    const tw_family *f;
    bool json;    /* True: results are printed as JSON. */
    bool correct; /* True: no result of the problems so far was wrong. */
    bool timed;   /* True: summaries say how long decisions took. */
    judged of[TW_EVALUATE_STRATEGIES];
    int strategies;   /* Number of strategies. */
    int n;            /* Number of problems so far. */
    int most;         /* Number of problems that the arrays have room for. */
    int compared;     /* Number of problems on which the choices of both artefacts have a time. */
    int same;         /* Number of compared problems on which both artefacts chose the same configuration. */
    int within_noise; /* Number of other compared problems on which the two times differ by at most the oracle's noise.
                       */
} evaluating;

static void print_json(const evaluating *e, const tw_evaluation *r) {
    char problem[200];
    json_t *o = json_object(), *of = json_object();
    tw_family_print(e->f, r->problem, problem, sizeof problem);
    json_object_set_new(o, "case", json_string(problem));
    for (int a = 0; a < e->f->n_axes; a++) json_object_set_new(o, e->f->axes[a], json_integer(r->problem[a]));
    json_object_set_new(o, "configs", json_integer(r->configs));
    json_object_set_new(o, "wrong", json_integer(r->wrong));
    json_object_set_new(o, "failed", json_integer(r->failed));
    json_object_set_new(o, "correct", json_boolean(r->correct));
    json_object_set_new(o, "oracle", json_string(r->oracle));
    json_object_set_new(o, "oracle_us", json_real(r->time));
    json_object_set_new(o, "own_oracle", json_string(r->own));
    json_object_set_new(o, "own_oracle_us", json_real(r->own_time));
    json_object_set_new(o, "noise", json_real(r->noise));
    for (int i = 0; i < r->n; i++)
        json_object_set_new(
            of, r->of[i].name,
            json_pack("{s:s, s:f, s:f}", "config", r->of[i].config, "us", r->of[i].time, "of_best", r->of[i].share));
    json_object_set_new(o, "of", of);
    cli_results_print(o, CLI_RESULTS_DIGITS);
}

static const tw_evaluated *find_strategy(const tw_evaluation *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->of[i].name, name)) return &r->of[i];
    return NULL;
}

/* Compares the choices of two artefacts, which are the strategies "select" and "other". */
static void compare(evaluating *e, const tw_evaluation *r) {
    const tw_evaluated *a = find_strategy(r, "select"), *b = find_strategy(r, "other");
    if (!a || !b || !(a->time > 0) || !(b->time > 0)) return;
    const bool same = !strcmp(a->config, b->config);
    e->compared++;
    e->same += same;
    e->within_noise += !same && fabs(a->time - b->time) <= r->noise * r->time;
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
        if (!r->correct) printf("  %d wrong", r->wrong);
        for (int i = 0; i < r->n; i++) printf("  %s %.1f %%", r->of[i].name, r->of[i].share * 100);
        putchar('\n');
    }
    fflush(stdout);
    for (int i = 0; i < r->n && e->n < e->most; i++) {
        judged *of = &e->of[i];
        of->name = r->of[i].name;
        of->shares[e->n] = r->of[i].share;
        of->over[e->n] = r->of[0].time > 0 && r->of[i].time > 0 ? r->of[0].time / r->of[i].time : 0;
        of->ns[e->n] = r->of[i].ns;
    }
    e->strategies = r->n;
    compare(e, r);
    e->correct = e->correct && r->correct;
    e->n++;
    return TW_OK;
}

static void print_summaries(evaluating *e) {
    for (int i = 0; i < e->strategies; i++) {
        const judged *of = &e->of[i];
        const tw_evaluate_summary s = tw_evaluate_summarise(of->shares, e->n);
        const tw_evaluate_summary over = tw_evaluate_summarise(of->over, e->n);
        if (!s.n) continue;
        if (!e->json) {
            printf("%-10s of %d problems: %.2f %% of the best, 5 %% are below %.1f %%, worst %.1f %%%s\n", of->name,
                   s.n, s.mean * 100, s.low5 * 100, s.worst * 100, e->correct ? "" : "; some results are wrong");
            continue;
        }
        json_t *o = json_pack("{s:s, s:s, s:i, s:f, s:f, s:f, s:f, s:b}", "case", "summary", "strategy", of->name,
                              "problems", s.n, "of_best", s.mean, "low5", s.low5, "worst", s.worst, "over_default",
                              over.mean, "correct", e->correct);
        /* The first strategies are the baselines. A baseline is a rule and decides nothing. */
        if (o && e->timed && i >= e->f->n_baselines)
            json_object_set_new(o, "decision_ns", json_real(tw_stats_of(of->ns, (size_t)e->n).median));
        cli_results_print(o, CLI_RESULTS_DIGITS);
    }
}

static void print_agreement(const evaluating *e) {
    if (!e->compared) return;
    if (e->json)
        cli_results_print(json_pack("{s:s, s:i, s:i, s:i, s:b}", "case", "agreement", "problems", e->compared, "same",
                                    e->same, "within_noise", e->within_noise, "correct", e->correct),
                          CLI_RESULTS_DIGITS);
    else
        printf("the artefacts decide %d of %d problems alike, and %d more with times that differ by less than noise\n",
               e->same, e->compared, e->within_noise);
}

/* The configurations among which oracles are looked for. */
typedef struct pruned {
    tw_choice *of;      /* The configurations. NULL: all legal ones. */
    int n;              /* Number of configurations. */
    tw_cover_loss loss; /* Loss of the configurations on screened problems. */
} pruned;

/* Picks at most `most` own configurations and half as many of vendors, from the screens. `most` 0: picks nothing. */
static tw_status prune(pruned *p, const tw_family *f, tw_store *s, int64_t most, tw_diag *diag) {
    tw_trials t;
    if (!most) return TW_OK;
    tw_status st = tw_trials_read(&t, f, s, NULL, diag);
    if (st != TW_OK) return st;
    if (!t.screens.n) st = tw_fail(diag, TW_ERR_USAGE, "the store has no screened problems of %s", f->name);
    if (st == TW_OK) st = tw_cover_both(f, &t.screens, (int)most, &p->of, &p->n, diag);
    if (st == TW_OK) st = tw_cover_lose(f, &t, p->of, p->n, &p->loss, diag);
    tw_trials_free(&t);
    return st;
}

/* Prints the first line of a file of results: device, family, environment and protocol. */
static void print_head(const tw_family *f, const pruned *p, const char *commit, const char *command) {
    static const char here[] =
        "every configuration among which oracles are looked for once, those within 1.5 times the least three times, "
        "the "
        "five fastest own and vendors' ones, choices and baselines nine times in turn; medians of a configuration's "
        "last measurement";
    static const char recorded[] =
        "recorded: every configuration once, those within 1.5 times the least three times, the fastest nine times in "
        "turn; medians of a configuration's last measurement";
    json_t *o = json_pack("{s:s, s:o?}", "family", f->name, "environment", json_loads(f->environment, 0, NULL));
    if (p->of)
        json_object_set_new(o, "pruned",
                            json_pack("{s:i, s:i, s:f, s:f}", "configurations", p->n, "screens", p->loss.problems,
                                      "loss", p->loss.all, "own_loss", p->loss.own));
    cli_results_head(f->device, commit, command, f->recorded ? recorded : here, o);
}

static void print_pruned(const pruned *p) {
    if (p->of)
        printf(
            "oracles are looked for among %d configurations, which lose %.2f %% of the best on %d screened problems, "
            "and %.2f %% of the best own one\n",
            p->n, p->loss.all * 100, p->loss.problems, p->loss.own * 100);
}

static bool make_room(evaluating *e, int problems) {
    bool good = true;
    for (int i = 0; i < TW_EVALUATE_STRATEGIES; i++) {
        judged *of = &e->of[i];
        of->shares = calloc((size_t)problems, sizeof *of->shares);
        of->over = calloc((size_t)problems, sizeof *of->over);
        of->ns = calloc((size_t)problems, sizeof *of->ns);
        good = good && of->shares && of->over && of->ns;
    }
    e->most = problems;
    return good;
}

static void free_room(evaluating *e) {
    for (int i = 0; i < TW_EVALUATE_STRATEGIES; i++) {
        free(e->of[i].shares);
        free(e->of[i].over);
        free(e->of[i].ns);
    }
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[8], *artefact = NULL, *other = NULL, *campaign = NULL, *commit = "";
    cli_tuning t = {0};
    char command[1024];
    cli_results_command(command, sizeof command, "eval", argc, argv);
    int64_t problems = 10, seed = 1000, most = 0;
    pruned only = {.n = 0};
    tw_evaluate_options o = {.name = "eval", .interrupted = cli_tuning_interrupted, .result = take};
    evaluating e = {.correct = true};
    tw_strategies s = {0};
    tw_rivals rivals = {.n = 0};
    tw_strategy all[TW_EVALUATE_STRATEGIES + TW_RIVALS];
    const char *models = NULL;
    const cli_flag flags[] = {
        CLI_TUNING_FLAGS(t),
        {"--artefact", CLI_TEXT, &artefact, "FILE", "judge this artefact too"},
        {"--against", CLI_TEXT, &other, "FILE", "judge a second artefact, and compare their decisions"},
        {"--prune", CLI_INT, &most, "N",
         "look for oracles among so many own and half as many vendors' ones (default all)"},
        {"--campaign", CLI_TEXT, &campaign, "NAME", "models learn from this campaign alone"},
        {"--problems", CLI_INT, &problems, "N", "problems, drawn at random (default 10)"},
        {"--budget", CLI_REAL, &o.seconds, "SECONDS", "no problem begins after it"},
        {"--models", CLI_TEXT, &models, "NAMES",
         "judge these too: mlp,trees,tree,near,spline,residual,mix,distilled,analytic,linear, each also as "
         "mlp-own, mlp-again"},
        {"--decisions", CLI_FLAG, &e.timed, NULL, "of --json: how long decisions took, in the summaries"},
        {"--seed", CLI_INT, &seed, "N", "decides the problems (default 1000)"},
        {"--commit", CLI_TEXT, &commit, "NAME", "commit of this build, for --json"},
        {"--json", CLI_FLAG, &e.json, NULL, "print as JSON"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, 8, &n, &status)) return status;
    if (problems < 1 || problems > 100000) return cli_usage("eval: --problems: from 1 to 100000");
    if (most < 0 || most > 100000) return cli_usage("eval: --prune: from 1 to 100000, or 0 for all");
    if (o.seconds < 0) return cli_usage("eval: a budget is not negative");
    o.problems = (int)problems;
    o.seed = (uint64_t)seed;
    o.context = &e;
    if (cli_tuning_open(&t, words, n, &d) != TW_OK) return cli_fail(&d);
    e.f = &t.family;
    tw_store *store = NULL;
    cli_interrupted();
    tw_status st =
        make_room(&e, o.problems) ? tw_store_open(&store, t.store, t.family.recorded, &d) : tw_fail_memory(&d);
    if (st == TW_OK) st = tw_strategies_open(&s, &t.family, store, artefact, other, campaign, &d);
    if (st == TW_OK) st = prune(&only, &t.family, store, most, &d);
    o.only = only.of;
    o.n_only = only.n;
    o.strategies = s.list;
    o.n_strategies = s.n;
    if (st == TW_OK && models) {
        st = tw_rivals_open(&rivals, &t.family, store, models, campaign, &d);
        memcpy(all, s.list, (size_t)s.n * sizeof *all);
        memcpy(all + s.n, rivals.list, (size_t)rivals.n * sizeof *all);
        o.strategies = all;
        o.n_strategies = s.n + rivals.n;
    }
    if (st == TW_OK && e.json) print_head(&t.family, &only, commit, command);
    if (st == TW_OK && !e.json) print_pruned(&only);
    if (st == TW_OK) st = tw_evaluate(&t.family, store, &o, &d);
    if (st == TW_OK) print_summaries(&e);
    if (st == TW_OK) print_agreement(&e);
    free(only.of);
    tw_strategies_close(&s);
    tw_rivals_close(&rivals);
    free_room(&e);
    tw_store_close(store);
    tw_family_close(&t.family);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_eval = {"eval", "gemm [type=T]|FILE.json",
                           "what choices are worth on problems that no model has seen",
                           "tilewright eval gemm --problems 20 --store tuned.db --artefact gemm.select", run};
