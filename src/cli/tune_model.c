/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "cli/tune_model.h"

#include "base/diag.h"
#include "base/file.h"
#include "cli/results.h"
#include "cli/tuning.h"
#include "engine/timing.h"
#include "tune/campaign.h"
#include "tune/gemm_cpu.h"
#include "tune/store.h"
#include "tune/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PRODUCTS = 256,   /* The most kinds of products of a model. */
    ROUNDS = 7,       /* Prompts with the artefact, and as many without it. */
    PROMPT_MOST = 512 /* The most tokens of such a prompt. */
};
static const char CAMPAIGN[] = "model";
static const double NOISE = 0.02; /* An artefact may be slower by so much, since it saves measuring at each load. */

/* A storage format of a model's weights, and what was found for it. */
typedef struct format {
    tw_family family;
    tw_trained trained;
    char artefact[1200];  /* Path of the artefact. */
    char fresh[1216];     /* Path that it has until it is kept. */
    double before, after; /* Seconds of a prompt without and with the artefact: the least of all rounds. */
    bool kept;
} format;

typedef struct tuning {
    tw_engine *e;
    tw_store *store;
    tw_vm_product products[PRODUCTS];
    int n;
    int64_t prompt; /* Tokens of the prompts that are timed. */
    bool json;
} tuning;

static bool of_format(const tw_vm_product *p, tw_panel_format w) {
    return p->weights == w.dtype && p->group == w.group;
}

static void note(const char *what, int i, int n) {
    if (isatty(STDERR_FILENO)) fprintf(stderr, "\r%s: %d of %d\033[K", what, i, n);
}

/* Prints the times of a problem's configurations, the fastest first. */
static void print_problem(const tuning *t, const format *f, const tw_trial *first, int n) {
    char problem[TW_FAMILY_WORDS], config[TW_FAMILY_WORDS];
    double before = 0;
    tw_family_print(&f->family, first->problem, problem, sizeof problem);
    if (!t->json) printf("%s %s:", f->family.name, problem);
    for (int printed = 0; printed < n; printed++) {
        const tw_trial *next = NULL;
        for (int i = 0; i < n; i++)
            if (first[i].time > before && (!next || first[i].time < next->time)) next = &first[i];
        if (!next) break;
        before = next->time;
        tw_family_config(&f->family, next->macro, next->micro, config, sizeof config);
        if (!t->json) {
            printf("%s %s %.0f us", printed ? "," : "", config, next->time);
            continue;
        }
        json_t *o = json_pack("{s:s, s:s, s:s, s:f, s:b}", "family", f->family.name, "problem", problem, "config",
                              config, "us", next->time, "correct", 1);
        cli_results_print(o, CLI_RESULTS_DIGITS);
    }
    if (!t->json) putchar('\n');
}

static tw_status print_problems(const tuning *t, const format *f, tw_diag *diag) {
    tw_trials trials;
    double least;
    const tw_status st = tw_trials_read(&trials, &f->family, t->store, CAMPAIGN, diag);
    if (st != TW_OK) return st;
    for (int i = 0, end; i < trials.exact.n; i = end) {
        end = tw_trials_end(&trials.exact, i, tw_trials_by_problem, &least);
        print_problem(t, f, &trials.exact.at[i], end - i);
    }
    tw_trials_free(&trials);
    return TW_OK;
}

/* Measures the model's products of a format, and writes the artefact beside its place. */
static tw_status measure(const tuning *t, format *f, tw_panel_format weights, tw_diag *diag) {
    static const tw_measure_protocol p = {.warmups = 1, .samples = 9, .turns = true};
    char texts[8][TW_FAMILY_WORDS];
    const char *configs[8];
    tw_campaign_progress progress = {0};
    tw_status st = TW_OK;
    int n = 0;
    for (int m = 0; m < f->family.n_macros && n < 8; m++, n++) {
        tw_family_config(&f->family, m, 0, texts[n], TW_FAMILY_WORDS);
        configs[n] = texts[n];
    }
    for (int i = 0; i < t->n && st == TW_OK && !cli_interrupted(); i++) {
        const int64_t problem[TW_SELECT_AXES] = {t->products[i].m, t->products[i].n, t->products[i].k};
        if (!of_format(&t->products[i], weights)) continue;
        note("measuring", i + 1, t->n);
        st = tw_campaign_measure(&f->family, t->store, CAMPAIGN, TW_TRIALS_EXACT, problem, configs, n, &p,
                                 cli_tuning_interrupted, NULL, &progress, diag);
    }
    if (st == TW_OK && !cli_interrupted()) st = tw_train(&f->family, t->store, NULL, f->fresh, &f->trained, diag);
    return st;
}

/* Times a prompt. */
static tw_status time_prompt(const tuning *t, const char *artefact, double *least, tw_diag *diag) {
    tw_random r = tw_random_seed(1);
    double seconds;
    tw_status st = tw_engine_choose(t->e, artefact, diag);
    tw_engine_rewind(t->e, 0);
    if (st == TW_OK) st = tw_time_prompt(t->e, &r, t->prompt, &seconds, diag);
    if (st == TW_OK && (!(*least > 0) || seconds < *least)) *least = seconds;
    return st;
}

