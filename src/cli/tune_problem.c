/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tune_problem.h"

#include "base/diag.h"
#include "cli/results.h"
#include "tune/again.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { FIRST = 100 /* Number of configurations that are drawn where the store has nothing to learn from. */ };

static void print_json(const cli_tuning *t, const char *problem, const char *model, const tw_again_result *r) {
    json_t *o = json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:i, s:s, s:f, s:s, s:f, s:f, s:f, s:b, s:b}",
                          "family", t->family.name, "problem", problem, "model", model, "legal", r->legal, "learned",
                          r->learned, "measured", (json_int_t)r->progress.measured, "had", (json_int_t)r->progress.had,
                          "wrong", (json_int_t)r->progress.wrong, "failed", (json_int_t)r->progress.failed, "rank",
                          r->rank, "config", r->config, t->family.unit, r->time, "second", r->second, "second_time",
                          r->second_time, "learn_seconds", r->learn_seconds, "seconds", r->seconds, "cut",
                          r->progress.cut, "correct", !r->progress.wrong);
    cli_results_print(o, CLI_RESULTS_DIGITS);
}

static void print_text(const cli_tuning *t, const char *problem, const char *model, const tw_again_result *r) {
    printf("%s: %.4g %s by %s; %lld of %d configurations measured, %lld were there already, %lld wrong, %.1f s%s\n",
           problem, r->time, t->family.unit, r->config, (long long)r->progress.measured, r->legal,
           (long long)r->progress.had, (long long)r->progress.wrong, r->seconds, r->progress.cut ? ", cut short" : "");
    if (r->rank) printf("it was number %d by %s, which learned from %d trials\n", r->rank, model, r->learned);
}

/* Finds the model that ranks configurations. `by` is its name. NULL: the spline if the store has problems of the
   spread, else the analytic model, which learns from few trials. */
static tw_status find_form(const cli_tuning *t, tw_store *s, const char *by, tw_model_form *form, tw_diag *diag) {
    tw_trials trials;
    if (by && tw_model_form_find(by, strlen(by), form)) return TW_OK;
    if (by) return tw_fail(diag, TW_ERR_USAGE, "--by: \"%s\" is no model, such as mlp or analytic", by);
    const tw_status st = tw_trials_read(&trials, &t->family, s, NULL, diag);
    if (st != TW_OK) return st;
    *form = trials.spread.n ? TW_MODEL_SPLINE : TW_MODEL_ANALYTIC;
    tw_trials_free(&trials);
    return TW_OK;
}

static tw_status tune(cli_tuning *t, const cli_tune_problem_options *o, tw_store *s, tw_diag *diag) {
    tw_again_options again = {.name = "again",
                              .k = (int)o->again,
                              .first = FIRST,
                              .seconds = o->seconds,
                              .seed = 1,
                              .interrupted = cli_tuning_interrupted};
    int64_t problem[CLI_LIST_MAX][TW_SELECT_AXES] = {{0}};
    tw_trained trained;
    tw_status st = find_form(t, s, o->by, &again.form, diag);
    for (int i = 0; i < o->problems.count && st == TW_OK; i++)
        st = tw_family_parse(&t->family, problem[i], o->problems.item[i], diag);
    const char *model = o->again ? tw_model_name(again.form) : "none";
    for (int i = 0; i < o->problems.count && st == TW_OK && !cli_interrupted(); i++) {
        char words[TW_FAMILY_WORDS];
        tw_again_result r;
        tw_family_print(&t->family, problem[i], words, sizeof words);
        st = tw_again(&t->family, s, problem[i], &again, &r, diag);
        if (st != TW_OK || cli_interrupted()) break;
        if (!*r.config) return tw_fail(diag, TW_ERR_REJECTED, "no configuration could be measured of %s", words);
        (o->json ? print_json : print_text)(t, words, model, &r);
        if (r.progress.wrong)
            return tw_fail(diag, TW_ERR_MISMATCH, "%lld configurations of %s are wrong", (long long)r.progress.wrong,
                           words);
    }
    if (st == TW_OK && !cli_interrupted()) st = tw_train(&t->family, s, NULL, o->artefact, &trained, diag);
    if (st == TW_OK && !cli_interrupted() && !o->json) printf("%s\n", o->artefact);
    return st;
}

int cli_tune_problem(cli_tuning *t, const cli_tune_problem_options *o) {
    tw_store *s = NULL;
    tw_diag d;
    cli_interrupted();
    tw_status st = tw_store_open(&s, t->store, t->family.recorded, &d);
    if (st == TW_OK) st = tune(t, o, s, &d);
    tw_store_close(s);
    return cli_tuning_end(st, st == TW_OK && cli_interrupted(), &d);
}
