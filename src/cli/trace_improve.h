/* SPDX-License-Identifier: Apache-2.0 */
/* `trace kernel --improve`: edits of a kernel's configuration that its trace predicts to pay. */
#ifndef TW_CLI_TRACE_IMPROVE_H
#define TW_CLI_TRACE_IMPROVE_H

#include "cli/traced.h"

#include <jansson.h>

enum { CLI_IMPROVEMENTS = 8, CLI_IMPROVEMENT_TEXT = 160, CLI_CONFIGURATION = 1024 };

/* An edit that was tried. */
typedef struct cli_improvement {
    const char *word;               /* The parameter. */
    int from, to;                   /* The parameter's values before and after the edit. */
    const char *edit;               /* The edit of the trace, as --what-if takes it. */
    double predicted;               /* The predicted time over the time before the edit. */
    double measured;                /* The measured time over the time before the edit. 0: there is none. */
    bool kept;                      /* The edit made the kernel faster. */
    char why[CLI_IMPROVEMENT_TEXT]; /* Why nothing was measured. Empty: it was. */
} cli_improvement;

typedef struct cli_improvements {
    cli_improvement list[CLI_IMPROVEMENTS]; /* In the order in which they were tried. */
    int n;
    char configuration[CLI_CONFIGURATION]; /* All words of the fastest kernel's configuration. */
} cli_improvements;

/* Tries edits, the one with the largest predicted gain first. It ends when the trace predicts less than 1 % for every
   edit that is left, or after CLI_IMPROVEMENTS edits. An edit is kept if the kernel is at least 0.5 % faster: on a GPU
   by its time without records, in the emulator by the trace's length. `x` and `*t` become the fastest kernel and its
   trace. An edit that the device has no room for is noted in `why`. TW_ERR_MISMATCH: an edit changed the results. */
tw_status cli_trace_improve(cli_traced *x, tw_trace **t, cli_improvements *out, tw_diag *diag);

/* Returns the edits as a list. NULL: out of memory. */
json_t *cli_improvements_json(const cli_improvements *x);
/* Prints a line for each edit, and the configuration. */
void cli_improvements_print(const cli_improvements *x);

#endif