/* Times the running model without and with the artefact in turn, and keeps it if it is not slower. */
static tw_status confirm(const tuning *t, format *f, tw_diag *diag) {
    tw_status st = TW_OK;
    double unused = 0;
    st = time_prompt(t, "", &unused, diag); /* Measures who multiplies, and warms caches. */
    for (int i = 0; i < ROUNDS && st == TW_OK && !cli_interrupted(); i++) {
        note("running the model", i + 1, ROUNDS);
        st = time_prompt(t, "", &f->before, diag);
        if (st == TW_OK) st = time_prompt(t, f->fresh, &f->after, diag);
    }
    f->kept = st == TW_OK && !cli_interrupted() && f->after <= f->before * (1 + NOISE);
    if (f->kept && rename(f->fresh, f->artefact) != 0)
        st = tw_fail(diag, TW_ERR_IO, "%s cannot be written", f->artefact);
    if (st != TW_OK || !f->kept) remove(f->fresh);
    return st;
}

static void print_end(const tuning *t, const format *f) {
    const double before = (double)t->prompt / f->before, after = (double)t->prompt / f->after;
    cli_tuning_progress_end();
    if (t->json)
        cli_results_print(json_pack("{s:s, s:s, s:I, s:f, s:f, s:b, s:b}", "family", f->family.name, "artefact",
                                    f->artefact, "prompt", (json_int_t)t->prompt, "before_tokens_per_second", before,
                                    "after_tokens_per_second", after, "kept", f->kept, "correct", 1),
                          CLI_RESULTS_DIGITS);
    else
        printf("a prompt of %lld: %.1f tokens/s by measuring at load, %.1f by the artefact: %s %s\n",
               (long long)t->prompt, before, after, f->kept ? "kept in" : "not kept in", f->artefact);
}

/* Names the artefact, which the processor's machine looks for in the user's cache folder. */
static tw_status name_artefact(format *f, tw_diag *diag) {
    char file[100];
    snprintf(file, sizeof file, "%s.select", f->family.name);
    if (!tw_cache_path(file, f->artefact, sizeof f->artefact))
        return tw_fail(diag, TW_ERR_USAGE, "there is no folder for artefacts: set TILEWRIGHT_CACHE or HOME");
    *strrchr(f->artefact, '/') = 0;
    const bool made = tw_folder_make(f->artefact);
    tw_cache_path(file, f->artefact, sizeof f->artefact);
    snprintf(f->fresh, sizeof f->fresh, "%s.new", f->artefact);
    return made ? tw_file_check(f->artefact, diag)
                : tw_fail(diag, TW_ERR_IO, "the folder of %s cannot be made", f->artefact);
}

static tw_status tune_format(const tuning *t, tw_panel_format weights, tw_diag *diag) {
    const tw_gemm_cpu_options o = {.weights = weights, .threads = tw_engine_workers(t->e), .strips = true};
    format f = {0};
    tw_status st = tw_gemm_cpu_open(&f.family, &o, diag);
    if (st != TW_OK) return st;
    st = name_artefact(&f, diag);
    if (st == TW_OK) st = measure(t, &f, weights, diag);
    if (st == TW_OK && !cli_interrupted()) {
        cli_tuning_progress_end();
        st = print_problems(t, &f, diag);
    }
    if (st == TW_OK && !cli_interrupted()) st = confirm(t, &f, diag);
    if (st == TW_OK && f.after > 0) print_end(t, &f);
    tw_family_close(&f.family);
    return st;
}

static tw_status tune(tuning *t, tw_diag *diag) {
    tw_status st = tw_engine_warm(t->e, 2, diag);
    if (st == TW_OK) t->n = tw_engine_products(t->e, t->products, PRODUCTS);
    for (int i = 0; i < t->n; i++)
        if (t->products[i].m > t->prompt) t->prompt = t->products[i].m;
    if (t->prompt > PROMPT_MOST) t->prompt = PROMPT_MOST;
    if (st == TW_OK && !t->n)
        return tw_fail(diag, TW_ERR_UNSUPPORTED,
                       "the model's products are too small for a choice of who computes them");
    for (int i = 0; i < t->n && st == TW_OK && !cli_interrupted(); i++) {
        const tw_panel_format weights = {t->products[i].weights, t->products[i].group};
        bool again = false;
        for (int k = 0; k < i; k++) again = again || of_format(&t->products[k], weights);
        if (!again) st = tune_format(t, weights, diag);
    }
    return st;
}

int cli_tune_model(const char *path, const char *store, int threads, bool json) {
    const tw_engine_options o = {.workers = threads, .device = "cpu", .context = PROMPT_MOST, .prefill = PROMPT_MOST};
    tw_model *model = NULL;
    tuning t = {.json = json};
    tw_diag d;
    cli_interrupted();
    tw_status st = tw_model_open(&model, path, &d);
    if (st == TW_OK) st = tw_engine_open(&t.e, model, &o, &d);
    if (st == TW_OK) st = tw_store_open(&t.store, store ? store : "tuned.db", false, &d);
    if (st == TW_OK) st = tune(&t, &d);
    tw_store_close(t.store);
    tw_engine_close(t.e);
    tw_model_close(model);
    cli_tuning_progress_end();
    return cli_tuning_end(st, cli_interrupted(), &d);
}
