/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `measure` runs a campaign. */
#include "cli/tuning.h"

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[8], *effort = "quick", *plan = "spread";
    cli_tuning t = {0};
    tw_campaign_options o = {.name = "tune",
                             .seed = 1,
                             .interrupted = cli_tuning_interrupted,
                             .progress = cli_tuning_progress,
                             .context = &o};
    int64_t seed = 1;
    bool json = false;
    const cli_flag flags[] = {
        CLI_TUNING_FLAGS(t),
        {"--budget", CLI_REAL, &o.seconds, "SECONDS", "time that it may take (default: all of the plan)"},
        {"--samples", CLI_INT, &o.most, "N", "configurations to measure at most"},
        {"--effort", CLI_TEXT, &effort, "quick|full", "how dense the plan is (default quick)"},
        {"--plan", CLI_TEXT, &plan, "spread|waves", "even problems, or points of the model by waves (default spread)"},
        {"--campaign", CLI_TEXT, &o.name, "NAME", "measurements of other campaigns are left alone (default tune)"},
        {"--seed", CLI_INT, &seed, "N", "order of the plan; give each of several processes its own (default 1)"},
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, 8, &n, &status)) return status;
    if (cli_tuning_effort(effort, plan, &o, &d) != TW_OK) return cli_usage("measure: %s", d.message);
    if (o.seconds < 0 || o.most < 0) return cli_usage("measure: a budget is not negative");
    o.seed = (uint64_t)seed;
    if (cli_tuning_open(&t, words, n, &d) != TW_OK) return cli_fail(&d);
    tw_store *s = NULL;
    tw_campaign_progress p = {0};
    cli_interrupted();
    tw_status st = tw_store_open(&s, t.store, false, &d);
    if (st == TW_OK) st = tw_campaign_run(&t.family, s, &o, &p, &d);
    cli_tuning_progress_end();
    if (st == TW_OK) cli_tuning_print_campaign(&t.family, &p, json);
    tw_store_close(s);
    tw_family_close(&t.family);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_measure = {"measure", "gemm [type=T]|FILE.json",
                              "measure problems that models learn from",
                              "tilewright measure gemm type=bf16 --budget 60 --store tuned.db", run};
