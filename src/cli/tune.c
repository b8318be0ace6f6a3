/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
/* The verb `tune` measures, trains and evaluates in one run, and writes an artefact and a report. */
#include "base/file.h"
#include "cli/results.h"
#include "cli/tune_model.h"
#include "cli/tune_problem.h"
#include "cli/tuning.h"
#include "tune/report.h"
#include "tune/store.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The verb's arguments. */
typedef struct asked {
    cli_tuning tuning;
    tw_session_options session;
    const char *report;
    char default_report[1024];
    char command[1024];
    bool json;
    const char *model; /* The model whose products are tuned. NULL: those of the family's ranges are. */
} asked;

static void show_progress(void *context, const tw_session_progress *p) {
    const tw_campaign_progress *c = p->campaign;
    (void)context;
    if (!isatty(STDERR_FILENO)) return;
    if (p->phase == TW_SESSION_MEASURING && c->seconds > 0)
        fprintf(stderr,
                "\rmeasuring: %lld of %lld problems, %.0f configurations/s, best %.1f GFLOP/s, %.0f s left\033[K",
                (long long)c->jobs, (long long)c->planned, (double)c->measured / c->seconds, c->best * 1e-9, p->left);
    if (p->phase == TW_SESSION_TRAINING) fprintf(stderr, "\rtraining\033[K");
    if (p->phase == TW_SESSION_EVALUATING)
        fprintf(stderr, "\revaluating: %d of %d problems, select has %.1f %% of the oracle, %.0f s left\033[K",
                p->problems, p->planned, p->share * 100, p->left);
    fflush(stderr);
}

/* Names the report after the artefact: gemm.select, gemm.html. */
static void name_report(asked *a) {
    const char *path = a->session.artefact, *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
    const int n = dot && dot != path && (!slash || dot > slash + 1) ? (int)(dot - path) : (int)strlen(path);
    if (a->report) return;
    snprintf(a->default_report, sizeof a->default_report, "%.*s.html", n, path);
    a->report = a->default_report;
}

static void print_end(const asked *a, const tw_session *s) {
    const tw_family *f = &a->tuning.family;
    const tw_session_summary chosen = tw_session_summarise(f, s, s->select, 0);
    const tw_session_summary vendor = tw_session_summarise(f, s, TW_SESSION_VENDOR, 0);
    if (a->json) {
        json_t *o = json_pack(
            "{s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:s, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "family", f->name,
            "artefact", a->session.artefact, "report", a->report, "measured", (json_int_t)s->campaign.measured, "had",
            (json_int_t)s->campaign.had, "wrong", (json_int_t)s->campaign.wrong, "cut", s->campaign.cut, "form",
            s->trained.form, "problems", chosen.n, "of_oracle", chosen.mean, "low5", chosen.low5, "worst", chosen.worst,
            "over_default", chosen.over, "over_vendor", vendor.over > 0 ? chosen.over / vendor.over : 0, "decide_ns",
            s->decisions.first, "seconds", s->measure_seconds + s->train_seconds + s->evaluate_seconds);
        cli_results_print(o, CLI_RESULTS_DIGITS);
        return;
    }
    cli_tuning_print_trained(f, &s->trained, a->session.artefact, false);
    printf("%s\n", a->report);
    if (chosen.n)
        printf(
            "select has %.1f %% of the oracle's speed (5 %% of problems below %.1f %%, worst %.1f %%) and %.2f times "
            "the default's, on %d held-out problems\n",
            chosen.mean * 100, chosen.low5 * 100, chosen.worst * 100, chosen.over, chosen.n);
    else
        printf("select could not be judged: no held-out problem has an oracle\n");
}

static tw_status tune(asked *a, tw_session *s, tw_store *store, tw_diag *diag) {
    char date[64];
    cli_results_now(date, sizeof date, "%Y-%m-%d %H:%M UTC");
    tw_status st = tw_session_run(s, &a->tuning.family, store, &a->session, diag);
    cli_tuning_progress_end();
    if (st != TW_OK || s->interrupted) return st;
    if (!a->json) cli_tuning_print_campaign(&a->tuning.family, &s->campaign, false);
    const tw_tune_report r = {.family = &a->tuning.family,
                              .session = s,
                              .store = store,
                              .campaign = a->session.campaign.name,
                              .artefact = a->session.artefact,
                              .command = a->command,
                              .date = date,
                              .plots = cli_plots()};
    st = tw_tune_report_write(&r, a->report, diag);
    if (st == TW_OK) print_end(a, s);
    return st;
}

