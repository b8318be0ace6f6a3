/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `train` compiles a store's measurements into an artefact. */
#include "base/file.h"
#include "cli/tuning.h"

#include <stdio.h>

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[8], *to = "gemm.select", *campaign = NULL;
    bool json = false;
    cli_tuning t = {0};
    const cli_flag flags[] = {
        CLI_TUNING_FLAGS(t),
        {"--campaign", CLI_TEXT, &campaign, "NAME", "only what this campaign measured"},
        {"-o", CLI_TEXT, &to, "FILE", "the artefact (default gemm.select)"},
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, 8, &n, &status)) return status;
    if (tw_file_check(to, &d) != TW_OK) return cli_fail(&d);
    if (cli_tuning_open(&t, words, n, &d) != TW_OK) return cli_fail(&d);
    tw_store *s = NULL;
    tw_trained trained = {0};
    tw_status st = tw_store_open(&s, t.store, true, &d);
    if (st == TW_OK) st = tw_train(&t.family, s, campaign, to, &trained, &d);
    if (st == TW_OK) cli_tuning_print_trained(&t.family, &trained, to, json);
    tw_store_close(s);
    tw_family_close(&t.family);
    return st == TW_OK ? CLI_OK : cli_fail(&d);
}

const cli_verb cli_train = {"train", "gemm [type=T]|FILE.json", "compile a store's measurements into an artefact",
                            "tilewright train gemm --store tuned.db -o gemm.select", run};
