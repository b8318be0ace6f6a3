/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of traces share: where they go, and how. */
#ifndef TW_CLI_TRACE_H
#define TW_CLI_TRACE_H

#include "cli/cli.h"
#include "prof/memory.h"
#include "prof/trace.h"

#include <jansson.h>

typedef struct cli_trace_flags {
    const char *file, *format, *edits;
    bool json, analyse;
    const struct cli_trace_format *as;           /* Format of the file. NULL: no file is written. */
    const tw_prof_memory_report *memory;         /* How the kernel uses memory. NULL: nobody asked. */
    const struct cli_improvements *improvements; /* What --improve tried. NULL: nobody asked. */
} cli_trace_flags;
#define CLI_TRACE_FLAGS(f)                                                                                             \
    {"-o", CLI_TEXT, &(f).file, "FILE", "write the trace to this file; - is standard output, without the summary"},    \
        {"--format", CLI_TEXT, &(f).format, CLI_TRACE_FORMATS,                                                         \
         "of the file (default: by its name: .json is chrome, .html html, .txt summary, others perfetto)"},            \
        {"--analyse", CLI_FLAG, &(f).analyse, NULL,                                                                    \
         "print what waits are to blame for, the critical path and what edits would gain, too"},                       \
        {"--what-if", CLI_TEXT, &(f).edits, "NAME=FACTOR,...",                                                         \
         "predict the time if what has this name took so many times as long; NAME=+1: if a ring had a stage more"},    \
    {                                                                                                                  \
        "--json", CLI_FLAG, &(f).json, NULL, "print the summary as JSON"                                               \
    }
#define CLI_TRACE_FORMATS "perfetto|chrome|html|summary"

/* Finds the format, and whether the file can be written, before anything runs. */
tw_status cli_trace_check(cli_trace_flags *f, tw_diag *diag);

/* Writes the file, and prints the summary. */
tw_status cli_trace_print(const tw_trace *t, const cli_trace_flags *f, tw_diag *diag);

struct tw_prediction;   /* prof/path.h */
struct tw_orders_times; /* prof/orders.h */
/* trace_orders.c: measures the loop of attention. TW_ERR_USAGE: the trace has none. */
tw_status cli_trace_orders(const tw_trace *t, struct tw_orders_times *out, tw_diag *diag);
/* Prints what attention would take with its steps in other orders. Of other traces nothing is printed. */
void cli_trace_print_orders(const tw_trace *t);
/* Adds the same to an object as `orders`. */
tw_status cli_trace_add_orders(json_t *o, const tw_trace *t, tw_diag *diag);

/* trace_edits.c: predicts the trace's length after edits, as --what-if lists them. In attention overlap=1, overlap=0,
   pingpong=1 and pingpong=0 edit the order of the steps. TW_ERR_USAGE: they are no such list, or the trace has no such
   name. */
tw_status cli_trace_predict(const tw_trace *t, const char *edits, struct tw_prediction *out, tw_diag *diag);

/* trace_kernel.c: `trace kernel NAME WORD...`, whose arguments begin with the name. */
int cli_trace_kernel(const cli_verb *verb, int argc, char **argv);
/* trace_model.c: `trace MODEL`. */
int cli_trace_model(const cli_verb *verb, int argc, char **argv);

#endif
