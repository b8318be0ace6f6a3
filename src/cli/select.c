/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs `select` and `explain` print an artefact's choice for a problem, and the reasons for it. */
#include "tilewright/select.h"
#include "base/diag.h"
#include "cli/cli.h"
#include "cli/results.h"
#include "tune/axes.h"
#include "tune/identity.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* The request of either verb. */
typedef struct question {
    tw_selector *selector;
    tw_selector_info info;
    int64_t problem[TW_SELECT_AXES];
    bool deterministic, no_workspace, own, vendor, json;
    const char *device; /* The device to compare with. Only `explain` reads it. */
    int64_t threads;    /* Number of threads of that device if it is the processor. 0: all cores. */
} question;
#define QUESTION_FLAGS(q)                                                                                              \
    {"--deterministic", CLI_FLAG, &(q).deterministic, NULL, "nothing whose sums depend on the order of blocks"},       \
        {"--no-workspace", CLI_FLAG, &(q).no_workspace, NULL, "nothing that needs workspace"},                         \
        {"--own", CLI_FLAG, &(q).own, NULL, "no vendor's library"},                                                    \
        {"--vendor", CLI_FLAG, &(q).vendor, NULL, "vendors' libraries alone"}, {                                       \
        "--json", CLI_FLAG, &(q).json, NULL, "print as JSON"                                                           \
    }
#define EXPLAIN_FLAGS(q)                                                                                               \
    {"--device", CLI_TEXT, &(q).device, "auto|cpu|cuda[:N]", "compare the artefact's device with this one"}, {         \
        "-t", CLI_INT, &(q).threads, "N", "the processor's threads (default all cores)"                                \
    }

static unsigned flags_of(const question *q) {
    return (q->deterministic ? TW_SELECT_DETERMINISTIC : 0u) | (q->no_workspace ? TW_SELECT_NO_WORKSPACE : 0u) |
           (q->own ? TW_SELECT_OWN_ONLY : 0u) | (q->vendor ? TW_SELECT_VENDOR_ONLY : 0u);
}

/* Opens the artefact, and reads the problem from the other words. */
static tw_status open_question(question *q, const char *const *words, int n, tw_diag *diag) {
    bool given[TW_SELECT_AXES] = {false};
    tw_status st = tw_selector_open(&q->selector, words[0], diag);
    if (st != TW_OK) return st;
    tw_selector_describe(q->selector, &q->info);
    for (int i = 1; i < n && st == TW_OK; i++)
        if (!tw_axes_read(q->info.axes, q->info.n_axes, words[i], strlen(words[i]), q->problem, given))
            st = tw_fail(diag, TW_ERR_USAGE, "\"%s\" is no axis of %s with a number from 1 to %d, such as %s=64",
                         words[i], q->info.kernel, TW_SELECT_MOST, q->info.axes[0]);
    for (int a = 0; a < q->info.n_axes && st == TW_OK; a++)
        if (!given[a]) st = tw_fail(diag, TW_ERR_USAGE, "the problem lacks %s", q->info.axes[a]);
    return st;
}

static json_t *selection_json(const tw_selection *s) {
    return json_pack("{s:s, s:s?, s:f, s:f, s:f}", "source", tw_select_source_name(s->source), "config", s->config,
                     "time", s->time, "low", s->low, "high", s->high);
}

static tw_status answer(const question *q, tw_diag *diag) {
    tw_selection s;
    if (tw_select_choose(q->selector, q->problem, flags_of(q), &s) != TW_OK)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the artefact has no choice for this problem and these flags");
    if (q->json)
        cli_results_print(selection_json(&s), CLI_RESULTS_DIGITS);
    else if (s.time > 0)
        printf("%s\n%s: %.4g %s\n", s.config, tw_select_source_name(s.source), s.time, q->info.unit);
    else
        printf("%s\n%s\n", s.config, tw_select_source_name(s.source));
    return TW_OK;
}

static tw_status explain(const question *q, tw_diag *diag) {
    tw_select_match match;
    tw_select_explanation e;
    char text[4096];
    if (q->threads < 0 || q->threads > 1024)
        return tw_fail(diag, TW_ERR_USAGE, "-t: %lld is not from 1 to 1024", (long long)q->threads);
    const tw_status st = tw_identity_match(q->selector, q->device, (int)q->threads, &match, diag);
    if (st != TW_OK) return st;
    if (tw_select_explain(q->selector, q->problem, flags_of(q), match, &e) != TW_OK ||
        tw_select_explain_text(q->selector, q->problem, flags_of(q), match, text, sizeof text) != TW_OK)
        return tw_fail(diag, TW_ERR_UNSUPPORTED, "the artefact has no choice for this problem and these flags");
    if (!q->json) {
        printf("device: %s\n%s", q->info.device, text);
        return TW_OK;
    }
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:f, s:f, s:f, s:I, s:I, s:f, s:f}", "device", q->info.device, "match",
                          tw_select_match_name(match), "choice", selection_json(&e.choice), "second",
                          selection_json(&e.second), "grid", e.grid, "rounds", e.rounds, "waves", e.waves, "slots",
                          (json_int_t)e.slots, "samples", (json_int_t)e.samples, "error", e.error, "behind", e.behind);
    cli_results_print(o, CLI_RESULTS_DIGITS);
    return TW_OK;
}

static int run(const cli_verb *verb, int argc, char **argv, tw_status (*reply)(const question *q, tw_diag *diag)) {
    const char *words[1 + TW_SELECT_AXES];
    question q = {.device = "auto"};
    const cli_flag flags[] = {QUESTION_FLAGS(q), EXPLAIN_FLAGS(q)};
    const int n_flags = (int)(sizeof flags / sizeof *flags) - (reply == explain ? 0 : 2);
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, n_flags, words, 1, 1 + TW_SELECT_AXES, &n, &status)) return status;
    tw_status st = open_question(&q, words, n, &d);
    if (st == TW_OK) st = reply(&q, &d);
    tw_selector_close(q.selector);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

static int run_select(const cli_verb *verb, int argc, char **argv) {
    return run(verb, argc, argv, answer);
}

static int run_explain(const cli_verb *verb, int argc, char **argv) {
    return run(verb, argc, argv, explain);
}

const cli_verb cli_select = {"select", "ARTEFACT m=M ...", "the configuration that an artefact chooses for a problem",
                             "tilewright select gemm.select m=64 n=4096 k=4096", run_select};
const cli_verb cli_explain = {"explain", "ARTEFACT m=M ...", "why an artefact chooses a configuration",
                              "tilewright explain gemm.select m=64 n=4096 k=4096", run_explain};
