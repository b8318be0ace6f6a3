/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that the tuner's verbs share: opening a family by words, campaign options, progress. */
#ifndef TW_CLI_TUNING_H
#define TW_CLI_TUNING_H

#include "cli/cli.h"
#include "tune/campaign.h"
#include "tune/train.h"

/* The words and flags of a tuner's verb, and the family that they name. */
typedef struct cli_tuning {
    const char *device;   /* Value of --device. NULL: cpu, or what the command of a described family runs on. */
    const char *store;    /* Value of --store. NULL before cli_tuning_open: tuned.db, or energy.db for energy. */
    int64_t threads;      /* Value of -t. 0: all cores. */
    cli_list ranges;      /* Values of --range. */
    const char *minimise; /* Value of --minimise, "time" or "energy". NULL: time. */
    tw_family family;     /* The family, from cli_tuning_open on. */
} cli_tuning;
#define CLI_TUNING_FLAGS(t)                                                                                            \
    {"--device", CLI_TEXT, &(t).device, "cpu|cuda[:N]|recorded",                                                       \
     "what is tuned (default cpu), or what the store has measured"},                                                   \
        {"--minimise", CLI_TEXT, &(t).minimise, "time|energy", "what is measured and made small (default time)"},      \
        {"--range", CLI_LIST, &(t).ranges, "m=16:512", "usual values of an axis, as often as there are axes"},         \
        {"-t", CLI_INT, &(t).threads, "N", "threads of a processor (default: every core)"}, {                          \
        "--store", CLI_TEXT, &(t).store, "FILE", "where measurements are kept (default tuned.db)"                      \
    }

/* Opens the family of words such as "gemm type=bf16". The caller closes t->family. */
tw_status cli_tuning_open(cli_tuning *t, const char *const *words, int n, tw_diag *diag);

/* Returns the usual value of tw_campaign_options.reference for the family of a word: 5 seconds for "gemm" and "strips".
   Of a description it is 0, so that its command measures nothing but what the plan asks for. */
double cli_tuning_reference(const char *word);

/* Sets the campaign's options of an effort, "quick" or "full", and of a plan, "spread" or "waves". Returns TW_ERR_USAGE
   if either is another word. */
tw_status cli_tuning_effort(const char *effort, const char *plan, tw_campaign_options *o, tw_diag *diag);

/* Shows a campaign's progress on standard error if it is a terminal. `context` is the tw_campaign_options. */
void cli_tuning_progress(void *context, const tw_campaign_progress *p);
/* Clears the progress line. */
void cli_tuning_progress_end(void);

/* Print the results of a campaign and of training. */
void cli_tuning_print_campaign(const tw_family *f, const tw_campaign_progress *p, bool json);
void cli_tuning_print_trained(const tw_family *f, const tw_trained *t, const char *path, bool json);

/* Tells whether Ctrl-C was pressed. `context` may be NULL. */
bool cli_tuning_interrupted(void *context);

/* Returns the exit status of a run that the same command continues after an interruption. Prints the diagnostic of a
   failure, or that the run was interrupted. */
int cli_tuning_end(tw_status st, bool interrupted, const tw_diag *diag);

#endif
