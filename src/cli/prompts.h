/* SPDX-License-Identifier: Apache-2.0 */
/* `run --prompts`: many prompts from a file, and their answers as lines of JSON. */
#ifndef TW_CLI_PROMPTS_H
#define TW_CLI_PROMPTS_H

#include "cli/generate.h"

typedef struct cli_prompts {
    const char *path;           /* A file of lines, each a JSON object, or "-". */
    const char *model_path;     /* The model's folder. */
    int64_t n;                  /* The most new tokens of a prompt whose line has no "n". */
    int64_t sequences;          /* The most that are decoded together. */
    bool quiet;                 /* No line about speed. */
    const cli_chat_flags *chat; /* Wraps prompts in the model's chat template. NULL: they stay as they are. */
    cli_sampling_flags *sampling;
} cli_prompts;

/* Prints a line for each prompt, in the order in which they end, as soon as it is complete. Nothing runs unless all
   lines of the file are sound. After an interrupt what is complete has been printed. */
tw_status cli_run_prompts(const cli_prompts *p, const tw_model *model, tw_engine_options *o, tw_diag *d);

#endif