static int check(const asked *a, int64_t problems) {
    if (a->session.seconds < 0) return cli_usage("tune: a budget is not negative");
    if (problems < 1 || problems > 100000) return cli_usage("tune: --problems: from 1 to 100000");
    if (!strcmp(a->session.artefact, "-")) return cli_usage("tune: -o: the artefact is a file, since it is evaluated");
    if (!strcmp(a->session.artefact, a->report)) return cli_usage("tune: -o and --report are both %s", a->report);
    return CLI_OK;
}

/* Checks, before minutes of measuring, that the artefact and the report can be written. */
static tw_status check_files(const asked *a, tw_diag *diag) {
    const tw_status st = tw_file_check(a->session.artefact, diag);
    return st == TW_OK ? tw_file_check(a->report, diag) : st;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[8], *effort = "quick", *plan = "spread";
    asked a = {.session = {.seconds = 120,
                           .artefact = "gemm.select",
                           .interrupted = cli_tuning_interrupted,
                           .progress = show_progress,
                           .campaign = {.name = "tune", .seed = 1}}};
    int64_t problems = 20, seed = 1000;
    cli_tune_problem_options one = {.again = 100};
    cli_results_command(a.command, sizeof a.command, "tune", argc, argv);
    const cli_flag flags[] = {
        CLI_TUNING_FLAGS(a.tuning),
        {"-o", CLI_TEXT, &a.session.artefact, "FILE", "the artefact (default gemm.select)"},
        {"--report", CLI_TEXT, &a.report, "FILE", "the report (default: the artefact's name, ending in .html)"},
        {"--budget", CLI_REAL, &a.session.seconds, "SECONDS", "time that it may take; 0: any (default 120)"},
        {"--effort", CLI_TEXT, &effort, "quick|full", "how dense the measurements are (default quick)"},
        {"--plan", CLI_TEXT, &plan, "spread|waves", "even problems, or points of the model by waves (default spread)"},
        {"--problems", CLI_INT, &problems, "N", "held-out problems at most (default 20)"},
        {"--seed", CLI_INT, &seed, "N", "decides the held-out problems (default 1000)"},
        {"--model", CLI_TEXT, &a.model, "MODEL", "tune this model's prompts on the processor instead"},
        {"--problem", CLI_LIST, &one.problems, "WORDS",
         "tune this problem alone, such as \"m=64 n=512 k=1024\"; as often as there are problems"},
        {"--again", CLI_INT, &one.again, "K", "of --problem: configurations to measure; 0: all (default 100)"},
        {"--by", CLI_TEXT, &one.by, "NAME", "of --problem: the model that ranks them (default: by what was measured)"},
        {"--json", CLI_FLAG, &a.json, NULL, "print as JSON"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 0, 8, &n, &status)) return status;
    if (a.tuning.minimise && strcmp(a.tuning.minimise, "time") != 0)
        return cli_usage("tune: --minimise: \"%s\" is not time; measure, train and eval minimise energy, too",
                         a.tuning.minimise);
    if (a.model && n) return cli_usage("tune: --model takes no other object");
    if (a.model && one.problems.count) return cli_usage("tune: --model tunes all of a model's problems, not --problem");
    if (a.model) return cli_tune_model(a.model, a.tuning.store, (int)a.tuning.threads, a.json);
    if (!n) return cli_usage("tune: what is to be tuned: gemm, strips, or --model MODEL");
    name_report(&a);
    status = check(&a, problems);
    if (status != CLI_OK) return status;
    if (cli_tuning_effort(effort, plan, &a.session.campaign, &d) != TW_OK) return cli_usage("tune: %s", d.message);
    a.session.problems = (int)problems;
    a.session.seed = (uint64_t)seed;
    a.session.campaign.reference = cli_tuning_reference(words[0]);
    if (one.again < 0 || one.again > 100000) return cli_usage("tune: --again: from 1 to 100000, or 0 for all");
    if (check_files(&a, &d) != TW_OK) return cli_fail(&d);
    if (cli_tuning_open(&a.tuning, words, n, &d) != TW_OK) return cli_fail(&d);
    if (one.problems.count) {
        one.seconds = a.session.seconds;
        one.artefact = a.session.artefact;
        one.json = a.json;
        status = cli_tune_problem(&a.tuning, &one);
        tw_family_close(&a.tuning.family);
        return status;
    }
    tw_store *store = NULL;
    tw_session s = {0};
    cli_interrupted();
    tw_status st = tw_store_open(&store, a.tuning.store, a.tuning.family.recorded, &d);
    if (st == TW_OK) st = tune(&a, &s, store, &d);
    const bool interrupted = s.interrupted;
    tw_session_free(&s);
    tw_store_close(store);
    tw_family_close(&a.tuning.family);
    return cli_tuning_end(st, interrupted, &d);
}

const cli_verb cli_tune = {"tune", "gemm|strips|FILE.json", "measure, train and evaluate in one run, with a report",
                           "tilewright tune gemm --budget 120 --report gemm.html", run};
