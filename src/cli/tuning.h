/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of the tuner share: the family that words name, its store, progress. */
#ifndef TW_CLI_TUNING_H
#define TW_CLI_TUNING_H

#include "cli/cli.h"
#include "tune/campaign.h"
#include "tune/train.h"

/* What is tuned, by a verb's words and flags. */
typedef struct cli_tuning {
    const char *device; /* --device */
    const char *store;  /* --store */
    int64_t threads;    /* -t */
    cli_list ranges;    /* --range */
    tw_family family;
} cli_tuning;
#define CLI_TUNING_FLAGS(t)                                                                                            \
    {"--device", CLI_TEXT, &(t).device, "cpu|cuda[:N]|recorded",                                                       \
     "what is tuned (default cpu), or what the store has measured"},                                                   \
        {"--range", CLI_LIST, &(t).ranges, "m=16:512", "usual values of an axis, as often as there are axes"},         \
        {"-t", CLI_INT, &(t).threads, "N", "threads of a processor (default: every core)"}, {                          \
        "--store", CLI_TEXT, &(t).store, "FILE", "where measurements are kept (default tuned.db)"                      \
    }

/* Opens the family of words such as "gemm type=bf16". The caller closes it. */
tw_status cli_tuning_open(cli_tuning *t, const char *const *words, int n, tw_diag *diag);

/* The options of a campaign that an effort, "quick" or "full", and a plan, "spread" or "waves", stand for. */
tw_status cli_tuning_effort(const char *effort, const char *plan, tw_campaign_options *o, tw_diag *diag);

/* Shows a campaign's progress on a terminal's standard error: `context` is the campaign's options. */
void cli_tuning_progress(void *context, const tw_campaign_progress *p);
/* Clears what it showed. */
void cli_tuning_progress_end(void);

/* Prints a campaign's end, and what training came to. */
void cli_tuning_print_campaign(const tw_family *f, const tw_campaign_progress *p, bool json);
void cli_tuning_print_trained(const tw_family *f, const tw_trained *t, const char *path, bool json);

bool cli_tuning_interrupted(void *context); /* Tells whether Ctrl-C was pressed. */

#endif
