/* SPDX-License-Identifier: Apache-2.0 */
/* `tilewright tune gemm --problem` finds the fastest configuration of single problems and writes an artefact that lists
   them. */
#ifndef TW_CLI_TUNE_PROBLEM_H
#define TW_CLI_TUNE_PROBLEM_H

#include "cli/tuning.h"

typedef struct cli_tune_problem_options {
    cli_list problems;    /* The problems in words. */
    const char *by;       /* Name of the model that ranks configurations. NULL: what the store has decides. */
    int64_t again;        /* Number of configurations that are measured. 0: all, and no model ranks them. */
    double seconds;       /* Budget for each problem in seconds. 0: no limit. */
    const char *artefact; /* Path of the artefact. */
    bool json;
} cli_tune_problem_options;

/* Runs it on an opened family. Returns the exit status. */
int cli_tune_problem(cli_tuning *t, const cli_tune_problem_options *o);

#endif
