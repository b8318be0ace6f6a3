/* SPDX-License-Identifier: Apache-2.0 */
/* The verb `measure` runs a campaign, on each of several devices a process of its own. */
#define _POSIX_C_SOURCE 200809L
#include "base/diag.h"
#include "cli/tuning.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEVICES = 64 /* The most devices of a list. */ };

/* Waits for processes. Returns the highest exit status. */
static int wait_for(const pid_t *children, int n) {
    int worst = CLI_OK;
    for (int i = 0; i < n; i++) {
        int status = 0;
        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR) {
        }
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : CLI_FAILED;
        worst = code > worst ? code : worst;
    }
    return worst;
}

/* Starts a process for each device of a list such as "cuda:0,cuda:1". It returns true in these processes, with the name
   of the process's device in *device and its place in the list in *place. In the calling process it waits for them and
   returns false, with the exit status in *status. Without a list it starts nothing and returns true, with *place 0. No
   device may be open, since the processes are forks. */
static bool divide(const char **device, int *place, int *status) {
    pid_t children[DEVICES];
    int n = 0, failed = CLI_OK;
    static char *list; /* The text that *device points into in the processes. */
    char *rest = NULL;
    list = *device && strchr(*device, ',') ? strdup(*device) : NULL;
    *place = 0;
    if (!list) return true;
    int commas = 0;
    for (const char *c = list; *c; c++) commas += *c == ',';
    if (commas >= DEVICES) {
        *status = cli_usage("measure: --device: at most %d devices", DEVICES);
        free(list);
        return false;
    }
    cli_interrupted(); /* From the first call on Ctrl-C does not kill this process, which waits for the others. */
    fflush(NULL);
    for (char *one = strtok_r(list, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        const pid_t child = fork();
        if (!child) {
            *device = one;
            *place = n;
            return true;
        }
        if (child < 0) {
            tw_diag d;
            tw_fail(&d, TW_ERR_IO, "cannot start a process: %s", strerror(errno));
            failed = cli_fail(&d);
            break;
        }
        children[n++] = child;
    }
    if (!n && !failed) failed = cli_usage("measure: --device: \"%s\" names no device", *device);
    *status = wait_for(children, n);
    if (failed > *status) *status = failed;
    free(list);
    return false;
}

static int run(const cli_verb *verb, int argc, char **argv) {
    const char *words[8], *effort = "quick", *plan = "spread";
    cli_tuning t = {0};
    tw_campaign_options o = {.name = "tune",
                             .seed = 1,
                             .reference = -1,
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
        {"--seed", CLI_INT, &seed, "N", "draws problems; processes with the same one share a campaign (default 1)"},
        {"--reference", CLI_REAL, &o.reference, "SECONDS",
         "how often the default's time is measured, to see drift; 0: never (default 5, of described kernels 0)"},
        {"--json", CLI_FLAG, &json, NULL, "print as JSON"},
    };
    int n, status, place;
    tw_diag d;
    if (!cli_parse(verb, argc, argv, flags, sizeof flags / sizeof *flags, words, 1, 8, &n, &status)) return status;
    if (cli_tuning_effort(effort, plan, &o, &d) != TW_OK) return cli_usage("measure: %s", d.message);
    if (o.seconds < 0 || o.most < 0) return cli_usage("measure: a budget is not negative");
    o.seed = (uint64_t)seed;
    if (o.reference < 0) o.reference = cli_tuning_reference(words[0]);
    if (!divide(&t.device, &place, &status)) return status;
    if (place) o.progress = NULL; /* A terminal has one line of progress. */
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

const cli_verb cli_measure = {"measure", "gemm [type=T]|FILE.json", "measure problems that models learn from",
                              "tilewright measure gemm type=bf16 --budget 60 --store tuned.db\n"
                              "  tilewright measure gemm type=bf16 --device cuda:0,cuda:1 --store tuned.db",
                              run};
