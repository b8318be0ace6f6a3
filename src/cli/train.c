/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `train` compiles a store's measurements into an artefact. */
#include "base/file.h"
#include "cli/tuning.h"
#include "kernels/gemm/estimate.h"
#include "tune/analytic.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints the constants of the analytic model as a row of kernels/gemm/rates.def, and what they were fitted to. The
   row's bandwidth is 0, since a store does not have it. */
static int print_constants(const char *store, tw_diag *d) {
    static const char *const units[TW_DEMAND_UNITS] = {"simt", "warps", "double", "warpgroups", "vendor"};
    tw_analytic_products p = {.n = 0};
    tw_store *s;
    tw_rates r;
    tw_status st = tw_store_open(&s, store, true, d);
    if (st != TW_OK) return cli_fail(d);
    st = tw_analytic_read(&p, s, d);
    tw_store_close(s);
    if (st == TW_OK) {
        tw_gemm_rates(&p.device, &r);
        const double error = sqrt(tw_analytic_fit(&r, p.of, p.n));
        printf("RATES(\"%s\", 0, {%.4g, %.4g, %.4g, %.4g, %.4g}, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g, %.4g)\n",
               p.device.name, r.share[0], r.share[1], r.share[2], r.share[3], r.share[4], r.step, r.latency, r.store,
               r.block, r.memory, r.launch, r.turn);
        fprintf(stderr, "tilewright: root of the mean squared error of logarithms %.3f, of", error);
        for (int u = 0; u < TW_DEMAND_UNITS; u++)
            if (p.units[u]) fprintf(stderr, " %d %s", p.units[u], units[u]);
        fprintf(stderr, " products; shares of other units are those of rates.def\n");
    }
    free(p.of);
    return st == TW_OK ? CLI_OK : cli_fail(d);
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[8], *to = "gemm.select", *campaign = NULL;
    bool json = false, constants = false;
    cli_tuning t = {0};
    const cli_flag flags[] = {
        CLI_TUNING_FLAGS(t),
        {"--campaign", CLI_TEXT, &campaign, "NAME", "only what this campaign measured"},
        {"-o", CLI_TEXT, &to, "FILE", "the artefact (default gemm.select)"},
        {"--constants", CLI_FLAG, &constants, NULL,
         "print a GPU's row for rates.def instead, with 0 for its bandwidth"},
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int n, status;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, 8, &n, &status)) return status;
    if (constants) return print_constants(t.store ? t.store : "tuned.db", &d);
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
