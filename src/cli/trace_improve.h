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
    double predicted;               /* Predicted time with the edit over the time without it. */
    double measured;                /* Measured time with the edit over the time without it. 0: nothing was measured. */
    bool kept;                      /* True: the kernel has the edit since. */
    char why[CLI_IMPROVEMENT_TEXT]; /* The reason why nothing was measured. Empty: something was. */
} cli_improvement;

typedef struct cli_improvements {
    cli_improvement list[CLI_IMPROVEMENTS]; /* The edits that were tried, in order. */
    int n;
    char configuration[CLI_CONFIGURATION]; /* All words of the fastest kernel's configuration. */
} cli_improvements;

/* Improves the kernel `x`, whose trace is *t. Edits with the largest predicted gain are tried first. The search ends
   when no edit is predicted to gain 1 %, or after CLI_IMPROVEMENTS edits. An edit is kept if it saves at least 0.5 % of
   the time. On a GPU that is the time without records, in the emulator the length of the trace. *x and *t become the
   fastest kernel and its trace. An edit that cannot be built, or for which memory is short, is skipped with its reason
   in `why`. TW_ERR_MISMATCH: an edit changed the results. */
tw_status cli_trace_improve(cli_traced *x, tw_trace **t, cli_improvements *out, tw_diag *diag);

/* Returns the edits as a list. NULL: out of memory. */
json_t *cli_improvements_json(const cli_improvements *x);
/* Prints a line for each edit, and the configuration. */
void cli_improvements_print(const cli_improvements *x);

#endif
